// The feed-forward sub-layer: routing, the experts' products gathered by expert, the shared expert.
// A token's experts are summed in the order in which it chose them, whatever else runs.
#include <algorithm>
#include <atomic>

#include "kernels/cpu/gemm.h"
#include "model/forward_pass.h"
#include "model/forward_timer.h"

namespace splitwave::model {

// Opportunistic activation (arXiv 2511.02237): after the first k0 experts of every token, a token
// takes the best of those that the batch already runs. Batch-dependent by design; off by default.
void ForwardPass::join_active_experts(std::span<const float> scores, std::span<const float> bias,
                                      int tokens) {
  const int k = config_.experts_per_token;
  const int k0 = std::min(options_.opportunistic_k0, k);
  const auto experts = static_cast<std::size_t>(config_.routed_experts);
  std::vector<bool> active(experts);
  for (int t = 0; t < tokens; ++t) {
    for (int slot = 0; slot < k0; ++slot) {
      active[static_cast<std::size_t>(routes_[static_cast<std::size_t>(t * k + slot)].expert)] =
          true;
    }
  }
  std::vector<float> masked(experts);
  for (int t = 0; t < tokens; ++t) {
    const auto row = scores.subspan(static_cast<std::size_t>(t) * experts, experts);
    for (std::size_t e = 0; e < experts; ++e) {
      masked[e] = active[e] ? row[e] + (bias.empty() ? 0.0F : bias[e]) : -1e30F;
    }
    const auto count = static_cast<int>(std::count(active.begin(), active.end(), true));
    const auto routes =
        std::span(routes_).subspan(static_cast<std::size_t>(t * k), static_cast<std::size_t>(k));
    choose_experts(masked, {}, std::min(k, count), routes);
    for (int slot = count; slot < k; ++slot) routes[static_cast<std::size_t>(slot)] = {-1, 0};
    weigh_routes(row, config_.routed_scaling_factor,
                 routes.first(static_cast<std::size_t>(std::min(k, count))));
  }
}

void ForwardPass::route_tokens(const LayerWeights& w, const TokenBatch& batch) {
  const int k = config_.experts_per_token;
  const auto experts = static_cast<std::size_t>(config_.routed_experts);
  multiply(w.gate, hidden_.data(), batch.tokens, scores_.data());
  for_tokens(batch.tokens, [&](int t) {
    const auto scores = std::span(scores_).subspan(static_cast<std::size_t>(t) * experts, experts);
    for (float& score : scores) score = expert_score(score);
    const auto routes =
        std::span(routes_).subspan(static_cast<std::size_t>(t * k), static_cast<std::size_t>(k));
    if (w.expert_table.empty()) {
      choose_experts(scores, w.gate_bias, k, routes);
    } else {
      const std::int64_t* row =
          w.expert_table.data() + std::int64_t{batch.ids[static_cast<std::size_t>(t)]} * k;
      for (int slot = 0; slot < k; ++slot) {
        routes[static_cast<std::size_t>(slot)].expert = static_cast<int>(row[slot]);
      }
    }
    weigh_routes(scores, config_.routed_scaling_factor, routes);
  });
  if (options_.opportunistic_k0 > 0 && w.expert_table.empty()) {
    join_active_experts(std::span(scores_).first(static_cast<std::size_t>(batch.tokens) * experts),
                        w.gate_bias, batch.tokens);
  }
}

// expert_out_[token * k + slot] for every routed row; quantised_ holds the rounded input.
void ForwardPass::multiply_experts(const LayerWeights& w, int tokens) {
  const int k = config_.experts_per_token;
  const int hidden = config_.hidden;
  const int inner = config_.moe_intermediate;
  for (auto& rows : expert_rows_) rows.clear();
  for (int i = 0; i < tokens * k; ++i) {
    const int expert = routes_[static_cast<std::size_t>(i)].expert;
    if (expert >= 0) expert_rows_[static_cast<std::size_t>(expert)].push_back(i);
  }
  std::atomic<int> next{0};
  pool_.run(pool_.threads(), [&](int worker) {
    float* x = expert_scratch_[static_cast<std::size_t>(worker)].data();
    float* y = x + std::int64_t{options_.tokens_per_step_max} * hidden;
    float* gate = y + std::int64_t{options_.tokens_per_step_max} * hidden;
    float* up = gate + std::int64_t{options_.tokens_per_step_max} * inner;
    for (int e = next++; e < config_.routed_experts; e = next++) {
      const std::vector<int>& rows = expert_rows_[static_cast<std::size_t>(e)];
      const ExpertWeights& expert = w.experts[static_cast<std::size_t>(e)];
      const auto n = static_cast<int>(rows.size());
      if (n == 0) continue;
      for (int i = 0; i < n; ++i) {
        const float* source =
            quantised_.data() + std::int64_t{rows[static_cast<std::size_t>(i)] / k} * hidden;
        std::copy(source, source + hidden, x + std::int64_t{i} * hidden);
      }
      cpu::gemm_rows({x, hidden, n, expert.w1.values.data(), inner, hidden, gate, inner});
      cpu::gemm_rows({x, hidden, n, expert.w3.values.data(), inner, hidden, up, inner});
      for (int i = 0; i < n; ++i) {
        float* row = gate + std::int64_t{i} * inner;
        const Route& route = routes_[static_cast<std::size_t>(rows[static_cast<std::size_t>(i)])];
        clamped_swiglu(row, up + std::int64_t{i} * inner, inner, config_.swiglu_limit,
                       route.weight);
        quantise_activation(row, inner, row);
      }
      cpu::gemm_rows({gate, inner, n, expert.w2.values.data(), hidden, inner, y, hidden});
      for (int i = 0; i < n; ++i) {
        std::copy(y + std::int64_t{i} * hidden, y + std::int64_t{i + 1} * hidden,
                  expert_out_.data() + std::int64_t{rows[static_cast<std::size_t>(i)]} * hidden);
      }
    }
  });
}

void ForwardPass::run_experts(const LayerWeights& w, const TokenBatch& batch) {
  const Timer timer(*this, Operator::experts);
  const int tokens = batch.tokens;
  const int k = config_.experts_per_token;
  route_tokens(w, batch);
  quantise_rows(hidden_.data(), tokens, config_.hidden, quantised_.data());
  multiply_experts(w, tokens);
  multiply(w.shared.w1, quantised_.data(), tokens, shared_gate_.data());
  multiply(w.shared.w3, quantised_.data(), tokens, shared_up_.data());
  for_tokens(tokens, [&](int t) {
    const std::int64_t at = std::int64_t{t} * config_.moe_intermediate;
    clamped_swiglu(shared_gate_.data() + at, shared_up_.data() + at, config_.moe_intermediate,
                   config_.swiglu_limit, 1.0F);
    quantise_activation(shared_gate_.data() + at, config_.moe_intermediate,
                        shared_gate_.data() + at);
  });
  multiply(w.shared.w2, shared_gate_.data(), tokens, sublayer_.data());
  for_tokens(tokens, [&](int t) {
    float* y = sublayer_.data() + std::int64_t{t} * config_.hidden;
    for (int i = 0; i < config_.hidden; ++i) {
      float sum = 0;
      for (int slot = 0; slot < k; ++slot) {
        const auto route = static_cast<std::size_t>(t * k + slot);
        if (routes_[route].expert < 0) continue;
        sum += expert_out_[route * static_cast<std::size_t>(config_.hidden) +
                           static_cast<std::size_t>(i)];
      }
      y[i] = rounded(sum + y[i]);
    }
  });
  for (const auto& rows : expert_rows_) distinct_experts_ += rows.empty() ? 0 : 1;
  ++expert_layers_;
}

}  // namespace splitwave::model
