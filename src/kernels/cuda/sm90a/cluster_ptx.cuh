// Thin wrappers over the PTX of thread block clusters: ranks, remote shared-memory addresses,
// transactions on mbarriers. Owns no policy.
#pragma once

#include <cstdint>

namespace splitwave::cuda::sm90a {

__device__ __forceinline__ int cluster_rank() {
  std::uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return static_cast<int>(r);
}
// The same place in the shared memory of another CTA of the cluster.
__device__ __forceinline__ std::uint32_t map_to_rank(std::uint32_t address, int rank) {
  std::uint32_t r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
  return r;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
// For barrier initialisations alone, which fence_barrier_init has published.
__device__ __forceinline__ void cluster_sync_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
// remote: from map_to_rank. No wider scope than the default: a release to the cluster is a memory
// barrier of the whole GPU, a thousand clocks a block, and what it would order has been waited for.
__device__ __forceinline__ void arrive_remote(std::uint32_t remote) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
}
// One arrival, and `bytes` more to come before the phase ends.
__device__ __forceinline__ void arrive_expecting(std::uint32_t barrier, int bytes) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}
// Four bytes to another CTA, counted on its barrier when they are there.
__device__ __forceinline__ void store_remote(std::uint32_t remote, std::uint32_t v,
                                             std::uint32_t remote_barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(remote),
      "r"(v), "r"(remote_barrier)
      : "memory");
}
// from: written before a fence_async_proxy.
__device__ __forceinline__ void copy_to_remote(std::uint32_t remote, std::uint32_t from, int bytes,
                                               std::uint32_t remote_barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(remote),
      "r"(from), "r"(bytes), "r"(remote_barrier)
      : "memory");
}

}  // namespace splitwave::cuda::sm90a
