// Blocks are reference-counted; a cached block without references is taken back, least recently
// used first and the end of a chain before its beginning.
#include "model/kv_store.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/random.h"

namespace splitwave::model {
namespace {

constexpr std::uint64_t k_chain_start = 0x5b1f2d9c7e3a4f61ULL;

// Spreads well; equality of tokens is checked as well.
std::uint64_t chain_hash(std::uint64_t parent, std::span<const std::int32_t> tokens) {
  std::uint64_t h = parent;
  for (const std::int32_t token : tokens) {
    h = splitmix64(h + static_cast<std::uint32_t>(token));
  }
  return h;
}

std::int64_t blocks_of(const EngineOptions& options) {
  const std::int64_t tokens = options.kv_tokens_max > 0
                                  ? options.kv_tokens_max
                                  : std::int64_t{options.sequences_max} * options.positions_max / 4;
  return std::max<std::int64_t>(1, (tokens + k_block_tokens - 1) / k_block_tokens);
}

}  // namespace

KvStore::KvStore(const ModelConfig& config, const EngineOptions& options)
    : positions_max_(options.positions_max),
      reuses_prefixes_(options.prefix_reuse),
      block_count_(blocks_of(options)),
      sequences_(static_cast<std::size_t>(options.sequences_max)),
      blocks_(static_cast<std::size_t>(block_count_)) {
  const auto states = static_cast<std::size_t>(options.sequences_max);
  for (const int ratio : config.compress_ratios) {
    LayerCaches layer;
    layer.window = HostBuffer(block_count_ * page_bytes(KvFormat::v4, k_block_tokens));
    if (ratio != 0) {
      layer.state_floats = compressor_state_floats(ratio, config.head_dim);
      layer.state.resize(states * static_cast<std::size_t>(layer.state_floats));
      const int rows = k_block_tokens / ratio;
      layer.compressed = HostBuffer(block_count_ * page_bytes(KvFormat::v4, rows));
    }
    if (ratio == 4) {
      layer.indexer_state_floats = compressor_state_floats(ratio, k_indexer_dims);
      layer.indexer_state.resize(states * static_cast<std::size_t>(layer.indexer_state_floats));
      layer.indexer_keys =
          HostBuffer(block_count_ * indexer_page_bytes(IndexerFormat::fp4, k_c4_block_rows));
      snapshot_floats_ += layer.state_floats + layer.indexer_state_floats;
    }
    layers_.push_back(std::move(layer));
  }
  snapshots_ = HostBuffer(std::max<std::int64_t>(1, block_count_ * snapshot_floats_ * 4));
  for (std::int64_t b = block_count_; b-- > 0;) free_.push_back(static_cast<std::int32_t>(b));
  counters_.pages_total = block_count_;
}

bool KvStore::is_open(SequenceId sequence) const {
  return sequence >= 0 && sequence < static_cast<SequenceId>(sequences_.size()) &&
         sequences_[static_cast<std::size_t>(sequence)].is_open;
}
int KvStore::length(SequenceId sequence) const {
  return sequences_[static_cast<std::size_t>(sequence)].length;
}
int KvStore::reserved(SequenceId sequence) const {
  const auto held = static_cast<int>(blocks(sequence).size()) * k_block_tokens;
  return std::min(held, positions_max_) - length(sequence);
}
const std::vector<std::int32_t>& KvStore::blocks(SequenceId sequence) const {
  return sequences_[static_cast<std::size_t>(sequence)].blocks;
}

std::int32_t KvStore::find_cached(std::uint64_t parent,
                                  std::span<const std::int32_t> tokens) const {
  const auto found = cached_.find(chain_hash(parent, tokens));
  if (found == cached_.end()) return -1;
  const Block& block = blocks_[static_cast<std::size_t>(found->second)];
  const bool is_same = block.parent == parent && std::ranges::equal(block.tokens, tokens);
  return is_same ? found->second : -1;
}

Expected<SequenceId> KvStore::open(std::span<const std::int32_t> prompt, int* reused) {
  const auto slot = std::find_if(sequences_.begin(), sequences_.end(),
                                 [](const Sequence& s) { return !s.is_open; });
  if (slot == sequences_.end()) {
    return environment_error("sequences_max = " + std::to_string(sequences_.size()) +
                             ": all are open; close one first");
  }
  const auto id = static_cast<SequenceId>(slot - sequences_.begin());
  *slot = Sequence{};
  slot->is_open = true;
  slot->chain = k_chain_start;
  ++clock_;
  const std::size_t full = prompt.empty() ? 0 : (prompt.size() - 1) / k_block_tokens;
  for (std::size_t b = 0; reuses_prefixes_ && b < full; ++b) {
    const auto tokens = prompt.subspan(b * k_block_tokens, k_block_tokens);
    const std::int32_t block = find_cached(slot->chain, tokens);
    if (block < 0) break;
    Block& found = blocks_[static_cast<std::size_t>(block)];
    if (found.references++ == 0) ++counters_.pages_used;
    found.last_use = (clock_ << 16) - b;
    slot->blocks.push_back(block);
    slot->chain = found.key;
    slot->length += k_block_tokens;
  }
  if (!slot->blocks.empty()) copy_states(id, slot->blocks.back(), false);
  counters_.prefix_queries_tokens += static_cast<std::int64_t>(prompt.size());
  counters_.prefix_hits_tokens += slot->length;
  if (reused != nullptr) *reused = slot->length;
  return id;
}

void KvStore::close(SequenceId sequence) {
  if (!is_open(sequence)) return;
  Sequence& s = sequences_[static_cast<std::size_t>(sequence)];
  for (const std::int32_t block : s.blocks) release(block);
  s = Sequence{};
}

void KvStore::release(std::int32_t block) {
  Block& b = blocks_[static_cast<std::size_t>(block)];
  SPLITWAVE_CHECK(b.references > 0, "a block is released once for each owner");
  if (--b.references > 0) return;
  --counters_.pages_used;
  if (!b.is_cached) free_.push_back(block);
}

std::int32_t KvStore::take_block() {
  if (free_.empty()) {
    std::int32_t oldest = -1;
    for (std::int64_t i = 0; i < block_count_; ++i) {
      const Block& b = blocks_[static_cast<std::size_t>(i)];
      if (b.references > 0) continue;
      if (oldest < 0 || b.last_use < blocks_[static_cast<std::size_t>(oldest)].last_use) {
        oldest = static_cast<std::int32_t>(i);
      }
    }
    if (oldest < 0) return -1;
    Block& b = blocks_[static_cast<std::size_t>(oldest)];
    cached_.erase(b.key);
    b = Block{};
    free_.push_back(oldest);
  }
  const std::int32_t block = free_.back();
  free_.pop_back();
  blocks_[static_cast<std::size_t>(block)].references = 1;
  ++counters_.pages_used;
  return block;
}

bool KvStore::reserve(SequenceId sequence, int tokens) {
  if (!is_open(sequence) || tokens < 0) return false;
  Sequence& s = sequences_[static_cast<std::size_t>(sequence)];
  if (s.length + tokens > positions_max_) return false;
  const auto wanted =
      static_cast<std::size_t>((s.length + tokens + k_block_tokens - 1) / k_block_tokens);
  const std::size_t before = s.blocks.size();
  while (s.blocks.size() < wanted) {
    const std::int32_t block = take_block();
    if (block < 0) {
      while (s.blocks.size() > before) {
        release(s.blocks.back());
        s.blocks.pop_back();
      }
      return false;
    }
    s.blocks.push_back(block);
  }
  return true;
}

void KvStore::append(SequenceId sequence, std::span<const std::int32_t> tokens) {
  Sequence& s = sequences_[static_cast<std::size_t>(sequence)];
  s.open_tokens.insert(s.open_tokens.end(), tokens.begin(), tokens.end());
  s.length += static_cast<int>(tokens.size());
  SPLITWAVE_CHECK(s.open_tokens.size() <= k_block_tokens, "tokens never cross a block's end");
  if (s.open_tokens.size() < k_block_tokens) return;
  const std::int32_t id = s.blocks[static_cast<std::size_t>(s.length / k_block_tokens - 1)];
  const std::uint64_t parent = s.chain;
  s.chain = chain_hash(parent, s.open_tokens);
  Block& block = blocks_[static_cast<std::size_t>(id)];
  if (reuses_prefixes_ && !cached_.contains(s.chain)) {
    copy_states(sequence, id, true);
    block.is_cached = true;
    block.key = s.chain;
    block.parent = parent;
    block.last_use = (clock_ << 16) - static_cast<std::uint64_t>(s.length / k_block_tokens - 1);
    block.tokens = s.open_tokens;
    cached_.emplace(s.chain, id);
  }
  s.open_tokens.clear();
}

void KvStore::copy_states(SequenceId sequence, std::int32_t block, bool save) {
  auto* snapshot =
      reinterpret_cast<float*>(snapshots_.data()) + std::int64_t{block} * snapshot_floats_;
  const auto copy = [&](std::vector<float>& states, std::int64_t floats) {
    float* live = states.data() + sequence * floats;
    const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
    std::memcpy(save ? snapshot : live, save ? live : snapshot, bytes);
    snapshot += floats;
  };
  for (LayerCaches& layer : layers_) {
    if (layer.indexer_state_floats == 0) continue;  // ratio 128: empty at a block's end
    copy(layer.state, layer.state_floats);
    copy(layer.indexer_state, layer.indexer_state_floats);
  }
}

KvUsage KvStore::usage() const { return counters_; }

}  // namespace splitwave::model
