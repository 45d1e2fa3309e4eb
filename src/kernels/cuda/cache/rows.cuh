// One row on its way into a cache, four neighbouring dims a lane. Owns the device form of the row
// transforms of src/formats/ops_rows.h, with the same bits: RoPE, Hadamard, the three quantisers. A
// row of 512 dims is 128 threads (four whole warps), one of 128 dims a warp; every shuffle is
// within a warp and all its lanes take part.
#pragma once

#include "formats/ops_math.h"
#include "splitwave/ops.h"

namespace splitwave::cuda {

inline constexpr unsigned k_row_lanes = 0xFFFFFFFFU;

// Four dims as bf16 codes.
struct Dims4 {
  std::uint32_t code[4];

  __device__ __forceinline__ float value(int i) const { return __uint_as_float(code[i] << 16); }
  __device__ __forceinline__ uint2 packed() const {
    return {code[0] | code[1] << 16, code[2] | code[3] << 16};
  }
};

// dims: 8-byte aligned.
__device__ __forceinline__ Dims4 load_dims4(const std::uint16_t* dims) {
  const uint2 raw = *reinterpret_cast<const uint2*>(dims);
  return {{raw.x & 0xFFFFU, raw.x >> 16, raw.y & 0xFFFFU, raw.y >> 16}};
}

// cos_sin: the table's row; pair: the first of this lane's two pairs.
__device__ __forceinline__ void rotate_rope4(Dims4& dims, const float* cos_sin, int pair) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float c = __ldg(cos_sin + pair + i);
    const float s = __ldg(cos_sin + k_rope_dims / 2 + pair + i);
    const float x = dims.value(2 * i);
    const float y = dims.value(2 * i + 1);
    dims.code[2 * i] = op_bf16(op_sub(op_mul(x, c), op_mul(y, s)));
    dims.code[2 * i + 1] = op_bf16(op_add(op_mul(y, c), op_mul(x, s)));
  }
}

// A warp's 128 dims times H_128 / sqrt(128): spans 1 and 2 in the lane, 4 to 64 across lanes.
__device__ __forceinline__ void rotate_hadamard4(Dims4& dims, int lane) {
  const float a = op_add(dims.value(0), dims.value(1));
  const float b = op_sub(dims.value(0), dims.value(1));
  const float c = op_add(dims.value(2), dims.value(3));
  const float d = op_sub(dims.value(2), dims.value(3));
  float x[4] = {op_add(a, c), op_add(b, d), op_sub(a, c), op_sub(b, d)};
#pragma unroll
  for (int span = 1; span < 32; span *= 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float other = __shfl_xor_sync(k_row_lanes, x[i], span);
      x[i] = (lane & span) == 0 ? op_add(x[i], other) : op_sub(other, x[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) dims.code[i] = op_bf16(op_mul(x[i], k_hadamard_factor));
}

// Largest magnitude code of kLanes neighbouring lanes.
template <int kLanes>
__device__ __forceinline__ std::uint32_t group_amax(const Dims4& dims) {
  std::uint32_t amax = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) amax = max(amax, dims.code[i] & 0x7FFFU);
#pragma unroll
  for (int span = 1; span < kLanes; span *= 2) {
    amax = max(amax, __shfl_xor_sync(k_row_lanes, amax, span));
  }
  return amax;
}

// The nearest e4m3 code, ties to even, saturating; x is a number.
__device__ __forceinline__ std::uint32_t encode_e4m3_number(float x) {
  const std::uint32_t sign = (__float_as_uint(x) >> 24) & 0x80U;
  const float magnitude = fminf(fabsf(x), 448.0F);
  if (magnitude < 0x1p-6F) {
    // Steps of 2^-9: adding 2^14 leaves them in the last bits, rounded to even.
    return sign | (__float_as_uint(__fadd_rn(magnitude, 0x1p14F)) & 0xFU);
  }
  const std::uint32_t bits = __float_as_uint(magnitude);
  const std::uint32_t rounded = bits + 0x7FFFFU + ((bits >> 20) & 1U);
  return sign | ((rounded >> 20) - (120U << 3));
}

// Four codes under a scale; a NaN scale makes them NaN.
__device__ __forceinline__ std::uint32_t encode_e4m3x4(const Dims4& dims, float scale) {
  if (scale != scale) return 0x7F7F7F7FU;
  std::uint32_t codes = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    codes |= encode_e4m3_number(op_div(dims.value(i), scale)) << (8 * i);
  }
  return codes;
}

// The nearest e2m1 code, ties to even; NaN gives 7.
__device__ __forceinline__ std::uint32_t encode_e2m1_number(float x) {
  if (x != x) return 7U;
  const float m = fabsf(x);
  std::uint32_t code = 0;
  code += m > 0.25F ? 1U : 0U;
  code += m >= 0.75F ? 1U : 0U;
  code += m > 1.25F ? 1U : 0U;
  code += m >= 1.75F ? 1U : 0U;
  code += m > 2.5F ? 1U : 0U;
  code += m >= 3.5F ? 1U : 0U;
  code += m > 5.0F ? 1U : 0U;
  return code | (__float_as_uint(x) >> 31) << 3;
}

// A power-of-two scale's e8m0 code.
__device__ __forceinline__ std::uint32_t e8m0_code(float scale) {
  return scale != scale ? 0xFFU : __float_as_uint(scale) >> 23;
}

struct RowPlace {
  std::uint8_t* values;
  std::uint8_t* scales;
};
// Where a slot lies; 64-bit throughout.
__device__ __forceinline__ RowPlace row_place(const WritableCacheView& cache, std::int64_t slot,
                                              int value_bytes, int scale_bytes) {
  const std::int64_t page = slot / cache.page_size;
  const std::int64_t offset = slot - page * cache.page_size;
  std::uint8_t* base = cache.base + page * cache.page_stride_bytes;
  return {base + offset * value_bytes,
          base + static_cast<std::int64_t>(cache.page_size) * value_bytes + offset * scale_bytes};
}
__device__ __forceinline__ bool is_live_slot(const WritableCacheView& cache, std::int64_t slot) {
  return slot >= 0 && slot < cache.pages * cache.page_size;
}

// 128 threads, dims 4t..4t+3 of the 512; the last 64 are RoPE, already rotated. 16 lanes a block.
__device__ __forceinline__ void store_v4_row(const Dims4& dims, int t, const RowPlace& at) {
  const float scale = block_scale(group_amax<16>(dims), k_amax_floor_fp8, 448.0F, true);
  if (t < k_v4_nope_dims / 4) {
    reinterpret_cast<std::uint32_t*>(at.values)[t] = encode_e4m3x4(dims, scale);
    if (t % 16 == 0) at.scales[t / 16] = static_cast<std::uint8_t>(e8m0_code(scale));
  } else {
    // 8-byte stores: a page stride is a multiple of 8 only.
    reinterpret_cast<uint2*>(at.values + k_v4_rope_offset_bytes)[t - k_v4_nope_dims / 4] =
        dims.packed();
    if (t == k_v4_nope_dims / 4) at.scales[k_v4_scales] = 0;
  }
}

// A warp's 128 dims. fp8 returns the row's scale, the other formats 1.
template <IndexerFormat kFormat>
__device__ __forceinline__ float store_indexer_row(const Dims4& dims, int lane, bool power_of_two,
                                                   std::uint8_t* values, std::uint8_t* scales) {
  if constexpr (kFormat == IndexerFormat::bf16) {
    reinterpret_cast<uint2*>(values)[lane] = dims.packed();
    return 1.0F;
  } else if constexpr (kFormat == IndexerFormat::fp8) {
    const float scale = block_scale(group_amax<32>(dims), k_amax_floor_fp8, 448.0F, power_of_two);
    reinterpret_cast<std::uint32_t*>(values)[lane] = encode_e4m3x4(dims, scale);
    if (lane == 0 && scales != nullptr) *reinterpret_cast<float*>(scales) = scale;
    return scale;
  } else {
    const float scale = block_scale(group_amax<8>(dims), k_amax_floor_fp4, 6.0F, true);
    std::uint32_t codes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      codes |= encode_e2m1_number(op_div(dims.value(i), scale)) << (4 * i);
    }
    reinterpret_cast<std::uint16_t*>(values)[lane] = static_cast<std::uint16_t>(codes);
    if (lane % 8 == 0) scales[lane / 8] = static_cast<std::uint8_t>(e8m0_code(scale));
    return 1.0F;
  }
}

}  // namespace splitwave::cuda
