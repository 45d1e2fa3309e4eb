// Seeding and the normal distribution of Rng.
#include "base/random.h"

#include <cmath>

namespace splitwave {

Rng::Rng(std::uint64_t seed, std::uint64_t stream) {
  // The stream is hashed before it is mixed in: streams 0, 1, 2 of one seed must not be streams of
  // the neighbouring seeds.
  std::uint64_t x = seed;
  if (stream != 0) x ^= splitmix64(stream);
  for (std::uint64_t& word : state_) {
    word = splitmix64(x);
    x += k_splitmix64_step;
  }
}

double Rng::normal() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  double u = 0;
  double v = 0;
  double s = 0;
  do {
    u = 2 * uniform() - 1;
    v = 2 * uniform() - 1;
    s = u * u + v * v;
  } while (s >= 1 || s == 0);
  const double scale = std::sqrt(-2 * std::log(s) / s);
  spare_normal_ = v * scale;
  has_spare_normal_ = true;
  return u * scale;
}

}  // namespace splitwave
