// The sm_90a decode kernel: roles, barriers, launcher. Owns the entry point; one .cu a variant
// expands SPLITWAVE_SM90A_VARIANT. Grid: any number of CTAs; each takes items blockIdx, blockIdx +
// gridDim, ...
//
// Block j (64 list positions) of a chunk belongs to math warpgroup j % 2: it computes the block's
// scores and softmax. Both then add the block to their half of the value dims. The softmax chain
// runs j -> j + 1 through both warpgroups, which keeps them half a period apart: one multiplies
// while the other exponentiates.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90a/epilogue.cuh"
#include "kernels/cuda/sm90a/producer.cuh"
#include "kernels/cuda/sm90a/pv.cuh"
#include "kernels/cuda/sm90a/qk.cuh"
#include "kernels/cuda/sm90a/query.cuh"
#include "kernels/cuda/sm90a/softmax.cuh"
#include "kernels/cuda/sm90a/variants.h"

// In-kernel timeline for development: a build that defines SPLITWAVE_SM90A_STAMP(group, id) sees
// clock64 at each phase.
#if !defined(SPLITWAVE_SM90A_STAMP)
#define SPLITWAVE_SM90A_STAMP(group, id)
#endif

namespace splitwave::cuda::sm90a {

// One warp of a math warpgroup.
template <class V>
struct MathWarp {
  static constexpr Sm90aShape k = V::shape;
  static constexpr int k_n = k.config.block_heads;

  const DecodeParams& p;
  std::uint32_t smem;
  int group;  // warpgroup
  int warp;   // of it

  __device__ __forceinline__ int other() const { return 1 - group; }
  __device__ __forceinline__ int thread() const { return warp * 32 + lane_now(); }
  __device__ __forceinline__ bool keeps_a_head() const { return group == 0 && thread() < k_n; }
  // Scores in log2 units. The sign went into Q; scale 0 weighs all keys equally, and the smallest
  // normal does the same without 0 * inf.
  __device__ __forceinline__ float scale_log2() const {
    return fmaxf(__fmul_rn(fabsf(p.softmax_scale), k_log2_e), 1.1754944e-38F);
  }

  // What the phases do not need waits in shared memory, a copy for each warp: at 64 heads registers
  // are short. All lanes store the same value.
  enum Kept : int {
    k_round,  // items that this CTA has begun, less one
    k_chunk,  // the item's current one
    k_end,    // one past its last with rows
    k_nan,    // the warp saw an fp8 NaN code in the chunk
  };
  __device__ __forceinline__ int kept(Kept word) const {
    return static_cast<int>(ptx::load_u32(smem + k.kept + (group * 4 + warp) * 32 + word * 4));
  }
  __device__ __forceinline__ void keep(Kept word, int v) const {
    ptx::store_u32(smem + k.kept + (group * 4 + warp) * 32 + word * 4,
                   static_cast<std::uint32_t>(v));
  }

  __device__ __forceinline__ void run() const {
    SPLITWAVE_SM90A_STAMP(group, 0);
    if (group == 0 && thread() < 16)
      ptx::store_u128(smem + k.zero + thread() * 16, uint4{0, 0, 0, 0});
    int base = 0;  // blocks of all chunks before this one
#pragma unroll 1
    for (keep(k_round, 0); begin_item(); end_item()) {
#pragma unroll 1
      for (; kept(k_chunk) < kept(k_end); keep(k_chunk, kept(k_chunk) + 1)) {
        if (keeps_a_head()) {
          ptx::store_f32(smem + k.m + thread() * 4, minus_infinity());
          ptx::store_f32(smem + k.l + thread() * 4, 0.0F);
          ptx::store_f32(smem + k.l + (k_n + thread()) * 4, 0.0F);
        }
        const int blocks = uniform(blocks_of(rows_of_chunk(p, item(), kept(k_chunk))));
        keep(k_nan, 0);
        // Q and the unset reference are there; everyone has read what the chunk before left.
        named_sync(k_bar_math, 256);
        SPLITWAVE_SM90A_STAMP(group, 2);
        float o[4][k_n / 2];
        attend(base, blocks, o);
        base += blocks;
        finish({item(), kept(k_chunk), kept(k_chunk) + 1 == kept(k_end)}, o);
      }
    }
    wait_for_stored_rows();  // shared memory must outlive them
  }

  // Q of the next item; false when there is none.
  __device__ __forceinline__ bool begin_item() const {
    const int round = kept(k_round);
    {
      const Item next = item_without_lengths(p, item_index(round));
      if (next.row < 0) return false;
      const std::uint32_t sign = p.softmax_scale < 0.0F ? 0x80008000U : 0U;
      load_q<V>(p, smem, next, sign, group * 4 + warp, lane_now(), [&] {
        if (round == 0) return;
        // The previous item's rows have left the space where Q goes.
        wait_for_stored_rows();
        named_sync(k_bar_math, 256);
      });
    }
    SPLITWAVE_SM90A_STAMP(group, 1);
    fence_async_proxy();
    ptx::barrier_wait(smem + k.info_full + 8 * (round & 1), (round >> 1) & 1);
    keep(k_chunk, item().chunk_begin);
    keep(k_end, live_chunk_end(p, item()));
    if (keeps_a_head()) clear_absent_chunks(item());
    return true;
  }

  __device__ __forceinline__ void end_item() const {
    __syncwarp();  // every lane has read the item before its slot may be written again
    if (lane_now() == 0) ptx::barrier_arrive(smem + k.info_empty + 8 * (kept(k_round) & 1));
    keep(k_round, kept(k_round) + 1);
  }

  // Stored chunks past the row's end are empty partials; the combine step reads their (m, l).
  __device__ __forceinline__ void clear_absent_chunks(const Item& item) const {
    if (is_folded(item)) return;  // one partial, always written
    for (int chunk = max(live_chunk_end(p, item), item.chunk_begin); chunk < item.chunk_end;
         ++chunk) {
      float* ml =
          p.partials.ml +
          (static_cast<std::int64_t>(item.slot + chunk - item.chunk_begin) * k_n + thread()) * 2;
      *reinterpret_cast<float2*>(ml) = {minus_infinity(), 0.0F};
    }
  }

  // The item at hand, as the gather published it.
  __device__ __forceinline__ Item item() const {
    const std::uint32_t at = smem + k.info + 32 * (kept(k_round) & 1);
    const uint4 a = ptx::load_u128(at);
    const uint4 b = ptx::load_u128(at + 16);
    Item item;
    item.row = static_cast<int>(a.x);
    item.head_block = static_cast<int>(a.y);
    item.chunk_begin = static_cast<int>(a.z);
    item.chunk_end = static_cast<int>(a.w);
    item.slot = static_cast<int>(b.x);
    item.length_main = static_cast<int>(b.y);
    item.length_total = static_cast<int>(b.z);
    return item;
  }

  // One chunk into o.
  __device__ __forceinline__ void attend(int base, int blocks, float (&o)[4][k_n / 2]) const {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
#pragma unroll
      for (int i = 0; i < k_n / 2; ++i) o[t][i] = 0.0F;
    }
#pragma unroll 1
    for (int j = group; j <= blocks && blocks > 0; j += 2) {
      if (j < blocks) {
        score(base + j, j > 0);
      } else {
        named_sync(k_bar_p_full + other(), 256);
      }
#pragma unroll 1
      for (int b = max(j - 1, 0); b <= min(j, blocks - 1); ++b) {
        const int block = base + b;
        const RingPosition<V> at = ring_position<V>(block * k_sm90a_stages_per_block);
        const int slot = block % k_sm90a_block_slots;
        if (group == 0) {
          pv_block<V, 0>(o, smem, at.slot, slot, warp, lane_now());
        } else {
          pv_block<V, 1>(o, smem, at.slot, slot, warp, lane_now());
        }
        SPLITWAVE_SM90A_STAMP(group, 8 + 8 * b + 4);
        if (keeps_a_head()) add_sums(slot);
        // The slot's next owner is the other warpgroup; its own PV of this block lies behind it.
        __syncwarp();
        if ((b & 1) == group && lane_now() == 0)
          ptx::barrier_arrive(smem + k.block_free + 8 * slot);
      }
    }
  }

  // Scores and softmax of a block of this warpgroup; block: its number over the CTA's life.
  __device__ __forceinline__ void score(int block, bool has_predecessor) const {
    const int lane = lane_now();
    const RingPosition<V> at = ring_position<V>(block * k_sm90a_stages_per_block + warp);
    const std::uint32_t rows = smem + k.ring + at.slot * k_stage_bytes<V>;
    ptx::barrier_wait(smem + k.full + 8 * at.slot, at.parity);
    SPLITWAVE_SM90A_STAMP(group, 8 + 8 * block);
    float s[k_n / 2];
    const QkResult qk =
        qk_block<V>(s, rows, smem + k.scale_q + (group * 4 + warp) * 256,
                    b_descriptor(smem + k.q, k_n), b_descriptor(smem + k.zero, 8), lane);
    if (qk.has_nan) keep(k_nan, 1);
    SPLITWAVE_SM90A_STAMP(group, 8 + 8 * block + 1);
    // The other warpgroup has finished the block before: its P is there, and the reference is
    // final.
    if (has_predecessor) named_sync(k_bar_p_full + other(), 256);
    // The other warpgroup has added the block that had this slot's P, sums, factors and scales
    // before.
    const int slot = block % k_sm90a_block_slots;
    ptx::barrier_wait(smem + k.block_free + 8 * slot, (block / k_sm90a_block_slots & 1) ^ 1);
    SPLITWAVE_SM90A_STAMP(group, 8 + 8 * block + 2);
    const unsigned valid = uniform(static_cast<int>(ptx::load_u32(smem + k.valid + 4 * at.slot)));
    softmax_block<V>(s, {smem, rows, group, warp, lane_now(), slot, valid, qk.shifted,
                         kept(k_nan) != 0, scale_log2()});
    SPLITWAVE_SM90A_STAMP(group, 8 + 8 * block + 3);
    named_arrive(k_bar_p_full + group, 256);
  }

  // The thread's head: l = l * factor + the block's sum; of P and of P as rounded.
  __device__ __forceinline__ void add_sums(int slot) const {
    const bool moved = ptx::load_u32(smem + k.flag + slot * 4) != 0;
    const float factor =
        moved ? ptx::load_f32(smem + k.factor + (slot * k_n + thread()) * 4) : 1.0F;
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const std::uint32_t l = smem + k.l + (which * k_n + thread()) * 4;
      const std::uint32_t sum = smem + k.sum + ((slot * 8 + which * 4) * k_n + thread()) * 4;
      const float total =
          __fadd_rn(__fadd_rn(ptx::load_f32(sum), ptx::load_f32(sum + k_n * 4)),
                    __fadd_rn(ptx::load_f32(sum + 2 * k_n * 4), ptx::load_f32(sum + 3 * k_n * 4)));
      ptx::store_f32(l, __fmaf_rn(ptx::load_f32(l), factor, total));
    }
  }

  __device__ __forceinline__ void finish(const ChunkEnd& end, float (&o)[4][k_n / 2]) const {
    const int lane = lane_now();
    if (keeps_a_head()) {
      finish_head<V>(
          p, smem, end, thread(),
          {ptx::load_f32(smem + k.m + thread() * 4), ptx::load_f32(smem + k.l + thread() * 4)},
          ptx::load_f32(smem + k.l + (k_n + thread()) * 4));
    }
    // Weights and denominators are there; every warp is past its last QK and PV of the chunk.
    named_sync(k_bar_math, 256);
    SPLITWAVE_SM90A_STAMP(group, 3);
    const int slot = end.partial_slot(p);
    if (end.has_previous()) {
      if (group == 0) {
        fold_previous<V, 0>(p, smem, slot, o, warp, lane);
      } else {
        fold_previous<V, 1>(p, smem, slot, o, warp, lane);
      }
    }
    if (end.writes_result()) {
      if (group == 0) {
        stage_result<V, 0>(smem, o, warp, lane);
      } else {
        stage_result<V, 1>(smem, o, warp, lane);
      }
      fence_async_proxy();
      named_sync(k_bar_math, 256);  // all rows are complete
      if (lane < k_n / k_sm90a_math_warps) {
        store_staged_row<V>(p, smem, end.item,
                            (group * 4 + warp) * (k_n / k_sm90a_math_warps) + lane);
      }
    } else if (group == 0) {
      store_partial<V, 0>(p, smem, slot, end.has_previous(), o, warp, lane);
    } else {
      store_partial<V, 1>(p, smem, slot, end.has_previous(), o, warp, lane);
    }
    SPLITWAVE_SM90A_STAMP(group, 4);
  }
};

template <class V>
__device__ __forceinline__ void init_barriers(std::uint32_t smem) {
  constexpr Sm90aShape k = V::shape;
  // A few barriers a warp: initialising one takes tens of clocks.
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32);
  if (threadIdx.x % 32 == 0) {
    for (int i = warp; i < k.stages; i += k_sm90a_threads / 32) {
      // full: 32 lanes' copies and the valid bits. empty: every math warp has the stage in
      // registers.
      ptx::barrier_init(smem + k.full + 8 * i, 33);
      ptx::barrier_init(smem + k.empty + 8 * i, k_sm90a_math_warps);
    }
    if (warp < k_sm90a_block_slots)
      ptx::barrier_init(smem + k.block_free + 8 * warp, 4);  // a warpgroup's warps
    if (warp < 2) {
      ptx::barrier_init(smem + k.info_full + 8 * warp, 1);
      ptx::barrier_init(smem + k.info_empty + 8 * warp, k_sm90a_math_warps);
    }
  }
  fence_barrier_init();
}

template <class V>
__global__ void __launch_bounds__(k_sm90a_threads, 1)
    decode_kernel(const __grid_constant__ DecodeParams params) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  constexpr Sm90aShape k = V::shape;
  static_assert(k.bytes <= k_sm90a_shared_bytes_max);
  static_assert(2 * k.config.math_registers + k.config.producer_registers <= 504);
  // Two blocks in flight, one each warpgroup, or the chain cannot move.
  static_assert(k.stages >= 2 * k_sm90a_stages_per_block);
  const std::uint32_t smem = ptx::shared_address(shared_bytes);
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32);
  init_barriers<V>(smem);
  __syncthreads();
  ptx::wait_for_preceding_kernel();
  ptx::allow_following_kernel();
  if (warp >= k_sm90a_math_warps) {
    shrink_registers<k.config.producer_registers>();
    Producer<V>{params, smem, warp - k_sm90a_math_warps, 0, 0, 0, 0}.run();
  } else {
    grow_registers<k.config.math_registers>();
    MathWarp<V>{params, smem, warp / 4, warp % 4}.run();
  }
}

template <class V>
cudaError_t prepare() {
  const auto kernel = decode_kernel<V>;
  cudaFuncAttributes attributes{};  // forces the module to be loaded now, not in the first call
  if (const cudaError_t e = cudaFuncGetAttributes(&attributes, kernel); e != cudaSuccess) return e;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, V::shape.bytes);
}

// Whatever kernel precedes it in the stream may be overlapped: nothing of its results, and nothing
// that it may still read, is touched before wait_for_preceding_kernel.
template <class V>
cudaError_t launch(const DecodeParams& params, int ctas, bool /*after_schedule*/,
                   cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(k_sm90a_threads);
  config.dynamicSmemBytes = V::shape.bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, decode_kernel<V>, params);
}

}  // namespace splitwave::cuda::sm90a

// Defines launcher_<name> from k_<name>.
#define SPLITWAVE_SM90A_VARIANT(variant)                                                     \
  namespace splitwave::cuda {                                                                \
  struct Variant_##variant {                                                                 \
    static constexpr Sm90aShape shape = sm90a_shape(k_##variant);                            \
  };                                                                                         \
  extern const VariantLauncher launcher_##variant;                                           \
  const VariantLauncher launcher_##variant = {                                               \
      k_##variant.name, sm90a::prepare<Variant_##variant>, sm90a::launch<Variant_##variant>, \
      reinterpret_cast<KernelPointer>(sm90a::decode_kernel<Variant_##variant>)};             \
  }
