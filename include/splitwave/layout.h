// Byte layouts of the paged fp8 KV caches. Owns the numbers; src/formats packs, unpacks and
// static_asserts the drawings. Source: FlashMLA's decode API (deepseek-ai/FlashMLA 9241ae3).
#pragma once

#include <cstdint>

namespace splitwave {

// The cache row formats. Both hold one latent vector a token, shared by all heads; V is the first
// 512 dimensions of K.
enum class KvFormat : std::uint8_t {
  v32,  // DeepSeek-V3.2: d_qk 576, 656-byte rows, interleaved, fp32 scale per 128 dims
  v4,   // DeepSeek-V4:   d_qk 512, 584-byte rows, planar page, e8m0 scale per 64 dims
};

inline constexpr int k_value_dims = 512;  // d_v of both formats
inline constexpr int k_heads_max = 128;
inline constexpr int k_rope_dims = 64;  // kept as bf16 in both formats

// V3.2 row, interleaved, 656 bytes:
//   [  0, 512)  512 e4m3 codes (the value dimensions)
//   [512, 528)    4 fp32 scales, one for each 128 codes
//   [528, 656)   64 bf16 RoPE dimensions (K only, not part of V)
inline constexpr int k_v32_qk_dims = 576;
inline constexpr int k_v32_nope_dims = 512;
inline constexpr int k_v32_scale_group = 128;
inline constexpr int k_v32_scale_offset_bytes = 512;
inline constexpr int k_v32_rope_offset_bytes = 528;
inline constexpr int k_v32_row_bytes = 656;

// V4 page, planar, page_size * 584 bytes:
//   [0, page_size * 576)               page_size data rows
//   [page_size * 576, page_size * 584) page_size scale rows
// data row, 576 bytes:  [0, 448) 448 e4m3 codes; [448, 576) 64 bf16 RoPE dims (part of K and of V)
// scale row, 8 bytes:   [0, 7) 7 e8m0 scales, one for each 64 codes (2^(e-127)); [7, 8) pad,
// ignored
inline constexpr int k_v4_qk_dims = 512;
inline constexpr int k_v4_nope_dims = 448;
inline constexpr int k_v4_scale_group = 64;
inline constexpr int k_v4_scales = 7;
inline constexpr int k_v4_data_bytes = 576;
inline constexpr int k_v4_rope_offset_bytes = 448;
inline constexpr int k_v4_scale_bytes = 8;
inline constexpr int k_v4_row_bytes = 584;

[[nodiscard]] constexpr int qk_dims(KvFormat f) {
  return f == KvFormat::v32 ? k_v32_qk_dims : k_v4_qk_dims;
}
// Bytes that one token occupies in a page of the format.
[[nodiscard]] constexpr int row_bytes(KvFormat f) {
  return f == KvFormat::v32 ? k_v32_row_bytes : k_v4_row_bytes;
}
// Bytes that a page of page_size tokens holds: the least page stride.
[[nodiscard]] constexpr std::int64_t page_bytes(KvFormat f, std::int64_t page_size) {
  return page_size * row_bytes(f);
}
[[nodiscard]] constexpr const char* name_of(KvFormat f) {
  return f == KvFormat::v32 ? "v32" : "v4";
}

}  // namespace splitwave
