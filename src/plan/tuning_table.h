// The tuning table: what paired measurements decided, compiled in from the reviewed
// src/plan/tuning_table.json (scripts/cmake/tuning_table.cmake). Owns the entry types and the one
// rule for using them: a measured batch keeps its verdict, an unmeasured one keeps the incumbent
// unless both measured neighbours and the model agree, ties go to the incumbent. Called by the
// planner; filled by src/tune through review, never at run time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "splitwave/layout.h"
#include "splitwave/problem.h"

namespace splitwave {

// One batch, measured in interleaved pairs against the incumbent.
struct TuningPoint {
  int batch = 0;
  std::string_view winner;  // a variant; the incumbent when nothing beat it
  double winner_us = 0;
  double incumbent_us = 0;
  // The paired interval lies beyond the least effect that matters: otherwise a tie, and kept.
  bool is_win = false;
};

// One problem on one device.
struct TuningSeries {
  std::string_view device;  // the device table's key, or the product's name
  KvFormat format = KvFormat::v4;
  OperandType operands = OperandType::bf16;
  NumericsClass numerics = NumericsClass::throughput;
  int heads = 0;
  int main_width = 0;
  int extra_width = 0;
  std::string_view row_lengths;  // "full": every row as long as its widths; else the trace's name
  std::string_view incumbent;    // the variant that is deployed
  std::string_view provenance;   // the experiment's record
  std::span<const TuningPoint> points;  // by ascending batch
};

// The table of this build. May be empty.
[[nodiscard]] std::span<const TuningSeries> built_in_tuning();

struct TuningDecision {
  std::string_view variant;
  bool is_measured = false;  // this very batch
  double measured_us = 0;    // of `variant`, when is_measured
  std::string reason;
};

// model_prefers(challenger): whether the model predicts the challenger faster than the incumbent at
// this batch by more than its own tie.
[[nodiscard]] TuningDecision decide_tuned(
    const TuningSeries& series, int batch,
    const std::function<bool(std::string_view challenger)>& model_prefers);

}  // namespace splitwave
