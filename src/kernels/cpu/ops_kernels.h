// The seam between the operators' row loops and one ISA's arithmetic. Owns OpsKernels, a table of
// functions over plain arrays; implemented by ops_simd.cpp once a Highway target, called by
// ops_*.cpp. Nothing here knows about pages, batches or threads.
#pragma once

#include <cstdint>

#include "splitwave/ops.h"

namespace splitwave::cpu {

inline constexpr int k_ops_head_pad = 16;  // query heads are padded to the widest ISA's lanes
inline constexpr int k_score_keys = 12;    // a score call computes its keys in blocks of up to this

// Logits of count keys of one row. A (head, key) dot product is one chain of multiply-adds in
// ascending order of the dimension; heads are added vector by vector, then across lanes: the order
// is the ISA's and the head count's, never the batch's or the key's place.
struct ScoreTask {
  int heads = 0;
  int heads_padded = 0;            // a multiple of k_ops_head_pad
  const float* q = nullptr;        // [128][heads_padded], pad heads zero
  const float* weights = nullptr;  // [heads_padded], pad heads zero
  int count = 0;
  const float* keys = nullptr;    // [count + k_score_keys][128]
  const float* scales = nullptr;  // [count] or null
  float* logits = nullptr;        // [count]
};

// Softmax over the eight tokens of an overlapped entry, oldest first; those before first do not
// exist.
struct PoolTask {
  int dims = 0;
  int first = 0;
  const float* values[8] = {};
  const float* scores[8] = {};
  float* pooled = nullptr;
};

// One token of the online form. phase 0 starts the block; is_last also divides into pooled.
struct OnlineTask {
  int dims = 0;
  bool is_first = false;
  bool is_last = false;
  const float* kv = nullptr;
  const float* gate = nullptr;
  const float* ape = nullptr;
  float* state = nullptr;  // m, l, a, dims each
  float* pooled = nullptr;
};

struct OpsKernels {
  const char* isa = nullptr;
  bool is_fused = false;  // multiply-adds round once: pool and online give the reference's bits
  // 128 e4m3 codes to floats, NaN codes included.
  void (*decode_e4m3)(const std::uint8_t* codes, float* out) = nullptr;
  void (*score)(const ScoreTask& task) = nullptr;
  // bf16 dims / scale to e4m3; count a multiple of 64; scale finite.
  void (*encode_e4m3)(const std::uint16_t* dims, int count, float scale,
                      std::uint8_t* codes) = nullptr;
  std::uint32_t (*amax_bits)(const std::uint16_t* dims, int count) = nullptr;
  // The first i in [from, length) with logits[i] >= threshold, or length. NaN never is.
  std::int64_t (*next_at_least)(const float* logits, std::int64_t from, std::int64_t length,
                                float threshold) = nullptr;
  void (*pool)(const PoolTask& task) = nullptr;
  void (*online)(const OnlineTask& task) = nullptr;
};

struct OpsKernelList {
  static constexpr int k_max = 4;
  const OpsKernels* tables[k_max] = {};
  int count = 0;
};
// Tables that this processor can run, fastest first; never empty.
[[nodiscard]] const OpsKernelList& runnable_ops_kernels();

}  // namespace splitwave::cpu
