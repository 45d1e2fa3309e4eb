// SPLITWAVE_PLAN's text: every key, every refusal, and print-then-parse.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "splitwave/plan.h"

namespace splitwave {
namespace {

std::string refusal(const std::string& text) {
  const Expected<PlanOverrides> parsed = parse_plan_overrides(text);
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.error().kind, ErrorKind::bad_input);
  return parsed.error().message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(PlanOverrides, EveryKeyReachesItsField) {
  const auto parsed = parse_plan_overrides(
      "mode=free,class=latency,target_ctas=512,block_heads=32,tile_rows=16,warps=8,stages=3,"
      "ctas_per_sm=2,chunk_rows=640,prefetch=4,overlap=1,variant=v4_mma_n16_w8_s3");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->mode, SplitMode::free);
  EXPECT_EQ(parsed->numerics, NumericsClass::latency);
  EXPECT_EQ(parsed->target_ctas, 512);
  EXPECT_EQ(parsed->block_heads, 32);
  EXPECT_EQ(parsed->tile_rows, 16);
  EXPECT_EQ(parsed->warps, 8);
  EXPECT_EQ(parsed->stages, 3);
  EXPECT_EQ(parsed->ctas_per_sm, 2);
  EXPECT_EQ(parsed->chunk_rows, 640);
  EXPECT_EQ(parsed->prefetch, 4);
  EXPECT_EQ(parsed->overlap, 1);
  EXPECT_EQ(parsed->variant, "v4_mma_n16_w8_s3");
}

TEST(PlanOverrides, EmptyTextIsNoOverride) {
  for (const char* text : {"", " ", "\t "}) {
    const auto parsed = parse_plan_overrides(text);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, PlanOverrides{});
  }
  EXPECT_EQ(to_string(PlanOverrides{}), "");
}

TEST(PlanOverrides, BlanksAroundKeysAndValuesDoNotMatter) {
  const auto parsed = parse_plan_overrides("  mode = free ,\ttarget_ctas= 768 ");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(to_string(*parsed), "mode=free,target_ctas=768");
}

TEST(PlanOverrides, AnUnknownKeyIsNamedWithTheNearestAndAllKeys) {
  const std::string message = refusal("taget_ctas=512");
  EXPECT_TRUE(has(message, "'taget_ctas'")) << message;
  EXPECT_TRUE(has(message, "did you mean target_ctas?")) << message;
  EXPECT_TRUE(has(message, "mode, class, target_ctas, block_heads")) << message;
  EXPECT_FALSE(has(refusal("banana=1"), "did you mean"));
}

TEST(PlanOverrides, AnUnknownWordIsNamedWithWhatWorks) {
  EXPECT_TRUE(has(refusal("mode=exect"), "mode='exect' is unknown (did you mean exact?)"));
  EXPECT_TRUE(has(refusal("class=fast"), "what works: throughput, latency"));
  EXPECT_TRUE(has(refusal("mode="), "what works: exact, free"));
  EXPECT_TRUE(has(refusal("mode=Exact"), "did you mean exact?"));
}

TEST(PlanOverrides, AValueOutOfRangeIsNamedWithItsRange) {
  EXPECT_TRUE(has(refusal("block_heads=129"), "block_heads='129' is not an integer of 1..128"));
  for (const char* value :
       {"0", "-1", "129", "", "x", "8x", "8.0", "+8", "0x8", "99999999999999"}) {
    EXPECT_TRUE(has(refusal(std::string("block_heads=") + value), "1..128")) << value;
  }
  EXPECT_TRUE(has(refusal("overlap=2"), "0..1"));
  EXPECT_TRUE(parse_plan_overrides("prefetch=0").ok());
  EXPECT_TRUE(parse_plan_overrides("block_heads=128").ok());
}

TEST(PlanOverrides, ADuplicateKeyIsRefusedEvenWithTheSameValue) {
  EXPECT_TRUE(has(refusal("warps=8,stages=2,warps=8"), "'warps' is given twice"));
  EXPECT_TRUE(has(refusal("mode=free,mode=exact"), "'mode' is given twice"));
}

TEST(PlanOverrides, TextThatIsNotKeyValueIsRefused) {
  for (const char* text : {"mode", ",", "mode=free,", ",mode=free", "mode=free,,warps=4"}) {
    EXPECT_TRUE(has(refusal(text), "is not key=value")) << text;
  }
  EXPECT_TRUE(has(refusal("=3"), "unknown key ''"));
  EXPECT_TRUE(has(refusal(std::string(2000, 'a')), "2000 characters"));
}

TEST(PlanOverrides, AVariantThatIsNoNameIsRefused) {
  for (const char* value : {"", "a b", "a=b", "a/b", "\xc3\xa9"}) {
    EXPECT_TRUE(has(refusal(std::string("variant=") + value), "is not a variant's name")) << value;
  }
  EXPECT_TRUE(has(refusal("variant=" + std::string(97, 'a')), "at most 96"));
}

RC_GTEST_PROP(PlanOverridesProperty, PrintingThenParsingGivesTheSameOverrides, ()) {
  const auto maybe = [](int least, int most) {
    return *rc::gen::arbitrary<bool>() ? std::optional<int>(*rc::gen::inRange(least, most + 1))
                                       : std::nullopt;
  };
  PlanOverrides overrides;
  if (*rc::gen::arbitrary<bool>()) {
    overrides.mode = *rc::gen::element(SplitMode::exact, SplitMode::free);
  }
  if (*rc::gen::arbitrary<bool>()) {
    overrides.numerics = *rc::gen::element(NumericsClass::throughput, NumericsClass::latency);
  }
  overrides.target_ctas = maybe(1, 1 << 20);
  overrides.block_heads = maybe(1, 128);
  overrides.tile_rows = maybe(1, 1024);
  overrides.warps = maybe(1, 32);
  overrides.stages = maybe(1, 32);
  overrides.ctas_per_sm = maybe(1, 32);
  overrides.chunk_rows = maybe(1, 1 << 20);
  overrides.prefetch = maybe(0, 4096);
  overrides.overlap = maybe(0, 1);
  if (*rc::gen::arbitrary<bool>()) {
    overrides.variant = *rc::gen::nonEmpty(
        rc::gen::container<std::string>(rc::gen::element('a', 'z', '0', '9', '_', '.', '-')));
    RC_PRE(overrides.variant->size() <= 96U);
  }
  const auto parsed = parse_plan_overrides(to_string(overrides));
  RC_ASSERT(parsed.ok());
  RC_ASSERT(*parsed == overrides);
}

RC_GTEST_PROP(PlanOverridesProperty, AnyTextIsParsedOrRefusedWithAReason,
              (const std::string& text)) {
  const auto parsed = parse_plan_overrides(text);
  if (parsed.ok()) {
    RC_ASSERT(*parse_plan_overrides(to_string(*parsed)) == *parsed);
  } else {
    RC_ASSERT(parsed.error().message.starts_with("plan override: "));
  }
}

}  // namespace
}  // namespace splitwave
