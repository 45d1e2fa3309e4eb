// The best library composition of one decode call: gather and dequantise, S = Q K^T, softmax, O = P
// V for each row. Owns the compositions (which library, and whether rows or products are spread
// over the threads) and the choice among them by time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "bench/gemm.h"
#include "bench/peer.h"
#include "bench/peer_simd.h"
#include "formats/bf16.h"
#include "kernels/cpu/row_entries.h"
#include "kernels/cpu/worker_pool.h"
#include "measure/host_timer.h"

namespace splitwave::bench {
namespace {

constexpr std::size_t k_alignment_bytes = 64;
constexpr double k_log2_e = 1.44269504088896340736;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
template <class T>
using Buffer = std::unique_ptr<T[], Free>;

template <class T>
Buffer<T> make_buffer(std::int64_t count) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
  const std::size_t padded =
      (bytes + k_alignment_bytes - 1) / k_alignment_bytes * k_alignment_bytes;
  return Buffer<T>(static_cast<T*>(std::aligned_alloc(k_alignment_bytes, padded)));
}

// One row's operands.
struct Space {
  Buffer<float> q, k, s, o;
  Buffer<std::uint16_t> q16, k16, p16;
  std::vector<cpu::RowRef> rows;
  std::vector<float> m, l;
};

struct Composition {
  std::string name;
  bool is_row_parallel = false;
  std::vector<std::unique_ptr<RowGemm>> gemms;  // one a worker, or one for all
};

class LibraryPeer final : public Peer {
 public:
  LibraryPeer(const Shape& shape, int threads)
      : shape_(shape), threads_(threads), pool_(threads),
        spaces_(static_cast<std::size_t>(threads)) {
    const std::int64_t keys = shape.width();
    const std::int64_t dims = qk_dims(shape.format);
    for (Space& space : spaces_) {
      space.q = make_buffer<float>(shape.heads * dims);
      space.q16 = make_buffer<std::uint16_t>(shape.heads * dims);
      space.k = make_buffer<float>(keys * dims);
      space.k16 = make_buffer<std::uint16_t>(keys * dims);
      space.s = make_buffer<float>(shape.heads * keys);
      space.p16 = make_buffer<std::uint16_t>(shape.heads * keys);
      space.o = make_buffer<float>(shape.heads * k_value_dims);
      space.rows.resize(static_cast<std::size_t>(keys));
      space.m.resize(static_cast<std::size_t>(shape.heads));
      space.l.resize(static_cast<std::size_t>(shape.heads));
    }
  }

  Status add_compositions();

  [[nodiscard]] std::string name() const override { return compositions_[chosen_].name; }
  [[nodiscard]] std::string version() const override {
    return compositions_[chosen_].gemms.front()->version();
  }
  Status choose(const DecodeCall& call) override;
  [[nodiscard]] const std::vector<PeerCandidate>& candidates() const override {
    return candidates_;
  }
  void run(const DecodeCall& call) override;
  void run_products(int rows) override;
  void settle() override;

 private:
  void add(const std::string& mode, std::vector<std::unique_ptr<RowGemm>> gemms, bool by_row);
  void load_rows(const DecodeCall& call, int row, Space& space) const;
  void dequantise(Space& space, bool is_bf16, int begin, int end) const;
  void load_q(const DecodeCall& call, int row, bool is_bf16, Space& space) const;
  void softmax(Space& space, bool is_bf16, float scale_log2, int begin, int end) const;
  void store(const DecodeCall& call, int row, const Space& space, int begin, int end) const;
  // One thread: its CPU time, which other processes do not lengthen.
  [[nodiscard]] std::int64_t now_ns() const {
    return threads_ == 1 ? measure::thread_cpu_ns() : measure::monotonic_ns();
  }
  static void scores(RowGemm& gemm, Space& space);
  static void values(RowGemm& gemm, Space& space);

  Shape shape_;
  int threads_;
  cpu::WorkerPool pool_;
  std::vector<Space> spaces_;
  std::vector<Composition> compositions_;
  std::vector<PeerCandidate> candidates_;
  std::size_t chosen_ = 0;
};

void LibraryPeer::add(const std::string& mode, std::vector<std::unique_ptr<RowGemm>> gemms,
                      bool by_row) {
  Composition composition;
  composition.name = gemms.front()->name() + ", " + mode;
  composition.is_row_parallel = by_row;
  composition.gemms = std::move(gemms);
  compositions_.push_back(std::move(composition));
}

Status LibraryPeer::add_compositions() {
  const GemmShape gemm{shape_.heads, shape_.width(), qk_dims(shape_.format), k_value_dims};
  std::string missing;
  for (const int library : {0, 1, 2}) {
    const auto make = [&](int threads) {
      return library == 2 ? make_openblas_gemm(gemm, threads)
                          : make_onednn_gemm(gemm, library == 0, threads);
    };
    for (const bool by_row : {true, false}) {
      if (!by_row && threads_ == 1) continue;  // the same as one row a thread
      std::vector<std::unique_ptr<RowGemm>> gemms;
      const int copies = by_row ? threads_ : 1;
      for (int i = 0; i < copies; ++i) {
        Expected<std::unique_ptr<RowGemm>> made = make(by_row ? 1 : threads_);
        if (!made) {
          missing += (missing.empty() ? "" : "; ") + made.error().message;
          break;
        }
        gemms.push_back(std::move(*made));
      }
      if (static_cast<int>(gemms.size()) != copies) break;
      add(by_row ? "one row a thread" : "one product over all threads", std::move(gemms), by_row);
    }
  }
  if (compositions_.empty()) return environment_error("no library peer: " + missing);
  return {};
}

void LibraryPeer::load_rows(const DecodeCall& call, int row, Space& space) const {
  const cpu::Pool main_pool(shape_.format, call.main_cache);
  const std::int32_t* const main_slots = call.main_list.slots + row * call.main_list.row_stride;
  for (int i = 0; i < shape_.main_width; ++i) {
    space.rows[static_cast<std::size_t>(i)] = main_pool.row(main_slots[i]);
  }
  if (shape_.extra_width == 0) return;
  const cpu::Pool extra_pool(shape_.format, call.extra_cache);
  const std::int32_t* const extra_slots = call.extra_list.slots + row * call.extra_list.row_stride;
  for (int i = 0; i < shape_.extra_width; ++i) {
    space.rows[static_cast<std::size_t>(shape_.main_width + i)] = extra_pool.row(extra_slots[i]);
  }
}

void LibraryPeer::dequantise(Space& space, bool is_bf16, int begin, int end) const {
  const std::int64_t dims = qk_dims(shape_.format);
  const int known = shape_.width();
  if (!is_bf16) {
    dequantise_rows(shape_.format, space.rows.data() + begin, end - begin, known - begin,
                    space.k.get() + begin * dims);
    return;
  }
  // Through a block of fp32 rows that stays in L1.
  constexpr int k_block = 8;
  for (int at = begin; at < end; at += k_block) {
    const int count = std::min(k_block, end - at);
    alignas(64) float block[k_block * k_v32_qk_dims];
    dequantise_rows(shape_.format, space.rows.data() + at, count, known - at, block);
    to_bf16(block, count * dims, space.k16.get() + at * dims);
  }
}

void LibraryPeer::load_q(const DecodeCall& call, int row, bool is_bf16, Space& space) const {
  const int dims = qk_dims(shape_.format);
  for (int h = 0; h < shape_.heads; ++h) {
    const std::uint16_t* const from = call.q + row * call.q_row_stride + h * call.q_head_stride;
    if (is_bf16) {
      std::copy(from, from + dims, space.q16.get() + std::ptrdiff_t{h} * dims);
    } else {
      float* const to = space.q.get() + std::ptrdiff_t{h} * dims;
      for (int i = 0; i < dims; ++i) to[i] = bf16_to_float(from[i]);
    }
  }
}

void LibraryPeer::scores(RowGemm& gemm, Space& space) {
  const bool is_bf16 = gemm.takes_bf16();
  gemm.scores(is_bf16 ? static_cast<const void*>(space.q16.get()) : space.q.get(),
              is_bf16 ? static_cast<const void*>(space.k16.get()) : space.k.get(), space.s.get());
}

void LibraryPeer::values(RowGemm& gemm, Space& space) {
  const bool is_bf16 = gemm.takes_bf16();
  gemm.values(is_bf16 ? static_cast<const void*>(space.p16.get()) : space.s.get(),
              is_bf16 ? static_cast<const void*>(space.k16.get()) : space.k.get(), space.o.get());
}

void LibraryPeer::softmax(Space& space, bool is_bf16, float scale_log2, int begin, int end) const {
  const int keys = shape_.width();
  for (int h = begin; h < end; ++h) {
    const auto at = static_cast<std::size_t>(h);
    float* const s = space.s.get() + std::ptrdiff_t{h} * keys;
    softmax_row(s, keys, scale_log2, &space.m[at], &space.l[at]);
    if (is_bf16) to_bf16(s, keys, space.p16.get() + std::ptrdiff_t{h} * keys);
  }
}

void LibraryPeer::store(const DecodeCall& call, int row, const Space& space, int begin,
                        int end) const {
  for (int h = begin; h < end; ++h) {
    const auto at = static_cast<std::size_t>(h);
    const double m = double{space.m[at]};
    double denominator = double{space.l[at]};
    if (call.sink != nullptr) denominator += std::exp2(double{call.sink[h]} * k_log2_e - m);
    scale_to_bf16(space.o.get() + std::ptrdiff_t{h} * k_value_dims, k_value_dims,
                  static_cast<float>(1.0 / denominator),
                  call.out + row * call.out_row_stride + h * call.out_head_stride);
    if (call.lse == nullptr) continue;
    call.lse[row * call.lse_row_stride + h] =
        static_cast<float>((m + std::log2(double{space.l[at]})) / k_log2_e);
  }
}

void LibraryPeer::run(const DecodeCall& call) {
  Composition& composition = compositions_[chosen_];
  const bool is_bf16 = composition.gemms.front()->takes_bf16();
  const auto scale_log2 = static_cast<float>(double{call.softmax_scale} * k_log2_e);
  if (composition.is_row_parallel) {
    std::atomic<int> next{0};
    pool_.run(std::min(threads_, call.rows), [&](int worker) {
      use_one_library_thread();
      Space& space = spaces_[static_cast<std::size_t>(worker)];
      RowGemm& gemm = *composition.gemms[static_cast<std::size_t>(worker)];
      for (int row = next.fetch_add(1); row < call.rows; row = next.fetch_add(1)) {
        load_rows(call, row, space);
        load_q(call, row, is_bf16, space);
        dequantise(space, is_bf16, 0, shape_.width());
        scores(gemm, space);
        softmax(space, is_bf16, scale_log2, 0, shape_.heads);
        values(gemm, space);
        store(call, row, space, 0, shape_.heads);
      }
    });
    return;
  }
  Space& space = spaces_.front();
  RowGemm& gemm = *composition.gemms.front();
  const auto share = [&](int count, int worker) { return count * worker / threads_; };
  for (int row = 0; row < call.rows; ++row) {
    load_rows(call, row, space);
    load_q(call, row, is_bf16, space);
    pool_.run(threads_, [&](int worker) {
      dequantise(space, is_bf16, share(shape_.width(), worker), share(shape_.width(), worker + 1));
    });
    scores(gemm, space);
    pool_.run(threads_, [&](int worker) {
      softmax(space, is_bf16, scale_log2, share(shape_.heads, worker),
              share(shape_.heads, worker + 1));
    });
    values(gemm, space);
    pool_.run(threads_, [&](int worker) {
      store(call, row, space, share(shape_.heads, worker), share(shape_.heads, worker + 1));
    });
  }
}

void LibraryPeer::run_products(int rows) {
  Composition& composition = compositions_[chosen_];
  if (composition.is_row_parallel) {
    std::atomic<int> next{0};
    pool_.run(std::min(threads_, rows), [&](int worker) {
      use_one_library_thread();
      const auto at = static_cast<std::size_t>(worker);
      while (next.fetch_add(1) < rows) {
        scores(*composition.gemms[at], spaces_[at]);
        values(*composition.gemms[at], spaces_[at]);
      }
    });
    return;
  }
  for (int row = 0; row < rows; ++row) {
    scores(*composition.gemms.front(), spaces_.front());
    values(*composition.gemms.front(), spaces_.front());
  }
}

void LibraryPeer::settle() {
  if (!compositions_[chosen_].gemms.front()->idles_busily()) return;
  // OpenBLAS threads yield in a loop for about 2^26 cycles, GNU OpenMP's spin for a few
  // milliseconds.
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
}

Status LibraryPeer::choose(const DecodeCall& call) {
  constexpr int k_trials = 5;
  candidates_.clear();
  std::size_t best = 0;
  for (std::size_t i = 0; i < compositions_.size(); ++i) {
    chosen_ = i;
    run(call);  // warms up: creation of threads, first touch
    PeerCandidate candidate{compositions_[i].name, 0, 0};
    for (int trial = 0; trial < k_trials; ++trial) {
      const std::int64_t start_ns = now_ns();
      run(call);
      const std::int64_t middle_ns = now_ns();
      run_products(call.rows);
      const double product_us = static_cast<double>(now_ns() - middle_ns) * 1e-3;
      const double call_us = static_cast<double>(middle_ns - start_ns) * 1e-3;
      const double rate = call.rows * shape_.flops_per_row() / (1e3 * product_us);
      candidate.call_us = trial == 0 ? call_us : std::min(candidate.call_us, call_us);
      candidate.gemm_gflops = std::max(candidate.gemm_gflops, rate);
    }
    settle();
    candidates_.push_back(candidate);
    if (candidate.call_us < candidates_[best].call_us) best = i;
  }
  chosen_ = best;
  return {};
}

}  // namespace

Expected<std::unique_ptr<Peer>> make_library_peer(const Shape& shape, int threads) {
  auto peer = std::make_unique<LibraryPeer>(shape, threads);
  if (Status status = peer->add_compositions(); !status) return status.error();
  return std::unique_ptr<Peer>(std::move(peer));
}

}  // namespace splitwave::bench
