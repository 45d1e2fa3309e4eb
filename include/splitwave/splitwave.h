/* The C interface of splitwave: sparse MLA decode over paged fp8 KV caches. Owns the types, rules
 * and versions that C callers, other languages and python/ build against; src/runtime/c_api.cpp
 * implements it over decoder.h. Pure C11, no dependency; shapes, strides and the meaning of every
 * argument are those of docs/contract.md.
 *
 *   splitwave_problem problem;
 *   splitwave_problem_init(&problem);
 *   problem.heads = 64, problem.main_width = 128, problem.rows_max = 96;
 *   splitwave_decoder* decoder = NULL;
 *   if (splitwave_decoder_create(&problem, NULL, &decoder) != SPLITWAVE_OK)
 *     fprintf(stderr, "%s\n", splitwave_last_error());
 *
 * Errors: each call returns a splitwave_status and never aborts on bad input; then
 * splitwave_last_error() names the field, its value and what would work. Nothing prints, no C++
 * exception leaves.
 *
 * Threads: two decoders may be used concurrently, one decoder by one thread at a time; calls on the
 * CUDA backend that bring their own workspace are free of that.
 *
 * Ownership: memory is the caller's; a string that a call hands out lives as long as the object
 * that it describes.
 *
 * Run path: splitwave_decode allocates nothing, synchronises nothing and may be captured in a CUDA
 * graph on its first call.
 *
 * Versions: a struct opens with its size and version, filled by its _init function. A library
 * serves every version of a struct up to its own; fields that the caller's header did not have keep
 * their defaults. A newer struct is refused with both versions. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SPLITWAVE_API __attribute__((visibility("default")))
#else
#define SPLITWAVE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The binary interface: the shared library's SOVERSION. Raised when an existing caller would break;
 * a new function or a field at the end of a struct does not raise it. */
#define SPLITWAVE_ABI_VERSION 1

/* The library that is loaded, not the header: SPLITWAVE_ABI_VERSION and "major.minor.patch". */
SPLITWAVE_API uint32_t splitwave_abi_version(void);
SPLITWAVE_API const char* splitwave_version(void);

/* ---- status ---------------------------------------------------------------------------------- */

typedef int32_t splitwave_status;
enum {
  SPLITWAVE_OK = 0,
  SPLITWAVE_ERROR_BAD_INPUT = 2,   /* a value that the caller gave */
  SPLITWAVE_ERROR_ENVIRONMENT = 3, /* the machine lacks something: device, library, memory */
  SPLITWAVE_ERROR_INTERNAL = 4     /* a defect of the library */
};

/* Why the calling thread's last failed call failed; "" before the first. Valid until the thread's
 * next failing call. */
SPLITWAVE_API const char* splitwave_last_error(void);
/* "ok", "bad_input", "environment", "internal"; "unknown" for any other value. */
SPLITWAVE_API const char* splitwave_status_name(splitwave_status status);

/* ---- creation -------------------------------------------------------------------------------- */

/* Cache formats. V32: d_qk 576, rows of 656 bytes. V4: d_qk 512, planar pages, 584 bytes a row. */
enum { SPLITWAVE_FORMAT_V32 = 0, SPLITWAVE_FORMAT_V4 = 1 };
/* The numerics class: which chunks a row is cut into, and so its bits. */
enum { SPLITWAVE_CLASS_THROUGHPUT = 0, SPLITWAVE_CLASS_LATENCY = 1 };
/* The matrix operands. F16 needs value_range_max. */
enum { SPLITWAVE_OPERANDS_BF16 = 0, SPLITWAVE_OPERANDS_F16 = 1 };
enum { SPLITWAVE_BACKEND_AUTO = 0, SPLITWAVE_BACKEND_CPU = 1, SPLITWAVE_BACKEND_CUDA = 2 };

/* The limits of the calls to come. Plans are kept for every row count up to rows_max. */
#define SPLITWAVE_ROWS_MAX 65536
#define SPLITWAVE_PROBLEM_VERSION 1
typedef struct splitwave_problem {
  uint32_t struct_size;
  uint32_t version;
  int32_t format;        /* default V4 */
  int32_t heads;         /* 1..128; default 64 */
  int32_t main_width;    /* entries of one row of the main list, >= 0; default 128 */
  int32_t extra_width;   /* of the extra list; 0 (default): no extra cache */
  int32_t rows_max;      /* rows of one call, 0..SPLITWAVE_ROWS_MAX; default 256 */
  int32_t numerics;      /* default THROUGHPUT */
  int32_t operands;      /* default BF16 */
  float value_range_max; /* read for F16 only: |q| and |K| at most this, <= 65504; default +inf */
} splitwave_problem;

#define SPLITWAVE_OPTIONS_VERSION 1
typedef struct splitwave_options {
  uint32_t struct_size;
  uint32_t version;
  int32_t backend;          /* default AUTO: CUDA where a device is present */
  int32_t device;           /* CUDA ordinal; default 0 */
  int32_t threads;          /* CPU workers; 0 (default): SPLITWAVE_THREADS, else every core */
  int32_t read_environment; /* 1 (default); 0: the SPLITWAVE_* variables are ignored */
  int32_t owns_workspace;   /* 1 (default); 0: each call brings workspace_bytes_caller bytes */
  int32_t reserved;         /* 0 */
  /* Planner overrides in the syntax of SPLITWAVE_PLAN, "mode=free,target_ctas=512", over that
   * variable field by field. NULL (default) or "": none. Read during the call only. */
  const char* plan;
} splitwave_options;

static inline void splitwave_problem_init(splitwave_problem* problem) {
  const splitwave_problem defaults = {(uint32_t)sizeof(splitwave_problem),
                                      SPLITWAVE_PROBLEM_VERSION,
                                      SPLITWAVE_FORMAT_V4,
                                      64,
                                      128,
                                      0,
                                      256,
                                      SPLITWAVE_CLASS_THROUGHPUT,
                                      SPLITWAVE_OPERANDS_BF16,
                                      INFINITY};
  *problem = defaults;
}

static inline void splitwave_options_init(splitwave_options* options) {
  const splitwave_options defaults = {(uint32_t)sizeof(splitwave_options),
                                      SPLITWAVE_OPTIONS_VERSION,
                                      SPLITWAVE_BACKEND_AUTO,
                                      0,
                                      0,
                                      1,
                                      1,
                                      0,
                                      NULL};
  *options = defaults;
}

typedef struct splitwave_decoder splitwave_decoder;

/* Plans for every row count up to rows_max, loads the kernels and allocates the workspace. Refuses
 * a problem that no variant serves, with what is required, offered and missing. options may be
 * NULL: the defaults. On failure *decoder becomes NULL. */
SPLITWAVE_API splitwave_status splitwave_decoder_create(const splitwave_problem* problem,
                                                        const splitwave_options* options,
                                                        splitwave_decoder** decoder);
/* NULL is allowed. On CUDA the caller has waited for the decoder's work, captured graphs included.
 */
SPLITWAVE_API void splitwave_decoder_destroy(splitwave_decoder* decoder);

/* ---- what was chosen ------------------------------------------------------------------------- */

#define SPLITWAVE_DECODER_INFO_VERSION 1
typedef struct splitwave_decoder_info {
  uint32_t struct_size;
  uint32_t version;
  int32_t backend;                /* CPU or CUDA, never AUTO */
  int32_t device_arch;            /* compute capability * 10; 0 for a CPU */
  int32_t device_sms;             /* CPU: worker threads */
  int32_t rows_max;               /* of the problem, as created */
  int64_t workspace_bytes_own;    /* held by the decoder */
  int64_t workspace_bytes_caller; /* what a call must bring where owns_workspace was 0 */
  const char* device_name;
  const char* backend_reason; /* why this backend */
} splitwave_decoder_info;

/* What a call of `rows` rows launches and why. On the CPU a "CTA" is an item and an "SM" a worker.
 */
#define SPLITWAVE_PLAN_INFO_VERSION 1
enum { SPLITWAVE_MODE_EXACT = 0, SPLITWAVE_MODE_FREE = 1 };
enum { SPLITWAVE_MODELLED = 0, SPLITWAVE_MEASURED = 1, SPLITWAVE_FORCED = 2 };
typedef struct splitwave_plan_info {
  uint32_t struct_size;
  uint32_t version;
  int32_t mode;        /* EXACT: a row's bits never depend on the batch; FREE: they do */
  int32_t numerics;    /* THROUGHPUT or LATENCY */
  int32_t chunk_rows;  /* KV rows of one chunk */
  int32_t block_heads; /* heads of one item */
  int32_t head_blocks;
  int32_t tile_rows; /* KV rows of one softmax step */
  int32_t prefetch;  /* CPU: KV rows ahead */
  int32_t chunks;    /* of a full-width row */
  int32_t splits;
  int32_t ctas_per_sm;
  int32_t waves;
  int32_t provenance; /* MODELLED, MEASURED or FORCED */
  int64_t ctas;
  double utilization; /* ctas / (waves * SMs * ctas_per_sm) */
  double predicted_us;
  /* The variant's traits. */
  const char* variant;
  const char* numerics_class; /* variants of one class are bitwise equal */
  const char* isa;
  int32_t warps;
  int32_t stages;
  int32_t threads;
  int32_t registers; /* a thread at launch; 0 for a CPU */
  int32_t shared_bytes;
  int32_t reasons; /* how many splitwave_decoder_plan_reason gives */
} splitwave_plan_info;

static inline void splitwave_decoder_info_init(splitwave_decoder_info* info) {
  const splitwave_decoder_info defaults = {(uint32_t)sizeof(splitwave_decoder_info),
                                           SPLITWAVE_DECODER_INFO_VERSION,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           NULL,
                                           NULL};
  *info = defaults;
}

static inline void splitwave_plan_info_init(splitwave_plan_info* info) {
  const splitwave_plan_info defaults = {(uint32_t)sizeof(splitwave_plan_info),
                                        SPLITWAVE_PLAN_INFO_VERSION,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0.0,
                                        0.0,
                                        NULL,
                                        NULL,
                                        NULL,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0};
  *info = defaults;
}

/* Strings live as long as the decoder. */
SPLITWAVE_API splitwave_status splitwave_decoder_get_info(const splitwave_decoder* decoder,
                                                          splitwave_decoder_info* info);
/* rows: 0..rows_max. */
SPLITWAVE_API splitwave_status splitwave_decoder_get_plan(const splitwave_decoder* decoder,
                                                          int32_t rows, splitwave_plan_info* info);
/* The planner's index-th sentence; NULL past the last. */
SPLITWAVE_API const char* splitwave_decoder_plan_reason(const splitwave_decoder* decoder,
                                                        int32_t rows, int32_t index);

/* A kernel variant of this build. runnable: 1 if the machine at hand can run it; why_not says what
 * is missing otherwise. Strings live for the visit only. */
#define SPLITWAVE_VARIANT_VERSION 1
typedef struct splitwave_variant {
  uint32_t struct_size;
  uint32_t version;
  int32_t runnable;
  int32_t format;
  int32_t operands;
  int32_t block_heads;
  int32_t tile_rows;
  int32_t warps;
  int32_t stages;
  int32_t threads;
  int32_t registers;
  int32_t shared_bytes;
  int32_t ctas_per_sm;
  int32_t is_experiment_arm; /* never chosen by default */
  const char* name;
  const char* backend; /* "cpu" or "cuda" */
  const char* numerics_class;
  const char* isa;
  const char* why_not; /* "" if runnable */
} splitwave_variant;

/* Calls visit for each variant in the planner's order, until it returns nonzero. */
typedef int (*splitwave_visitor)(const splitwave_variant* variant, void* user);
SPLITWAVE_API splitwave_status splitwave_visit_variants(splitwave_visitor visit, void* user);

/* ---- decode ---------------------------------------------------------------------------------- */

/* A paged cache. base: 16-byte aligned; page_stride_bytes: a multiple of 8, at least the bytes of a
 * page. A slot is page * page_size + offset. */
typedef struct splitwave_cache {
  const void* base;
  int64_t pages;
  int64_t page_stride_bytes;
  int32_t page_size;
  int32_t reserved; /* 0 */
} splitwave_cache;

/* int32 slots [rows, width]; row_stride in elements, >= width. A negative slot or one beyond the
 * pool is skipped and never read. lengths: int32 [rows], clamped to 0..width; NULL: a row's length
 * is its last valid entry + 1. */
typedef struct splitwave_index_list {
  const int32_t* slots;
  int64_t row_stride;
  const int32_t* lengths;
} splitwave_index_list;

/* One call. On the CUDA backend every pointer is a device pointer and must stay valid until the
 * stream's work has finished. Strides in elements, those of q and out multiples of 8. */
#define SPLITWAVE_DECODE_CALL_VERSION 1
typedef struct splitwave_decode_call {
  uint32_t struct_size;
  uint32_t version;
  int32_t rows;        /* 0..rows_max */
  float softmax_scale; /* scores = softmax_scale * q.k; no default: 0 gives uniform weights */
  const uint16_t* q;   /* bf16 [rows, heads, d_qk] */
  int64_t q_row_stride;
  int64_t q_head_stride;
  splitwave_cache main_cache;
  splitwave_cache extra_cache; /* read if extra_width > 0 */
  splitwave_index_list main_list;
  splitwave_index_list extra_list;
  const float* sink; /* fp32 [heads] or NULL: joins the denominator only */
  uint16_t* out;     /* bf16 [rows, heads, 512]; 0 for a row without a valid key */
  int64_t out_row_stride;
  int64_t out_head_stride;
  float* lse;              /* fp32 [rows, heads] or NULL: natural log, without the sink; */
  int64_t lse_row_stride;  /*   +inf for a row without a valid key */
  void* stream;            /* cudaStream_t; the CPU backend ignores it */
  void* workspace;         /* where owns_workspace was 0; address a multiple of 256; else NULL */
  int64_t workspace_bytes; /* of it, >= workspace_bytes_caller */
} splitwave_decode_call;

static inline void splitwave_decode_call_init(splitwave_decode_call* call) {
  const splitwave_decode_call zero = {(uint32_t)sizeof(splitwave_decode_call),
                                      SPLITWAVE_DECODE_CALL_VERSION,
                                      0,
                                      0.0F,
                                      NULL,
                                      0,
                                      0,
                                      {NULL, 0, 0, 1, 0},
                                      {NULL, 0, 0, 1, 0},
                                      {NULL, 0, NULL},
                                      {NULL, 0, NULL},
                                      NULL,
                                      NULL,
                                      0,
                                      0,
                                      NULL,
                                      0,
                                      NULL,
                                      NULL,
                                      0};
  *call = zero;
}

/* Refuses what the host can see to break the rules before anything is launched. Returns when the
 * work is done (CPU) or enqueued (CUDA). */
SPLITWAVE_API splitwave_status splitwave_decode(splitwave_decoder* decoder,
                                                const splitwave_decode_call* call);

/* Merges two partial results of the same rows and heads over disjoint keys, made without a sink
 * (context parallel): out_a and lse_a receive the merge. Host memory; n = rows * heads, out is bf16
 * [n, 512], lse fp32 [n]; +inf lse means empty. */
SPLITWAVE_API splitwave_status splitwave_merge(uint16_t* out_a, float* lse_a, const uint16_t* out_b,
                                               const float* lse_b, int64_t n);

#ifdef __cplusplus
}
#endif
