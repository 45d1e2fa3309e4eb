// The attention sub-layer: projections, cache writes, compressors, indexer, sparse decode, output.
// Everything of the batch is written before anything of it is read: a token sees its own row, its
// own entry, and those of the tokens before it in the same pass.
#include <algorithm>
#include <cmath>

#include "formats/bf16.h"
#include "kernels/cpu/gemm.h"
#include "model/forward_pass.h"
#include "model/forward_timer.h"

namespace splitwave::model {
namespace {

CacheView view_of(const HostBuffer& buffer, std::int64_t pages, int page_size) {
  return {buffer.data(), pages, page_size, page_bytes(KvFormat::v4, page_size)};
}
WritableCacheView writable(const HostBuffer& buffer, std::int64_t pages, int page_size) {
  return {buffer.data(), pages, page_size, page_bytes(KvFormat::v4, page_size)};
}
WritableCacheView writable_keys(const HostBuffer& buffer, std::int64_t pages) {
  return {buffer.data(), pages, k_c4_block_rows,
          indexer_page_bytes(IndexerFormat::fp4, k_c4_block_rows)};
}

void to_bf16(const float* values, int count, std::uint16_t* codes) {
  for (int i = 0; i < count; ++i) codes[i] = float_to_bf16(values[i]);
}

// The seeded bit: top exponent bit of one code of each decoded token's own window row.
void flip_bits(const TokenBatch& batch, const HostBuffer& window, std::uint64_t draw) {
  for (int piece = 0; piece < batch.pieces(); ++piece) {
    const auto at = static_cast<std::size_t>(piece);
    if (batch.offsets[at + 1] - batch.offsets[at] != 1) continue;
    const std::int64_t slot = batch.window_slots[static_cast<std::size_t>(batch.offsets[at])];
    std::uint8_t* row = window.data() +
                        slot / k_block_tokens * page_bytes(KvFormat::v4, k_block_tokens) +
                        slot % k_block_tokens * k_v4_data_bytes;
    auto dim = static_cast<int>(draw % k_v4_nope_dims);
    while ((row[dim] | 0x40) % 0x80 == 0x7F) dim = (dim + 1) % k_v4_nope_dims;  // no NaN code
    row[dim] ^= 0x40;
  }
}

}  // namespace

// qr_ and q_bf16_; quantised_ afterwards holds qr's rounding.
void ForwardPass::project_queries(const LayerWeights& w, const TokenBatch& batch) {
  const Timer timer(*this, Operator::projections);
  const int tokens = batch.tokens;
  const float* table = table_of(w.ratio);
  multiply_rounded(w.wq_a, hidden_.data(), tokens, qr_.data());
  for_tokens(tokens, [&](int t) {
    float* row = qr_.data() + std::int64_t{t} * config_.q_lora_rank;
    rms_norm(row, w.q_norm.data(), config_.q_lora_rank, config_.rms_norm_eps, row);
  });
  multiply_rounded(w.wq_b, qr_.data(), tokens, q_.data());
  for_tokens(tokens, [&](int t) {
    const float* cos_sin =
        table + std::int64_t{batch.positions[static_cast<std::size_t>(t)]} * config_.rope_dims;
    for (int h = 0; h < config_.heads; ++h) {
      const std::int64_t at = (std::int64_t{t} * config_.heads + h) * config_.head_dim;
      float* head = q_.data() + at;
      rms_norm(head, nullptr, config_.head_dim, config_.rms_norm_eps, head);
      rotate(cos_sin, false, head + config_.nope_dims());
      to_bf16(head, config_.head_dim, q_bf16_.data() + at);
    }
  });
  multiply_rounded(w.wkv, hidden_.data(), tokens, kv_.data());
  for_tokens(tokens, [&](int t) {
    float* row = kv_.data() + std::int64_t{t} * config_.head_dim;
    rms_norm(row, w.kv_norm.data(), config_.head_dim, config_.rms_norm_eps, row);
    to_bf16(row, config_.head_dim, kv_bf16_.data() + std::int64_t{t} * config_.head_dim);
  });
}

Status ForwardPass::write_window(const LayerWeights& w, const TokenBatch& batch,
                                 LayerCaches& caches, std::span<const std::int64_t> slots) {
  const Timer timer(*this, Operator::cache_writes);
  KvWriteCall call;
  call.rows = batch.tokens;
  call.nope = kv_bf16_.data();
  call.nope_row_stride = config_.head_dim;
  call.rope = kv_bf16_.data() + config_.nope_dims();
  call.rope_row_stride = config_.head_dim;
  call.table = {table_of(w.ratio), options_.positions_max};
  call.positions = batch.positions.data();
  call.slots = slots.data();
  call.cache = writable(
      caches.window, std::ssize(caches.window.bytes()) / page_bytes(KvFormat::v4, k_block_tokens),
      k_block_tokens);
  return writer_->write_kv(call);
}

Status ForwardPass::compress(const CompressorWeights& w, Compressor& compressor,
                             const TokenBatch& batch, std::vector<float>& state,
                             std::int64_t state_floats, std::span<const std::int64_t> slots,
                             const WritableCacheView& cache) {
  const Timer timer(*this, Operator::compressor);
  multiply(w.kv, hidden_.data(), batch.tokens, compress_kv_.data());
  multiply(w.gate, hidden_.data(), batch.tokens, compress_gate_.data());
  CompressCall call;
  call.sequences = batch.pieces();
  call.tokens = batch.tokens;
  call.offsets = batch.offsets.data();
  call.start = batch.piece_start.data();
  call.state_slot = batch.piece_sequence.data();
  call.one_token_each = batch.pieces() == batch.tokens;
  call.kv = compress_kv_.data();
  call.gate = compress_gate_.data();
  call.token_stride = w.kv.outputs;
  call.ape = w.ape.data();
  call.norm = w.norm.data();
  call.table = {compressed_rope_.data(), options_.positions_max};
  call.state = state.data();
  call.state_slots = std::ssize(state) / state_floats;
  call.slots = slots.data();
  call.cache = cache;
  return compressor.run(call);
}

Status ForwardPass::select_entries(const LayerWeights& w, const TokenBatch& batch,
                                   const LayerCaches& caches, const KvStore& store) {
  const Timer timer(*this, Operator::indexer);
  const int heads = config_.index_heads;
  const int tokens = batch.tokens;
  multiply_rounded(w.indexer_wq_b, qr_.data(), tokens, products_.data());
  multiply_rounded(w.indexer_weights, hidden_.data(), tokens, indexer_weights_in_.data());
  const float scale = 1.0F / std::sqrt(static_cast<float>(k_indexer_dims) * heads);
  for_tokens(tokens, [&](int t) {
    const std::int64_t at = std::int64_t{t} * heads;
    to_bf16(products_.data() + at * k_indexer_dims, heads * k_indexer_dims,
            indexer_q_.data() + at * k_indexer_dims);
    for (int h = 0; h < heads; ++h) indexer_weights_in_[static_cast<std::size_t>(at + h)] *= scale;
  });
  IndexerQueryCall query;
  query.format = IndexerFormat::fp4;
  query.rows = tokens;
  query.heads = heads;
  query.q = indexer_q_.data();
  query.q_row_stride = std::int64_t{heads} * k_indexer_dims;
  query.weights = indexer_weights_in_.data();
  query.table = {compressed_rope_.data(), options_.positions_max};
  query.positions = batch.positions.data();
  query.q_out = indexer_codes_.data();
  query.q_scales_out = indexer_scales_.data();
  query.weights_out = indexer_weights_.data();
  if (auto status = writer_->prepare_indexer_queries(query); !status.ok()) return status;

  SelectCall call;
  call.logits.rows = tokens;
  call.logits.q = indexer_codes_.data();
  call.logits.q_row_stride_bytes = std::int64_t{heads} * indexer_value_bytes(IndexerFormat::fp4);
  call.logits.q_scales = indexer_scales_.data();
  call.logits.q_scales_row_stride = std::int64_t{heads} * k_indexer_fp4_scales;
  call.logits.weights = indexer_weights_.data();
  call.logits.weights_row_stride = heads;
  const WritableCacheView keys = writable_keys(caches.indexer_keys, store.block_count());
  call.logits.keys = {keys.base, keys.pages, keys.page_size, keys.page_stride_bytes};
  call.logits.key_pages = {batch.pages.data(), batch.pages_stride};
  call.logits.lengths = batch.c4_lengths.data();
  call.k = config_.index_topk;
  call.kv_pages = call.logits.key_pages;
  call.kv_page_size = k_c4_block_rows;
  call.kv_pool_pages = store.block_count();
  call.slots = selected_.data();
  call.slots_row_stride = config_.index_topk;
  call.counts = selected_counts_.data();
  return indexer_->select(call);
}

Status ForwardPass::attend(const LayerWeights& w, const TokenBatch& batch, LayerCaches& caches,
                           const KvStore& store) {
  const Timer timer(*this, Operator::attention);
  DecodeCall call;
  const std::int64_t row_width = std::int64_t{config_.heads} * config_.head_dim;
  call.rows = batch.tokens;
  call.q = q_bf16_.data();
  call.q_row_stride = row_width;
  call.q_head_stride = config_.head_dim;
  call.main_cache = view_of(caches.window, store.block_count(), k_block_tokens);
  call.main_list = {batch.window_list.data(), batch.window, batch.window_lengths.data()};
  if (w.ratio == 4) {
    call.extra_cache = view_of(caches.compressed, store.block_count(), k_c4_block_rows);
    call.extra_list = {selected_.data(), config_.index_topk, selected_counts_.data()};
  } else if (w.ratio == 128) {
    call.extra_cache = view_of(caches.compressed, store.block_count(), 1);
    call.extra_list = {batch.c128_list.data(), batch.c128_width, batch.c128_lengths.data()};
  }
  call.softmax_scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
  call.sink = w.sink.data();
  call.out = out_bf16_.data();
  call.out_row_stride = row_width;
  call.out_head_stride = config_.head_dim;
  Decoder& decoder = w.ratio == 4     ? *c4_decoder_
                     : w.ratio == 128 ? *c128_decoder_
                                      : *window_decoder_;
  return decoder.run(call);
}

// Inverse RoPE at the query's position, the grouped low-rank output, wo_b: sublayer_. source_stride
// is the row count by which the attention output is read: the batch's own, unless a fault says
// else.
void ForwardPass::project_output(const LayerWeights& w, const TokenBatch& batch,
                                 int source_stride) {
  const Timer timer(*this, Operator::output);
  const int tokens = batch.tokens;
  const int group_inputs = w.wo_a.inputs;
  const std::int64_t row_width = std::int64_t{config_.heads} * config_.head_dim;
  const float* table = table_of(w.ratio);
  for_tokens(tokens, [&](int t) {
    const int source = source_stride == tokens ? t : t * source_stride % tokens;
    const float* cos_sin =
        table + std::int64_t{batch.positions[static_cast<std::size_t>(t)]} * config_.rope_dims;
    const std::uint16_t* codes = out_bf16_.data() + source * row_width;
    float* row = q_.data() + t * row_width;
    for (int i = 0; i < row_width; ++i) row[i] = bf16_to_float(codes[i]);
    for (int h = 0; h < config_.heads; ++h) {
      rotate(cos_sin, true, row + std::int64_t{h} * config_.head_dim + config_.nope_dims());
    }
  });
  const int groups = config_.o_groups;
  const int z_width = groups * config_.o_lora_rank;
  const int workers = std::min(pool_.threads(), groups);
  pool_.run(workers, [&](int worker) {
    for (int g = worker; g < groups; g += workers) {
      cpu::GemmTask task;
      task.x = q_.data() + std::int64_t{g} * group_inputs;
      task.x_stride = row_width;
      task.rows = tokens;
      task.w = w.wo_a.values.data() + std::int64_t{g} * config_.o_lora_rank * group_inputs;
      task.outputs = config_.o_lora_rank;
      task.inputs = group_inputs;
      task.y = z_.data() + std::int64_t{g} * config_.o_lora_rank;
      task.y_stride = z_width;
      cpu::gemm_rows(task);
    }
  });
  for_tokens(tokens, [&](int t) {
    float* row = z_.data() + std::int64_t{t} * z_width;
    for (int i = 0; i < z_width; ++i) row[i] = rounded(row[i]);
  });
  multiply_rounded(w.wo_b, z_.data(), tokens, sublayer_.data());
}

Status ForwardPass::run_attention(int layer, const TokenBatch& batch, KvStore& store,
                                  const PassFault& fault) {
  const LayerWeights& w = weights_.layers[static_cast<std::size_t>(layer)];
  LayerCaches& caches = store.caches(layer);
  const bool is_faulty = fault.kind != SeededFault::none &&
                         layer == static_cast<int>(fault.draw % std::uint64_t(config_.layers));
  project_queries(w, batch);
  std::vector<std::int64_t> late;  // rows that the dropped dependency writes after their reader
  std::vector<std::int64_t> on_time(batch.window_slots);
  if (is_faulty && fault.kind == SeededFault::dropped_dependency) {
    const auto piece = static_cast<std::size_t>((fault.draw >> 8) % std::uint64_t(batch.pieces()));
    late.assign(on_time.size(), -1);
    for (int t = batch.offsets[piece]; t < batch.offsets[piece + 1]; ++t) {
      std::swap(late[static_cast<std::size_t>(t)], on_time[static_cast<std::size_t>(t)]);
    }
  }
  Status status = write_window(w, batch, caches, on_time);
  if (is_faulty && fault.kind == SeededFault::flipped_bit) {
    flip_bits(batch, caches.window, fault.draw >> 8);
  }
  if (status.ok() && w.ratio != 0) {
    const int rows = k_block_tokens / w.ratio;
    status = compress(w.compressor, w.ratio == 4 ? *c4_compressor_ : *c128_compressor_, batch,
                      caches.state, caches.state_floats,
                      w.ratio == 4 ? batch.c4_slots : batch.c128_slots,
                      writable(caches.compressed, store.block_count(), rows));
  }
  if (status.ok() && w.ratio == 4) {
    status = compress(w.indexer_compressor, *indexer_compressor_, batch, caches.indexer_state,
                      caches.indexer_state_floats, batch.c4_slots,
                      writable_keys(caches.indexer_keys, store.block_count()));
  }
  if (status.ok() && w.ratio == 4) status = select_entries(w, batch, caches, store);
  if (is_faulty && fault.kind == SeededFault::shared_scratch) {
    // The first token's indexer query (its hidden state in a layer without one) lies where the last
    // token's query begins.
    std::uint16_t* victim = q_bf16_.data() + std::int64_t{batch.tokens - 1} * config_.heads *
                                                 std::int64_t{config_.head_dim};
    if (w.ratio == 4) {
      std::copy_n(indexer_q_.data(), k_indexer_dims, victim);
    } else {
      to_bf16(hidden_.data(), k_indexer_dims, victim);
    }
  }
  if (status.ok()) status = attend(w, batch, caches, store);
  if (status.ok() && !late.empty()) status = write_window(w, batch, caches, late);
  if (!status.ok()) return status;
  const bool is_stale = is_faulty && fault.kind == SeededFault::stale_stride;
  project_output(w, batch, is_stale ? previous_tokens_ : batch.tokens);
  return {};
}

}  // namespace splitwave::model
