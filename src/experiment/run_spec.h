// What the runner executes, as plain data: arms, streams, points with their batches, and every rule
// of the analysis. Owns RunSpec; it is complete, so that a sealed plan needs neither TOML, nor the
// trace, nor git. Made by resolve (manifest.h), written and read by seal.h, analysed by verdict.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiment/streams.h"
#include "splitwave/problem.h"

namespace splitwave::experiment {

inline constexpr int k_arms_max = 16;
inline constexpr int k_points_max = 64;
inline constexpr int k_rounds_max = 100'000;
inline constexpr int k_batches_max = 64;

// One decode step's batch: the tokens in context of each slot, the one being decoded included.
struct Batch {
  std::vector<int> contexts;
  bool operator==(const Batch&) const = default;
};

// A fault put into an arm on purpose, to show that the protocol catches it.
enum class Planted : std::uint8_t {
  none,
  slow,      // every call takes planted_percent longer
  flip_bit,  // one bit of one row of one call
  drop_key,  // one key of one row and head, in every call
};

struct ArmSpec {
  std::string name;
  std::string plan;  // SPLITWAVE_PLAN's text; empty: the planner's choice
  Planted planted = Planted::none;
  double planted_percent = 0;
  bool operator==(const ArmSpec&) const = default;
};

struct PointSpec {
  int concurrency = 0;
  double weight = 0;  // of the load mix; the weights sum to 1
  std::vector<Batch> batches;
  bool operator==(const PointSpec&) const = default;
};

enum class Locality : std::uint8_t { random_pages, contiguous, shared };
enum class CacheState : std::uint8_t { cold, warm };
enum class Execution : std::uint8_t { eager, graph };
enum class StopRule : std::uint8_t { fixed, anytime };

struct Stopping {
  StopRule rule = StopRule::fixed;
  int rounds = 0;      // fixed: how many; anytime: at most
  int rounds_min = 0;  // anytime: before the first look
  double alpha = 0.05;
  bool operator==(const Stopping&) const = default;
};

struct Analysis {
  bool trimmed = true;  // location of the rounds: 20 % trimmed mean, else the mean
  int resamples = 4'000;
  std::uint64_t seed = 1;
  double clock_band = 0.05;  // a round whose clock is further from the median is dropped
  double minimum_effect = 0.02;
  bool operator==(const Analysis&) const = default;
};

struct GateChoice {
  bool invariance =
      true;              // exact arms: a row alone = in its batch = in the reversed batch, bitwise
  bool accuracy = true;  // every row and head within the contract of the double reference
  bool repeat = true;    // the same call twice, bitwise
  bool operator==(const GateChoice&) const = default;
};

struct RunSpec {
  std::string slug;
  std::string backend = "auto";  // auto, cpu, cuda
  int threads = 0;               // CPU workers; 0: the environment's choice
  std::string model;
  KvFormat format = KvFormat::v4;
  int heads = 0;
  int main_page_size = 64;
  int extra_page_size = 64;
  Locality locality = Locality::random_pages;
  CacheState cache = CacheState::cold;
  Execution execution = Execution::eager;
  std::uint64_t seed = 1;       // of schedule, indices and values
  double sample_us_min = 2000;  // a sample repeats its calls until it takes about this long
  std::vector<Stream> streams;
  std::vector<ArmSpec> arms;      // the incumbent first
  std::vector<PointSpec> points;  // concurrency ascends
  Stopping stopping;
  Analysis analysis;
  GateChoice gates;
  bool operator==(const RunSpec&) const = default;

  [[nodiscard]] int rows_max() const { return points.empty() ? 0 : points.back().concurrency; }
};

[[nodiscard]] constexpr const char* name_of(Planted p) {
  constexpr const char* k_names[] = {"none", "slow", "flip_bit", "drop_key"};
  return k_names[static_cast<int>(p)];
}
[[nodiscard]] constexpr const char* name_of(Locality l) {
  constexpr const char* k_names[] = {"random_pages", "contiguous", "shared"};
  return k_names[static_cast<int>(l)];
}
[[nodiscard]] constexpr const char* name_of(CacheState c) {
  return c == CacheState::cold ? "cold" : "warm";
}
[[nodiscard]] constexpr const char* name_of(Execution e) {
  return e == Execution::eager ? "eager" : "graph";
}
[[nodiscard]] constexpr const char* name_of(StopRule r) {
  return r == StopRule::fixed ? "fixed" : "anytime";
}

}  // namespace splitwave::experiment
