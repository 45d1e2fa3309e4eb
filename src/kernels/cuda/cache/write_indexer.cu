// The indexer's keys into their pages, and the queries in the same form: one warp a row of 128
// dims.
#include "kernels/cuda/cache/launch.h"
#include "kernels/cuda/cache/preload.h"
#include "kernels/cuda/cache/rows.cuh"

namespace splitwave::cuda {
namespace {

constexpr int k_warps = 4;
constexpr int k_first_rope_lane = (k_indexer_dims - k_rope_dims) / 4;

// RoPE on the upper lanes, then Hadamard. All lanes call it.
__device__ __forceinline__ void transform(Dims4& dims, const float* cos_sin, bool hadamard,
                                          int lane) {
  if (cos_sin != nullptr && lane >= k_first_rope_lane) {
    rotate_rope4(dims, cos_sin, (lane - k_first_rope_lane) * 2);
  }
  if (hadamard) rotate_hadamard4(dims, lane);
}

// False: the row is padded. cos_sin becomes the table's row, or stays null.
__device__ __forceinline__ bool find_table_row(const RopeTable& table,
                                               const std::int32_t* positions, std::int64_t row,
                                               const float*& cos_sin) {
  cos_sin = table.cos_sin;
  if (cos_sin == nullptr) return true;
  const std::int32_t position = positions[row];
  if (position < 0 || position >= table.positions) return false;
  cos_sin += static_cast<std::int64_t>(position) * k_rope_dims;
  return true;
}

template <IndexerFormat kFormat, int kValueBytes, int kScaleBytes>
__global__ void __launch_bounds__(32 * k_warps)
    write_indexer_keys_kernel(const __grid_constant__ IndexerKeyWriteCall p) {
  const int lane = threadIdx.x % 32;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * k_warps + threadIdx.x / 32;
  if (row >= p.rows) return;
  const std::int64_t slot = p.slots[row];
  const float* cos_sin;
  if (!is_live_slot(p.cache, slot) || !find_table_row(p.table, p.positions, row, cos_sin)) return;
  Dims4 dims = load_dims4(p.keys + row * p.keys_row_stride + lane * 4);
  transform(dims, cos_sin, p.hadamard, lane);
  const RowPlace at = row_place(p.cache, slot, kValueBytes, kScaleBytes);
  store_indexer_row<kFormat>(dims, lane, p.rounding == ScaleRounding::power_of_two, at.values,
                             at.scales);
}

template <IndexerFormat kFormat, int kValueBytes>
__global__ void __launch_bounds__(32 * k_warps)
    prepare_queries_kernel(const __grid_constant__ IndexerQueryCall p) {
  const int lane = threadIdx.x % 32;
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * k_warps + threadIdx.x / 32;
  if (item >= static_cast<std::int64_t>(p.rows) * p.heads) return;
  const std::int64_t row = item / p.heads;
  const std::int64_t head = item - row * p.heads;
  const float* cos_sin;
  if (!find_table_row(p.table, p.positions, row, cos_sin)) return;
  Dims4 dims = load_dims4(p.q + row * p.q_row_stride + head * k_indexer_dims + lane * 4);
  transform(dims, cos_sin, p.hadamard, lane);
  std::uint8_t* scales =
      kFormat == IndexerFormat::fp4 ? p.q_scales_out + item * k_indexer_fp4_scales : nullptr;
  const float scale =
      store_indexer_row<kFormat>(dims, lane, true, p.q_out + item * kValueBytes, scales);
  if (lane != 0) return;
  const float weight = p.weights[item];
  p.weights_out[item] = kFormat == IndexerFormat::fp8 ? one_nan(op_mul(weight, scale)) : weight;
}

unsigned blocks_of(std::int64_t warps) {
  return static_cast<unsigned>((warps + k_warps - 1) / k_warps);
}

}  // namespace

cudaError_t prepare_write_indexer() {
  return preload(
      {reinterpret_cast<const void*>(write_indexer_keys_kernel<IndexerFormat::fp8, 128, 4>),
       reinterpret_cast<const void*>(write_indexer_keys_kernel<IndexerFormat::fp4, 64, 4>),
       reinterpret_cast<const void*>(write_indexer_keys_kernel<IndexerFormat::bf16, 256, 0>),
       reinterpret_cast<const void*>(prepare_queries_kernel<IndexerFormat::fp8, 128>),
       reinterpret_cast<const void*>(prepare_queries_kernel<IndexerFormat::fp4, 64>),
       reinterpret_cast<const void*>(prepare_queries_kernel<IndexerFormat::bf16, 256>)});
}

cudaError_t launch_write_indexer_keys(const IndexerKeyWriteCall& call, cudaStream_t stream) {
  const auto kernel =
      call.format == IndexerFormat::fp8   ? write_indexer_keys_kernel<IndexerFormat::fp8, 128, 4>
      : call.format == IndexerFormat::fp4 ? write_indexer_keys_kernel<IndexerFormat::fp4, 64, 4>
                                          : write_indexer_keys_kernel<IndexerFormat::bf16, 256, 0>;
  kernel<<<blocks_of(call.rows), 32 * k_warps, 0, stream>>>(call);
  return cudaGetLastError();
}

cudaError_t launch_prepare_queries(const IndexerQueryCall& call, cudaStream_t stream) {
  const auto kernel =
      call.format == IndexerFormat::fp8   ? prepare_queries_kernel<IndexerFormat::fp8, 128>
      : call.format == IndexerFormat::fp4 ? prepare_queries_kernel<IndexerFormat::fp4, 64>
                                          : prepare_queries_kernel<IndexerFormat::bf16, 256>;
  kernel<<<blocks_of(static_cast<std::int64_t>(call.rows) * call.heads), 32 * k_warps, 0, stream>>>(
      call);
  return cudaGetLastError();
}

}  // namespace splitwave::cuda
