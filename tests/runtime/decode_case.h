// What the decode tests share: a small problem with everything in it, and one row's result as bits.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "formats/synthetic.h"
#include "splitwave/decoder.h"

namespace splitwave::testing_support {

// Two caches, ragged and scattered lists, a sink, poison wherever the contract allows any byte.
inline SyntheticOptions full_options(KvFormat format, int heads, int rows) {
  SyntheticOptions options;
  options.spec.format = format;
  options.spec.heads = heads;
  options.spec.main_width = 40;
  options.spec.extra_width = 53;
  options.spec.rows_max = 96;
  options.rows = rows;
  options.main_cache.page_size = 1;
  options.extra_cache.page_size = 53;
  options.main_list.lengths = LengthKind::ragged;
  options.extra_list.invalid = InvalidKind::scattered;
  options.sink = SinkKind::mixed;
  options.scores = ScoreKind::peaked;
  options.poison = PoisonKind::nan;
  return options;
}

inline DecoderOptions cpu_options(int threads, PlanOverrides overrides = {}) {
  DecoderOptions options;
  options.backend = Backend::cpu;
  options.threads = threads;
  options.overrides = std::move(overrides);
  options.read_environment = false;
  return options;
}

// out and lse of one row, in head order.
using RowBits = std::vector<std::uint32_t>;

inline RowBits row_bits(const ProblemSpec& spec, const DecodeCall& call, int row) {
  RowBits bits;
  for (int h = 0; h < spec.heads; ++h) {
    const std::uint16_t* out = call.out + row * call.out_row_stride + h * call.out_head_stride;
    bits.insert(bits.end(), out, out + k_value_dims);
    if (call.lse == nullptr) continue;
    std::uint32_t lse = 0;
    std::memcpy(&lse, call.lse + row * call.lse_row_stride + h, sizeof lse);
    bits.push_back(lse);
  }
  return bits;
}

// Runs the problem and returns every row's bits; outputs must be written exactly.
inline std::vector<RowBits> decode(Decoder& decoder, SyntheticProblem& problem) {
  problem.poison_outputs();
  const Status status = decoder.run(problem.call());
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  EXPECT_EQ(problem.check_outputs(), "");
  std::vector<RowBits> rows;
  for (int row = 0; row < problem.call().rows; ++row) {
    rows.push_back(row_bits(decoder.spec(), problem.call(), row));
  }
  return rows;
}

inline Decoder make_decoder(const ProblemSpec& spec, const DecoderOptions& options) {
  Expected<Decoder> decoder = Decoder::create(spec, options);
  if (!decoder.ok()) throw std::runtime_error(decoder.error().message);
  return std::move(*decoder);
}

}  // namespace splitwave::testing_support
