// The engine's arithmetic on one token: norms, rounding, RoPE, hyper-connections, routing. Owns no
// memory. Nothing here sees another token, which is half of the engine's batch invariance; the
// other half is gemm_rows. Formulas: the V4 report (arXiv 2606.19348) and the published reference.
// Activations are fp32 arrays whose values are bf16 where the model rounds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/weights.h"

namespace splitwave::model {

inline constexpr int k_streams_max = 8;  // hc_mult

// Rounds to bf16 and back.
[[nodiscard]] float rounded(float value);

// out = bf16(w * (x * rsqrt(mean(x^2) + eps))); w null: no weight. out may be x.
void rms_norm(const float* x, const float* weight, int dims, double eps, float* out);

// The model's activation rounding before an fp8 or fp4 product: e4m3 with a power-of-two scale for
// each 128 values (fewer in the last group). out may be x.
void quantise_activation(const float* x, int dims, float* out);

// fp32 [positions, 64]: 32 cosines, 32 sines (RopeTable's layout). Layers with a compressor use the
// compressed theta and YaRN, the others neither; no magnitude scale in either.
[[nodiscard]] std::vector<float> rope_table(const ModelConfig& config, bool is_compressed,
                                            int positions);
// Rotates the 32 interleaved pairs of 64 dims by a table row; inverse: by the negative angle.
void rotate(const float* cos_sin, bool inverse, float* dims);

// One token's hyper-connection coefficients (mHC): pre[n], post[n], comb[n, n] after Sinkhorn.
struct Mixing {
  float pre[k_streams_max];
  float post[k_streams_max];
  float comb[k_streams_max * k_streams_max];
};
// products: fn . x, not yet scaled; square_sum: the sum of x^2 over all streams.
[[nodiscard]] Mixing mixing_of(const float* products, double square_sum, const MixingWeights& w,
                               const ModelConfig& config);
// The head's: pre alone.
[[nodiscard]] Mixing head_mixing_of(const float* products, double square_sum,
                                    const MixingWeights& w, const ModelConfig& config);
// h = bf16(sum_j pre[j] * x[j]); x is [streams, hidden].
void mix_in(const Mixing& m, const float* x, int streams, int hidden, float* h);
// x'[k] = bf16(post[k] * y + sum_j comb[j][k] * x[j]), in place.
void mix_out(const Mixing& m, const float* y, int streams, int hidden, float* x);

// sqrt(softplus(gate)), stable at both ends.
[[nodiscard]] float expert_score(float gate_logit);

struct Route {
  int expert = -1;
  float weight = 0;
};
// The k largest of score + bias (ties: the lower id), in that order; weights from the scores alone.
void choose_experts(std::span<const float> scores, std::span<const float> bias, int k,
                    std::span<Route> routes);
// Weights of chosen experts: score / sum of scores * scaling; equal shares where the sum is 0.
void weigh_routes(std::span<const float> scores, double scaling, std::span<Route> routes);

// a = bf16(silu(min(gate, limit)) * clamp(up, -limit, limit) * weight), into gate.
void clamped_swiglu(float* gate, const float* up, int dims, double limit, float weight);

}  // namespace splitwave::model
