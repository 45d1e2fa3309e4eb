// Thin wrappers over the PTX that only sm_90a has: wgmma with A in registers, register
// reallocation, stmatrix, split named barriers, the async-proxy fence. Owns no policy. What other
// families share is in common/ptx.cuh.
#pragma once

#include <cstdint>

namespace splitwave::cuda::sm90a {

// ---- named barriers ----------------------------------------------------------------------------
__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Synchronises and returns the OR of every thread's vote.
__device__ __forceinline__ bool named_sync_or(int id, int threads, bool vote) {
  int result = 0;
  asm volatile(
      "{ .reg .pred in, out; setp.ne.s32 in, %3, 0; barrier.cta.red.or.pred out, %1, %2, in; "
      "selp.s32 %0, 1, 0, out; }"
      : "=r"(result)
      : "r"(id), "r"(threads), "r"(static_cast<int>(vote))
      : "memory");
  return result != 0;
}

// ---- shared memory -----------------------------------------------------------------------------
__device__ __forceinline__ std::uint32_t load_u16(std::uint32_t address) {
  std::uint16_t v;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ void store_u16(std::uint32_t address, std::uint32_t v) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(static_cast<std::uint16_t>(v))
               : "memory");
}
__device__ __forceinline__ void store_u64(std::uint32_t address, std::uint32_t x, std::uint32_t y) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y) : "memory");
}

// Four (two) 8x8 matrices of 16-bit elements: column g of a matrix, spread over the threads (., c),
// becomes one 16-byte row. Lane l names row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrix_x4_transposed(std::uint32_t address, std::uint32_t r0,
                                                           std::uint32_t r1, std::uint32_t r2,
                                                           std::uint32_t r3) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(r0), "r"(r1), "r"(r2), "r"(r3)
      : "memory");
}
__device__ __forceinline__ void store_matrix_x2_transposed(std::uint32_t address, std::uint32_t r0,
                                                           std::uint32_t r1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
               "r"(r0), "r"(r1)
               : "memory");
}

// Ordinary shared-memory stores before this are visible to the tensor cores' reads after the next
// barrier.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Barrier initialisations are visible to arrivals by asynchronous copies.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// ---- bulk stores by the copy engine ------------------------------------------------------------
// to and from 16-byte aligned, bytes a multiple of 16; from was written before a fence_async_proxy
// and a barrier.
__device__ __forceinline__ void bulk_store(void* to, std::uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Returns when this thread's bulk stores have read their source.
__device__ __forceinline__ void wait_for_stored_rows() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// ---- global memory that this thread wrote: in program order, not through the read-only path
// ------
__device__ __forceinline__ float load_global(const float* from) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(from) : "memory");
  return v;
}
__device__ __forceinline__ float2 load_global_x2(const float* from) {
  float2 v;
  asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(from) : "memory");
  return v;
}

// ---- registers ---------------------------------------------------------------------------------
template <int Registers>
__device__ __forceinline__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

// ---- wgmma -------------------------------------------------------------------------------------
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int InFlight>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(InFlight) : "memory");
}

// Ties accumulators to the wait before it: without a data dependence ptxas may hoist arithmetic on
// them over the wait and then serialises every wgmma (C7514).
template <int N>
__device__ __forceinline__ void pin_registers(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// B operand, K-major, no swizzle. A core matrix is 8 columns x 16 bytes of k, 128 contiguous bytes;
// the next 8 columns follow at 128 bytes (stride offset), the next 8 k at 16 * columns bytes
// (leading offset).
__device__ __forceinline__ std::uint64_t b_descriptor(std::uint32_t address, int columns) {
  const std::uint64_t start = (address & 0x3FFFFU) >> 4;
  const std::uint64_t leading = static_cast<std::uint64_t>(columns);  // 16 * columns >> 4
  const std::uint64_t stride = 128U >> 4;
  return start | (leading << 16) | (stride << 32);
}

#define SPLITWAVE_F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SPLITWAVE_F16(d, i) \
  SPLITWAVE_F4(d, i), SPLITWAVE_F4(d, i + 4), SPLITWAVE_F4(d, i + 8), SPLITWAVE_F4(d, i + 12)
#define SPLITWAVE_WGMMA(shape, type, d_list, a_list, b, p, ...)                               \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " p ", 0; wgmma.mma_async.sync.aligned." shape \
               ".f32." type "." type " {" d_list "}, {" a_list "}, " b ", p, 1, 1, 0; }"      \
               : __VA_ARGS__                                                                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_desc), "r"(scale_d))
#define SPLITWAVE_D4 "%0, %1, %2, %3"
#define SPLITWAVE_D8 SPLITWAVE_D4 ", %4, %5, %6, %7"
#define SPLITWAVE_D16 SPLITWAVE_D8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define SPLITWAVE_D32 \
  SPLITWAVE_D16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"

// d[64 x N] (+)= a[64 x 16] * b[16 x N]; a in registers, b in shared memory, fp32 accumulators.
template <int N, bool IsF16>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], const std::uint32_t (&a)[4],
                                      std::uint64_t b_desc, bool accumulate) {
  static_assert(N == 8 || N == 16 || N == 32 || N == 64);
  const int scale_d = accumulate ? 1 : 0;
  if constexpr (N == 8 && IsF16) {
    SPLITWAVE_WGMMA("m64n8k16", "f16", SPLITWAVE_D4, "%4, %5, %6, %7", "%8", "%9",
                    SPLITWAVE_F4(d, 0));
  } else if constexpr (N == 8) {
    SPLITWAVE_WGMMA("m64n8k16", "bf16", SPLITWAVE_D4, "%4, %5, %6, %7", "%8", "%9",
                    SPLITWAVE_F4(d, 0));
  } else if constexpr (N == 16 && IsF16) {
    SPLITWAVE_WGMMA("m64n16k16", "f16", SPLITWAVE_D8, "%8, %9, %10, %11", "%12", "%13",
                    SPLITWAVE_F4(d, 0), SPLITWAVE_F4(d, 4));
  } else if constexpr (N == 16) {
    SPLITWAVE_WGMMA("m64n16k16", "bf16", SPLITWAVE_D8, "%8, %9, %10, %11", "%12", "%13",
                    SPLITWAVE_F4(d, 0), SPLITWAVE_F4(d, 4));
  } else if constexpr (N == 32 && IsF16) {
    SPLITWAVE_WGMMA("m64n32k16", "f16", SPLITWAVE_D16, "%16, %17, %18, %19", "%20", "%21",
                    SPLITWAVE_F16(d, 0));
  } else if constexpr (N == 32) {
    SPLITWAVE_WGMMA("m64n32k16", "bf16", SPLITWAVE_D16, "%16, %17, %18, %19", "%20", "%21",
                    SPLITWAVE_F16(d, 0));
  } else if constexpr (IsF16) {
    SPLITWAVE_WGMMA("m64n64k16", "f16", SPLITWAVE_D32, "%32, %33, %34, %35", "%36", "%37",
                    SPLITWAVE_F16(d, 0), SPLITWAVE_F16(d, 16));
  } else {
    SPLITWAVE_WGMMA("m64n64k16", "bf16", SPLITWAVE_D32, "%32, %33, %34, %35", "%36", "%37",
                    SPLITWAVE_F16(d, 0), SPLITWAVE_F16(d, 16));
  }
}

// NaN codes on the tensor cores: d[64 x 8] (+)= a[64 x 32 e4m3] * zeros. A NaN code in a makes an
// element of the warp's d NaN; nothing else changes it from 0. zeros: 256 bytes, no swizzle. Which
// row or column of a the bytes lie in does not matter, so raw loads are operands as they are.
__device__ __forceinline__ void wgmma_probe_nan(float (&d)[4], const uint4& a, std::uint64_t zeros,
                                                bool accumulate) {
  const int scale_d = accumulate ? 1 : 0;
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %9, 0; wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(zeros), "r"(scale_d));
}

#undef SPLITWAVE_F4
#undef SPLITWAVE_F16
#undef SPLITWAVE_WGMMA
#undef SPLITWAVE_D4
#undef SPLITWAVE_D8
#undef SPLITWAVE_D16
#undef SPLITWAVE_D32

}  // namespace splitwave::cuda::sm90a
