// The decode engine as the server sees it: sequences with KV pages, and steps over many of them.
// Owns nothing but the interface; the CPU engine implements it and the CUDA engine comes behind the
// same one. Called by src/serve's scheduler from one thread. A sequence's logits depend on its own
// tokens, the weights and the build, never on what else a step holds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "splitwave/status.h"

namespace splitwave::model {

// Deliberate bugs for the corruption gate's own test; none in service.
enum class SeededFault : std::uint8_t {
  none,
  swapped_pages,       // two sequences' page table entries exchanged
  dropped_dependency,  // a step's cache write runs after its reader
  stale_stride,        // a buffer read with the row stride of another batch size
  shared_scratch,      // an indexer buffer that shares bytes with a main-stream tensor
  flipped_bit,         // top exponent bit of one e4m3 code of the newest window row, one layer
};

struct EngineOptions {
  int sequences_max = 128;         // open at once
  int tokens_per_step_max = 512;   // over all rows of a step
  int positions_max = 16384;       // tokens of one sequence
  std::int64_t kv_tokens_max = 0;  // over all sequences; 0: sequences_max * positions_max / 4
  int threads = 0;                 // 0: SPLITWAVE_THREADS or every core
  std::string plan;                // overrides, as SPLITWAVE_PLAN
  bool prefix_reuse = true;
  int opportunistic_k0 = 0;  // 0: off; else experts a token takes before it joins the batch's
  SeededFault fault = SeededFault::none;
  std::uint64_t fault_seed = 0;
};

using SequenceId = std::int32_t;

// One sequence's part of a step: new tokens appended to what the sequence already holds. One token
// is a decode row, more are a prefill chunk. Logits are those after the last token.
struct StepRow {
  SequenceId sequence = -1;
  std::span<const std::int32_t> tokens;
  bool logits = true;
};

struct KvUsage {
  std::int64_t pages_total = 0;
  std::int64_t pages_used = 0;
  std::int64_t prefix_queries_tokens = 0;  // tokens looked up since the start
  std::int64_t prefix_hits_tokens = 0;     // of those, tokens not computed again
};

// Wall time of one operator over the steps since the last call of take_profile.
struct OperatorTime {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  // name and value pairs for /config and records: backend, isa, class, variant, plan, build,
  // weights (hash), threads, batch_dependent.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> description() const = 0;

  // Opens a sequence for a prompt. *reused is how many leading tokens are already in the cache
  // (window, compressed entries and compressor state restored together); always less than
  // prompt.size(), so that the last token is run. Fails when sequences_max are open.
  [[nodiscard]] virtual Expected<SequenceId> open(std::span<const std::int32_t> prompt,
                                                  int* reused) = 0;
  // Frees its pages; what prefix reuse may still serve stays until the pages are needed.
  virtual void close(SequenceId sequence) = 0;
  // Makes room for tokens more tokens. False: the pool is full, the caller preempts or waits.
  [[nodiscard]] virtual bool reserve(SequenceId sequence, int tokens) = 0;
  [[nodiscard]] virtual int length(SequenceId sequence) const = 0;

  // Runs the rows; every row's tokens must be reserved. logits gets vocab_size floats for each row
  // that asks, in row order. An error leaves the sequences as they were before the step.
  [[nodiscard]] virtual Status step(std::span<const StepRow> rows, std::span<float> logits) = 0;

  [[nodiscard]] virtual KvUsage kv_usage() const = 0;
  [[nodiscard]] virtual std::vector<OperatorTime> take_profile() = 0;
};

// The CPU engine. The checkpoint stays open as long as the engine lives.
[[nodiscard]] Expected<std::unique_ptr<Engine>> make_cpu_engine(
    std::shared_ptr<const Checkpoint> checkpoint, const EngineOptions& options);

}  // namespace splitwave::model
