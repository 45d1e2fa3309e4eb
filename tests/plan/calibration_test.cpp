// Cost constants: the text record and who wins, record or model.
#include "plan/calibration.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "plan/plan_fixtures.h"
#include "plan/planner.h"
#include "plan/source_kernel.h"

namespace splitwave {
namespace {

CalibrationRecord a_record() {
  CalibrationRecord record;
  record.device = "h200";
  record.numerics_class = "v4-bf16-t128";
  record.constants = modelled_constants(device_named("h200"), hopper_variant(32));
  record.constants.item_us = 1.25;
  record.constants.charges_whole_tiles = false;
  record.constants.source = "experiments/0007-calibrate, run 2";
  return record;
}

std::string refusal(const std::string& text) {
  const auto parsed = parse_calibration(text);
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.error().kind, ErrorKind::bad_input);
  return parsed.error().message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Calibration, PrintingThenParsingGivesTheSameRecords) {
  const CalibrationRecord record = a_record();
  const auto parsed = parse_calibration(to_text(record) + to_text(source_kernel_calibration()));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 2U);
  EXPECT_EQ((*parsed)[0].device, "h200");
  EXPECT_EQ((*parsed)[0].constants.item_us, 1.25);
  EXPECT_EQ((*parsed)[0].constants.row_head_ns, record.constants.row_head_ns);
  EXPECT_FALSE((*parsed)[0].constants.charges_whole_tiles);
  EXPECT_EQ((*parsed)[0].constants.provenance, Provenance::measured);
  EXPECT_EQ(to_text((*parsed)[0]), to_text(record));
  EXPECT_TRUE(parse_calibration("")->empty());
}

TEST(Calibration, RefusesALineByItsNumberAndWhatWorks) {
  const std::string text = to_text(a_record());
  EXPECT_TRUE(
      has(refusal(replaced(text, "item_us=1.25", "item_us=fast")), "line 5: item_us='fast'"));
  EXPECT_TRUE(has(refusal(replaced(text, "item_us=1.25", "item_us=-1")), "at or above 0"));
  EXPECT_TRUE(has(refusal(replaced(text, "item_us=1.25", "item_us=inf")), "finite"));
  EXPECT_TRUE(has(refusal(replaced(text, "item_us", "itm_us")), "did you mean item_us?"));
  EXPECT_TRUE(has(refusal(replaced(text, "item_us=1.25\n", "")), "without key 'item_us'"));
  EXPECT_TRUE(has(refusal(text + "item_us=2\n"), "given twice"));
  EXPECT_TRUE(has(refusal("item_us=1\n"), "line 1"));
  EXPECT_TRUE(has(refusal(replaced(text, "tiles=0", "tiles=2")), "neither 0 nor 1"));
  EXPECT_TRUE(has(refusal(text + std::string(600, 'x') + "\n"), "600 characters"));
}

TEST(Calibration, ARecordReplacesTheModelForItsDeviceAndClassOnly) {
  const std::vector<CalibrationRecord> records = {a_record()};
  const VariantTraits ours = hopper_variant(32);
  EXPECT_EQ(constants_for(device_named("h200"), ours, records).item_us, 1.25);
  EXPECT_NE(constants_for(device_named("h100"), ours, records).item_us, 1.25);
  VariantTraits other = ours;
  other.numerics_class = "another";
  EXPECT_NE(constants_for(device_named("h200"), other, records).item_us, 1.25);
  const Plan plan = choose_plan(v4_flash(), device_named("h200"), hopper_registry(), 8, {},
                                PlannerData{records, {}})
                        .value();
  EXPECT_TRUE(has(plan.reasons.back(), "experiments/0007-calibrate, run 2"));
}

TEST(Calibration, TheModelScalesWithClockTensorRateAndBandwidth) {
  const VariantTraits mma = [] {
    VariantTraits t = hopper_variant(32);
    t.isa = "mma.sync";
    return t;
  }();
  const CostConstants h200 = modelled_constants(device_named("h200"), hopper_variant(32));
  const CostConstants slow = modelled_constants(device_named("h200"), mma);
  EXPECT_GT(slow.row_head_ns, h200.row_head_ns) << "mma.sync is below wgmma's rate on Hopper";
  const CostConstants a100 = modelled_constants(device_named("a100"), mma);
  EXPECT_GT(a100.row_head_ns, slow.row_head_ns);
  EXPECT_GT(a100.row_ns, h200.row_ns);
  EXPECT_LT(a100.gather_gbps, h200.gather_gbps);
}

RC_GTEST_PROP(CalibrationProperty, AnyTextIsParsedOrRefusedWithItsLine, (const std::string& tail)) {
  const std::string text = *rc::gen::arbitrary<bool>() ? to_text(a_record()) + tail : tail;
  const auto parsed = parse_calibration(text);
  if (!parsed.ok()) RC_ASSERT(parsed.error().message.starts_with("calibration: line "));
}

}  // namespace
}  // namespace splitwave
