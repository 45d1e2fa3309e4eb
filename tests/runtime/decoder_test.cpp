// Decoder: backend choice, refusals at creation, plans, accuracy against the double reference, and
// calls that must do nothing.
#include "splitwave/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "formats/compare.h"
#include "formats/reference.h"
#include "runtime/decode_case.h"

namespace splitwave {
namespace {

using namespace testing_support;

TEST(Decoder, AgreesWithTheReferenceForBothFormatsAndOddHeadCounts) {
  for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
    for (const int heads : {1, 5, 16, 64, 128}) {
      SyntheticOptions options = full_options(format, heads, 2);
      options.spec.extra_width = 301;
      SyntheticProblem problem(options);
      Decoder decoder = make_decoder(options.spec, cpu_options(2));
      (void)decode(decoder, problem);
      const Comparison comparison = compare_decode(
          options.spec, problem.call(), reference_decode(options.spec, problem.call()));
      EXPECT_TRUE(comparison.ok) << name_of(format) << ", " << heads << " heads: "
                                 << comparison.failure;
    }
  }
}

TEST(Decoder, AgreesWithTheReferenceInBothClassesAndInFreeMode) {
  SyntheticOptions options = full_options(KvFormat::v4, 6, 3);
  options.spec.extra_width = 700;
  SyntheticProblem problem(options);
  const ReferenceResult reference = reference_decode(options.spec, problem.call());
  for (const char* text : {"class=throughput", "class=latency", "mode=free,target_ctas=64",
                           "chunk_rows=1", "chunk_rows=7,tile_rows=8", "tile_rows=512"}) {
    const auto overrides = parse_plan_overrides(text);
    ASSERT_TRUE(overrides.ok());
    Decoder decoder = make_decoder(options.spec, cpu_options(3, *overrides));
    (void)decode(decoder, problem);
    const Comparison comparison = compare_decode(options.spec, problem.call(), reference);
    EXPECT_TRUE(comparison.ok) << text << ": " << comparison.failure;
  }
}

TEST(Decoder, SaysWhyItChoseItsBackend) {
  ProblemSpec spec;
  Decoder asked = make_decoder(spec, cpu_options(1));
  EXPECT_EQ(asked.backend(), Backend::cpu);
  EXPECT_EQ(asked.backend_reason(), "asked for by the caller");
  DecoderOptions options = cpu_options(1);
  options.backend = Backend::auto_detect;
  Decoder chosen = make_decoder(spec, options);
  EXPECT_EQ(chosen.backend_reason().substr(0, 6), "auto: ");
  EXPECT_NE(chosen.backend(), Backend::auto_detect);
}

TEST(Decoder, TakesSplitwaveVariablesOnlyWhereTheCallerIsSilent) {
  ASSERT_EQ(setenv("SPLITWAVE_BACKEND", "cpu", 1), 0);
  ASSERT_EQ(setenv("SPLITWAVE_THREADS", "3", 1), 0);
  ASSERT_EQ(setenv("SPLITWAVE_PLAN", "prefetch=5,block_heads=16", 1), 0);
  DecoderOptions options;
  options.overrides.prefetch = 9;
  const auto silent = Decoder::create(ProblemSpec(), options);
  options.threads = 2;
  const auto spoken = Decoder::create(ProblemSpec(), options);
  ASSERT_EQ(setenv("SPLITWAVE_THREADS", "none", 1), 0);
  const auto refused = Decoder::create(ProblemSpec(), options);
  for (const char* name : {"SPLITWAVE_BACKEND", "SPLITWAVE_THREADS", "SPLITWAVE_PLAN"}) {
    ASSERT_EQ(unsetenv(name), 0);
  }
  ASSERT_TRUE(silent.ok());
  EXPECT_EQ(silent->backend_reason(), "asked for by SPLITWAVE_BACKEND");
  EXPECT_EQ(silent->device().sm_count, 3);
  EXPECT_EQ(silent->plan_for(1).prefetch, 9);
  EXPECT_EQ(silent->plan_for(1).block_heads, 16);
  ASSERT_TRUE(spoken.ok());
  EXPECT_EQ(spoken->device().sm_count, 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("SPLITWAVE_THREADS"), std::string::npos);
}

std::string refusal(const ProblemSpec& spec, const char* overrides, int threads = 1) {
  const auto parsed = parse_plan_overrides(overrides);
  if (!parsed.ok()) return parsed.error().message;
  const auto decoder = Decoder::create(spec, cpu_options(threads, *parsed));
  return decoder.ok() ? "accepted" : decoder.error().message;
}

TEST(Decoder, RefusesAtCreationWhatItCannotDo) {
  ProblemSpec spec;
  EXPECT_NE(refusal(spec, "tile_rows=4").find("tile_rows=4"), std::string::npos);
  EXPECT_NE(refusal(spec, "prefetch=1000").find("prefetch=1000"), std::string::npos);
  EXPECT_NE(refusal(spec, "block_heads=9").find("block_heads"), std::string::npos);
  EXPECT_NE(refusal(spec, "variant=cpu_v9").find("cpu_v9"), std::string::npos);
  EXPECT_NE(refusal(spec, "", 5000).find("threads = 5000"), std::string::npos);
  spec.heads = 129;
  EXPECT_NE(refusal(spec, "").find("heads = 129"), std::string::npos);
}

TEST(Decoder, RefusesABadCallAndWritesNothing) {
  SyntheticProblem problem(full_options(KvFormat::v4, 2, 2));
  Decoder decoder = make_decoder(problem.spec(), cpu_options(1));
  DecodeCall call = problem.call();
  call.rows = 97;
  const Status status = decoder.run(call);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::bad_input);
  EXPECT_NE(problem.check_outputs(), "") << "outputs must still hold their poison";
}

TEST(Decoder, DoesNothingForNoRowsAndZerosForNoEntries) {
  ProblemSpec spec;
  spec.heads = 3;
  spec.main_width = 0;
  spec.extra_width = 0;
  Decoder decoder = make_decoder(spec, cpu_options(2));
  EXPECT_TRUE(decoder.run(DecodeCall{}).ok());
  alignas(16) std::uint16_t q[3 * 512] = {};
  alignas(16) std::uint16_t out[3 * 512];
  float lse[3];
  std::fill(std::begin(out), std::end(out), std::uint16_t{0x7FC1});
  DecodeCall call;
  call.rows = 1;
  call.q = q;
  call.q_head_stride = 512;
  call.q_row_stride = 1536;
  call.out = out;
  call.out_head_stride = 512;
  call.out_row_stride = 1536;
  call.lse = lse;
  call.lse_row_stride = 3;
  call.softmax_scale = 1.0F;
  ASSERT_TRUE(decoder.run(call).ok());
  for (const std::uint16_t value : out) ASSERT_EQ(value, 0);
  for (const float value : lse) EXPECT_EQ(value, std::numeric_limits<float>::infinity());
}

TEST(Decoder, KeepsItsWorkspaceIndependentOfRowsAndWidths) {
  ProblemSpec small;
  small.rows_max = 1;
  ProblemSpec large = small;
  large.rows_max = 512;
  large.extra_width = 100000;
  PlanOverrides overrides;
  overrides.block_heads = 64;
  const Decoder a = make_decoder(small, cpu_options(2, overrides));
  const Decoder b = make_decoder(large, cpu_options(2, overrides));
  EXPECT_EQ(a.workspace_bytes(), b.workspace_bytes());
  EXPECT_GT(a.workspace_bytes(), 0);
}

TEST(Decoder, ListsRunnableCpuVariantsAndTheCpuFirst) {
  bool has_runnable = false;
  for (const VariantListing& listing : list_variants()) {
    has_runnable |= listing.runnable && listing.traits.backend == "cpu";
    EXPECT_EQ(listing.runnable, listing.why_not.empty()) << listing.traits.name;
  }
  EXPECT_TRUE(has_runnable);
  ASSERT_FALSE(list_devices().empty());
  EXPECT_EQ(list_devices().front().name, "cpu");
}

TEST(Decoder, MergesPartialsOfDisjointKeysLikeTheWhole) {
  SyntheticOptions options = full_options(KvFormat::v4, 4, 3);
  options.sink = SinkKind::none;
  SyntheticProblem problem(options);
  const ReferenceResult reference = reference_decode(options.spec, problem.call());
  // The main list alone, then the extra list alone.
  ProblemSpec main_only = options.spec;
  main_only.extra_width = 0;
  ProblemSpec extra_only = options.spec;
  extra_only.main_width = 0;
  const std::int64_t n = 3 * 4;
  std::vector<std::uint16_t> out_a(static_cast<std::size_t>(n * 512));
  std::vector<std::uint16_t> out_b(out_a.size());
  std::vector<float> lse_a(static_cast<std::size_t>(n));
  std::vector<float> lse_b(lse_a.size());
  DecodeCall call = problem.call();
  call.out_head_stride = 512;
  call.out_row_stride = 4 * 512;
  call.lse_row_stride = 4;
  const auto run = [&](const ProblemSpec& spec, std::uint16_t* out, float* lse) {
    Decoder decoder = make_decoder(spec, cpu_options(1));
    DecodeCall part = call;
    part.out = out;
    part.lse = lse;
    ASSERT_TRUE(decoder.run(part).ok());
  };
  run(main_only, out_a.data(), lse_a.data());
  run(extra_only, out_b.data(), lse_b.data());
  merge_partials(out_a.data(), lse_a.data(), out_b.data(), lse_b.data(), n);
  for (std::size_t i = 0; i < lse_a.size(); ++i) {
    EXPECT_NEAR(lse_a[i], reference.lse[i], 1e-4 * std::max(1.0, std::abs(reference.lse[i])));
  }
}

}  // namespace
}  // namespace splitwave
