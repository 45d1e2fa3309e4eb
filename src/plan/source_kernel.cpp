// Numbers from tests/data/occupancy-golden.json, each with its derivation.
#include "plan/source_kernel.h"

namespace splitwave {
namespace {

// The accumulator alone is 32 x 576 floats over 128 threads = 144 registers; 168 leaves 24 for the
// rest. By registers three CTAs fit an SM: shared memory is what binds.
constexpr int k_registers = 168;
constexpr int k_shared_bytes = 80 * 1024;

// The step's marginal cost: 0.79 ms a request are attention, over the 43 layers of V4-Flash 18.4 us
// a call and request. At 512 target CTAs 32 more requests (64 -> 96) lengthen the schedule from 3
// waves of 160 rows to 4 of 214, 374 rows: 18.4 * 32 / 374 = 1.57 us a row of one item.
constexpr double k_row_ns = 1570;
// An item's own cost, in rows. 512 -> 768 changed the step by +4.5 ms at 64 requests and by -3.6 ms
// at 96. Eight rows give 5 * (107 + 8) - 3 * (160 + 8) = +71 rows = +4.8 ms and
// 5 * (160 + 8) - 4 * (214 + 8) = -48 rows = -3.2 ms over 43 layers.
constexpr double k_item_rows = 8;

}  // namespace

VariantTraits source_kernel_traits(KvFormat format) {
  VariantTraits traits;
  traits.name = "source_n32_w4";
  traits.backend = "cuda";
  traits.numerics_class = k_source_kernel_class;
  traits.isa = "mma.sync";
  traits.format = format;
  traits.archs = {80, 90, 100, 120};
  traits.block_heads = 32;
  traits.tile_rows = 32;
  traits.warps = 4;
  traits.stages = 2;
  traits.threads = 128;
  traits.registers = k_registers;
  traits.shared_bytes = k_shared_bytes;
  traits.ctas_per_sm = 1;
  return traits;
}

CalibrationRecord source_kernel_calibration() {
  CalibrationRecord record;
  record.numerics_class = k_source_kernel_class;
  CostConstants& c = record.constants;
  c.item_us = k_item_rows * k_row_ns / 1000.0;
  c.row_ns = k_row_ns;
  // Latency-bound gathers (97 % SM busy, 27 % memory controller): entries cost, not tiles.
  c.charges_whole_tiles = false;
  c.provenance = Provenance::modelled;
  c.source =
      "modelled: fitted to the source's published step times on an RTX PRO 6000, not measured here";
  return record;
}

}  // namespace splitwave
