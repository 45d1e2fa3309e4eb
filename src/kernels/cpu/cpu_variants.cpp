// Names and traits of the CPU variants.
#include "kernels/cpu/cpu_variants.h"

#include <array>
#include <string_view>

#include "base/nearest_name.h"

namespace splitwave::cpu {
namespace {

// 128 heads in one block keep q and o (2 x 256 KB) out of a 1 MB L2, yet dequantise each row once.
constexpr std::array k_block_heads = {8, 16, 32, 64, 128};

std::string variant_name(std::string_view isa, KvFormat format, int block_heads) {
  return std::string("cpu_") + name_of(format) + "_" + std::string(isa) + "_h" +
         std::to_string(block_heads);
}

bool has_variant(const DecodeKernels& kernels, KvFormat format, std::string_view name) {
  for (const int block_heads : k_block_heads) {
    if (variant_name(kernels.isa, format, block_heads) == name) return true;
  }
  return false;
}

Error refused_variant(KvFormat format, const std::string& name) {
  std::string offered;
  const KernelList& runnable = runnable_kernels();
  for (int i = 0; i < runnable.count; ++i) {
    for (const int block_heads : k_block_heads) {
      offered += (offered.empty() ? "" : ", ") +
                 variant_name(runnable.tables[i]->isa, format, block_heads);
    }
  }
  return bad_input("variant='" + name + "' cannot run format " + name_of(format) +
                   " on this processor; what works: " + offered);
}

}  // namespace

std::vector<VariantTraits> variants_of(const char* isa, const char* arithmetic, KvFormat format,
                                       int tile_rows) {
  std::vector<VariantTraits> variants;
  for (const int block_heads : k_block_heads) {
    VariantTraits traits;
    traits.name = variant_name(isa, format, block_heads);
    traits.backend = "cpu";
    traits.numerics_class =
        std::string("cpu_") + arithmetic + "_t" + std::to_string(tile_rows);
    traits.isa = isa;
    traits.format = format;
    traits.operands = OperandType::bf16;
    traits.block_heads = block_heads;
    traits.tile_rows = tile_rows;
    traits.warps = 1;
    traits.stages = 1;
    traits.threads = 1;
    traits.ctas_per_sm = 1;
    variants.push_back(std::move(traits));
  }
  return variants;
}

Expected<CpuCandidates> cpu_candidates(KvFormat format, const PlanOverrides& overrides) {
  const int tile_rows = overrides.tile_rows.value_or(k_tile_rows_default);
  if (tile_rows < k_tile_rows_min || tile_rows > k_tile_rows_max) {
    return bad_input("tile_rows=" + std::to_string(tile_rows) + ": the CPU kernels take " +
                     std::to_string(k_tile_rows_min) + ".." + std::to_string(k_tile_rows_max));
  }
  const KernelList& runnable = runnable_kernels();
  CpuCandidates made;
  made.kernels = runnable.tables[0];
  if (overrides.variant.has_value()) {
    made.kernels = nullptr;
    for (int i = 0; i < runnable.count && made.kernels == nullptr; ++i) {
      if (has_variant(*runnable.tables[i], format, *overrides.variant)) {
        made.kernels = runnable.tables[i];
      }
    }
    if (made.kernels == nullptr) return refused_variant(format, *overrides.variant);
  }
  made.traits = variants_of(made.kernels->isa, made.kernels->arithmetic, format, tile_rows);
  return made;
}

}  // namespace splitwave::cpu
