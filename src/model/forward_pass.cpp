// Creation, the layers' order, and what every sub-layer shares: products, rounding, streams.
#include "model/forward_pass.h"

#include <algorithm>

#include "kernels/cpu/gemm.h"
#include "model/forward_timer.h"
#include "runtime/environment.h"

namespace splitwave::model {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(Operator::count)> k_names{
    "embedding", "hyper_connections", "projections", "cache_writes", "compressor",
    "indexer",   "attention",         "output",      "experts",      "head"};

template <class T>
Status keep(Expected<T> made, std::unique_ptr<T>& where) {
  if (!made.ok()) return made.error();
  where = std::make_unique<T>(std::move(*made));
  return {};
}

std::size_t product(std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); }

}  // namespace

const char* name_of(Operator op) { return k_names[static_cast<std::size_t>(op)]; }

Expected<std::unique_ptr<ForwardPass>> ForwardPass::create(const ModelConfig& config,
                                                           ModelWeights weights,
                                                           const EngineOptions& options,
                                                           int threads) {
  std::unique_ptr<ForwardPass> pass(new ForwardPass(config, std::move(weights), options, threads));
  if (auto status = pass->create_operators(); !status.ok()) return status.error();
  pass->size_activations();
  return pass;
}

ForwardPass::ForwardPass(const ModelConfig& config, ModelWeights weights,
                         const EngineOptions& options, int threads)
    : config_(config),
      weights_(std::move(weights)),
      options_(options),
      pool_(threads),
      plain_rope_(rope_table(config, false, options.positions_max)),
      compressed_rope_(rope_table(config, true, options.positions_max)) {
  for (std::size_t i = 0; i < times_.size(); ++i) times_[i].name = k_names[i];
}

Status ForwardPass::create_operators() {
  const auto has = [&](int ratio) {
    return std::ranges::find(config_.compress_ratios, ratio) != config_.compress_ratios.end();
  };
  DecoderOptions decoding;
  decoding.backend = Backend::cpu;
  decoding.threads = pool_.threads();
  if (!options_.plan.empty()) {
    auto overrides = parse_plan_overrides(options_.plan);
    if (!overrides.ok()) return overrides.error();
    decoding.overrides = *overrides;
  }
  OpsOptions ops;
  ops.backend = Backend::cpu;
  ops.threads = pool_.threads();
  const auto make_decoder = [&](int extra_width, std::unique_ptr<Decoder>& where) {
    ProblemSpec spec;
    spec.heads = config_.heads;
    spec.main_width = config_.sliding_window;
    spec.extra_width = extra_width;
    spec.rows_max = options_.tokens_per_step_max;
    return keep(Decoder::create(spec, decoding), where);
  };
  const auto make_compressor = [&](int ratio, int dims, CompressorTarget target,
                                   std::unique_ptr<Compressor>& where) {
    CompressorSpec spec;
    spec.ratio = ratio;
    spec.dims = dims;
    spec.target = target;
    spec.hadamard = target == CompressorTarget::indexer_fp4;
    spec.norm_eps = static_cast<float>(config_.rms_norm_eps);
    spec.sequences_max = options_.tokens_per_step_max;
    spec.tokens_max = options_.tokens_per_step_max;
    return keep(Compressor::create(spec, ops), where);
  };
  IndexerSpec indexing;
  indexing.keys = IndexerFormat::fp4;
  indexing.heads = std::max(1, config_.index_heads);
  indexing.rows_max = options_.tokens_per_step_max;
  indexing.length_max = std::max(1, options_.positions_max / 4);
  indexing.k_max = std::max(1, config_.index_topk);
  Status status = keep(CacheWriter::create(ops), writer_);
  if (status.ok()) status = make_decoder(0, window_decoder_);
  if (status.ok() && has(4)) status = make_decoder(config_.index_topk, c4_decoder_);
  if (status.ok() && has(128)) {
    status = make_decoder(options_.positions_max / k_block_tokens, c128_decoder_);
  }
  if (status.ok() && has(4)) status = keep(Indexer::create(indexing, ops), indexer_);
  const int dims = config_.head_dim;
  if (status.ok()) {
    status = make_compressor(4, dims, CompressorTarget::v4_cache, c4_compressor_);
  }
  if (status.ok()) {
    status = make_compressor(128, dims, CompressorTarget::v4_cache, c128_compressor_);
  }
  if (status.ok()) {
    status = make_compressor(4, k_indexer_dims, CompressorTarget::indexer_fp4, indexer_compressor_);
  }
  return status;
}

void ForwardPass::size_activations() {
  const std::int64_t tokens = options_.tokens_per_step_max;
  const std::int64_t hidden = config_.hidden;
  const std::int64_t widest = std::max<std::int64_t>(
      {hidden, config_.q_lora_rank, std::int64_t{config_.o_groups} * config_.o_lora_rank,
       config_.moe_intermediate});
  const std::int64_t head_width = std::int64_t{config_.heads} * config_.head_dim;
  const std::int64_t index_width = std::int64_t{std::max(1, config_.index_heads)} * k_indexer_dims;
  streams_.resize(product(tokens, hidden * config_.hc_mult));
  hidden_.resize(product(tokens, hidden));
  quantised_.resize(product(tokens, widest));
  products_.resize(product(tokens, std::max<std::int64_t>(64, index_width)));
  sublayer_.resize(product(tokens, hidden));
  mixing_.resize(product(tokens, 1));
  qr_.resize(product(tokens, config_.q_lora_rank));
  q_.resize(product(tokens, head_width));
  q_bf16_.resize(product(tokens, head_width));
  out_bf16_.resize(product(tokens, head_width));
  kv_.resize(product(tokens, config_.head_dim));
  kv_bf16_.resize(product(tokens, config_.head_dim));
  compress_kv_.resize(product(tokens, 2 * config_.head_dim));
  compress_gate_.resize(product(tokens, 2 * config_.head_dim));
  z_.resize(product(tokens, std::int64_t{config_.o_groups} * config_.o_lora_rank));
  indexer_q_.resize(product(tokens, index_width));
  indexer_codes_.resize(product(tokens, index_width / 2));
  indexer_scales_.resize(product(tokens, index_width / k_indexer_fp4_group));
  indexer_weights_in_.resize(product(tokens, std::max(1, config_.index_heads)));
  indexer_weights_.resize(product(tokens, std::max(1, config_.index_heads)));
  selected_.resize(product(tokens, std::max(1, config_.index_topk)));
  selected_counts_.resize(product(tokens, 1));
  scores_.resize(product(tokens, config_.routed_experts));
  routes_.resize(product(tokens, config_.experts_per_token));
  expert_out_.resize(product(tokens * config_.experts_per_token, hidden));
  shared_gate_.resize(product(tokens, config_.moe_intermediate));
  shared_up_.resize(product(tokens, config_.moe_intermediate));
  expert_rows_.resize(static_cast<std::size_t>(config_.routed_experts));
  expert_scratch_.resize(static_cast<std::size_t>(pool_.threads()));
  for (Rows& scratch : expert_scratch_) {
    scratch.resize(product(tokens, 2 * hidden + 2 * config_.moe_intermediate));
  }
}

void ForwardPass::multiply(const Linear& w, const float* x, int rows, float* y) {
  const int quads = (w.outputs + 3) / 4;
  const std::int64_t work = std::int64_t{rows} * w.outputs * w.inputs;
  const int workers = work < k_parallel_products ? 1 : std::min(pool_.threads(), quads);
  pool_.run(workers, [&](int worker) {
    const int begin = 4 * static_cast<int>(std::int64_t{quads} * worker / workers);
    const int end =
        std::min(w.outputs, 4 * static_cast<int>(std::int64_t{quads} * (worker + 1) / workers));
    cpu::GemmTask task;
    task.x = x;
    task.x_stride = w.inputs;
    task.rows = rows;
    task.w = w.values.data() + std::int64_t{begin} * w.inputs;
    task.outputs = end - begin;
    task.inputs = w.inputs;
    task.y = y + begin;
    task.y_stride = w.outputs;
    cpu::gemm_rows(task);
  });
}

// The input is rounded where the checkpoint's format asks for it, the output to bf16.
void ForwardPass::multiply_rounded(const Linear& w, const float* x, int rows, float* y) {
  if (w.quantises_input) {
    quantise_rows(x, rows, w.inputs, quantised_.data());
    x = quantised_.data();
  }
  multiply(w, x, rows, y);
  for_tokens(rows, [&](int t) {
    float* row = y + std::int64_t{t} * w.outputs;
    for (int i = 0; i < w.outputs; ++i) row[i] = rounded(row[i]);
  });
}

void ForwardPass::quantise_rows(const float* x, int rows, int dims, float* out) {
  for_tokens(rows, [&](int t) {
    quantise_activation(x + std::int64_t{t} * dims, dims, out + std::int64_t{t} * dims);
  });
}

// Streams to the sub-layer's normed input: hidden_.
void ForwardPass::read_streams(const MixingWeights& w, const std::vector<float>& norm, int tokens) {
  const Timer timer(*this, Operator::hyper_connections);
  const int width = config_.hc_mult * config_.hidden;
  multiply(w.fn, streams_.data(), tokens, products_.data());
  for_tokens(tokens, [&](int t) {
    const float* x = streams_.data() + std::int64_t{t} * width;
    double square_sum = 0;
    for (int i = 0; i < width; ++i) square_sum += double(x[i]) * x[i];
    Mixing& m = mixing_[static_cast<std::size_t>(t)];
    m = mixing_of(products_.data() + std::int64_t{t} * w.fn.outputs, square_sum, w, config_);
    float* h = hidden_.data() + std::int64_t{t} * config_.hidden;
    mix_in(m, x, config_.hc_mult, config_.hidden, h);
    rms_norm(h, norm.data(), config_.hidden, config_.rms_norm_eps, h);
  });
}

// The sub-layer's output, sublayer_, back into the streams.
void ForwardPass::write_streams(int tokens) {
  const Timer timer(*this, Operator::hyper_connections);
  for_tokens(tokens, [&](int t) {
    mix_out(mixing_[static_cast<std::size_t>(t)],
            sublayer_.data() + std::int64_t{t} * config_.hidden, config_.hc_mult, config_.hidden,
            streams_.data() + std::int64_t{t} * config_.hc_mult * config_.hidden);
  });
}

Status ForwardPass::run(const TokenBatch& batch, KvStore& store, const PassFault& fault,
                        std::span<const int> wanted, float* logits) {
  {
    const Timer timer(*this, Operator::embedding);
    for_tokens(batch.tokens, [&](int t) {
      const float* e = weights_.embedding.data() +
                       std::int64_t{batch.ids[static_cast<std::size_t>(t)]} * config_.hidden;
      float* x = streams_.data() + std::int64_t{t} * config_.hc_mult * config_.hidden;
      for (int k = 0; k < config_.hc_mult; ++k) {
        std::copy(e, e + config_.hidden, x + std::int64_t{k} * config_.hidden);
      }
    });
  }
  for (int l = 0; l < config_.layers; ++l) {
    const LayerWeights& w = weights_.layers[static_cast<std::size_t>(l)];
    read_streams(w.attention_mixing, w.attention_norm, batch.tokens);
    if (auto status = run_attention(l, batch, store, fault); !status.ok()) return status;
    write_streams(batch.tokens);
    read_streams(w.ffn_mixing, w.ffn_norm, batch.tokens);
    run_experts(w, batch);
    write_streams(batch.tokens);
  }
  run_head(wanted, logits);
  previous_tokens_ = batch.tokens;
  return {};
}

void ForwardPass::run_head(std::span<const int> wanted, float* logits) {
  if (wanted.empty()) return;
  const Timer timer(*this, Operator::head);
  const int width = config_.hc_mult * config_.hidden;
  const MixingWeights& w = weights_.head_mixing;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const float* x = streams_.data() + std::int64_t{wanted[i]} * width;
    float* h = hidden_.data() + static_cast<std::ptrdiff_t>(i) * config_.hidden;
    float products[k_streams_max];
    cpu::GemmTask task{x,        width,        1, w.fn.values.data(), w.fn.outputs, w.fn.inputs,
                       products, k_streams_max};
    cpu::gemm_rows(task);
    double square_sum = 0;
    for (int d = 0; d < width; ++d) square_sum += double(x[d]) * x[d];
    mix_in(head_mixing_of(products, square_sum, w, config_), x, config_.hc_mult, config_.hidden, h);
    rms_norm(h, weights_.norm.data(), config_.hidden, config_.rms_norm_eps, h);
  }
  multiply(weights_.head, hidden_.data(), static_cast<int>(wanted.size()), logits);
}

std::vector<OperatorTime> ForwardPass::take_times() {
  std::vector<OperatorTime> taken(times_.begin(), times_.end());
  for (OperatorTime& time : times_) {
    time.calls = 0;
    time.seconds = 0;
  }
  return taken;
}

const Decoder& ForwardPass::decoder(int ratio) const {
  return ratio == 4 && c4_decoder_       ? *c4_decoder_
         : ratio == 128 && c128_decoder_ ? *c128_decoder_
                                         : *window_decoder_;
}

}  // namespace splitwave::model
