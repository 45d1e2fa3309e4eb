/* The C interface from C11, warnings as errors: every function once, refusals with their words. The
 * arithmetic is checked by examples/c and c_api_test.cpp. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "splitwave/splitwave.h"

static int failures = 0;

static void expect(int holds, const char* what, int line) {
  if (holds) return;
  fprintf(stderr, "c_api_c11.c:%d: false: %s (last error: %s)\n", line, what,
          splitwave_last_error());
  ++failures;
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

static int says(const char* part) { return strstr(splitwave_last_error(), part) != NULL; }

static splitwave_options cpu_options(void) {
  splitwave_options options;
  splitwave_options_init(&options);
  options.backend = SPLITWAVE_BACKEND_CPU;
  options.threads = 1;
  options.read_environment = 0;
  return options;
}

static void refuses_a_bad_creation(void) {
  splitwave_problem problem;
  splitwave_problem_init(&problem);
  splitwave_options options = cpu_options();
  splitwave_decoder* decoder = (splitwave_decoder*)&problem; /* any non-null */
  problem.heads = 129;
  EXPECT(splitwave_decoder_create(&problem, &options, &decoder) == SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT(decoder == NULL);
  EXPECT(says("heads = 129") && says("1 to 128"));
  splitwave_problem_init(&problem);
  problem.version = 2;
  EXPECT(splitwave_decoder_create(&problem, &options, &decoder) == SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT(says("problem.version = 2"));
  splitwave_problem_init(&problem);
  problem.struct_size = 8;
  EXPECT(splitwave_decoder_create(&problem, &options, &decoder) == SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT(says("problem.struct_size = 8"));
  splitwave_problem_init(&problem);
  problem.rows_max = SPLITWAVE_ROWS_MAX + 1;
  EXPECT(splitwave_decoder_create(&problem, &options, &decoder) == SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT(says("rows_max = 65537"));
  splitwave_problem_init(&problem);
  options.plan = "chunk_row=5";
  EXPECT(splitwave_decoder_create(&problem, &options, &decoder) == SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT(says("chunk_row"));
  EXPECT(splitwave_decoder_create(NULL, NULL, &decoder) == SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT(says("problem = null"));
  EXPECT(splitwave_decoder_create(&problem, NULL, NULL) == SPLITWAVE_ERROR_BAD_INPUT);
}

static void describes_its_choice(void) {
  splitwave_problem problem;
  splitwave_problem_init(&problem);
  problem.rows_max = 4;
  splitwave_options options = cpu_options();
  options.plan = "class=latency";
  splitwave_decoder* decoder = NULL;
  EXPECT(splitwave_decoder_create(&problem, &options, &decoder) == SPLITWAVE_OK);
  if (decoder == NULL) return;
  splitwave_decoder_info info;
  splitwave_decoder_info_init(&info);
  EXPECT(splitwave_decoder_get_info(decoder, &info) == SPLITWAVE_OK);
  EXPECT(info.backend == SPLITWAVE_BACKEND_CPU && info.device_arch == 0 && info.device_sms == 1);
  EXPECT(info.rows_max == 4 && info.workspace_bytes_own > 0 && info.workspace_bytes_caller == 0);
  EXPECT(strlen(info.device_name) > 0 && strlen(info.backend_reason) > 0);
  splitwave_plan_info plan;
  splitwave_plan_info_init(&plan);
  EXPECT(splitwave_decoder_get_plan(decoder, 4, &plan) == SPLITWAVE_OK);
  EXPECT(plan.mode == SPLITWAVE_MODE_EXACT && plan.numerics == SPLITWAVE_CLASS_LATENCY);
  EXPECT(plan.chunk_rows > 0 && strlen(plan.variant) > 0 && strlen(plan.numerics_class) > 0);
  for (int32_t i = 0; i < plan.reasons; ++i) {
    EXPECT(splitwave_decoder_plan_reason(decoder, 4, i) != NULL);
  }
  EXPECT(splitwave_decoder_plan_reason(decoder, 4, plan.reasons) == NULL);
  EXPECT(splitwave_decoder_plan_reason(decoder, 5, 0) == NULL);
  EXPECT(splitwave_decoder_get_plan(decoder, 5, &plan) == SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT(says("rows = 5"));

  splitwave_decode_call call;
  splitwave_decode_call_init(&call);
  EXPECT(splitwave_decode(decoder, &call) == SPLITWAVE_OK); /* no rows: inert */
  call.rows = 1;
  EXPECT(splitwave_decode(decoder, &call) == SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT(says("q = null"));
  EXPECT(splitwave_decode(NULL, &call) == SPLITWAVE_ERROR_BAD_INPUT);
  splitwave_decoder_destroy(decoder);
  splitwave_decoder_destroy(NULL);
}

static int count_variant(const splitwave_variant* variant, void* user) {
  EXPECT(variant->struct_size == sizeof *variant && strlen(variant->name) > 0);
  EXPECT((variant->runnable != 0) == (strlen(variant->why_not) == 0));
  ++*(int*)user;
  return 0;
}

static int stop_at_once(const splitwave_variant* variant, void* user) {
  (void)variant;
  ++*(int*)user;
  return 1;
}

int main(void) {
  EXPECT(splitwave_abi_version() == SPLITWAVE_ABI_VERSION);
  EXPECT(strcmp(splitwave_last_error(), "") == 0);
  EXPECT(strcmp(splitwave_status_name(SPLITWAVE_ERROR_ENVIRONMENT), "environment") == 0);
  EXPECT(strcmp(splitwave_status_name(77), "unknown") == 0);
  refuses_a_bad_creation();
  describes_its_choice();
  int all = 0;
  EXPECT(splitwave_visit_variants(count_variant, &all) == SPLITWAVE_OK && all > 1);
  int first = 0;
  EXPECT(splitwave_visit_variants(stop_at_once, &first) == SPLITWAVE_OK && first == 1);
  EXPECT(splitwave_visit_variants(NULL, NULL) == SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT(splitwave_merge(NULL, NULL, NULL, NULL, 0) == SPLITWAVE_OK);
  EXPECT(splitwave_merge(NULL, NULL, NULL, NULL, 1) == SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT(splitwave_merge(NULL, NULL, NULL, NULL, -1) == SPLITWAVE_ERROR_BAD_INPUT &&
         says("n = -1"));
  if (failures == 0) printf("c_api_c11: passed\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
