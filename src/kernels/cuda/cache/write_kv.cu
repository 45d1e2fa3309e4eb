// Quantises latent rows and scatters them: one CTA of 128 threads a row, four dims a thread.
#include "kernels/cuda/cache/launch.h"
#include "kernels/cuda/cache/preload.h"
#include "kernels/cuda/cache/rows.cuh"

namespace splitwave::cuda {
namespace {

constexpr int k_row_threads = 128;

template <KvFormat kFormat>
__global__ void __launch_bounds__(k_row_threads)
    write_kv_kernel(const __grid_constant__ KvWriteCall p) {
  const int t = threadIdx.x;
  const std::int64_t row = blockIdx.x;
  const std::int64_t slot = p.slots[row];
  if (!is_live_slot(p.cache, slot)) return;
  const float* cos_sin = p.table.cos_sin;
  if (cos_sin != nullptr) {
    const std::int32_t position = p.positions[row];
    if (position < 0 || position >= p.table.positions) return;
    cos_sin += static_cast<std::int64_t>(position) * k_rope_dims;
  }
  const std::uint16_t* nope = p.nope + row * p.nope_row_stride;
  const std::uint16_t* rope = p.rope + row * p.rope_row_stride;
  if constexpr (kFormat == KvFormat::v4) {
    constexpr int nope_threads = k_v4_nope_dims / 4;
    const bool is_rope = t >= nope_threads;
    Dims4 dims = load_dims4(is_rope ? rope + (t - nope_threads) * 4 : nope + t * 4);
    if (is_rope && cos_sin != nullptr) rotate_rope4(dims, cos_sin, (t - nope_threads) * 2);
    store_v4_row(dims, t, row_place(p.cache, slot, k_v4_data_bytes, k_v4_scale_bytes));
  } else {
    std::uint8_t* out = row_place(p.cache, slot, k_v32_row_bytes, 0).values;
    const Dims4 dims = load_dims4(nope + t * 4);
    // A block of 128 dims is a warp.
    const float scale = block_scale(group_amax<32>(dims), k_amax_floor_fp8, 448.0F,
                                    p.rounding == ScaleRounding::power_of_two);
    reinterpret_cast<std::uint32_t*>(out)[t] = encode_e4m3x4(dims, scale);
    if (t % 32 == 0) {
      reinterpret_cast<float*>(out + k_v32_scale_offset_bytes)[t / 32] = scale;
    }
    if (t < k_rope_dims / 4) {
      Dims4 tail = load_dims4(rope + t * 4);
      if (cos_sin != nullptr) rotate_rope4(tail, cos_sin, t * 2);
      reinterpret_cast<uint2*>(out + k_v32_rope_offset_bytes)[t] = tail.packed();
    }
  }
}

}  // namespace

cudaError_t prepare_write_kv() {
  return preload({reinterpret_cast<const void*>(write_kv_kernel<KvFormat::v4>),
                  reinterpret_cast<const void*>(write_kv_kernel<KvFormat::v32>)});
}

cudaError_t launch_write_kv(const KvWriteCall& call, cudaStream_t stream) {
  const auto kernel =
      call.format == KvFormat::v4 ? write_kv_kernel<KvFormat::v4> : write_kv_kernel<KvFormat::v32>;
  kernel<<<static_cast<unsigned>(call.rows), k_row_threads, 0, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace splitwave::cuda
