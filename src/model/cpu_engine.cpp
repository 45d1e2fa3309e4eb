// The CPU engine: splits a step into passes whose pieces end at block boundaries, keeps the
// sequences, plants the seeded faults of the corruption gate's own test.
#include <algorithm>
#include <thread>

#include "base/random.h"
#include "base/sha256.h"
#include "model/engine.h"
#include "model/forward_pass.h"
#include "runtime/environment.h"

namespace splitwave::model {
namespace {

// Above this a checkpoint's hash would take longer than its load.
constexpr std::int64_t k_hashed_bytes_max = std::int64_t{1} << 30;

std::string weights_hash(const Checkpoint& checkpoint) {
  if (checkpoint.bytes() > k_hashed_bytes_max) return "not hashed: over 1 GiB";
  Sha256 hash;
  for (const Tensor* tensor : checkpoint.tensors()) {
    hash.update(tensor->name);
    hash.update(
        {reinterpret_cast<const char*>(tensor->data), static_cast<std::size_t>(tensor->bytes)});
  }
  return "sha256:" + hash.hex_digest();
}

class CpuEngine final : public Engine {
 public:
  CpuEngine(std::shared_ptr<const Checkpoint> checkpoint, const EngineOptions& options, int threads,
            std::unique_ptr<ForwardPass> pass)
      : checkpoint_(std::move(checkpoint)),
        options_(options),
        threads_(threads),
        weights_hash_(weights_hash(*checkpoint_)),
        store_(checkpoint_->config(), options),
        pass_(std::move(pass)) {}

  const ModelConfig& config() const override { return checkpoint_->config(); }
  std::vector<std::pair<std::string, std::string>> description() const override;

  Expected<SequenceId> open(std::span<const std::int32_t> prompt, int* reused) override {
    return store_.open(prompt, reused);
  }
  void close(SequenceId sequence) override { store_.close(sequence); }
  bool reserve(SequenceId sequence, int tokens) override {
    return store_.reserve(sequence, tokens);
  }
  int length(SequenceId sequence) const override {
    return store_.is_open(sequence) ? store_.length(sequence) : 0;
  }
  Status step(std::span<const StepRow> rows, std::span<float> logits) override;
  KvUsage kv_usage() const override { return store_.usage(); }
  std::vector<OperatorTime> take_profile() override { return pass_->take_times(); }

 private:
  [[nodiscard]] Status check(std::span<const StepRow> rows, std::span<float> logits) const;
  [[nodiscard]] PassFault draw_fault(int pieces);
  [[nodiscard]] std::vector<std::vector<std::int32_t>> read_tables(const PassFault& fault) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  EngineOptions options_;
  int threads_;
  std::string weights_hash_;
  KvStore store_;
  std::unique_ptr<ForwardPass> pass_;
  TokenBatch batch_;
  std::uint64_t passes_ = 0;
};

std::vector<std::pair<std::string, std::string>> CpuEngine::description() const {
  const VariantTraits& traits = pass_->decoder(4).traits_for(1);
  const bool is_batch_dependent = options_.opportunistic_k0 > 0 ||
                                  pass_->decoder(4).plan_for(1).mode == SplitMode::free ||
                                  options_.fault != SeededFault::none;
  return {{"backend", "cpu"},
          {"isa", traits.isa},
          {"class", traits.numerics_class},
          {"variant", traits.name},
          {"plan", options_.plan},
          {"build", SPLITWAVE_VERSION},
          {"weights", weights_hash_},
          {"threads", std::to_string(threads_)},
          {"prefix_reuse", options_.prefix_reuse ? "true" : "false"},
          {"opportunistic_k0", std::to_string(options_.opportunistic_k0)},
          {"batch_dependent", is_batch_dependent ? "true" : "false"}};
}

// Everything that could fail, before anything changes.
Status CpuEngine::check(std::span<const StepRow> rows, std::span<float> logits) const {
  std::int64_t tokens = 0;
  std::size_t wanted = 0;
  std::vector<SequenceId> seen;
  for (const StepRow& row : rows) {
    const std::string which = "sequence = " + std::to_string(row.sequence);
    if (!store_.is_open(row.sequence)) return bad_input(which + ": not open");
    if (row.tokens.empty()) return bad_input(which + ": a row needs at least one token");
    if (std::ranges::find(seen, row.sequence) != seen.end()) {
      return bad_input(which + ": appears twice in one step");
    }
    seen.push_back(row.sequence);
    if (static_cast<int>(row.tokens.size()) > store_.reserved(row.sequence)) {
      return bad_input(which + ": " + std::to_string(row.tokens.size()) + " tokens, room for " +
                       std::to_string(store_.reserved(row.sequence)) + "; reserve() first");
    }
    for (const std::int32_t token : row.tokens) {
      if (token < 0 || token >= config().vocab_size) {
        return bad_input(which + ": token " + std::to_string(token) + " is not in 0.." +
                         std::to_string(config().vocab_size - 1));
      }
    }
    tokens += static_cast<std::int64_t>(row.tokens.size());
    wanted += row.logits ? 1 : 0;
  }
  if (tokens > options_.tokens_per_step_max) {
    return bad_input("a step of " + std::to_string(tokens) + " tokens; tokens_per_step_max = " +
                     std::to_string(options_.tokens_per_step_max));
  }
  if (logits.size() < wanted * static_cast<std::size_t>(config().vocab_size)) {
    return bad_input("logits has " + std::to_string(logits.size()) + " elements; " +
                     std::to_string(wanted) + " rows ask for " +
                     std::to_string(config().vocab_size) + " each");
  }
  return {};
}

PassFault CpuEngine::draw_fault(int pieces) {
  const std::uint64_t draw = splitmix64(options_.fault_seed ^ splitmix64(passes_++));
  if (options_.fault == SeededFault::none) return {};
  if (options_.fault == SeededFault::flipped_bit) {
    return {options_.fault, splitmix64(options_.fault_seed)};  // one layer, one dim, every step
  }
  // The others are what load alone brings out: two sequences in one pass, every other time.
  if (pieces < 2 || draw % 2 == 0) return {};
  return {options_.fault, draw >> 1};
}

// The page table that each piece reads by; swapped_pages exchanges two pieces' newest entries.
std::vector<std::vector<std::int32_t>> CpuEngine::read_tables(const PassFault& fault) const {
  std::vector<std::vector<std::int32_t>> tables;
  for (const std::int32_t sequence : batch_.piece_sequence) {
    tables.push_back(store_.blocks(sequence));
  }
  if (fault.kind == SeededFault::swapped_pages) {
    const std::size_t a = fault.draw % tables.size();
    const std::size_t b = (a + 1 + (fault.draw >> 8) % (tables.size() - 1)) % tables.size();
    const auto newest = [&](std::size_t piece) -> std::int32_t& {
      return tables[piece][static_cast<std::size_t>(batch_.piece_start[piece] / k_block_tokens)];
    };
    std::swap(newest(a), newest(b));
  }
  return tables;
}

Status CpuEngine::step(std::span<const StepRow> rows, std::span<float> logits) {
  if (auto status = check(rows, logits); !status.ok()) return status;
  std::vector<std::size_t> done(rows.size(), 0);
  std::vector<std::size_t> logits_row(rows.size(), 0);
  for (std::size_t r = 1; r < rows.size(); ++r) {
    logits_row[r] = logits_row[r - 1] + (rows[r - 1].logits ? 1 : 0);
  }
  const auto vocab = static_cast<std::size_t>(config().vocab_size);
  std::vector<float> made;  // this pass's logits, in the order of its finishing rows
  while (true) {
    batch_.clear();
    std::vector<int> wanted;
    std::vector<std::size_t> finishing, advanced;
    std::vector<std::size_t> taken(rows.size(), 0);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::size_t left = rows[r].tokens.size() - done[r];
      if (left == 0) continue;
      const int start = store_.length(rows[r].sequence);
      taken[r] = std::min<std::size_t>(
          left, static_cast<std::size_t>(k_block_tokens - start % k_block_tokens));
      batch_.add_piece(rows[r].sequence, start, rows[r].tokens.subspan(done[r], taken[r]));
      advanced.push_back(r);
      if (taken[r] == left && rows[r].logits) {
        wanted.push_back(batch_.tokens - 1);
        finishing.push_back(r);
      }
    }
    if (advanced.empty()) return {};
    const PassFault fault = draw_fault(batch_.pieces());
    batch_.build_lists(store_, config().sliding_window, options_.positions_max, read_tables(fault));
    made.resize(wanted.size() * vocab);
    if (auto status = pass_->run(batch_, store_, fault, wanted, made.data()); !status.ok()) {
      return status;
    }
    for (std::size_t i = 0; i < finishing.size(); ++i) {
      std::copy_n(made.begin() + static_cast<std::ptrdiff_t>(i * vocab), vocab,
                  logits.begin() + static_cast<std::ptrdiff_t>(logits_row[finishing[i]] * vocab));
    }
    for (const std::size_t r : advanced) {
      store_.append(rows[r].sequence, rows[r].tokens.subspan(done[r], taken[r]));
      done[r] += taken[r];
    }
  }
}

Status check_options(const EngineOptions& o, const ModelConfig& config) {
  const auto refuse = [](const std::string& field, std::int64_t value, const std::string& works) {
    return bad_input(field + " = " + std::to_string(value) + ": must be " + works);
  };
  if (o.sequences_max < 1 || o.sequences_max > 4096) {
    return refuse("sequences_max", o.sequences_max, "1..4096");
  }
  if (o.tokens_per_step_max < 1 || o.tokens_per_step_max > 8192) {
    return refuse("tokens_per_step_max", o.tokens_per_step_max, "1..8192");
  }
  if (o.positions_max < k_block_tokens || o.positions_max % k_block_tokens != 0 ||
      o.positions_max > config.max_positions) {
    return refuse("positions_max", o.positions_max,
                  "a multiple of 128, at most the model's " + std::to_string(config.max_positions));
  }
  if (o.kv_tokens_max < 0) return refuse("kv_tokens_max", o.kv_tokens_max, "0 or more");
  if (o.opportunistic_k0 < 0 || o.opportunistic_k0 > config.experts_per_token) {
    return refuse("opportunistic_k0", o.opportunistic_k0,
                  "0 (off) to the model's experts_per_token");
  }
  if (config.sliding_window > k_block_tokens) {
    return refuse("sliding_window", config.sliding_window, "at most 128");
  }
  return {};
}

}  // namespace

Expected<std::unique_ptr<Engine>> make_cpu_engine(std::shared_ptr<const Checkpoint> checkpoint,
                                                  const EngineOptions& options) {
  if (auto status = check_options(options, checkpoint->config()); !status.ok()) {
    return status.error();
  }
  const auto environment = read_environment();
  if (!environment.ok()) return environment.error();
  int threads = options.threads > 0 ? options.threads : environment->threads.value_or(0);
  if (threads == 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  auto weights = load_weights(*checkpoint);
  if (!weights.ok()) return weights.error();
  auto pass = ForwardPass::create(checkpoint->config(), std::move(*weights), options, threads);
  if (!pass.ok()) return pass.error();
  return std::unique_ptr<Engine>(
      std::make_unique<CpuEngine>(std::move(checkpoint), options, threads, std::move(*pass)));
}

}  // namespace splitwave::model
