// Dequantisation, exhaustively, through whole decode calls: a row of one key has weight exactly 1,
// so its output is the dequantised value itself. Owns the caches that hold every code under every
// scale. Every variant; V4 must be exact, V3.2 one rounding.
#include <algorithm>
#include <cmath>
#include <random>

#include "formats/bf16.h"
#include "formats/fp8.h"
#include "formats/kv_row.h"
#include "gpu_test.h"

namespace splitwave::gpu {
namespace {

// V4: groups of a token take the codes' four quarters in turn, four groups a scale. Exponents whose
// products all are normal bf16 and fp32 numbers: 2^-109 (times the least code, 2^-9) to 2^119.
constexpr int k_e8m0_first = 127 - 109;
constexpr int k_e8m0_last = 127 + 119;
constexpr int k_v32_tokens = 1024;

std::vector<KvRow> v4_tokens() {
  std::vector<KvRow> tokens;
  int group = k_v4_scales;
  for (int scale = k_e8m0_first; scale <= k_e8m0_last; ++scale) {
    for (int quarter = 0; quarter < 4; ++quarter, ++group) {
      if (group == k_v4_scales) {
        tokens.emplace_back();
        tokens.back().scales_e8m0.fill(127);
        group = 0;
      }
      KvRow& token = tokens.back();
      token.scales_e8m0[static_cast<std::size_t>(group)] = static_cast<std::uint8_t>(scale);
      for (int i = 0; i < 64; ++i) {
        const auto code = static_cast<std::uint8_t>(64 * quarter + i);
        token.codes[static_cast<std::size_t>(64 * group + i)] = is_nan_e4m3(code) ? 0x7E : code;
      }
    }
  }
  return tokens;
}

// Two of a token's four groups hold all 256 codes; scales of any mantissa.
std::vector<KvRow> v32_tokens() {
  std::mt19937 random(11);
  std::vector<KvRow> tokens(k_v32_tokens);
  for (KvRow& token : tokens) {
    for (int i = 0; i < k_v32_nope_dims; ++i) {
      const auto code = static_cast<std::uint8_t>(i);
      token.codes[static_cast<std::size_t>(i)] = is_nan_e4m3(code) ? 0xFE : code;
    }
    for (int pair = 0; pair < 2; ++pair) {
      const float mantissa = 1.0F + static_cast<float>(random() % (1U << 23)) * 0x1p-23F;
      const float scale = std::ldexp(mantissa, static_cast<int>(random() % 200) - 100);
      token.scales_f32[static_cast<std::size_t>(2 * pair)] = scale;
      token.scales_f32[static_cast<std::size_t>(2 * pair + 1)] = scale;
    }
  }
  return tokens;
}

// One row a token, one head, q = 0.
struct OneKeyRows {
  ProblemSpec spec;
  DecodeCall call;
  std::vector<DeviceBytes> memory;
  std::vector<std::uint16_t> out;

  OneKeyRows(KvFormat format, const std::vector<KvRow>& tokens) {
    const auto rows = static_cast<int>(tokens.size());
    spec.format = format;
    spec.heads = 1;
    spec.main_width = 1;
    spec.rows_max = rows;
    std::vector<std::uint8_t> page(static_cast<std::size_t>(page_bytes(format, rows)));
    const MutableCacheView host{page.data(), 1, rows, page_bytes(format, rows)};
    std::vector<std::int32_t> slots;
    for (int r = 0; r < rows; ++r) {
      pack_row(format, tokens[static_cast<std::size_t>(r)], host, r);
      slots.push_back(r);
    }
    call.rows = rows;
    call.q_row_stride = call.q_head_stride = qk_dims(format);
    const std::vector<std::uint16_t> q(static_cast<std::size_t>(rows * qk_dims(format)), 0);
    call.q = upload(q);
    call.main_cache = {upload(page), 1, rows, page_bytes(format, rows)};
    call.main_list = {upload(slots), 1, nullptr};
    call.softmax_scale = 1.0F;
    out.assign(static_cast<std::size_t>(rows) * k_value_dims, 0xFFFF);
    call.out = upload(out);
    call.out_row_stride = call.out_head_stride = k_value_dims;
  }
  template <class T>
  T* upload(const std::vector<T>& host) {
    memory.emplace_back(host.size() * sizeof(T));
    GPU_REQUIRE(cudaMemcpy(memory.back().template as<void>(), host.data(), host.size() * sizeof(T),
                           cudaMemcpyHostToDevice));
    return memory.back().template as<T>();
  }
  void run(const std::string& variant) {
    std::fill(out.begin(), out.end(), 0xFFFF);
    GPU_REQUIRE(cudaMemcpy(call.out, out.data(), out.size() * 2, cudaMemcpyHostToDevice));
    run_and_wait(*make_backend(spec, variant), call);
    GPU_REQUIRE(cudaMemcpy(out.data(), call.out, out.size() * 2, cudaMemcpyDeviceToHost));
  }
};

// Elements that are not one rounding of the exact value. V3.2's product is rounded to fp32 on the
// way, which can only differ at a tie of the second rounding: `ties` counts those.
int wrong_values(KvFormat format, const std::vector<KvRow>& tokens, const OneKeyRows& rows,
                 int& ties) {
  int wrong = 0;
  std::vector<double> want(static_cast<std::size_t>(qk_dims(format)));
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    dequantise_row(format, tokens[r], want);
    for (std::size_t d = 0; d < k_value_dims; ++d) {
      const std::uint16_t got = rows.out[r * k_value_dims + d];
      if (got == double_to_bf16(want[d]) || (want[d] == 0 && (got & 0x7FFFU) == 0)) continue;
      bool is_tie = false;
      if (format == KvFormat::v32) {
        const float product = decode_e4m3(tokens[r].codes[d]) * tokens[r].scales_f32[d / 128];
        is_tie = got == float_to_bf16(product);
      }
      ties += is_tie ? 1 : 0;
      wrong += is_tie ? 0 : 1;
    }
  }
  return wrong;
}

void values_are_exact(Report& report, KvFormat format) {
  const std::vector<KvRow> tokens = format == KvFormat::v4 ? v4_tokens() : v32_tokens();
  OneKeyRows rows(format, tokens);
  for (const VariantTraits& variant : variants_here(format)) {
    rows.run(variant.name);
    int ties = 0;
    const int wrong = wrong_values(format, tokens, rows, ties);
    report.check(wrong == 0, variant.name + ": " + std::to_string(wrong) + " of " +
                                 std::to_string(tokens.size() * k_value_dims) +
                                 " dequantised values are wrong");
    // 4 code bits times 24 scale bits: a tie of bf16 hides under fp32's rounding once in 2^15.
    report.check(ties <= 64, variant.name + ": " + std::to_string(ties) + " double roundings");
  }
}

// Every place of a NaN: each code position with 0x7F and 0xFF, each scale.
void nans_reach_the_row(Report& report, KvFormat format) {
  std::vector<KvRow> tokens;
  KvRow clean;
  clean.codes.fill(0x38);
  clean.scales_e8m0.fill(127);
  clean.scales_f32.fill(1.0F);
  const int codes = format == KvFormat::v4 ? k_v4_nope_dims : k_v32_nope_dims;
  for (int i = 0; i < codes; ++i) {
    tokens.push_back(clean);
    tokens.back().codes[static_cast<std::size_t>(i)] = i % 2 == 0 ? 0x7F : 0xFF;
  }
  for (int i = 0; i < (format == KvFormat::v4 ? k_v4_scales : 4); ++i) {
    tokens.push_back(clean);
    tokens.back().scales_e8m0[static_cast<std::size_t>(i)] = 0xFF;
    if (i < 4) tokens.back().scales_f32[static_cast<std::size_t>(i)] = std::nanf("");
  }
  tokens.push_back(clean);  // the last row must not feel its neighbours
  OneKeyRows rows(format, tokens);
  for (const VariantTraits& variant : variants_here(format)) {
    rows.run(variant.name);
    int silent = 0;
    for (std::size_t r = 0; r + 1 < tokens.size(); ++r) {
      for (std::size_t d = 0; d < k_value_dims; ++d) {
        silent += is_nan_bf16(rows.out[r * k_value_dims + d]) ? 0 : 1;
      }
    }
    report.check(silent == 0, variant.name + ": " + std::to_string(silent) +
                                  " elements of rows with a NaN key are not NaN");
    report.check(rows.out[(tokens.size() - 1) * k_value_dims] == float_to_bf16(1.0F),
                 variant.name + ": a clean row beside NaN rows is not clean");
  }
}

}  // namespace

void check_dequantisation(Report& report) {
  report.families.push_back(
      "dequantisation: every code under V4 scales 2^-109..2^119, V3.2 scales of any mantissa");
  report.families.push_back("a NaN code or scale anywhere makes its row NaN");
  for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
    values_are_exact(report, format);
    nans_reach_the_row(report, format);
  }
}

}  // namespace splitwave::gpu
