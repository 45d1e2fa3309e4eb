// The operators around sparse decode: the indexer (logits, top-k, physical slots), cache writes,
// the compressor. Owns their shapes, byte layouts, rules and errors; src/runtime implements them
// over the CPU and CUDA backends. Sources: the V4 report (arXiv 2606.19348), DeepGEMM's paged MQA
// logits for the layout of the indexer's pages, the V4 reference model for the compressor.
//
// Every object is created once and runs many times: create() sizes the workspace from the declared
// limits; after it a run allocates nothing, never synchronises, and may be captured in a CUDA graph
// on its first call. Not thread-safe on one object; two objects may run on two streams
// concurrently. Memory is the caller's; on the CUDA backend every pointer is a device pointer.
// Host-visible mistakes are refused with the field, the value and what would work. A row's result
// depends on that row's own inputs only: never on the batch, the slot, the neighbours or the
// workspace's content. Padded rows (length 0 or negative, slot -1, position -1) are inert: nothing
// of them is read or written, except that their counts become 0 and their index lists -1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "splitwave/decoder.h"
#include "splitwave/layout.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave {

struct OpsOptions {
  Backend backend = Backend::auto_detect;  // SPLITWAVE_BACKEND overrides auto_detect
  int device = 0;                          // CUDA ordinal
  int threads = 0;                         // CPU workers; 0: SPLITWAVE_THREADS, else all cores
  bool read_environment = true;            // false: ignore the SPLITWAVE_* variables
};

// ---- The indexer's keys ---------------------------------------------------------------------

inline constexpr int k_indexer_dims = 128;
inline constexpr int k_indexer_rope_dims = 64;  // the last 64
inline constexpr int k_indexer_heads_max = 64;
inline constexpr int k_indexer_fp4_group = 32;
inline constexpr int k_indexer_fp4_scales = 4;
inline constexpr int k_topk_max = 4096;
inline constexpr std::int64_t k_topk_length_max = std::int64_t{1} << 20;

// How one key of 128 dims is stored. A page is planar, page_size P keys:
//   fp8   [0, P*128) e4m3 codes;       [P*128, P*132) one fp32 scale a key
//   fp4   [0, P*64) e2m1 codes, two a byte, the low nibble is the even dim;
//         [P*64, P*68) 4 e8m0 scales a key, one for each 32 dims
//   bf16  [0, P*256) values
// base and page stride are multiples of 16 bytes.
enum class IndexerFormat : std::uint8_t { fp8, fp4, bf16 };

[[nodiscard]] constexpr int indexer_value_bytes(IndexerFormat f) {
  return f == IndexerFormat::fp8 ? 128 : f == IndexerFormat::fp4 ? 64 : 256;
}
[[nodiscard]] constexpr int indexer_scale_bytes(IndexerFormat f) {
  return f == IndexerFormat::bf16 ? 0 : 4;
}
[[nodiscard]] constexpr int indexer_row_bytes(IndexerFormat f) {
  return indexer_value_bytes(f) + indexer_scale_bytes(f);
}
[[nodiscard]] constexpr std::int64_t indexer_page_bytes(IndexerFormat f, std::int64_t page_size) {
  return page_size * indexer_row_bytes(f);
}
[[nodiscard]] constexpr const char* name_of(IndexerFormat f) {
  return f == IndexerFormat::fp8 ? "fp8" : f == IndexerFormat::fp4 ? "fp4" : "bf16";
}

// native: the query is stored as the keys are (fp8: e4m3, its scale folded into the weights; fp4:
// e2m1 with e8m0 scales; bf16: bf16). bf16: a bf16 query against keys that are read as bf16.
enum class IndexerQuery : std::uint8_t { native, bf16 };

// int32 page ids [rows, ceil(length / page_size)], row stride in elements. An id that is negative
// or beyond the pool marks its keys as absent: never read, never selected.
struct PageTable {
  const std::int32_t* pages = nullptr;
  std::int64_t row_stride = 0;
};

struct IndexerSpec {
  IndexerFormat keys = IndexerFormat::fp8;
  IndexerQuery query = IndexerQuery::native;
  int heads = 64;                   // 1..64
  int rows_max = 256;               // query rows of one call
  std::int64_t length_max = 32768;  // keys of one row, 1..2^20
  int k_max = 512;                  // selected keys of one row, 1..4096
  bool owns_logits = true;          // select() may be called without a logits pointer
};

// logits[r, j] = s(j) * sum over heads h of weights[r, h] * max(0, q[r, h] . key[j]), j <
// lengths[r]. The products are exact, sums are fp32 in an order fixed by the build. s is the key's
// fp32 scale (fp8) or 1. Columns from lengths[r] on are never written. A key on an absent page
// gives NaN; a NaN in q, in a weight or in a used key gives NaN in the logits that use it.
struct LogitsCall {
  int rows = 0;
  // [rows, heads, 128] dims of the query's type, heads contiguous; bytes, a multiple of 16
  const void* q = nullptr;
  std::int64_t q_row_stride_bytes = 0;
  const std::uint8_t* q_scales =
      nullptr;                           // fp4 native only: e8m0 [rows, heads, 4], contiguous heads
  std::int64_t q_scales_row_stride = 0;  // bytes
  const float* weights = nullptr;        // fp32 [rows, heads]: every query-side factor folded in
  std::int64_t weights_row_stride = 0;   // elements
  CacheView keys;
  PageTable key_pages;
  const std::int32_t* lengths = nullptr;  // int32 [rows], clamped to 0..length_max
  float* logits = nullptr;                // fp32 [rows, length_max]
  std::int64_t logits_row_stride = 0;     // elements, >= length_max
  void* stream = nullptr;
};

// The k largest logits of each row under the total order (value descending, index ascending),
// written in ascending order of index, then -1 up to k. NaN is never selected; -0 equals +0; -inf
// is a value. counts[r] is the number selected: min(k, logits of the row that are not NaN).
struct TopKCall {
  int rows = 0;
  int k = 0;                              // 1..k_max
  const float* logits = nullptr;          // fp32 [rows, length_max]; past lengths[r] never read
  std::int64_t logits_row_stride = 0;     // elements
  const std::int32_t* lengths = nullptr;  // int32 [rows], clamped to 0..length_max
  std::int32_t* indices = nullptr;        // int32 [rows, k]
  std::int64_t indices_row_stride = 0;    // elements, >= k
  std::int32_t* counts = nullptr;         // int32 [rows] or null
  void* stream = nullptr;
};

// Logits, top-k and the page table of the KV cache in one call: slots and counts are what
// DecodeCall takes as an IndexList. slots[r, i] = page * kv_page_size + offset of the i-th selected
// key, in ascending order of key; a key whose KV page is absent gives -1 in its place.
struct SelectCall {
  LogitsCall logits;                  // its logits pointer may be null: the workspace is used
  int k = 0;                          // 1..k_max
  PageTable kv_pages;                 // of the KV cache that the slots address
  int kv_page_size = 64;              // keys of one KV page
  std::int64_t kv_pool_pages = 0;     // kv_pool_pages * kv_page_size <= 2^31 - 1
  std::int32_t* slots = nullptr;      // int32 [rows, k]
  std::int64_t slots_row_stride = 0;  // elements, >= k
  std::int32_t* counts = nullptr;     // int32 [rows]
  std::int32_t* indices = nullptr;    // int32 [rows, k] or null: the logical positions too
  std::int64_t indices_row_stride = 0;
};

class Indexer {
 public:
  [[nodiscard]] static Expected<Indexer> create(const IndexerSpec& spec,
                                                const OpsOptions& options = {});
  Indexer(Indexer&&) noexcept;
  Indexer& operator=(Indexer&&) noexcept;
  ~Indexer();

  [[nodiscard]] Status logits(const LogitsCall& call);
  [[nodiscard]] Status top_k(const TopKCall& call);
  [[nodiscard]] Status select(const SelectCall& call);

  [[nodiscard]] const IndexerSpec& spec() const;
  [[nodiscard]] Backend backend() const;  // cpu or cuda, never auto_detect
  [[nodiscard]] std::int64_t workspace_bytes() const;

 private:
  struct Impl;
  explicit Indexer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// ---- Cache writes ---------------------------------------------------------------------------

// A paged cache that is written. The rules of CacheView.
struct WritableCacheView {
  std::uint8_t* base = nullptr;
  std::int64_t pages = 0;
  int page_size = 1;
  std::int64_t page_stride_bytes = 0;
};

// fp32 [positions, 64]: 32 cosines, then 32 sines, of the pairs (x[2i], x[2i+1]). x[2i] becomes
// x[2i]*cos - x[2i+1]*sin, x[2i+1] becomes x[2i+1]*cos + x[2i]*sin, each product and sum rounded to
// fp32, the result to bf16. A null table means that RoPE has been applied already.
struct RopeTable {
  const float* cos_sin = nullptr;
  std::int64_t positions = 0;
};

// How an fp32 scale is made from a block's amax. power_of_two: 2^ceil(log2(max(amax, floor) /
// max)). exact: max(amax, floor) / max, in fp32. (e8m0 scales are always powers of two.)
enum class ScaleRounding : std::uint8_t { power_of_two, exact };

inline constexpr float k_amax_floor_fp8 = 1e-4F;          // the reference's floor for e4m3 blocks
inline constexpr float k_amax_floor_fp4 = 6 * 0x1p-126F;  // and for e2m1 blocks

// Quantises bf16 latent rows and scatters them. nope: 448 (V4) or 512 (V3.2) dims; rope: 64 dims,
// which stay bf16. V4: blocks of 64, e8m0; V3.2: blocks of 128, fp32. The pad byte of V4 becomes 0.
struct KvWriteCall {
  KvFormat format = KvFormat::v4;
  ScaleRounding rounding = ScaleRounding::power_of_two;  // V3.2 only
  int rows = 0;
  const std::uint16_t* nope = nullptr;      // bf16 [rows, 448 or 512]
  std::int64_t nope_row_stride = 0;         // elements, a multiple of 8
  const std::uint16_t* rope = nullptr;      // bf16 [rows, 64]
  std::int64_t rope_row_stride = 0;         // elements, a multiple of 8
  RopeTable table;                          // applied to rope at positions[r], if given
  const std::int32_t* positions = nullptr;  // int32 [rows]; outside the table: a padded row
  const std::int64_t* slots =
      nullptr;  // int64 [rows]: page * page_size + offset; outside the pool: padded
  WritableCacheView cache;
  void* stream = nullptr;
};

// RoPE on the last 64 dims, rounding to bf16, the Hadamard rotation H_128 / sqrt(128) if asked
// (fp32 butterflies of spans 1, 2, .. 64, result rounded to bf16), quantisation, scatter. Keys and
// queries must agree on hadamard. Two rows of one call must not name one slot.
struct IndexerKeyWriteCall {
  IndexerFormat format = IndexerFormat::fp8;
  ScaleRounding rounding = ScaleRounding::power_of_two;  // fp8 only
  bool hadamard = true;
  int rows = 0;
  const std::uint16_t* keys = nullptr;  // bf16 [rows, 128]
  std::int64_t keys_row_stride = 0;     // elements, a multiple of 8
  RopeTable table;
  const std::int32_t* positions = nullptr;
  const std::int64_t* slots = nullptr;
  WritableCacheView cache;
  void* stream = nullptr;
};

// The query side of the same transform: what LogitsCall takes. fp8: one scale a (row, head), always
// a power of two, is folded into the weight: weights_out = weights * scale.
struct IndexerQueryCall {
  IndexerFormat format = IndexerFormat::fp8;
  bool hadamard = true;
  int rows = 0;
  int heads = 64;
  const std::uint16_t* q = nullptr;  // bf16 [rows, heads, 128], heads contiguous
  std::int64_t q_row_stride = 0;     // elements, a multiple of 8
  const float* weights = nullptr;    // fp32 [rows, heads], contiguous
  RopeTable table;
  const std::int32_t* positions = nullptr;
  std::uint8_t* q_out = nullptr;         // [rows, heads, value bytes of the format], contiguous
  std::uint8_t* q_scales_out = nullptr;  // fp4 only: e8m0 [rows, heads, 4], contiguous
  float* weights_out = nullptr;          // fp32 [rows, heads], contiguous
  void* stream = nullptr;
};

class CacheWriter {
 public:
  [[nodiscard]] static Expected<CacheWriter> create(const OpsOptions& options = {});
  CacheWriter(CacheWriter&&) noexcept;
  CacheWriter& operator=(CacheWriter&&) noexcept;
  ~CacheWriter();

  [[nodiscard]] Status write_kv(const KvWriteCall& call);
  [[nodiscard]] Status write_indexer_keys(const IndexerKeyWriteCall& call);
  [[nodiscard]] Status prepare_indexer_queries(const IndexerQueryCall& call);
  [[nodiscard]] Backend backend() const;

 private:
  struct Impl;
  explicit CacheWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// ---- The compressor -------------------------------------------------------------------------

inline constexpr int k_compressor_overlap_ratio = 4;   // 8 tokens an entry, 2 * dims channels
inline constexpr int k_compressor_online_ratio = 128;  // 128 tokens an entry, dims channels

// What becomes of an entry. v4_cache: 512 dims, quantised as KvWriteCall does. indexer_*: 128 dims,
// transformed and quantised as IndexerKeyWriteCall does. rows: bf16 [tokens, dims], at the boundary
// token's row.
enum class CompressorTarget : std::uint8_t {
  rows,
  v4_cache,
  indexer_fp8,
  indexer_fp4,
  indexer_bf16
};

// Fixed at creation. ratio 4 with overlap or 128 in the online form; dims 512 or 128.
struct CompressorSpec {
  int ratio = 4;
  int dims = 512;
  CompressorTarget target = CompressorTarget::v4_cache;
  bool hadamard = false;  // 128 dims only
  float norm_eps = 1e-6F;
  int sequences_max = 256;
  std::int64_t tokens_max = 8192;  // tokens of one call
};

// fp32 state of one sequence. ratio 4: a ring of 8 tokens, each 2*dims K then 2*dims S (ape added):
// token p lives at p mod 8. ratio 128: the running maximum, sum and weighted K of the open block,
// dims each. What a sequence has not written is never read: nothing of a slot's former owner can
// leak, and a slot needs no reset. A sequence that starts at position p > 0 without restored state
// may do so only at a multiple of 128 (ratio 128); at ratio 4 its entry p/4 also needs the four
// tokens before p.
[[nodiscard]] constexpr std::int64_t compressor_state_floats(int ratio, int dims) {
  return ratio == k_compressor_overlap_ratio ? std::int64_t{8} * 4 * dims : std::int64_t{3} * dims;
}

// Tokens of up to sequences sequences; those of sequence s are [offsets[s], offsets[s+1]), at
// consecutive positions from start[s]. Decoding is one token a sequence; a call of N tokens gives
// the bits of N calls of one token. Token t adds ape[position mod ratio] to its gate. Entry i, made
// by the token at position (i+1)*ratio - 1, is softmax-pooled a channel, rounded to bf16,
// RMS-normalised in fp32 with norm, rounded, rotated by RoPE at position i*ratio, and goes to the
// target.
struct CompressCall {
  int sequences = 0;
  std::int64_t tokens = 0;                // offsets[sequences]: must match
  const std::int32_t* offsets = nullptr;  // int32 [sequences + 1], ascending from 0
  const std::int32_t* start = nullptr;    // int32 [sequences]; negative: a padded sequence
  const std::int32_t* state_slot =
      nullptr;                          // int32 [sequences]; outside the pool: a padded sequence
  bool one_token_each = false;          // promises offsets[s] = s: the decode step
  const float* kv = nullptr;            // fp32 [tokens, 2*dims or dims]: wkv . h
  const float* gate = nullptr;          // fp32, the same shape: wgate . h
  std::int64_t token_stride = 0;        // elements, of kv and gate, a multiple of 4
  const float* ape = nullptr;           // fp32 [ratio, 2*dims or dims]
  const std::uint16_t* norm = nullptr;  // bf16 [dims]
  RopeTable table;                      // the compressed layers' table; null: no rotation
  float* state = nullptr;               // [state_slots, compressor_state_floats]
  std::int64_t state_slots = 0;
  const std::int64_t* slots = nullptr;  // int64 [tokens], read for boundary tokens; -1: dropped
  WritableCacheView cache;              // unless target is rows
  std::uint16_t* rows_out = nullptr;    // target rows: bf16 [tokens, dims]
  std::int64_t rows_out_stride = 0;     // elements, a multiple of 8
  void* stream = nullptr;
};

// Copies whole states between slots of the pool and a packed buffer [count, state floats]: what a
// prefix cache or speculation saves and restores. A slot outside the pool is skipped.
struct StateCopyCall {
  enum class Direction : std::uint8_t { save, restore } direction = Direction::save;
  int count = 0;
  const std::int32_t* slots = nullptr;  // int32 [count]
  float* state = nullptr;
  std::int64_t state_slots = 0;
  float* buffer = nullptr;
  void* stream = nullptr;
};

class Compressor {
 public:
  [[nodiscard]] static Expected<Compressor> create(const CompressorSpec& spec,
                                                   const OpsOptions& options = {});
  Compressor(Compressor&&) noexcept;
  Compressor& operator=(Compressor&&) noexcept;
  ~Compressor();

  [[nodiscard]] Status run(const CompressCall& call);
  [[nodiscard]] Status copy_state(const StateCopyCall& call);
  [[nodiscard]] const CompressorSpec& spec() const;
  [[nodiscard]] Backend backend() const;

 private:
  struct Impl;
  explicit Compressor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace splitwave
