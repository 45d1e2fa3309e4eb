// Budgets of the compiled kernels, without a GPU: what ptxas recorded for every variant and target
// against tests/kernels_cuda/budgets.csv. Fails on spills, on more registers, stack or shared
// memory than the budget, on fewer CTAs an SM, and on a compiled variant that the file does not
// name. Registered only in builds with CUDA. After a change that is meant (its commit names the
// experiment): copy budgets.actual.csv, which this test writes into the build folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/registry.h"
#include "plan/devices.h"
#include "plan/eligible.h"

namespace splitwave {
namespace {

struct Budget {
  int registers = 0;
  int spill_bytes = 0;
  int stack_bytes = 0;
  int static_shared_bytes = 0;
  int dynamic_shared_bytes = 0;
  int ctas_per_sm = 0;
};
using Key = std::pair<std::string, std::string>;  // variant, target: "90" or "90a"
using Budgets = std::map<Key, Budget>;

constexpr const char* k_header =
    "variant,target,registers,spill_bytes,stack_bytes,static_shared_bytes,dynamic_shared_bytes,"
    "ctas_per_sm";

int arch_of(const std::string& target) { return std::stoi(target); }

int first_int(const std::string& line, const std::regex& pattern) {
  std::smatch found;
  return std::regex_search(line, found, pattern) ? std::stoi(found[1]) : 0;
}

// One ptxas -v report: a section a target.
void read_report(const VariantTraits& traits, const std::string& path, Budgets& budgets) {
  static const std::regex target_of("Compiling entry function .* for 'sm_([0-9]+a?)'");
  static const std::regex stack("([0-9]+) bytes stack frame");
  static const std::regex stores("([0-9]+) bytes spill stores");
  static const std::regex loads("([0-9]+) bytes spill loads");
  static const std::regex registers("Used ([0-9]+) registers");
  static const std::regex shared("([0-9]+) bytes smem");
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::string line;
  Budget* now = nullptr;
  while (std::getline(file, line)) {
    std::smatch found;
    if (std::regex_search(line, found, target_of)) {
      now = &budgets[{traits.name, found[1]}];
      now->dynamic_shared_bytes = traits.shared_bytes;
    }
    if (now == nullptr) continue;
    now->stack_bytes = std::max(now->stack_bytes, first_int(line, stack));
    now->spill_bytes += first_int(line, stores) + first_int(line, loads);
    now->registers = std::max(now->registers, first_int(line, registers));
    now->static_shared_bytes = std::max(now->static_shared_bytes, first_int(line, shared));
  }
}

// What the planner would keep on an SM of the target with the measured registers.
int residency_of(VariantTraits traits, const std::string& target, const Budget& used) {
  const DeviceSpec device = capability_limits(arch_of(target));
  traits.registers = used.registers;
  traits.shared_bytes = used.static_shared_bytes + used.dynamic_shared_bytes;
  return residency_on(device, traits);
}

Budgets compiled_budgets() {
  Budgets budgets;
  std::ifstream list(SPLITWAVE_VARIANT_REPORTS);
  EXPECT_TRUE(list) << SPLITWAVE_VARIANT_REPORTS;
  std::map<std::string, VariantTraits> traits;
  for (const VariantTraits& t : cuda::all_variants()) traits[t.name] = t;
  std::string line;
  while (std::getline(list, line)) {
    std::istringstream fields(line);
    std::string name, path;
    fields >> name;
    std::getline(fields >> std::ws, path);
    EXPECT_TRUE(traits.contains(name)) << name << " is compiled but not in the registry";
    if (traits.contains(name)) read_report(traits[name], path, budgets);
  }
  for (auto& [key, used] : budgets) {
    used.ctas_per_sm = residency_of(traits[key.first], key.second, used);
  }
  return budgets;
}

std::string row_of(const Key& key, const Budget& b) {
  std::ostringstream row;
  row << key.first << ',' << key.second << ',' << b.registers << ',' << b.spill_bytes << ','
      << b.stack_bytes << ',' << b.static_shared_bytes << ',' << b.dynamic_shared_bytes << ','
      << b.ctas_per_sm;
  return row.str();
}

Budgets checked_in_budgets() {
  Budgets budgets;
  std::ifstream file(SPLITWAVE_SOURCE_DIR "/tests/kernels_cuda/budgets.csv");
  EXPECT_TRUE(file) << "tests/kernels_cuda/budgets.csv is missing";
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, k_header);
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    std::string name, target;
    Budget b;
    fields >> name >> target >> b.registers >> b.spill_bytes >> b.stack_bytes >>
        b.static_shared_bytes >> b.dynamic_shared_bytes >> b.ctas_per_sm;
    EXPECT_FALSE(fields.fail()) << line;
    budgets[{name, target}] = b;
  }
  return budgets;
}

TEST(Budgets, EveryCompiledVariantKeepsItsBudgetOnEveryTarget) {
  const Budgets compiled = compiled_budgets();
  const Budgets budgets = checked_in_budgets();
  ASSERT_FALSE(compiled.empty());
  std::ofstream actual(SPLITWAVE_BINARY_DIR "/budgets.actual.csv");
  actual << k_header << '\n';
  for (const auto& [key, used] : compiled) {
    const std::string row = row_of(key, used);
    actual << row << '\n';
    EXPECT_EQ(used.spill_bytes, 0) << row;
    const auto budget = budgets.find(key);
    if (budget == budgets.end()) {
      ADD_FAILURE() << "no budget for " << row;
      continue;
    }
    const Budget& b = budget->second;
    EXPECT_LE(used.registers, b.registers) << row;
    EXPECT_LE(used.stack_bytes, b.stack_bytes) << row;
    EXPECT_LE(used.static_shared_bytes, b.static_shared_bytes) << row;
    EXPECT_LE(used.dynamic_shared_bytes, b.dynamic_shared_bytes) << row;
    EXPECT_GE(used.ctas_per_sm, b.ctas_per_sm) << row;
  }
}

TEST(Budgets, EveryTargetOfEveryVariantHasABudgetThatSpillsNothing) {
  const Budgets budgets = checked_in_budgets();
  for (const VariantTraits& t : cuda::all_variants()) {
    for (const int arch : t.archs) {
      const bool is_wgmma = t.isa == "wgmma";
      const Key key{t.name, std::to_string(arch) + (is_wgmma ? "a" : "")};
      const auto budget = budgets.find(key);
      ASSERT_NE(budget, budgets.end()) << key.first << " on " << key.second;
      EXPECT_EQ(budget->second.spill_bytes, 0) << key.first << " on " << key.second;
      EXPECT_EQ(budget->second.dynamic_shared_bytes, t.shared_bytes)
          << key.first << " on " << key.second;
      EXPECT_EQ(budget->second.ctas_per_sm, t.ctas_per_sm) << key.first << " on " << key.second;
    }
  }
}

}  // namespace
}  // namespace splitwave
