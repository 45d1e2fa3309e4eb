// Slots, their names and their cost.
#include "experiment/schedule.h"

#include "base/check.h"

namespace splitwave::experiment {

Schedule make_schedule(const RunSpec& run, const std::vector<std::uint8_t>& arm_ended) {
  Schedule schedule;
  const int slots = slot_count(static_cast<int>(run.arms.size()));
  for (int slot = 0; slot < slots; ++slot) {
    const auto arm = static_cast<std::size_t>(arm_of_slot(slot));
    if (arm_ended.empty() || arm_ended[arm] == 0) schedule.slots.push_back(slot);
  }
  schedule.order.arms = static_cast<int>(schedule.slots.size());
  schedule.order.points = static_cast<int>(run.points.size());
  schedule.order.rounds = run.stopping.rounds;
  schedule.order.seed = run.seed;
  return schedule;
}

std::string describe_round(const RunSpec& run, const Schedule& schedule, int round) {
  std::string text = "round " + std::to_string(round) + ":";
  int point = -1;
  bool is_mirrored = false;
  for (const measure::Visit& visit : measure::round_order(schedule.order, round)) {
    if (visit.point != point) {
      const PointSpec& p = run.points[static_cast<std::size_t>(visit.point)];
      text += (point < 0 ? " C" : "; C") + std::to_string(p.concurrency) + ":";
    } else if (visit.mirrored && !is_mirrored) {
      text += " |";
    }
    point = visit.point;
    is_mirrored = visit.mirrored;
    const int slot = schedule.slots[static_cast<std::size_t>(visit.arm)];
    text += slot == 1 ? " A/A" : " " + run.arms[static_cast<std::size_t>(arm_of_slot(slot))].name;
  }
  return text;
}

double rounds_cost_s(const RunSpec& run, const Schedule& schedule,
                     const std::vector<double>& sample_us) {
  SPLITWAVE_CHECK(sample_us.size() == run.points.size(), "one sample time a point");
  double round_us = 0;
  for (const double us : sample_us) round_us += us * 2 * static_cast<double>(schedule.slots.size());
  return round_us * 1e-6 * run.stopping.rounds;
}

}  // namespace splitwave::experiment
