// What all operator cases share: host memory, comparison, random data.
#include "runtime/ops_cases.h"

#include <cmath>
#include <numbers>

#include "base/random.h"
#include "formats/bf16.h"

namespace splitwave {
namespace {

class HostMemory final : public OpsMemory {
 public:
  Expected<std::uint8_t*> to_backend(OpsArena& arena) override { return arena.data(); }
  Status from_backend(OpsArena& /*arena*/) override { return {}; }
};

}  // namespace

std::unique_ptr<OpsMemory> make_host_memory() { return std::make_unique<HostMemory>(); }

std::string describe(const OpsCase& one) {
  std::string text = one.op;
  for (const auto& [name, value] : one.dimensions) text += " " + name + "=" + value;
  return text;
}

std::string first_difference(const OpsArena& got, const OpsArena& want) {
  const std::uint8_t* a = got.data();
  const std::uint8_t* b = want.data();
  if (std::memcmp(a, b, want.used_bytes()) == 0) return {};
  std::size_t at = 0;
  while (a[at] == b[at]) ++at;
  return "byte " + std::to_string(at) + " of " + std::to_string(want.used_bytes()) +
         " of the arena: got " + std::to_string(a[at]) + ", want " + std::to_string(b[at]);
}

std::uint64_t CaseRandom::bits() {
  const std::uint64_t drawn = splitmix64(state_);
  state_ += k_splitmix64_step;
  return drawn;
}

float CaseRandom::normal() {
  const double u = uniform() + 0x1p-54;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) *
                            std::cos(2 * std::numbers::pi * uniform()));
}

std::vector<float> CaseRandom::floats(std::size_t count, double scale) {
  std::vector<float> out(count);
  for (float& x : out) x = static_cast<float>(normal() * scale);
  return out;
}

std::vector<std::uint16_t> CaseRandom::bf16s(std::size_t count, double scale) {
  std::vector<std::uint16_t> out(count);
  for (std::uint16_t& x : out) x = float_to_bf16(static_cast<float>(normal() * scale));
  return out;
}

std::vector<OpsCase> all_ops_cases(bool full) {
  std::vector<OpsCase> all;
  for (auto* cases :
       {indexer_cases, topk_cases, select_cases, cache_write_cases, compressor_cases}) {
    for (OpsCase& one : cases(full)) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace splitwave
