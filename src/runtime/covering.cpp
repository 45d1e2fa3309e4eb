// The greedy: seed an assignment with a pair that is missing, draw the rest a few times, keep the
// draw that covers most for its cost.
#include "runtime/covering.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace splitwave {
namespace {

constexpr int k_candidates = 24;         // draws that compete for one place
constexpr int k_draws_a_pair_max = 400;  // before a pair is given up

// How often each pair of levels has been used. Pairs are numbered factor by factor.
class PairCounts {
 public:
  explicit PairCounts(std::span<const int> levels) : levels_(levels.begin(), levels.end()) {
    offsets_.resize(levels_.size() * levels_.size(), 0);
    std::size_t next = 0;
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      for (std::size_t j = i + 1; j < levels_.size(); ++j) {
        offsets_[i * levels_.size() + j] = next;
        next += static_cast<std::size_t>(levels_[i]) * static_cast<std::size_t>(levels_[j]);
      }
    }
    counts_.assign(next, 0);
  }
  [[nodiscard]] int& at(std::size_t i, int a, std::size_t j, int b) {
    return counts_[offsets_[i * levels_.size() + j] +
                   static_cast<std::size_t>(a) * static_cast<std::size_t>(levels_[j]) +
                   static_cast<std::size_t>(b)];
  }
  template <class Visit>
  void for_each_pair(const Assignment& assignment, Visit visit) {
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      for (std::size_t j = i + 1; j < levels_.size(); ++j)
        visit(at(i, assignment[i], j, assignment[j]));
    }
  }
  void use(const Assignment& assignment) {
    for_each_pair(assignment, [](int& count) { ++count; });
  }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(counts_.size()); }

 private:
  std::vector<int> levels_;
  std::vector<std::size_t> offsets_;
  std::vector<int> counts_;
};

Assignment draw(const CoveringRequest& request, Rng& random) {
  Assignment assignment(request.levels.size());
  for (std::size_t i = 0; i < assignment.size(); ++i) {
    assignment[i] = static_cast<int>(random.below(static_cast<std::uint32_t>(request.levels[i])));
  }
  return assignment;
}

// The best of the allowed draws that hold level a of factor i and level b of factor j; empty if
// none.
Assignment best_with_pair(const CoveringRequest& request, PairCounts& counts, Rng& random,
                          std::size_t i, int a, std::size_t j, int b) {
  Assignment best;
  double best_score = 0;
  int candidates = 0;
  for (int tries = 0; tries < k_draws_a_pair_max && candidates < k_candidates; ++tries) {
    Assignment assignment = draw(request, random);
    assignment[i] = a;
    assignment[j] = b;
    if (!request.is_allowed(assignment)) continue;
    ++candidates;
    int missing = 0;
    counts.for_each_pair(assignment, [&](const int& count) { missing += count == 0 ? 1 : 0; });
    const double score = missing / (1.0 + request.cost(assignment));
    if (best.empty() || score > best_score) {
      best = std::move(assignment);
      best_score = score;
    }
  }
  return best;
}

}  // namespace

Covering cover_pairs(const CoveringRequest& request) {
  SPLITWAVE_CHECK(std::ranges::all_of(request.levels, [](int n) { return n >= 1; }),
                  "a factor needs a level");
  PairCounts counts(request.levels);
  Rng random(request.seed);
  Covering result;
  result.pairs = counts.size();
  for (std::size_t i = 0; i < request.levels.size(); ++i) {
    for (std::size_t j = i + 1; j < request.levels.size(); ++j) {
      for (int a = 0; a < request.levels[i]; ++a) {
        for (int b = 0; b < request.levels[j]; ++b) {
          if (counts.at(i, a, j, b) != 0) continue;
          Assignment best = best_with_pair(request, counts, random, i, a, j, b);
          if (best.empty()) {
            ++result.pairs_uncovered;
            continue;
          }
          counts.use(best);
          result.assignments.push_back(std::move(best));
        }
      }
    }
  }
  return result;
}

std::vector<Assignment> spread_pairs(const CoveringRequest& request,
                                     std::span<const Assignment> taken, int count) {
  PairCounts counts(request.levels);
  for (const Assignment& assignment : taken) counts.use(assignment);
  std::set<Assignment> used(taken.begin(), taken.end());
  Rng random(request.seed, 1);
  std::vector<Assignment> result;
  for (int n = 0; n < count; ++n) {
    Assignment best;
    double best_score = 0;
    int candidates = 0;
    for (int tries = 0; tries < k_draws_a_pair_max && candidates < k_candidates; ++tries) {
      Assignment assignment = draw(request, random);
      if (!request.is_allowed(assignment) || used.contains(assignment)) continue;
      ++candidates;
      double score = 0;  // rare pairs weigh more
      counts.for_each_pair(assignment, [&](const int& uses) { score += 1.0 / (1 + uses); });
      score /= 1.0 + request.cost(assignment);
      if (best.empty() || score > best_score) {
        best = std::move(assignment);
        best_score = score;
      }
    }
    if (best.empty()) break;
    counts.use(best);
    used.insert(best);
    result.push_back(std::move(best));
  }
  return result;
}

}  // namespace splitwave
