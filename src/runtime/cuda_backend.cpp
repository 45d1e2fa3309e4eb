// Creation plans, loads and allocates; run fills parameters and launches.
#include "runtime/cuda_backend.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/combine/combine.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/schedule/schedule.h"
#include "plan/chunks.h"
#include "plan/eligible.h"
#include "plan/planner.h"
#include "runtime/cuda_device.h"

namespace splitwave {
namespace {

constexpr std::int64_t k_alignment_bytes = 256;
constexpr std::int64_t k_partial_o_bytes = k_value_dims * 4;  // of one head
constexpr std::int64_t k_partial_ml_bytes = 8;
constexpr int k_unscheduled_rows_max = 384;  // about 7 us at 16 heads; the schedule takes 3
constexpr int k_pdl_arch = 90;               // first capability with programmatic dependent launch

std::vector<VariantTraits> compiled_variants() {
  std::vector<VariantTraits> compiled;
  for (VariantTraits& traits : cuda::all_variants()) {
    if (cuda::find_launcher(traits.name) != nullptr) compiled.push_back(std::move(traits));
  }
  return compiled;
}

cuda::CacheParams cache_params(KvFormat format, const CacheView& view) {
  cuda::CacheParams cache;
  cache.base = view.base;
  cache.page_stride_bytes = view.page_stride_bytes;
  cache.scales_offset_bytes =
      format == KvFormat::v4 ? std::int64_t{view.page_size} * k_v4_data_bytes : 0;
  cache.divisor = cuda::make_page_divisor(static_cast<std::uint32_t>(view.page_size));
  // slots are int32: a pool beyond 2^31 - 1 slots is reachable up to there.
  const std::int64_t pages_max = std::numeric_limits<std::int32_t>::max() / view.page_size;
  cache.slots_end = view.pages > pages_max ? std::numeric_limits<std::int32_t>::max()
                                           : static_cast<std::int32_t>(view.pages * view.page_size);
  cache.is_16_aligned = view.page_stride_bytes % 16 == 0 ? 1 : 0;
  return cache;
}

cuda::ListParams list_params(const IndexList& list, int width) {
  return {list.slots, list.row_stride, list.lengths, width};
}

}  // namespace

// ---- creation
// --------------------------------------------------------------------------------------

Expected<std::unique_ptr<CudaBackend>> CudaBackend::create(const ProblemSpec& spec,
                                                           const PlanOverrides& overrides,
                                                           int device, bool owns_workspace) {
  Expected<DeviceSpec> found = query_cuda_device(device);
  if (!found) return found.error();
  std::unique_ptr<CudaBackend> backend(new CudaBackend(spec, std::move(*found), device));
  const CurrentDevice current(device);
  const RelaxedCapture relaxed;
  if (const Status s = backend->plan_all(overrides); !s) return s.error();
  if (const Status s = backend->load_kernels(); !s) return s.error();
  backend->lay_out();
  if (owns_workspace) {
    if (const Status s = backend->allocate(); !s) return s.error();
  }
  return backend;
}

CudaBackend::~CudaBackend() {
  const CurrentDevice current(ordinal_);
  cudaFree(workspace_);
  cudaFree(tickets_);
}

Status CudaBackend::plan_all(const PlanOverrides& overrides) {
  traits_ = compiled_variants();
  for (int rows = 0; rows <= spec_.rows_max; ++rows) {
    Expected<Plan> plan = choose_plan(spec_, device_, traits_, rows, overrides);
    if (!plan) return plan.error();
    launches_.push_back(launch_of(*plan));
    plans_.push_back(std::move(*plan));
  }
  return {};
}

CudaBackend::Launch CudaBackend::launch_of(const Plan& plan) const {
  Launch launch;
  const auto named = std::find_if(traits_.begin(), traits_.end(),
                                  [&](const VariantTraits& t) { return t.name == plan.variant; });
  SPLITWAVE_CHECK(named != traits_.end(), "the planner chose '" + plan.variant + "'");
  launch.trait = static_cast<std::size_t>(named - traits_.begin());
  launch.launcher = cuda::find_launcher(plan.variant);
  launch.slots = items_at_once(device_, traits_[launch.trait]);
  launch.chunks = std::max(1, plan.chunks);
  const std::int64_t pairs = std::int64_t{std::max(1, plan.batch)} * plan.head_blocks;
  // Free mode is the source's rule: every split its own CTA.
  launch.cut = plan.mode == SplitMode::free
                   ? cut_into(launch.chunks, 1)
                   : choose_pieces(pairs, launch.chunks, plan.chunk_rows, launch.slots,
                                   plan.block_heads * (k_partial_o_bytes + k_partial_ml_bytes),
                                   launch.launcher->folds_partials ? k_combine_fold_rows
                                                                   : k_combine_launch_rows);
  return launch;
}

Status CudaBackend::load_kernels() {
  std::vector<const cuda::VariantLauncher*> loaded;
  for (const Launch& launch : launches_) {
    if (std::find(loaded.begin(), loaded.end(), launch.launcher) != loaded.end()) continue;
    if (const Status s = cuda_status(launch.launcher->prepare(), launch.launcher->name); !s) {
      return s;
    }
    loaded.push_back(launch.launcher);
  }
  if (const Status s = cuda_status(cuda::prepare_schedule(), "schedule kernel"); !s) return s;
  return cuda_status(cuda::prepare_combine(), "combine kernel");
}

// Partials that a call of this batch size may store, whatever its lengths.
std::int64_t CudaBackend::partials_max(const Plan& plan, const Launch& launch) const {
  const std::int64_t pairs = std::int64_t{plan.batch} * plan.head_blocks;
  std::int64_t most = pairs * launch.cut.stored;
  if (plan.mode == SplitMode::exact) {
    most = std::max(most, scheduled_partials_max(pairs, launch.chunks, launch.slots));
  }
  return most;
}

void CudaBackend::lay_out() {
  std::int64_t head_slots = 0;  // of partials and scratch together, in heads
  std::int64_t items = 0;
  for (std::size_t rows = 1; rows < plans_.size(); ++rows) {
    const Plan& plan = plans_[rows];
    const Launch& launch = launches_[rows];
    const std::int64_t partials = partials_max(plan, launch);
    partial_slots_ = std::max(partial_slots_, partials);
    items = std::max(items, std::int64_t{plan.batch} * plan.head_blocks + partials);
  }
  for (std::size_t rows = 1; rows < plans_.size(); ++rows) {
    if (launches_[rows].chunks == 1) continue;
    const int ctas_per_item = traits_[launches_[rows].trait].ctas_per_item;
    head_slots = std::max(head_slots, (partial_slots_ + launches_[rows].slots * ctas_per_item) *
                                          plans_[rows].block_heads);
  }
  const auto take = [this](std::int64_t bytes) {
    const std::int64_t offset = layout_.bytes;
    layout_.bytes += (bytes + k_alignment_bytes - 1) / k_alignment_bytes * k_alignment_bytes;
    return offset;
  };
  if (head_slots > 0) {
    layout_.items = take(items * static_cast<std::int64_t>(sizeof(cuda::Item)));
    layout_.count = take(sizeof(std::int32_t));
    layout_.row_partials =
        take(spec_.rows_max * static_cast<std::int64_t>(sizeof(cuda::RowPartials)));
    layout_.ml = take(head_slots * k_partial_ml_bytes);
    layout_.o = take(head_slots * k_partial_o_bytes);
    std::int64_t pairs = 0;
    for (const Plan& plan : plans_) {
      pairs = std::max(pairs, std::int64_t{plan.batch} * plan.head_blocks);
    }
    tickets_bytes_ = pairs * cuda::k_tickets_of_pair * std::int64_t{sizeof(std::uint32_t)};
    layout_.tickets = take(tickets_bytes_);
  }
}

Status CudaBackend::allocate() {
  if (layout_.bytes == 0) return {};
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, static_cast<std::size_t>(layout_.bytes));
  workspace_ = static_cast<std::uint8_t*>(memory);
  const std::string what = "workspace of " + std::to_string(layout_.bytes) + " bytes";
  if (const Status s = cuda_status(code, what.c_str()); !s) return s;
  void* tickets = nullptr;
  const cudaError_t got = cudaMalloc(&tickets, static_cast<std::size_t>(tickets_bytes_));
  tickets_ = static_cast<std::uint32_t*>(tickets);
  if (const Status s = cuda_status(got, "tickets"); !s) return s;
  // A stream of its own: the default stream may be in somebody's capture.
  cudaStream_t stream = nullptr;
  const cudaError_t made = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (const Status s = cuda_status(made, "cudaStreamCreateWithFlags"); !s) return s;
  Status cleared = clear_tickets(tickets_, stream);
  if (cleared) cleared = cuda_status(cudaStreamSynchronize(stream), "clearing tickets");
  cudaStreamDestroy(stream);
  return cleared;
}

Status CudaBackend::clear_tickets(std::uint32_t* tickets, cudaStream_t stream) const {
  return cuda_status(cudaMemsetAsync(tickets, 0, static_cast<std::size_t>(tickets_bytes_), stream),
                     "tickets");
}

const Plan& CudaBackend::plan_for(int rows) const {
  SPLITWAVE_CHECK(rows >= 0 && rows < static_cast<int>(plans_.size()),
                  "rows = " + std::to_string(rows));
  return plans_[static_cast<std::size_t>(rows)];
}

const VariantTraits& CudaBackend::traits_for(int rows) const {
  (void)plan_for(rows);
  return traits_[launches_[static_cast<std::size_t>(rows)].trait];
}

// ---- the run path
// ----------------------------------------------------------------------------------

// Rows of one declared chunk need no schedule: every item is about as long as the others can be.
// Nor does a call whose chunks all run at once, or whose pieces do and are short: what balance
// could save of k_unscheduled_rows_max rows is less than the schedule launch takes. A list without
// lengths ends at its last valid entry, which the schedule would have to search for. Free mode
// keeps the source's one CTA a split.
bool CudaBackend::is_scheduled(const DecodeCall& call, const Launch& launch) const {
  const bool has_lengths = (spec_.main_width == 0 || call.main_list.lengths != nullptr) &&
                           (spec_.extra_width == 0 || call.extra_list.lengths != nullptr);
  const Plan& plan = plan_for(call.rows);
  const std::int64_t pairs = std::int64_t{call.rows} * plan.head_blocks;
  const int piece_rows = launch.cut.piece_chunks * plan.chunk_rows;
  const bool all_at_once =
      launch.launcher->folds_partials &&
      (pairs * launch.chunks <= launch.slots ||
       (pairs * launch.cut.pieces <= launch.slots && piece_rows <= k_unscheduled_rows_max));
  return has_lengths && launch.chunks > 1 && (!all_at_once || hooks_.always_schedules) &&
         hooks_.uses_schedule && hooks_.piece_chunks == 0 && plan.mode == SplitMode::exact;
}

cuda::DecodeParams CudaBackend::params_of(const DecodeCall& call, std::uint8_t* workspace) const {
  const Plan& plan = plan_for(call.rows);
  const Launch& launch = launches_[static_cast<std::size_t>(call.rows)];
  cuda::DecodeParams p;
  p.rows = call.rows;
  p.heads = spec_.heads;
  p.head_blocks = plan.head_blocks;
  p.block_heads = plan.block_heads;
  p.chunk_rows = plan.chunk_rows;
  p.softmax_scale = call.softmax_scale;
  p.q = call.q;
  p.q_row_stride = call.q_row_stride;
  p.q_head_stride = call.q_head_stride;
  p.out = call.out;
  p.out_row_stride = call.out_row_stride;
  p.out_head_stride = call.out_head_stride;
  p.lse = call.lse;
  p.lse_row_stride = call.lse_row_stride;
  p.sink = call.sink;
  p.cache[0] = cache_params(spec_.format, call.main_cache);
  p.cache[1] = cache_params(spec_.format, call.extra_cache);
  p.list[0] = list_params(call.main_list, spec_.main_width);
  p.list[1] = list_params(call.extra_list, spec_.extra_width);

  p.map.pairs = call.rows * plan.head_blocks;
  p.map.chunks = launch.chunks;
  if (is_scheduled(call, launch)) {
    p.map.kind = cuda::ItemMapKind::list;
    p.map.list = reinterpret_cast<const cuda::Item*>(workspace + layout_.items);
    p.map.list_count = reinterpret_cast<const std::int32_t*>(workspace + layout_.count);
    p.row_partials = reinterpret_cast<cuda::RowPartials*>(workspace + layout_.row_partials);
  } else {
    PieceCut cut = launch.cut;
    if (hooks_.piece_chunks > 0) {
      const PieceCut forced = cut_into(launch.chunks, hooks_.piece_chunks);
      const bool fits = std::int64_t{p.map.pairs} * forced.stored <= partial_slots_;
      if (fits) cut = forced;
    }
    p.map.pieces = cut.pieces;
    p.map.piece_chunks = cut.piece_chunks;
    p.map.stored = cut.stored;
    p.map.items = p.map.pairs * cut.pieces;
  }
  p.partials.o = reinterpret_cast<float*>(workspace + layout_.o);
  p.partials.ml = reinterpret_cast<float*>(workspace + layout_.ml);
  p.partials.scratch_slot = static_cast<std::int32_t>(partial_slots_);
  const bool has_partials = p.map.kind == cuda::ItemMapKind::list || p.map.stored > 0;
  if (has_partials && launch.launcher->folds_partials && hooks_.folds_in_decode) {
    p.partials.tickets = workspace == workspace_
                             ? tickets_
                             : reinterpret_cast<std::uint32_t*>(workspace + layout_.tickets);
  }
  return p;
}

int CudaBackend::launches(const DecodeCall& call) const {
  if (call.rows == 0) return 0;
  const cuda::DecodeParams p = params_of(call, workspace_);
  const bool is_list = p.map.kind == cuda::ItemMapKind::list;
  const bool is_combined = (is_list || p.map.stored > 0) && p.partials.tickets == nullptr;
  return 1 + (is_list ? 1 : 0) + (is_combined ? 1 : 0);
}

Status CudaBackend::run_in(const DecodeCall& call, void* workspace) {
  if (call.rows == 0) return {};
  const CurrentDevice current(ordinal_);
  const Launch& launch = launches_[static_cast<std::size_t>(call.rows)];
  const cuda::DecodeParams p = params_of(call, static_cast<std::uint8_t*>(workspace));
  const auto stream = static_cast<cudaStream_t>(call.stream);
  const bool is_list = p.map.kind == cuda::ItemMapKind::list;
  const bool can_overlap = device_.arch >= k_pdl_arch;
  const bool clears = p.partials.tickets != nullptr && p.partials.tickets != tickets_;
  if (clears) {
    if (const Status s = clear_tickets(p.partials.tickets, stream); !s) return s;
  }
  if (is_list && hooks_.runs_schedule) {
    const cudaError_t code =
        launch_schedule(p, static_cast<int>(launch.slots),
                        can_overlap && launch.launcher->folds_partials && !clears, stream);
    if (const Status s = cuda_status(code, "schedule launch"); !s) return s;
  }
  if (hooks_.runs_decode) {
    const std::int64_t items =
        is_list ? std::int64_t{p.map.pairs} * launch.chunks : std::int64_t{p.map.items};
    std::int64_t ctas = std::min(items, launch.slots);
    if (hooks_.ctas > 0) ctas = std::min<std::int64_t>(ctas, hooks_.ctas);
    const cudaError_t code =
        launch.launcher->launch(p, static_cast<int>(ctas),
                                can_overlap && ((launch.launcher->folds_partials && !clears) ||
                                                (is_list && hooks_.runs_schedule)),
                                stream);
    if (const Status s = cuda_status(code, "decode launch"); !s) return s;
  }
  if ((is_list || p.map.stored > 0) && p.partials.tickets == nullptr && hooks_.runs_combine) {
    const cudaError_t code = launch_combine(p, can_overlap && hooks_.runs_decode, stream);
    if (const Status s = cuda_status(code, "combine launch"); !s) return s;
  }
  return {};
}

// ---- the seam
// --------------------------------------------------------------------------------------

Expected<std::unique_ptr<DecodeBackend>> make_cuda_backend(const ProblemSpec& spec,
                                                           const PlanOverrides& overrides,
                                                           int device, bool owns_workspace) {
  Expected<std::unique_ptr<CudaBackend>> made =
      CudaBackend::create(spec, overrides, device, owns_workspace);
  if (!made) return made.error();
  return std::unique_ptr<DecodeBackend>(std::move(*made));
}

std::vector<VariantListing> cuda_variant_listings() {
  std::vector<VariantListing> listings;
  const Expected<DeviceSpec> device = query_cuda_device(0);
  for (VariantTraits& traits : cuda::all_variants()) {
    VariantListing listing;
    if (cuda::find_launcher(traits.name) == nullptr) {
      listing.why_not = "this build left its targets out (SPLITWAVE_CUDA_ARCHS)";
    } else if (!device) {
      listing.why_not = device.error().message;
    } else if (!runs_on(traits, device->arch)) {
      listing.why_not = "no code for sm_" + std::to_string(device->arch);
    } else if (residency_on(*device, traits) == 0) {
      listing.why_not = "a CTA does not fit an SM of " + device->name;
    } else {
      listing.runnable = true;
    }
    listing.traits = std::move(traits);
    listings.push_back(std::move(listing));
  }
  return listings;
}

}  // namespace splitwave
