// Thin wrappers over PTX that CUDA C++ does not offer: shared-memory accesses by 32-bit address,
// cp.async, mbarrier, named barriers, ldmatrix, programmatic dependent launch. Owns no policy.
// Every wrapper compiles for sm_80 and up; what an architecture lacks is replaced where it says so.
#pragma once

#include <cstdint>

namespace splitwave::cuda::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- shared memory by address ------------------------------------------------------------------
__device__ __forceinline__ std::uint32_t load_u32(std::uint32_t address) {
  std::uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ uint2 load_u64(std::uint32_t address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ uint4 load_u128(std::uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ float load_f32(std::uint32_t address) {
  return __uint_as_float(load_u32(address));
}
__device__ __forceinline__ float2 load_f32x2(std::uint32_t address) {
  const uint2 v = load_u64(address);
  return {__uint_as_float(v.x), __uint_as_float(v.y)};
}
__device__ __forceinline__ void store_u8(std::uint32_t address, std::uint32_t v) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
__device__ __forceinline__ void store_u32(std::uint32_t address, std::uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
__device__ __forceinline__ void store_f32(std::uint32_t address, float v) {
  store_u32(address, __float_as_uint(v));
}
__device__ __forceinline__ void store_f32x2(std::uint32_t address, float a, float b) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(a), "f"(b) : "memory");
}
__device__ __forceinline__ void store_u128(std::uint32_t address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}

// ---- matrices ----------------------------------------------------------------------------------
// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ uint4 load_matrix_x4(std::uint32_t address) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ uint4 load_matrix_x4_transposed(std::uint32_t address) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ uint2 load_matrix_x2_transposed(std::uint32_t address) {
  uint2 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "r"(address)
               : "memory");
  return v;
}

// ---- cp.async: size_bytes of the source are read, the rest of the 16 (8) bytes becomes zero
// ------
__device__ __forceinline__ void copy_async_16(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_async_16(std::uint32_t to, const void* from,
                                              std::uint32_t size_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(size_bytes)
               : "memory");
}
__device__ __forceinline__ void copy_async_8(std::uint32_t to, const void* from,
                                             std::uint32_t size_bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from),
               "r"(size_bytes)
               : "memory");
}

// ---- mbarrier ----------------------------------------------------------------------------------
__device__ __forceinline__ void barrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier)
               : "memory");
}
// Arrives once all cp.async of the calling thread so far have landed; the arrival is one of those
// that the barrier was initialised to expect.
__device__ __forceinline__ void barrier_arrive_on_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ bool barrier_try(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
#else
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
#endif
  return done != 0;
}
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  while (!barrier_try(barrier, parity)) {
#if __CUDA_ARCH__ < 900
    __nanosleep(20);
#endif
  }
}

// Waits for `threads` threads of the CTA at hardware barrier `id` (1..15; 0 is __syncthreads).
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Adds 1 and gives the count before it. Release and acquire at device scope: what the drawing
// thread could see before is visible to whoever draws a later ticket.
__device__ __forceinline__ std::uint32_t draw_ticket(std::uint32_t* ticket) {
  std::uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(ticket)
               : "memory");
  return before;
}

// ---- programmatic dependent launch (sm_90 and up; nothing to do before)
// -------------------------- Returns when the preceding kernel of the stream has finished and its
// writes are visible. Without the launch attribute it returns at once.
__device__ __forceinline__ void wait_for_preceding_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the following kernel of the stream start its prologue.
__device__ __forceinline__ void allow_following_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace splitwave::cuda::ptx
