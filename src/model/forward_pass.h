// One pass of the model over a TokenBatch: embedding, every layer, and the head for the tokens that
// want logits. Owns the operators, the activations and the time spent in each operator; created
// once, allocates little after. Called by the CPU engine.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/worker_pool.h"
#include "model/kv_store.h"
#include "model/token_batch.h"
#include "model/token_ops.h"
#include "model/weights.h"
#include "splitwave/decoder.h"
#include "splitwave/ops.h"

namespace splitwave::model {

// The parts of a pass that are timed apart.
enum class Operator : std::uint8_t {
  embedding,
  hyper_connections,
  projections,
  cache_writes,
  compressor,
  indexer,
  attention,
  output,
  experts,
  head,
  count,
};
[[nodiscard]] const char* name_of(Operator op);

// What a seeded fault does to one pass; all off in service.
struct PassFault {
  SeededFault kind = SeededFault::none;
  std::uint64_t draw = 0;  // picks the layer, the piece, the bit
};

class ForwardPass {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<ForwardPass>> create(const ModelConfig& config,
                                                                     ModelWeights weights,
                                                                     const EngineOptions& options,
                                                                     int threads);

  // Runs the batch; caches and states advance. wanted: token rows whose logits are written, in
  // order, vocab_size floats each.
  [[nodiscard]] Status run(const TokenBatch& batch, KvStore& store, const PassFault& fault,
                           std::span<const int> wanted, float* logits);

  [[nodiscard]] std::vector<OperatorTime> take_times();
  [[nodiscard]] const Decoder& decoder(int ratio) const;
  // Distinct experts that a layer's tokens used, summed over layers and passes, and the layer runs.
  [[nodiscard]] std::int64_t distinct_experts() const { return distinct_experts_; }
  [[nodiscard]] std::int64_t expert_layers() const { return expert_layers_; }

 private:
  class Timer;
  using Rows = std::vector<float>;

  ForwardPass(const ModelConfig& config, ModelWeights weights, const EngineOptions& options,
              int threads);
  [[nodiscard]] Status create_operators();
  void size_activations();
  template <class Body>
  void for_tokens(int tokens, Body&& body);
  void multiply(const Linear& w, const float* x, int rows, float* y);
  void multiply_rounded(const Linear& w, const float* x, int rows, float* y);
  void quantise_rows(const float* x, int rows, int dims, float* out);
  void read_streams(const MixingWeights& w, const std::vector<float>& norm, int tokens);
  void write_streams(int tokens);
  [[nodiscard]] Status run_attention(int layer, const TokenBatch& batch, KvStore& store,
                                     const PassFault& fault);
  void project_queries(const LayerWeights& w, const TokenBatch& batch);
  [[nodiscard]] Status write_window(const LayerWeights& w, const TokenBatch& batch,
                                    LayerCaches& caches, std::span<const std::int64_t> slots);
  [[nodiscard]] Status compress(const CompressorWeights& w, Compressor& compressor,
                                const TokenBatch& batch, std::vector<float>& state,
                                std::int64_t state_floats, std::span<const std::int64_t> slots,
                                const WritableCacheView& cache);
  [[nodiscard]] Status select_entries(const LayerWeights& w, const TokenBatch& batch,
                                      const LayerCaches& caches, const KvStore& store);
  [[nodiscard]] Status attend(const LayerWeights& w, const TokenBatch& batch, LayerCaches& caches,
                              const KvStore& store);
  void project_output(const LayerWeights& w, const TokenBatch& batch, int source_stride);
  void run_experts(const LayerWeights& w, const TokenBatch& batch);
  void route_tokens(const LayerWeights& w, const TokenBatch& batch);
  void join_active_experts(std::span<const float> scores, std::span<const float> bias, int tokens);
  void multiply_experts(const LayerWeights& w, int tokens);
  void run_head(std::span<const int> wanted, float* logits);
  [[nodiscard]] const float* table_of(int ratio) const {
    return ratio == 0 ? plain_rope_.data() : compressed_rope_.data();
  }

  ModelConfig config_;
  ModelWeights weights_;
  EngineOptions options_;
  cpu::WorkerPool pool_;
  std::vector<float> plain_rope_, compressed_rope_;

  std::unique_ptr<Decoder> window_decoder_, c4_decoder_, c128_decoder_;
  std::unique_ptr<Indexer> indexer_;
  std::unique_ptr<CacheWriter> writer_;
  std::unique_ptr<Compressor> c4_compressor_, c128_compressor_, indexer_compressor_;

  // Activations, [tokens_per_step_max, ..]; bf16 codes where an operator takes them.
  Rows streams_, hidden_, quantised_, products_, sublayer_, qr_, q_, kv_, compress_kv_,
      compress_gate_, z_, scores_, expert_out_, shared_gate_, shared_up_;
  std::vector<Mixing> mixing_;
  std::vector<std::uint16_t> q_bf16_, kv_bf16_, out_bf16_, indexer_q_;
  Rows indexer_weights_in_, indexer_weights_;
  std::vector<std::uint8_t> indexer_codes_, indexer_scales_;
  std::vector<std::int32_t> selected_, selected_counts_;
  std::vector<Route> routes_;
  std::vector<std::vector<int>> expert_rows_;  // by expert: token * k + slot
  std::vector<Rows> expert_scratch_;           // by worker

  int previous_tokens_ = 0;  // for the stale-stride fault
  std::int64_t distinct_experts_ = 0, expert_layers_ = 0;
  std::array<OperatorTime, static_cast<std::size_t>(Operator::count)> times_;
};

}  // namespace splitwave::model
