// The CUDA registry's budgets, without a GPU: residency on the devices that a variant is for, and
// the bounds that the work decomposition promises.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/common/params.h"
#include "kernels/cuda/registry.h"
#include "plan/devices.h"
#include "plan/eligible.h"
#include "plan/pieces.h"

namespace splitwave {
namespace {

VariantTraits variant(const std::string& name) {
  for (const VariantTraits& t : cuda::all_variants()) {
    if (t.name == name) return t;
  }
  ADD_FAILURE() << name << " is not in the registry";
  return {};
}

TEST(CudaRegistry, EveryVariantHasItsDesignedResidencyOnEveryTarget) {
  for (const VariantTraits& t : cuda::all_variants()) {
    ASSERT_FALSE(t.archs.empty()) << t.name;
    for (const int arch : t.archs) {
      DeviceSpec device = capability_limits(arch);
      ASSERT_NE(device.arch, 0) << arch;
      EXPECT_EQ(residency_on(device, t), t.ctas_per_sm) << t.name << " on sm_" << arch;
    }
  }
}

TEST(CudaRegistry, TwoCtasOfTheSmallVariantShareAnSmOfSm120) {
  const VariantTraits t = variant("v4_mma_n8_s49");
  EXPECT_EQ(residency_on(capability_limits(120), t), 2);
  EXPECT_LE(t.shared_bytes, 49 * 1024);
  EXPECT_LE(t.registers, 128);
}

TEST(CudaRegistry, NamesAreUniqueAndAtMost24Ship) {
  std::set<std::string> names;
  int shipped = 0;
  for (const VariantTraits& t : cuda::all_variants()) {
    EXPECT_TRUE(names.insert(t.name).second) << t.name;
    if (!t.is_experiment_arm) ++shipped;
  }
  EXPECT_LE(shipped, 24);
}

std::string default_class(KvFormat format, NumericsClass numerics, int arch) {
  ProblemSpec spec;
  spec.format = format;
  spec.heads = 64;
  spec.main_width = 128;
  spec.numerics = numerics;
  const std::vector<VariantTraits> all = cuda::all_variants();
  const auto found = eligible_variants(spec, capability_limits(arch), all, {});
  return found.ok() ? found->numerics_class : found.error().message;
}

TEST(CudaRegistry, HopperPrefersWgmmaForV4ThroughputOnly) {
  EXPECT_EQ(default_class(KvFormat::v4, NumericsClass::throughput, 90), "v4_wgmma_block64");
  // Its partials would cost a launch.
  EXPECT_EQ(default_class(KvFormat::v4, NumericsClass::latency, 90), "v4_mma_tile64");
  // Its weights of one term miss the contract's accuracy.
  EXPECT_EQ(default_class(KvFormat::v32, NumericsClass::throughput, 90), "v32_mma_tile64");
  EXPECT_EQ(default_class(KvFormat::v4, NumericsClass::throughput, 120), "v4_mma_tile64");
}

TEST(CudaRegistry, AClusterTakesItsCtasFromTheItemsAtOnce) {
  DeviceSpec device = capability_limits(90);
  device.sm_count = 132;
  EXPECT_EQ(items_at_once(device, variant("v4_wgmma_n64")), 132);
  EXPECT_EQ(items_at_once(device, variant("v4_wgmma_n16_c2")), 66);
  EXPECT_EQ(items_at_once(device, variant("v4_wgmma_n32_c4")), 30);
}

TEST(CudaParams, ThePageDivisorIsExact) {
  for (const std::uint32_t size : {1U, 2U, 3U, 32U, 53U, 61U, 64U, 69U, 256U, 576U, 2147483647U}) {
    const cuda::PageDivisor d = cuda::make_page_divisor(size);
    for (const std::uint64_t page : {0ULL, 1ULL, 2ULL, 7ULL, 2147483647ULL / size}) {
      for (const int offset : {-1, 0, 1}) {
        const std::int64_t slot = static_cast<std::int64_t>(page * size) + offset;
        if (slot < 0 || slot > 2147483647) continue;
        const auto s = static_cast<std::uint64_t>(slot);
        EXPECT_EQ((s * d.multiplier) >> d.shift, s / size) << slot << " / " << size;
      }
    }
  }
}

TEST(Pieces, EveryChunkIsInOnePieceAndStoredOnce) {
  for (int chunks = 1; chunks <= 40; ++chunks) {
    for (int piece = 1; piece <= chunks; ++piece) {
      const PieceCut cut = cut_into(chunks, piece);
      EXPECT_GE(cut.pieces * cut.piece_chunks, chunks);
      EXPECT_LT((cut.pieces - 1) * cut.piece_chunks, chunks);
      EXPECT_EQ(cut.stored, cut.pieces == 1 ? 0 : 1 + chunks - cut.piece_chunks);
    }
  }
}

TEST(Pieces, StoredPartialsAreBoundedByTheMachineNotByRows) {
  EXPECT_EQ(scheduled_partials_max(1 << 12, 33, 132), scheduled_partials_max(1 << 20, 33, 132));
  EXPECT_EQ(scheduled_partials_max(1 << 20, 1, 132), 0);
}

}  // namespace
}  // namespace splitwave
