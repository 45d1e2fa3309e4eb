// Seeded random data of the operator tests: the same on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "formats/bf16.h"

namespace splitwave::testing_ops {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::uint64_t bits() {  // splitmix64
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  int below(int n) { return static_cast<int>(bits() % static_cast<std::uint64_t>(n)); }
  double normal() {
    const double u = uniform() + 0x1p-54;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

inline std::vector<float> normal_floats(Random& random, std::size_t count, double scale = 1) {
  std::vector<float> out(count);
  for (auto& x : out) x = static_cast<float>(random.normal() * scale);
  return out;
}
inline std::vector<std::uint16_t> normal_bf16(Random& random, std::size_t count, double scale = 1) {
  std::vector<std::uint16_t> out(count);
  for (auto& x : out) x = float_to_bf16(static_cast<float>(random.normal() * scale));
  return out;
}

}  // namespace splitwave::testing_ops
