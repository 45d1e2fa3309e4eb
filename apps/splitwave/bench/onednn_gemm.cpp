// oneDNN's matmul, f32 and bf16. Owns primitive creation (once) and the OpenMP thread count.
#include <omp.h>

#include <dnnl.hpp>
#include <unordered_map>

#include "bench/gemm.h"

namespace splitwave::bench {
namespace {

using dnnl::memory;

class OneDnnGemm final : public RowGemm {
 public:
  OneDnnGemm(const GemmShape& shape, bool is_bf16, int threads)
      : is_bf16_(is_bf16), threads_(threads), engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {
    const auto in = is_bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const auto f32 = memory::data_type::f32;
    omp_set_num_threads(threads);
    q_ = {{shape.heads, shape.qk_dims}, in, memory::format_tag::ab};
    // K^T: [qk_dims, keys] read from row-major [keys, qk_dims].
    k_ = {{shape.qk_dims, shape.keys}, in, memory::dims{1, shape.qk_dims}};
    s_ = {{shape.heads, shape.keys}, f32, memory::format_tag::ab};
    p_ = {{shape.heads, shape.keys}, in, memory::format_tag::ab};
    v_ = {{shape.keys, shape.value_dims}, in, memory::dims{shape.qk_dims, 1}};
    o_ = {{shape.heads, shape.value_dims}, f32, memory::format_tag::ab};
    scores_ = make(q_, k_, s_);
    values_ = make(p_, v_, o_);
  }

  [[nodiscard]] std::string name() const override {
    return is_bf16_ ? "onednn-bf16" : "onednn-f32";
  }
  [[nodiscard]] std::string version() const override {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch);
  }
  [[nodiscard]] bool takes_bf16() const override { return is_bf16_; }
  void scores(const void* q, const void* k, float* s) override {
    execute(scores_, q_, k_, s_, q, k, s);
  }
  void values(const void* p, const void* v, float* o) override {
    execute(values_, p_, v_, o_, p, v, o);
  }
  [[nodiscard]] bool idles_busily() const override { return threads_ > 1; }

 private:
  [[nodiscard]] dnnl::matmul make(const memory::desc& a, const memory::desc& b,
                                  const memory::desc& c) const {
    return dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), engine_));
  }
  void execute(dnnl::matmul& product, const memory::desc& ad, const memory::desc& bd,
               const memory::desc& cd, const void* a, const void* b, float* c) {
    if (threads_ > 1) omp_set_num_threads(threads_);
    memory am(ad, engine_, const_cast<void*>(a));
    memory bm(bd, engine_, const_cast<void*>(b));
    memory cm(cd, engine_, c);
    product.execute(stream_, {{DNNL_ARG_SRC, am}, {DNNL_ARG_WEIGHTS, bm}, {DNNL_ARG_DST, cm}});
    stream_.wait();
  }

  bool is_bf16_;
  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  memory::desc q_, k_, s_, p_, v_, o_;
  dnnl::matmul scores_, values_;
};

}  // namespace

void use_one_library_thread() { omp_set_num_threads(1); }

Expected<std::unique_ptr<RowGemm>> make_onednn_gemm(const GemmShape& shape, bool is_bf16,
                                                    int threads) {
  try {
    return std::unique_ptr<RowGemm>(std::make_unique<OneDnnGemm>(shape, is_bf16, threads));
  } catch (const dnnl::error& e) {
    return environment_error(std::string("oneDNN has no ") + (is_bf16 ? "bf16" : "f32") +
                             " matmul for this processor: " + e.what());
  }
}

}  // namespace splitwave::bench
