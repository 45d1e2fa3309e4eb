// Seeded random numbers that are the same on every machine. Owns Rng: xoshiro256++ (Blackman and
// Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47(4), 2021), seeded by
// splitmix64. The standard library's engines are portable but its distributions are not, so
// schedules, bootstraps and workloads that must replay from a seed use this. Not for secrets.
// Called by every layer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace splitwave {

// One step of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
// OOPSLA 2014) from state x: a hash of x, and, with x advanced by k_splitmix64_step, the next draw.
inline constexpr std::uint64_t k_splitmix64_step = 0x9E3779B97F4A7C15U;
[[nodiscard]] constexpr std::uint64_t splitmix64(std::uint64_t x) {
  std::uint64_t z = x + k_splitmix64_step;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : Rng(seed, 0) {}
  // An independent stream of the same seed: a round, a session, a bootstrap replicate.
  Rng(std::uint64_t seed, std::uint64_t stream);

  std::uint64_t next() {
    const std::uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  // In [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // In [0, bound) without bias (Lemire, "Fast random integer generation in an interval", 2019).
  // bound must be positive.
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = (next() >> 32) * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0U - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold) product = (next() >> 32) * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  // Standard normal, by Marsaglia's polar method. The last bit may follow the C library's log().
  double normal();

  // Fisher-Yates.
  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[below(static_cast<std::uint32_t>(i))]);
    }
  }

 private:
  static std::uint64_t rotate(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  std::array<std::uint64_t, 4> state_;
  double spare_normal_ = 0;
  bool has_spare_normal_ = false;
};

}  // namespace splitwave
