// Covering designs: few assignments in which every pair of levels of any two factors occurs. Owns
// the greedy construction (in the manner of Cohen, Dalal, Fredman and Patton's AETG, 1997); knows
// nothing of decode problems. Called by the contract suite, which has too many dimensions to cross.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace splitwave {

using Assignment = std::vector<int>;  // one level a factor

struct CoveringRequest {
  std::vector<int> levels;  // of each factor, at least 1
  // Assignments that may be used. Most must be allowed: they are drawn at random.
  std::function<bool(const Assignment&)> is_allowed;
  // What an assignment costs; among equals the cheap one is taken.
  std::function<double(const Assignment&)> cost;
  std::uint64_t seed = 1;
};

struct Covering {
  std::vector<Assignment> assignments;
  std::int64_t pairs = 0;            // of levels of two factors
  std::int64_t pairs_uncovered = 0;  // no allowed assignment was found for them
};

// Every pair that an allowed assignment can be found for.
[[nodiscard]] Covering cover_pairs(const CoveringRequest& request);

// `count` more assignments, distinct from each other and from `taken`, drawn from the allowed ones
// so that every pair is used about equally often. May give fewer.
[[nodiscard]] std::vector<Assignment> spread_pairs(const CoveringRequest& request,
                                                   std::span<const Assignment> taken, int count);

}  // namespace splitwave
