// Items, turns and workspace of the CPU decode. See decode_engine.h for what decides the bits.
#include "kernels/cpu/decode_engine.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/row_entries.h"
#include "kernels/cpu/worker_pool.h"
#include "plan/chunks.h"

namespace splitwave::cpu {
namespace {

constexpr double k_log2_e = 1.44269504088896340736;
constexpr std::int64_t k_alignment_bytes = 64;

constexpr int even(int n) { return n + n % 2; }

int padded_heads(int heads) { return (heads + k_head_pad - 1) / k_head_pad * k_head_pad; }

// Floats of one partial, rounded so that each part starts on a cache line.
std::int64_t partial_floats(int block_heads) {
  return 2 * std::int64_t{padded_heads(block_heads)} + std::int64_t{block_heads} * k_value_dims;
}

Partial partial_at(float* memory, int block_heads) {
  const int padded = padded_heads(block_heads);
  return {memory, memory + padded, memory + 2 * padded};
}

struct AlignedFree {
  void operator()(float* p) const { std::free(p); }
};

// Where one worker computes a tile.
struct WorkerSpace {
  float* q = nullptr;
  float* tile = nullptr;
  float* scores = nullptr;
  float* alpha = nullptr;
  float* partial = nullptr;
  std::uint8_t* raw = nullptr;
  float* panel = nullptr;
  std::vector<RowRef> rows;
};

// Where the chunks of one (row, head block) are folded when several workers compute them. turn says
// whose chunk is next: epoch of the slot * (chunks + 1) + chunk.
struct alignas(k_alignment_bytes) FoldSlot {
  std::atomic<std::int64_t> turn{0};
  bool is_empty = true;
  float* partial = nullptr;
};

// Short waits spin; a long one means that the core's other work runs the chunk before: let it.
void await_turn(const std::atomic<std::int64_t>& turn, std::int64_t mine) {
  constexpr int k_spins_max = 200;
  for (int spin = 0; turn.load(std::memory_order_acquire) != mine; ++spin) {
    if (spin < k_spins_max) {
      spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

struct DecodeEngine::Impl {
  Impl(const ProblemSpec& problem, const DecodeKernels& table, const EngineLimits& given);

  // What stays the same during one call.
  struct Launch {
    const DecodeCall& call;
    const LaunchShape& shape;
    Pool main_pool;
    Pool extra_pool;
    int head_blocks;
    std::int64_t chunks_max;  // of a full-width row
    std::int64_t units;       // rows * head blocks
    float scale_log2;
  };
  // One row's head block.
  struct Unit {
    std::int64_t index;
    int row;
    int head_first;
    int heads;
    RowEntries entries;
    std::int64_t chunks;
  };

  [[nodiscard]] Unit unit_at(const Launch& launch, std::int64_t index) const;
  void pack_q(const Launch& launch, const Unit& unit, WorkerSpace& space) const;
  // Returns whether the chunk had a valid key; if not, the partial is untouched.
  bool attend_chunk(const Launch& launch, const Unit& unit, std::int64_t chunk, WorkerSpace& space,
                    const Partial& partial) const;
  void finish(const Launch& launch, const Unit& unit, bool is_empty, const Partial& partial) const;
  void run_whole_unit(const Launch& launch, std::int64_t index, int worker);
  void run_chunk(const Launch& launch, std::int64_t item, int worker);

  ProblemSpec spec;
  const DecodeKernels& kernels;
  EngineLimits limits;
  WorkerPool pool;
  std::unique_ptr<float, AlignedFree> memory;
  std::int64_t memory_floats = 0;
  std::vector<WorkerSpace> spaces;
  std::vector<FoldSlot> folds;  // threads + 1
  alignas(k_alignment_bytes) std::atomic<std::int64_t> next_item{0};
};

DecodeEngine::Impl::Impl(const ProblemSpec& problem, const DecodeKernels& table,
                         const EngineLimits& given)
    : spec(problem),
      kernels(table),
      limits(given),
      pool(given.threads),
      spaces(static_cast<std::size_t>(given.threads)),
      folds(static_cast<std::size_t>(given.threads) + 1) {
  SPLITWAVE_CHECK(limits.block_heads_max >= 1 && limits.block_heads_max <= k_heads_max,
                  "block_heads_max = " + std::to_string(limits.block_heads_max));
  SPLITWAVE_CHECK(limits.tile_rows_max >= 1 && limits.tile_rows_max <= k_tile_rows_max,
                  "tile_rows_max = " + std::to_string(limits.tile_rows_max));
  const int dims = qk_dims(spec.format);
  const std::int64_t padded = padded_heads(limits.block_heads_max);
  const std::int64_t tile_capacity = even(limits.tile_rows_max);
  const std::int64_t q_floats = padded * dims;
  const std::int64_t tile_floats = tile_capacity * dims;
  const std::int64_t score_floats = tile_capacity * padded;
  const std::int64_t one_partial = partial_floats(limits.block_heads_max);
  const std::int64_t raw_floats = tile_capacity * k_raw_row_bytes / std::int64_t{sizeof(float)};
  const std::int64_t panel_floats = tile_capacity * k_panel_dims;
  const std::int64_t worker_floats = q_floats + tile_floats + score_floats + padded + one_partial +
                                     raw_floats + panel_floats;
  // One partial a fold slot, one more a worker for the chunks after a unit's first.
  memory_floats = limits.threads * (worker_floats + one_partial) + one_partial;
  const std::size_t bytes = static_cast<std::size_t>(memory_floats) * sizeof(float);
  memory.reset(static_cast<float*>(
      std::aligned_alloc(k_alignment_bytes, (bytes + k_alignment_bytes - 1) / k_alignment_bytes *
                                                k_alignment_bytes)));
  SPLITWAVE_CHECK(memory != nullptr, "out of memory for " + std::to_string(bytes) + " bytes");
  float* at = memory.get();
  const auto take = [&at](std::int64_t floats) {
    float* const taken = at;
    at += floats;
    return taken;
  };
  for (WorkerSpace& space : spaces) {
    space.q = take(q_floats);
    space.tile = take(tile_floats);
    space.scores = take(score_floats);
    space.alpha = take(padded);
    space.partial = take(one_partial);
    space.raw = reinterpret_cast<std::uint8_t*>(take(raw_floats));
    space.panel = take(panel_floats);
    space.rows.resize(static_cast<std::size_t>(limits.tile_rows_max + k_prefetch_rows_max));
  }
  for (FoldSlot& fold : folds) fold.partial = take(one_partial);
  // Each worker touches its own pages first (NUMA) and no lane starts as a signalling pattern.
  pool.run(limits.threads, [&](int worker) {
    std::memset(spaces[static_cast<std::size_t>(worker)].q, 0,
                static_cast<std::size_t>(worker_floats) * sizeof(float));
  });
}

DecodeEngine::Impl::Unit DecodeEngine::Impl::unit_at(const Launch& launch,
                                                     std::int64_t index) const {
  const DecodeCall& call = launch.call;
  Unit unit{};
  unit.index = index;
  unit.row = static_cast<int>(index / launch.head_blocks);
  unit.head_first = static_cast<int>(index % launch.head_blocks) * launch.shape.block_heads;
  unit.heads = std::min(launch.shape.block_heads, spec.heads - unit.head_first);
  RowEntries& entries = unit.entries;
  entries.main_length =
      effective_length(launch.main_pool, call.main_list, spec.main_width, unit.row);
  entries.extra_length =
      effective_length(launch.extra_pool, call.extra_list, spec.extra_width, unit.row);
  if (entries.main_length > 0) {
    entries.main_slots = call.main_list.slots + unit.row * call.main_list.row_stride;
  }
  if (entries.extra_length > 0) {
    entries.extra_slots = call.extra_list.slots + unit.row * call.extra_list.row_stride;
  }
  unit.chunks = chunk_count(entries.length(), launch.shape.chunk_rows);
  return unit;
}

void DecodeEngine::Impl::pack_q(const Launch& launch, const Unit& unit, WorkerSpace& space) const {
  const std::uint16_t* const q = launch.call.q + unit.row * launch.call.q_row_stride +
                                 unit.head_first * launch.call.q_head_stride;
  kernels.pack_q(q, launch.call.q_head_stride, unit.heads, padded_heads(unit.heads),
                 qk_dims(spec.format), space.q);
}

bool DecodeEngine::Impl::attend_chunk(const Launch& launch, const Unit& unit, std::int64_t chunk,
                                      WorkerSpace& space, const Partial& partial) const {
  const std::int64_t begin = chunk * launch.shape.chunk_rows;
  const std::int64_t end = std::min(begin + launch.shape.chunk_rows, unit.entries.length());
  EntryCursor cursor(unit.entries, launch.main_pool, launch.extra_pool, begin, end);
  RowRef* const rows = space.rows.data();
  const int window = launch.shape.tile_rows + launch.shape.prefetch;
  TileTask task;
  task.format = spec.format;
  task.heads = unit.heads;
  task.heads_padded = padded_heads(unit.heads);
  task.tile_rows_capacity = even(launch.shape.tile_rows);
  task.rows = rows;
  task.prefetch = launch.shape.prefetch;
  task.scale_log2 = launch.scale_log2;
  task.is_first = true;
  task.q = space.q;
  task.tile = space.tile;
  task.scores = space.scores;
  task.alpha = space.alpha;
  task.raw = space.raw;
  task.panel = space.panel;
  task.partial = partial;
  int known = 0;
  while (true) {
    known += cursor.fill(rows + known, window - known);
    if (known == 0) break;
    task.row_count = std::min(known, launch.shape.tile_rows);
    task.rows_known = known;
    kernels.attend_tile(task);
    task.is_first = false;
    known -= task.row_count;
    std::memmove(rows, rows + task.row_count, static_cast<std::size_t>(known) * sizeof(RowRef));
  }
  return !task.is_first;
}

void DecodeEngine::Impl::finish(const Launch& launch, const Unit& unit, bool is_empty,
                                const Partial& partial) const {
  const DecodeCall& call = launch.call;
  FinishTask task;
  task.heads = unit.heads;
  task.heads_padded = padded_heads(unit.heads);
  task.is_empty = is_empty;
  task.sink = call.sink == nullptr ? nullptr : call.sink + unit.head_first;
  task.out = call.out + unit.row * call.out_row_stride + unit.head_first * call.out_head_stride;
  task.out_head_stride = call.out_head_stride;
  task.lse = call.lse == nullptr ? nullptr
                                 : call.lse + unit.row * call.lse_row_stride + unit.head_first;
  task.partial = partial;
  kernels.finish(task);
}

// All chunks of a unit by one worker: it folds the whole row as a prefix.
void DecodeEngine::Impl::run_whole_unit(const Launch& launch, std::int64_t index, int worker) {
  WorkerSpace& space = spaces[static_cast<std::size_t>(worker)];
  const Unit unit = unit_at(launch, index);
  const Partial folded = partial_at(space.partial, unit.heads);
  const Partial next = partial_at(folds[static_cast<std::size_t>(worker)].partial, unit.heads);
  pack_q(launch, unit, space);
  bool is_empty = true;
  for (std::int64_t chunk = 0; chunk < unit.chunks; ++chunk) {
    if (!attend_chunk(launch, unit, chunk, space, is_empty ? folded : next)) continue;
    if (!is_empty) kernels.merge(unit.heads, padded_heads(unit.heads), folded, next);
    is_empty = false;
  }
  finish(launch, unit, is_empty, folded);
}

// One chunk of a unit whose other chunks are other workers'. Items are claimed in order, so whoever
// holds an earlier chunk is already running: waiting for one's turn always ends.
void DecodeEngine::Impl::run_chunk(const Launch& launch, std::int64_t item, int worker) {
  const std::int64_t chunk = item % launch.chunks_max;
  const Unit unit = unit_at(launch, item / launch.chunks_max);
  if (chunk >= std::max<std::int64_t>(unit.chunks, 1)) return;
  WorkerSpace& space = spaces[static_cast<std::size_t>(worker)];
  const Partial partial = partial_at(space.partial, unit.heads);
  pack_q(launch, unit, space);
  const bool has_keys =
      chunk < unit.chunks && attend_chunk(launch, unit, chunk, space, partial);

  const auto slots = static_cast<std::int64_t>(folds.size());
  FoldSlot& fold = folds[static_cast<std::size_t>(unit.index % slots)];
  const std::int64_t first_turn = unit.index / slots * (launch.chunks_max + 1);
  await_turn(fold.turn, first_turn + chunk);
  const Partial folded = partial_at(fold.partial, unit.heads);
  if (chunk == 0) fold.is_empty = true;
  if (has_keys && fold.is_empty) {
    std::memcpy(fold.partial, space.partial,
                static_cast<std::size_t>(partial_floats(unit.heads)) * sizeof(float));
    fold.is_empty = false;
  } else if (has_keys) {
    kernels.merge(unit.heads, padded_heads(unit.heads), folded, partial);
  }
  if (chunk + 1 < unit.chunks) {
    fold.turn.store(first_turn + chunk + 1, std::memory_order_release);
    return;
  }
  finish(launch, unit, fold.is_empty, folded);
  fold.turn.store(first_turn + launch.chunks_max + 1, std::memory_order_release);
}

DecodeEngine::DecodeEngine(const ProblemSpec& spec, const DecodeKernels& kernels,
                           const EngineLimits& limits)
    : impl_(std::make_unique<Impl>(spec, kernels, limits)) {}

DecodeEngine::~DecodeEngine() = default;

std::int64_t DecodeEngine::workspace_bytes() const {
  return impl_->memory_floats * static_cast<std::int64_t>(sizeof(float));
}

void DecodeEngine::run(const DecodeCall& call, const LaunchShape& shape) {
  Impl& impl = *impl_;
  SPLITWAVE_CHECK(shape.block_heads >= 1 && shape.block_heads <= impl.limits.block_heads_max &&
                      shape.tile_rows >= 1 && shape.tile_rows <= impl.limits.tile_rows_max &&
                      shape.chunk_rows >= 1 && shape.prefetch >= 0 &&
                      shape.prefetch <= k_prefetch_rows_max,
                  "a launch beyond the limits given at creation");
  if (call.rows == 0) return;
  const ProblemSpec& spec = impl.spec;
  const int head_blocks = (spec.heads + shape.block_heads - 1) / shape.block_heads;
  const std::int64_t width = std::int64_t{spec.main_width} + spec.extra_width;
  const Impl::Launch launch{
      .call = call,
      .shape = shape,
      .main_pool = Pool(spec.format, spec.main_width > 0 ? call.main_cache : CacheView{}),
      .extra_pool = Pool(spec.format, spec.extra_width > 0 ? call.extra_cache : CacheView{}),
      .head_blocks = head_blocks,
      .chunks_max = std::max<std::int64_t>(1, chunk_count(width, shape.chunk_rows)),
      .units = std::int64_t{call.rows} * head_blocks,
      .scale_log2 = static_cast<float>(double{call.softmax_scale} * k_log2_e),
  };
  // Whole units keep a row's running softmax in one core's cache; chunks of few units fill the
  // machine. The choice never changes a result.
  constexpr std::int64_t k_units_per_worker_whole = 4;
  const bool is_whole = launch.chunks_max == 1 || impl.limits.threads == 1 ||
                        launch.units >= k_units_per_worker_whole * impl.limits.threads;
  const std::int64_t items = is_whole ? launch.units : launch.units * launch.chunks_max;
  impl.next_item.store(0, std::memory_order_relaxed);
  for (FoldSlot& fold : impl.folds) fold.turn.store(0, std::memory_order_relaxed);
  const int workers = static_cast<int>(std::min<std::int64_t>(items, impl.limits.threads));
  impl.pool.run(workers, [&](int worker) {
    for (std::int64_t item = impl.next_item.fetch_add(1, std::memory_order_relaxed); item < items;
         item = impl.next_item.fetch_add(1, std::memory_order_relaxed)) {
      if (is_whole) {
        impl.run_whole_unit(launch, item, worker);
      } else {
        impl.run_chunk(launch, item, worker);
      }
    }
  });
}

}  // namespace splitwave::cpu
