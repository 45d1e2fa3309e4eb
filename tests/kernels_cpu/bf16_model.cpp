// vdpbf16ps by two fused multiply-adds: the odd elements first, then the even ones.
#include "kernels_cpu/bf16_model.h"

#include "kernels/cpu/decode_bf16_inl.h"

namespace splitwave::cpu {
namespace {

struct ModelDot {
  static __m512 add(__m512 sum, __m512i a, __m512i b) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    const auto odd = [&](__m512i x) { return _mm512_castsi512_ps(_mm512_and_si512(x, high)); };
    const auto even = [](__m512i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); };
    return _mm512_fmadd_ps(even(a), even(b), _mm512_fmadd_ps(odd(a), odd(b), sum));
  }
};
using Model = bf16::Kernels<ModelDot>;

const DecodeKernels* fp32_parts = nullptr;

void attend_tile(const TileTask& task) { Model::AttendTile(task, *fp32_parts); }

}  // namespace

const DecodeKernels& bf16_model_kernels(const DecodeKernels& fp32) {
  static const DecodeKernels table = [&] {
    fp32_parts = &fp32;
    DecodeKernels made = fp32;
    made.isa = "avx512_bf16 model";
    made.arithmetic = "bf16_dot_split_p";
    made.pack_q = Model::PackQ;
    made.attend_tile = attend_tile;
    return made;
  }();
  return table;
}

void bf16_model_panel(const DecodeKernels& fp32, const TileTask& task, int panel, std::uint16_t* k,
                      std::uint32_t* v) {
  Model::DecodePanel(task, fp32, panel, k, v);
}

}  // namespace splitwave::cpu
