// The copy ceiling: what a plain kernel moves. A memcpy node of a graph may use the copy engines,
// which are slower on this machine.
#include "gpu_bench.h"

namespace splitwave::gpu_ops {
namespace {

constexpr int k_threads = 512;
constexpr int k_vectors = 8;  // 16 bytes each, in flight together

__global__ void __launch_bounds__(k_threads)
    copy_kernel(const uint4* __restrict__ from, uint4* __restrict__ to) {
  const std::size_t first =
      static_cast<std::size_t>(blockIdx.x) * (k_threads * k_vectors) + threadIdx.x;
  uint4 v[k_vectors];
#pragma unroll
  for (int i = 0; i < k_vectors; ++i) v[i] = from[first + i * k_threads];
#pragma unroll
  for (int i = 0; i < k_vectors; ++i) to[first + i * k_threads] = v[i];
}

}  // namespace

void launch_copy(const void* from, void* to, std::size_t bytes, cudaStream_t stream) {
  constexpr std::size_t block = std::size_t{k_threads} * k_vectors * sizeof(uint4);
  copy_kernel<<<static_cast<unsigned>(bytes / block), k_threads, 0, stream>>>(
      static_cast<const uint4*>(from), static_cast<uint4*>(to));
  check(cudaGetLastError(), "copy");
}

}  // namespace splitwave::gpu_ops
