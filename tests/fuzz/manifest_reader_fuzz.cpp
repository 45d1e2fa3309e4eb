// Fuzzes the readers of plans: experiment.toml and the sealed form. Any bytes give a plan within
// the named limits, or an error; a sealed plan that is accepted is written back byte for byte.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/sha256.h"
#include "experiment/manifest.h"
#include "experiment/seal.h"

namespace {

using namespace splitwave;
using namespace splitwave::experiment;

void check_manifest(std::string_view text) {
  const auto m = parse_manifest(text, "e.toml", "0000-fuzz");
  if (!m.ok()) {
    SPLITWAVE_CHECK(m.error().message.rfind("e.toml:", 0) == 0, "an error without file and line");
    return;
  }
  SPLITWAVE_CHECK(m->run.arms.size() >= 2 && m->run.arms.size() <= k_arms_max, "arms");
  SPLITWAVE_CHECK(!m->run.points.empty() && m->run.points.size() <= k_points_max, "points");
  SPLITWAVE_CHECK(m->run.rows_max() <= k_concurrency_max, "concurrency");
  SPLITWAVE_CHECK(m->run.stopping.rounds_min <= m->run.stopping.rounds, "rounds");
}

void check_sealed(std::string_view text) {
  const auto plan = unseal(text);
  if (!plan.ok()) return;
  SPLITWAVE_CHECK(plan->run.arms.size() <= k_arms_max, "arms");
  for (const PointSpec& p : plan->run.points) {
    SPLITWAVE_CHECK(p.batches.size() <= k_batches_max, "batches");
    for (const Batch& b : p.batches) {
      SPLITWAVE_CHECK(static_cast<int>(b.contexts.size()) == p.concurrency, "contexts");
    }
  }
  const auto again = unseal(seal(plan->identity, plan->run));
  SPLITWAVE_CHECK(again.ok() && again->run == plan->run, "a round trip");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_manifest(text);
  // The hash alone would keep the fuzzer out: it is made right.
  std::string sealed(text);
  if (sealed.empty() || sealed.back() != '\n') sealed += '\n';
  check_sealed(sealed + "sha256 " + sha256_hex(sealed) + "\n");
  return 0;
}
