// Where sequences keep what attention needs: blocks of 128 tokens across every layer's caches, page
// tables, compressor states, and the prefix cache over full blocks. Owns KvStore; called by the
// engine. A block holds 128 window rows, 32 C4 rows and indexer keys, one C128 row, and the ratio-4
// compressor states at its end: a prefix is resumed whole or not at all (at multiples of 128 the
// ratio-128 state is empty).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "formats/host_buffer.h"
#include "model/config.h"
#include "model/engine.h"
#include "splitwave/ops.h"

namespace splitwave::model {

inline constexpr int k_block_tokens = 128;
inline constexpr int k_c4_block_rows = k_block_tokens / 4;

// One layer's pools; a page of each is a block's part, so that one page table serves all.
struct LayerCaches {
  HostBuffer window, compressed, indexer_keys;  // V4 rows, V4 rows, fp4 keys
  std::vector<float> state, indexer_state;      // [sequences_max, state floats]
  std::int64_t state_floats = 0, indexer_state_floats = 0;
};

class KvStore {
 public:
  KvStore(const ModelConfig& config, const EngineOptions& options);

  [[nodiscard]] Expected<SequenceId> open(std::span<const std::int32_t> prompt, int* reused);
  void close(SequenceId sequence);
  [[nodiscard]] bool reserve(SequenceId sequence, int tokens);
  [[nodiscard]] bool is_open(SequenceId sequence) const;
  [[nodiscard]] int length(SequenceId sequence) const;
  [[nodiscard]] int reserved(SequenceId sequence) const;
  [[nodiscard]] const std::vector<std::int32_t>& blocks(SequenceId sequence) const;
  // The sequence now holds these tokens too; at a block's end the states are saved and the block
  // becomes reusable. tokens never cross a block's end.
  void append(SequenceId sequence, std::span<const std::int32_t> tokens);
  [[nodiscard]] KvUsage usage() const;

  [[nodiscard]] LayerCaches& caches(int layer) { return layers_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] std::int64_t block_count() const { return block_count_; }

 private:
  struct Sequence {
    bool is_open = false;
    int length = 0;
    std::uint64_t chain = 0;  // hash of every full block's tokens so far
    std::vector<std::int32_t> blocks;
    std::vector<std::int32_t> open_tokens;  // of the block that is not full
  };
  struct Block {
    int references = 0;
    bool is_cached = false;
    std::uint64_t key = 0, parent = 0;  // chain hashes after and before this block
    std::uint64_t last_use = 0;
    std::vector<std::int32_t> tokens;  // of a cached block: a hash alone proves nothing
  };

  [[nodiscard]] std::int32_t take_block();
  void release(std::int32_t block);
  void copy_states(SequenceId sequence, std::int32_t block, bool save);
  [[nodiscard]] std::int32_t find_cached(std::uint64_t parent,
                                         std::span<const std::int32_t> tokens) const;

  int positions_max_;
  bool reuses_prefixes_;
  std::int64_t block_count_;
  std::int64_t snapshot_floats_ = 0;
  std::vector<LayerCaches> layers_;
  HostBuffer snapshots_;
  std::vector<Sequence> sequences_;
  std::vector<Block> blocks_;
  std::vector<std::int32_t> free_;
  std::unordered_map<std::uint64_t, std::int32_t> cached_;  // by key
  std::uint64_t clock_ = 0;
  KvUsage counters_;
};

}  // namespace splitwave::model
