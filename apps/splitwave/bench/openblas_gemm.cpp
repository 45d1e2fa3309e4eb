// OpenBLAS sgemm, loaded when first asked for. Owns the load: OPENBLAS_CORETYPE, which some
// environments set, makes the library pick another processor's kernels, and it is read once, when
// the library initialises; so it is unset around the load and restored.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

#include "bench/gemm.h"

namespace splitwave::bench {
namespace {

using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                       const float* a, int lda, const float* b, int ldb, float beta, float* c,
                       int ldc);

struct OpenBlas {
  Sgemm sgemm = nullptr;
  void (*set_num_threads)(int) = nullptr;
  std::string version;
};

Expected<OpenBlas> load() {
  const char* const forced = std::getenv("OPENBLAS_CORETYPE");
  const std::string held = forced == nullptr ? "" : forced;
  unsetenv("OPENBLAS_CORETYPE");
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (forced != nullptr) setenv("OPENBLAS_CORETYPE", held.c_str(), 1);
  if (library == nullptr) {
    return environment_error("libopenblas.so.0 is not installed; install libopenblas0-pthread");
  }
  OpenBlas blas;
  blas.sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  blas.set_num_threads =
      reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  using Text = char* (*)();
  const auto config = reinterpret_cast<Text>(dlsym(library, "openblas_get_config"));
  if (blas.sgemm == nullptr || blas.set_num_threads == nullptr || config == nullptr) {
    return environment_error("libopenblas.so.0 lacks cblas_sgemm: another BLAS under that name");
  }
  blas.version = config();
  return blas;
}

class OpenBlasGemm final : public RowGemm {
 public:
  OpenBlasGemm(const GemmShape& shape, int threads, const OpenBlas& blas)
      : shape_(shape), threads_(threads), blas_(blas) {}

  [[nodiscard]] std::string name() const override { return "openblas-f32"; }
  [[nodiscard]] std::string version() const override { return blas_.version; }
  [[nodiscard]] bool takes_bf16() const override { return false; }
  void scores(const void* q, const void* k, float* s) override {
    constexpr int k_transposed = 112;
    product(k_transposed, shape_.keys, shape_.qk_dims, q, shape_.qk_dims, k, s, shape_.keys);
  }
  void values(const void* p, const void* v, float* o) override {
    constexpr int k_as_is = 111;
    product(k_as_is, shape_.value_dims, shape_.keys, p, shape_.keys, v, o, shape_.value_dims);
  }
  [[nodiscard]] bool idles_busily() const override { return threads_ > 1; }

 private:
  void product(int trans_b, int n, int k, const void* a, int lda, const void* b, float* c,
               int ldc) {
    constexpr int k_row_major = 101;
    constexpr int k_as_is = 111;
    static std::atomic<int> current{0};  // the library's count is global
    if (current.load() != threads_) {
      blas_.set_num_threads(threads_);
      current = threads_;
    }
    blas_.sgemm(k_row_major, k_as_is, trans_b, shape_.heads, n, k, 1.0F,
                static_cast<const float*>(a), lda, static_cast<const float*>(b), shape_.qk_dims,
                0.0F, c, ldc);
  }

  GemmShape shape_;
  int threads_;
  const OpenBlas& blas_;
};

}  // namespace

Expected<std::unique_ptr<RowGemm>> make_openblas_gemm(const GemmShape& shape, int threads) {
  static const Expected<OpenBlas> blas = load();
  if (!blas) return blas.error();
  return std::unique_ptr<RowGemm>(std::make_unique<OpenBlasGemm>(shape, threads, *blas));
}

}  // namespace splitwave::bench
