// The portable family's configuration. Owns PortableConfig (what a variant chooses) and everything
// that follows from it: tile, threads, the shared-memory plan. Standard library only: the registry
// publishes the same numbers that the kernel is compiled with.
//
// A CTA attends block_heads heads of one row. Warps have roles, so that the gather, QK and PV of
// different tiles run at the same time:
//   qk_warps        S^T = K Q^T of 16-token tiles, softmax, P and scales to shared memory
//   pv_warps        O^T += V^T P, 512 / pv_warps dims each
//   producer_warps  cp.async of raw cache rows into a ring of stages
// K and V^T are the A operand of mma.sync, converted in registers from the raw fp8 rows; heads are
// the N side, so 8 heads cost 8 heads.
#pragma once

#include <array>

#include "splitwave/layout.h"

namespace splitwave::cuda {

inline constexpr int k_archs_max = 6;

struct PortableConfig {
  const char* name = "";
  KvFormat format = KvFormat::v4;
  int block_heads = 16;    // N: 8, 16 or 32
  int qk_warps = 4;
  int qk_tiles = 1;        // 16-token tiles of one QK warp
  int pv_warps = 8;        // 2, 4 or 8
  int producer_warps = 4;  // 1, 2 or 4
  int stage_rows = 32;     // cache rows of one ring stage, a multiple of 16
  int stages = 8;
  int ctas_per_sm = 1;
  bool is_experiment_arm = false;
  std::array<int, k_archs_max> archs = {};  // zero-terminated
};

// Bytes of a raw row in the ring.
//   V4:   [0, 576) data row, [576, 584) scale row, [584, 592) pad: 592 = 148 words = 20 mod 32
//   banks V3.2: [0, 656) the interleaved row: 656 = 164 words = 4 mod 32 banks
// Both give 8 rows 8 different multiples of 4 banks, so that the QK reads (2 rows x 64 B a quarter
// warp) and the PV reads (4 rows x 32 B a half warp) meet no bank twice with k_qk_row below.
[[nodiscard]] consteval int ring_row_bytes(KvFormat format) {
  return format == KvFormat::v4 ? 592 : 656;
}
inline constexpr int k_ring_scale_offset_bytes = 576;  // V4

// bf16 terms that make one weight P. One rounding is off by up to 2^-8: with V3.2's free scales one
// key of weight below 1 can carry a whole row, which then misses the contract's 4e-3 a row (0.0047
// found). Its rounding error as a second term leaves 2^-17.
[[nodiscard]] consteval int p_parts(KvFormat format) { return format == KvFormat::v4 ? 1 : 2; }

// Where a consumer finds everything in dynamic shared memory. Offsets in bytes.
struct PortableSmem {
  int ring = 0;       // raw rows: [stages][stage_rows][ring_row_bytes]
  int q = 0;          // [groups of 64 dims][8 matrices of 8 dims][block_heads][8] f16 or bf16
  int p = 0;          // [2][p_parts][tile][block_heads] bf16, 16-byte chunks swizzled
  int scale = 0;      // V4: [2][8 groups][tile] e8m0 bytes, in the order of the PV fragment
  int alpha = 0;      // [2][block_heads] f32: what O is rescaled by before the tile
  int max = 0;        // [2][qk_warps][block_heads] f32, then the running maxima [2][block_heads]
  int sum = 0;        // [tile / 16][block_heads] f32
  int running = 0;    // [block_heads] float2: m, l of the chunks folded so far
  int factor = 0;     // [block_heads] f32: score = factor * S
  int stats = 0;      // [2][block_heads] float4: previous' weight, chunk's weight, 1 / denominator
  int valid = 0;      // [stages][producer_warps] u32: bit r: row r of the warp's part is valid
  int info = 0;       // [2] Item
  int barriers = 0;   // u64, see PortableBarriers
  int bytes = 0;
};

// mbarriers, in this order. Who arrives -> who waits:
//   ring_full[stages]   producers' copies -> QK (PV follows through p_full)
//   ring_empty[stages]  PV warps -> producers
//   p_full[2]           QK warps -> PV      p_empty[2]      PV warps -> QK
//   stats_full[2]       one QK warp -> PV   stats_empty[2]  PV warps -> that QK warp
//   info_full[2]        producer warp 0 -> everyone;  info_empty[2]  everyone -> producer warp 0
struct PortableBarriers {
  int ring_full = 0, ring_empty = 0, p_full = 0, p_empty = 0, stats_full = 0, stats_empty = 0,
      info_full = 0, info_empty = 0, count = 0;
};

struct PortableShape {
  PortableConfig config;
  int tile_rows = 0;
  int warps = 0;
  int threads = 0;
  int registers = 0;  // the cap that __launch_bounds__ implies
  int groups = 0;     // 64-dim groups of K: 8 or 9
  int ring_row_bytes = 0;
  PortableBarriers barriers;
  PortableSmem smem;
};

[[nodiscard]] consteval PortableShape shape_of(const PortableConfig& c) {
  PortableShape s;
  s.config = c;
  s.tile_rows = 16 * c.qk_warps * c.qk_tiles;
  s.warps = c.qk_warps + c.pv_warps + c.producer_warps;
  s.threads = 32 * s.warps;
  // A quarter of the SM has 16384 registers and runs every fourth warp.
  const int warps_per_quarter = (s.warps * c.ctas_per_sm + 3) / 4;
  const int per_thread = 16384 / 32 / warps_per_quarter / 8 * 8;
  s.registers = per_thread > 255 ? 255 : per_thread;
  s.groups = qk_dims(c.format) / 64;
  s.ring_row_bytes = ring_row_bytes(c.format);

  PortableBarriers& b = s.barriers;
  b.ring_full = 0;
  b.ring_empty = c.stages;
  b.p_full = 2 * c.stages;
  b.p_empty = b.p_full + 2;
  b.stats_full = b.p_empty + 2;
  b.stats_empty = b.stats_full + 2;
  b.info_full = b.stats_empty + 2;
  b.info_empty = b.info_full + 2;
  b.count = b.info_empty + 2;

  const int n = c.block_heads;
  int at = 0;
  const auto take = [&at](int bytes, int alignment) {
    at = (at + alignment - 1) / alignment * alignment;
    const int offset = at;
    at += bytes;
    return offset;
  };
  PortableSmem& m = s.smem;
  m.ring = take(c.stages * c.stage_rows * s.ring_row_bytes, 128);
  m.q = take(s.groups * 64 * n * 2, 128);
  m.p = take(2 * p_parts(c.format) * s.tile_rows * n * 2, 128);
  m.scale = take(c.format == KvFormat::v4 ? 2 * 8 * s.tile_rows : 0, 16);
  m.stats = take(2 * n * 16, 16);
  m.info = take(2 * 32, 16);
  m.alpha = take(2 * n * 4, 16);
  m.max = take(2 * (c.qk_warps + 1) * n * 4, 16);
  m.sum = take(s.tile_rows / 16 * n * 4, 16);
  m.running = take(n * 8, 16);
  m.factor = take(n * 4, 16);
  m.valid = take(c.stages * c.producer_warps * 4, 4);
  m.barriers = take(b.count * 8, 8);
  m.bytes = (at + 15) / 16 * 16;
  return s;
}

}  // namespace splitwave::cuda
