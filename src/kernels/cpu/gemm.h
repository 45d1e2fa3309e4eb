// Dense products for the CPU engine: a few rows of activations against a weight matrix. Owns
// gemm_rows. Every output is one sum in an order that its inputs' length and the ISA fix: tile
// shapes, other rows and the number of threads never change a bit. Called by src/model.
#pragma once

#include <cstdint>

namespace splitwave::cpu {

// The inner length of every product is a multiple of this.
inline constexpr int k_gemm_inputs_multiple = 16;

// y[t, n] = sum over i of x[t, i] * w[n, i]; t < rows, n < outputs, i < inputs. fp32, w contiguous.
struct GemmTask {
  const float* x = nullptr;
  std::int64_t x_stride = 0;  // elements
  int rows = 0;
  const float* w = nullptr;
  int outputs = 0;
  int inputs = 0;  // a multiple of k_gemm_inputs_multiple
  float* y = nullptr;
  std::int64_t y_stride = 0;  // elements
};

void gemm_rows(const GemmTask& task);

}  // namespace splitwave::cpu
