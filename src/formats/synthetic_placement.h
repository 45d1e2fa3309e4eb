// Where the tokens of a synthetic pool lie. Owns the permutations; used by synthetic.cpp alone.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/random.h"
#include "formats/synthetic.h"

namespace splitwave {

// Where token t of a pool lies.
class Placer {
 public:
  Placer(const SyntheticCache& cache, std::int64_t pages, std::uint64_t seed)
      : kind_(cache.placement), page_size_(cache.page_size), tokens_(pages * cache.page_size) {
    Rng random(seed);
    if (kind_ == Placement::pages_permuted) {
      page_.resize(static_cast<std::size_t>(pages));
      std::iota(page_.begin(), page_.end(), 0);
      for (std::size_t i = page_.size(); i > 1; --i)
        std::swap(page_[i - 1], page_[random.below(static_cast<std::uint32_t>(i))]);
    } else if (kind_ == Placement::scattered) {
      // t -> (t * step + shift) mod tokens is a permutation when step and tokens share no factor.
      const auto n = static_cast<std::uint64_t>(tokens_);
      step_ = n < 3 ? 1 : n * 618 / 1000 + random.below(static_cast<std::uint32_t>(n / 8 + 1));
      while (std::gcd(step_, n) != 1) ++step_;
      shift_ = random.below(static_cast<std::uint32_t>(n));
    }
  }
  [[nodiscard]] std::int32_t slot(std::int64_t token) const {
    if (kind_ == Placement::pages_permuted) {
      const std::int64_t page = page_[static_cast<std::size_t>(token / page_size_)];
      return static_cast<std::int32_t>(page * page_size_ + token % page_size_);
    }
    if (kind_ == Placement::scattered) {
      const auto n = static_cast<std::uint64_t>(tokens_);
      return static_cast<std::int32_t>((static_cast<std::uint64_t>(token) * step_ + shift_) % n);
    }
    return static_cast<std::int32_t>(token);
  }

 private:
  Placement kind_;
  std::int64_t page_size_, tokens_;
  std::vector<std::int64_t> page_;
  std::uint64_t step_ = 1, shift_ = 0;
};

}  // namespace splitwave
