/* Sparse MLA decode from C: two rows of eight heads over a small V4 cache, with a result that can
 * be worked out by hand. A query of zeros weighs a row's n keys equally, so out is the mean of its
 * values and lse is log(n). Built against an installed splitwave by the CMakeLists.txt beside it;
 * tests/c_api builds and runs it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "splitwave/splitwave.h"

enum { k_rows = 2, k_heads = 8, k_width = 4, k_page_size = 4, k_pages = 2 };
enum { k_dims = 512, k_coded_dims = 448, k_data_bytes = 576, k_scale_bytes = 8 };
enum { k_page_bytes = k_page_size * (k_data_bytes + k_scale_bytes) };

/* e4m3 codes of 1, 2 and 4; the scale 2^0; bf16 of 1, 2 and 4 for the RoPE dims. */
static const uint8_t k_codes[3] = {0x38, 0x40, 0x48};
static const uint16_t k_bf16[3] = {0x3f80, 0x4000, 0x4080};

static float float_of(uint16_t bf16) {
  const uint32_t bits = (uint32_t)bf16 << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Token t holds 1, 2 or 4 in every dimension, by t % 3. A V4 page is planar: the data of its
 * tokens, then their scales. */
static void fill_cache(uint8_t* cache) {
  for (int token = 0; token < k_pages * k_page_size; ++token) {
    uint8_t* page = cache + token / k_page_size * k_page_bytes;
    const int offset = token % k_page_size;
    uint8_t* data = page + offset * k_data_bytes;
    memset(data, k_codes[token % 3], k_coded_dims);
    for (int i = 0; i < k_dims - k_coded_dims; ++i) {
      memcpy(data + k_coded_dims + 2 * i, &k_bf16[token % 3], 2);
    }
    memset(page + k_page_size * k_data_bytes + offset * k_scale_bytes, 127, k_scale_bytes);
  }
}

static int report(const char* what, splitwave_status status) {
  fprintf(stderr, "%s: %s: %s\n", what, splitwave_status_name(status), splitwave_last_error());
  return EXIT_FAILURE;
}

int main(void) {
  splitwave_problem problem;
  splitwave_problem_init(&problem);
  problem.format = SPLITWAVE_FORMAT_V4;
  problem.heads = k_heads;
  problem.main_width = k_width;
  problem.rows_max = k_rows;
  splitwave_options options;
  splitwave_options_init(&options);
  options.backend = SPLITWAVE_BACKEND_CPU; /* the pointers below are host memory */

  splitwave_decoder* decoder = NULL;
  splitwave_status status = splitwave_decoder_create(&problem, &options, &decoder);
  if (status != SPLITWAVE_OK) return report("create", status);

  splitwave_plan_info plan;
  splitwave_plan_info_init(&plan);
  status = splitwave_decoder_get_plan(decoder, k_rows, &plan);
  if (status != SPLITWAVE_OK) return report("plan", status);
  printf("splitwave %s, variant %s, class %s, isa %s\n", splitwave_version(), plan.variant,
         plan.numerics_class, plan.isa);

  /* Row 0 attends to tokens 0, 1, 2 and 6 (values 1, 2, 4, 1); -1 marks an unused entry. */
  static const int32_t slots[k_rows][k_width] = {{0, 1, 2, 6}, {7, -1, 3, -1}};
  _Alignas(16) static uint16_t q[k_rows][k_heads][k_dims];
  _Alignas(16) static uint16_t out[k_rows][k_heads][k_dims];
  static float lse[k_rows][k_heads];
  _Alignas(16) static uint8_t cache[k_pages * k_page_bytes];
  fill_cache(cache);

  splitwave_decode_call call;
  splitwave_decode_call_init(&call);
  call.rows = k_rows;
  call.softmax_scale = 1.0F / sqrtf(k_dims);
  call.q = &q[0][0][0];
  call.q_row_stride = k_heads * k_dims;
  call.q_head_stride = k_dims;
  call.main_cache.base = cache;
  call.main_cache.pages = k_pages;
  call.main_cache.page_size = k_page_size;
  call.main_cache.page_stride_bytes = k_page_bytes;
  call.main_list.slots = &slots[0][0];
  call.main_list.row_stride = k_width;
  call.out = &out[0][0][0];
  call.out_row_stride = k_heads * k_dims;
  call.out_head_stride = k_dims;
  call.lse = &lse[0][0];
  call.lse_row_stride = k_heads;
  status = splitwave_decode(decoder, &call);
  splitwave_decoder_destroy(decoder);
  if (status != SPLITWAVE_OK) return report("decode", status);

  const float means[k_rows] = {2.0F, 1.5F};
  const float counts[k_rows] = {4.0F, 2.0F};
  for (int row = 0; row < k_rows; ++row) {
    printf("row %d: out %g, lse %.4f\n", row, float_of(out[row][0][0]), lse[row][0]);
    for (int head = 0; head < k_heads; ++head) {
      if (fabsf(lse[row][head] - logf(counts[row])) > 1e-5F) return EXIT_FAILURE;
      for (int dim = 0; dim < k_dims; ++dim) {
        if (float_of(out[row][head][dim]) != means[row]) return EXIT_FAILURE;
      }
    }
  }
  return EXIT_SUCCESS;
}
