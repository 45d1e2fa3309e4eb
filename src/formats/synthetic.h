// Random decode problems with every knob of the contract. Owns their content and their host
// buffers; decides nothing about right or wrong. Called by the tests, the contract suite and the
// benchmarks.
//
// Deterministic, and by row: a row's queries, entries, lengths and keys depend on (seed, row id)
// alone, never on the other rows, their number, the slot in the batch or where tokens lie. So the
// row with id 7 is the same problem alone, in slot 3 of a batch, and with its pages elsewhere. What
// no row may use is poisoned: unreferenced slots, pad bytes, stride gaps, entries past a length.
//
// Dequantised keys stay within |K| <= 0.4375 unless a knob says otherwise: then the rounding of P
// to bf16 (2^-9 relative) cannot by itself move an element by the 1e-3 that the contract allows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/page_layout.h"
#include "splitwave/problem.h"

namespace splitwave {

enum class LengthKind : std::uint8_t {
  none,  // no lengths: the last valid entry + 1
  zero,
  full,      // the width
  ragged,    // 0..width, by row
  negative,  // -1 or less: as zero
  beyond,    // more than the width: as full
  trimmed,   // the last valid entry + 1, given: as none, but with live entries past it
};
enum class InvalidKind : std::uint8_t {
  none,
  leading,    // the first third of the list
  trailing,   // the last third
  scattered,  // three entries in ten
  block,      // every second run of 64: whole tiles without a valid key
  all,
};
// What stands in an invalid entry.
enum class InvalidValue : std::uint8_t { minus_one, negative, beyond_pool, mixed };
enum class SinkKind : std::uint8_t { none, finite, minus_inf, plus_inf, mixed };
enum class PoisonKind : std::uint8_t {
  zero,   // nothing to trip over
  nan,    // 0xFF: NaN codes, NaN scales, NaN RoPE dims
  huge,   // 0x7F: NaN codes with scale 1, RoPE dims of 3.4e38
  stale,  // other tokens' plausible bytes
};
enum class ScoreKind : std::uint8_t {
  flat,     // nearly uniform weights
  peaked,   // a few keys carry the row
  rising,   // each key above the ones before it: the running maximum moves all the time
  falling,  // the first key is the largest
  huge,     // scores in the hundreds: one key takes all
  zero,     // softmax scale 0
  negative  // softmax scale below 0
};
enum class ScaleKind : std::uint8_t {
  normal,        // three binades; V3.2: any mantissa
  power_of_two,  // one binade; V3.2: power-of-two scales, as some writers store them
  wide,          // from the format's smallest up
  large,         // up to 2^20: |K| up to 4.7e8; use with Sharing::single, where nothing cancels
};
enum class Placement : std::uint8_t { sequential, pages_permuted, scattered };
enum class Sharing : std::uint8_t {
  own,         // every entry its own token
  shared,      // all rows attend the same tokens
  duplicates,  // each token stands three times in its row
  single,      // one token fills the row's whole list
};
// Which of rows and heads is the outer dimension of q or out.
enum class StrideOrder : std::uint8_t { row_major, head_major };
// A row that must not harm the others.
enum class HostileKind : std::uint8_t {
  none,
  nan_q,
  nan_q_one_head,
  inf_q,
  huge_q,
  nan_code,
  nan_scale,
  nan_rope,
  huge_keys,
};

struct SyntheticCache {
  int page_size = 64;
  std::int64_t stride_pad_bytes = 0;  // added to page_bytes; a multiple of 8
  int spare_pages = 1;                // beyond those that hold tokens; nobody references them
  Placement placement = Placement::scattered;
};
struct SyntheticList {
  LengthKind lengths = LengthKind::none;
  InvalidKind invalid = InvalidKind::none;
  InvalidValue invalid_value = InvalidValue::mixed;
  int row_stride_pad = 0;  // entries
};

struct SyntheticOptions {
  ProblemSpec spec;
  int rows = 1;
  std::vector<std::int64_t> row_ids;  // one a row (equal ids: equal rows); empty: 0, 1, 2, ..
  std::vector<HostileKind> hostile;   // one a row; empty: none. Needs Sharing::own
  std::uint64_t seed = 1;
  std::uint64_t placement_seed = 1;
  SyntheticCache main_cache, extra_cache;
  SyntheticList main_list, extra_list;
  Sharing sharing = Sharing::own;
  ScoreKind scores = ScoreKind::flat;
  ScaleKind scales = ScaleKind::normal;
  SinkKind sink = SinkKind::none;
  PoisonKind poison = PoisonKind::nan;
  StrideOrder q_order = StrideOrder::row_major;
  StrideOrder out_order = StrideOrder::row_major;
  int q_head_pad = 0;  // elements, multiples of 8; added to the head's stride
  int q_row_pad = 0;   //   and to the row's
  int out_head_pad = 0;
  int out_row_pad = 0;
  int lse_row_pad = 0;
  bool wants_lse = true;
};

// The bytes of every buffer of a call, exactly as long as the contract lets a backend touch: what
// an executor on another device must copy. Empty where the call has null.
struct CallBuffers {
  std::span<std::uint8_t> q, main_cache, extra_cache, main_slots, extra_slots, main_lengths,
      extra_lengths, sink, out, lse;
};

class SyntheticProblem {
 public:
  explicit SyntheticProblem(const SyntheticOptions& options);
  SyntheticProblem(SyntheticProblem&&) noexcept;
  SyntheticProblem& operator=(SyntheticProblem&&) noexcept;
  ~SyntheticProblem();

  [[nodiscard]] const ProblemSpec& spec() const;
  [[nodiscard]] const DecodeCall& call() const;  // host pointers into this object
  [[nodiscard]] CallBuffers buffers();

  // Fills out and lse, gaps included, with a NaN that no arithmetic makes. Done once at
  // construction; call it again before each run.
  void poison_outputs();
  // Empty when every element of out and lse was written and no gap was; else the first that breaks
  // it.
  [[nodiscard]] std::string check_outputs() const;

  // Entries that are valid and within their row's length, over all rows and both lists.
  [[nodiscard]] std::int64_t used_entries() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace splitwave
