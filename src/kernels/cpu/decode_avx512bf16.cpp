// The one file compiled for AVX-512-BF16: vdpbf16ps as the dot of decode_bf16_inl.h.
#include "kernels/cpu/decode_avx512bf16.h"

#if defined(__AVX512BF16__)
#include <cpuid.h>

#include "kernels/cpu/decode_bf16_inl.h"

namespace splitwave::cpu {
namespace {

struct HardwareDot {
  static __m512 add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};
using Hardware = bf16::Kernels<HardwareDot>;

const DecodeKernels* fp32_parts = nullptr;

void attend_tile(const TileTask& task) { Hardware::AttendTile(task, *fp32_parts); }

}  // namespace

bool has_avx512bf16() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & (1U << 5)) == 0) return false;
  // The base features imply that the system saves the registers.
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
}

const DecodeKernels* avx512bf16_kernels(const DecodeKernels& fp32) {
  static const DecodeKernels table = [&] {
    fp32_parts = &fp32;
    DecodeKernels made = fp32;
    made.isa = "avx512_bf16";
    made.arithmetic = "bf16_dot_split_p";
    made.pack_q = Hardware::PackQ;
    made.attend_tile = attend_tile;
    made.multiply_add_loop = Hardware::DotLoop;
    return made;
  }();
  return &table;
}

}  // namespace splitwave::cpu

#else

namespace splitwave::cpu {

bool has_avx512bf16() { return false; }
const DecodeKernels* avx512bf16_kernels(const DecodeKernels& /*fp32*/) { return nullptr; }

}  // namespace splitwave::cpu

#endif
