// Cases of top-k: the rows that broke other selectors (field reports of sglang, vLLM, FlashInfer:
// bins that overflow a stash, ties by arrival order, NaN, lengths around k and around block sizes),
// compared as exact index lists.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/ops_topk.h"
#include "runtime/ops_cases.h"

namespace splitwave {
namespace {

constexpr float k_inf = std::numeric_limits<float>::infinity();

const std::vector<std::string> k_patterns{"normal",       "all_equal",  "two_valued", "one_bin",
                                          "signed_zeros", "nan_only",   "some_nan",   "infinities",
                                          "ascending",    "descending", "denormals",  "low_bits"};

float pattern_value(const std::string& pattern, std::int64_t i, std::int64_t length,
                    CaseRandom& random) {
  const std::uint32_t bits = static_cast<std::uint32_t>(random.bits());
  if (pattern == "all_equal") return 2.5F;
  if (pattern == "two_valued") return (bits & 1U) != 0 ? 1.0F : 2.0F;
  // Equal high 16 bits: every radix digit but the last ones sees one bin.
  if (pattern == "one_bin") return std::bit_cast<float>(0x3F800000U | (bits & 0xFFFFU));
  if (pattern == "signed_zeros") return (bits & 1U) != 0 ? -0.0F : 0.0F;
  if (pattern == "nan_only") return std::bit_cast<float>(0x7F800001U | (bits & 0x803FFFFFU));
  if (pattern == "some_nan") return bits % 3 == 0 ? std::nanf("") : random.normal();
  if (pattern == "infinities") return bits % 3 == 0 ? k_inf : bits % 3 == 1 ? -k_inf : 0.0F;
  if (pattern == "ascending") return static_cast<float>(i);
  if (pattern == "descending") return static_cast<float>(length - i);
  if (pattern == "denormals") return std::bit_cast<float>((bits & 0x800000FFU));
  if (pattern == "low_bits") return std::bit_cast<float>(0x40000000U | (bits & 0x3U));
  return random.normal();
}

OpsOutcome run_top_k(const OpsTarget& target, const std::string& pattern, int k,
                     const std::vector<std::int32_t>& lengths) {
  IndexerSpec spec;
  const std::int64_t width = *std::max_element(lengths.begin(), lengths.end());
  spec.length_max = std::max<std::int64_t>(1, width);
  spec.rows_max = static_cast<int>(lengths.size());
  spec.k_max = k;
  spec.owns_logits = false;
  const std::int64_t stride = spec.length_max + 3;  // rows of every alignment
  OpsArena arena(lengths.size() * (stride * 4 + k * 4 + 4096) + (1 << 16));
  TopKCall call;
  call.rows = spec.rows_max;
  call.k = k;
  call.logits_row_stride = stride;
  auto* logits = arena.take<float>(lengths.size() * stride);
  CaseRandom random(static_cast<std::uint64_t>(k) + pattern.size());
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    for (std::int64_t i = 0; i < lengths[row]; ++i) {
      logits[row * stride + i] = pattern_value(pattern, i, lengths[row], random);
    }
    // Past the length: the largest number of all, which must not be looked at.
    for (std::int64_t i = std::max(lengths[row], 0); i < stride; ++i)
      logits[row * stride + i] = k_inf;
  }
  call.logits = logits;
  call.lengths = arena.put(lengths);
  call.indices_row_stride = k + 1;
  call.indices = arena.take<std::int32_t>(lengths.size() * call.indices_row_stride);
  call.counts = arena.take<std::int32_t>(lengths.size());
  OpsArena want(arena);
  reference_top_k_call(spec, moved(call, arena.data(), want.data()));
  Expected<Indexer> indexer = Indexer::create(spec, target.options);
  if (!indexer) return {indexer.error().message, 0};
  const std::string failure =
      on_backend(target, arena, call, [&](const TopKCall& c) { return indexer->top_k(c); });
  return {failure.empty() ? first_difference(arena, want) : failure, 0};
}

OpsCase top_k_case(const std::string& pattern, int k, const std::vector<std::int32_t>& lengths) {
  const std::int32_t longest = *std::max_element(lengths.begin(), lengths.end());
  return {"topk",
          {{"pattern", pattern}, {"k", std::to_string(k)}, {"longest", std::to_string(longest)}},
          [=](const OpsTarget& target) { return run_top_k(target, pattern, k, lengths); }};
}

}  // namespace

std::vector<OpsCase> topk_cases(bool full) {
  std::vector<OpsCase> cases;
  for (const std::string& pattern : k_patterns) {
    for (const int k : {1, 2, 64, 512, 513, 1024, 2048, 4096}) {
      if (!full && k != 64 && k != 512 && k != 2048) continue;
      std::vector<std::int32_t> lengths{0,    1,    k - 1, k,    k + 1, -4,
                                        4095, 4096, 4097,  8191, 8192,  8193};
      if (full) lengths.push_back(65536);
      cases.push_back(top_k_case(pattern, k, lengths));
    }
    const bool is_hard = pattern == "one_bin" || pattern == "all_equal" || pattern == "normal";
    if (is_hard) cases.push_back(top_k_case(pattern, 512, {34000, 30938, 65504}));
    if (full) cases.push_back(top_k_case(pattern, 2048, {131072, 131071, 1}));
    if (full && is_hard) {
      cases.push_back(top_k_case(pattern, 512, {262144, 262143}));
      cases.push_back(top_k_case(pattern, 2048, {1 << 20, 5}));
      cases.push_back(top_k_case(pattern, 4096, {1 << 20}));
    }
  }
  return cases;
}

}  // namespace splitwave
