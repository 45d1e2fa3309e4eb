// Traits from the families' configuration aggregates.
#include "kernels/cuda/registry.h"

#include <string>

#include "kernels/cuda/portable/variants.h"

namespace splitwave::cuda {
namespace {

const char* format_prefix(KvFormat format) { return format == KvFormat::v4 ? "v4" : "v32"; }

VariantTraits traits_of(const PortableShape& shape) {
  const PortableConfig& c = shape.config;
  VariantTraits t;
  t.name = c.name;
  t.backend = "cuda";
  t.numerics_class =
      std::string(format_prefix(c.format)) + "_mma_tile" + std::to_string(shape.tile_rows);
  t.isa = "mma.sync";
  t.format = c.format;
  t.operands = OperandType::bf16;
  for (const int arch : c.archs) {
    if (arch != 0) t.archs.push_back(arch);
  }
  t.block_heads = c.block_heads;
  t.tile_rows = shape.tile_rows;
  t.warps = shape.warps;
  t.stages = c.stages;
  t.threads = shape.threads;
  t.registers = shape.registers;
  t.shared_bytes = shape.smem.bytes;
  t.ctas_per_sm = c.ctas_per_sm;
  t.is_experiment_arm = c.is_experiment_arm;
  return t;
}

void append_portable(std::vector<VariantTraits>& traits) {
  for (const PortableShape& shape : k_portable_shapes) traits.push_back(traits_of(shape));
}

}  // namespace

std::vector<VariantTraits> all_variants() {
  std::vector<VariantTraits> traits;
  append_portable(traits);
  return traits;
}

}  // namespace splitwave::cuda
