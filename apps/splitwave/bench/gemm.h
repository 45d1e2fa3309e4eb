// One library's two matrix products of a row, behind one interface: S = scale * Q K^T and O = P V.
// Owns the interface; onednn_gemm.cpp and openblas_gemm.cpp implement it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "splitwave/status.h"

namespace splitwave::bench {

struct GemmShape {
  int heads = 0;
  int keys = 0;
  int qk_dims = 0;
  int value_dims = 0;
};

// Operand types: element is f32, or bf16 with f32 results. All row-major, dense.
class RowGemm {
 public:
  virtual ~RowGemm() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::string version() const = 0;
  [[nodiscard]] virtual bool takes_bf16() const = 0;
  // s [heads, keys] = q [heads, qk_dims] * k [keys, k_stride]^T
  virtual void scores(const void* q, const void* k, float* s) = 0;
  // o [heads, value_dims] = p [heads, keys] * v [keys, k_stride]; v is the first dims of k
  virtual void values(const void* p, const void* v, float* o) = 0;
  // Whether its idle threads keep a core busy for a while after a call.
  [[nodiscard]] virtual bool idles_busily() const = 0;
};

// threads: of one product. Objects with one thread may run concurrently, one an own thread.
[[nodiscard]] Expected<std::unique_ptr<RowGemm>> make_onednn_gemm(const GemmShape& shape,
                                                                  bool is_bf16, int threads);
[[nodiscard]] Expected<std::unique_ptr<RowGemm>> make_openblas_gemm(const GemmShape& shape,
                                                                    int threads);
// Each worker thread of a row-parallel composition calls this once: its library calls then stay on
// the thread.
void use_one_library_thread();

}  // namespace splitwave::bench
