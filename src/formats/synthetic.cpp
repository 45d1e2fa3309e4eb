// Builds the buffers of a synthetic problem: poison first, then lists, then the tokens that the
// lists use, then queries and sinks.
#include "formats/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "formats/bf16.h"
#include "formats/host_buffer.h"
#include "formats/index_list.h"
#include "formats/synthetic_bits.h"
#include "formats/synthetic_placement.h"

namespace splitwave {
namespace {

using synthetic_bits::mix;

constexpr std::uint16_t k_out_poison = 0x7FB7;  // a signalling NaN: no conversion makes one
constexpr std::uint32_t k_lse_poison = 0x7FA5A5A5U;
constexpr std::uint16_t k_bf16_nan = 0x7FC0;
constexpr std::uint16_t k_bf16_inf = 0x7F80;
constexpr std::uint16_t k_bf16_huge = 0x7F00;  // 1.7e38
constexpr std::int32_t k_int_min = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t k_int_max = std::numeric_limits<std::int32_t>::max();
constexpr int k_block_entries = 64;
constexpr int k_gap_entries_max = 64;  // of a list's gap that get values: wider ones stay untouched
// What a draw is for: separate streams, so that one knob never moves another's values.
enum Stream : std::uint64_t {
  k_stream_q = 1,
  k_stream_token,
  k_stream_length,
  k_stream_invalid,
  k_stream_invalid_value,
  k_stream_past_end,
  k_stream_sink,
  k_stream_stale,
  k_stream_place,
};

// Strides of q or out in elements; extent is what the last element needs.
struct Strides {
  std::int64_t row = 0, head = 0, extent = 0;
};
Strides strides_of(StrideOrder order, int rows, int heads, int dims, int row_pad, int head_pad) {
  Strides s;
  if (order == StrideOrder::row_major) {
    s.head = dims + head_pad;
    s.row = heads * s.head + row_pad;
  } else {
    s.row = dims + row_pad;
    s.head = rows * s.row + head_pad;
  }
  s.extent = std::max(0, rows - 1) * s.row + (heads - 1) * s.head + dims;
  return s;
}

// An output as runs of `dims` elements at outer and inner strides, in ascending order; what lies
// between them is gap. Gaps of a sparse buffer are not looked at: they would have to be memory.
template <class T>
struct Plane {
  T* data = nullptr;
  std::int64_t outer = 0, outer_stride = 0, inner = 0, inner_stride = 0, dims = 0;
  bool is_sparse = false;
};
template <class T, class Visit>
void for_each_element(const Plane<T>& p, Visit visit) {
  if (p.data == nullptr) return;
  for (std::int64_t o = 0; o < p.outer; ++o) {
    for (std::int64_t i = 0; i < p.inner; ++i) {
      T* run = p.data + o * p.outer_stride + i * p.inner_stride;
      for (std::int64_t c = 0; c < p.dims; ++c) visit(run + c);
    }
  }
}
template <class T, class Visit>
void for_each_gap(const Plane<T>& p, Visit visit) {
  if (p.data == nullptr || p.is_sparse) return;
  T* end_of_last = p.data;
  for (std::int64_t o = 0; o < p.outer; ++o) {
    for (std::int64_t i = 0; i < p.inner; ++i) {
      T* run = p.data + o * p.outer_stride + i * p.inner_stride;
      for (T* gap = end_of_last; gap < run; ++gap) visit(gap);
      end_of_last = run + p.dims;
    }
  }
}
template <class T>
std::string check_plane(const Plane<T>& plane, T poison, const char* name) {
  const T* wrong = nullptr;
  const auto place = [&] {
    return std::string(name) + " at element " + std::to_string(wrong - plane.data);
  };
  for_each_element(plane, [&](const T* element) {
    if (wrong == nullptr && *element == poison) wrong = element;
  });
  if (wrong != nullptr) return place() + " was not written";
  for_each_gap(plane, [&](const T* element) {
    if (wrong == nullptr && *element != poison) wrong = element;
  });
  return wrong == nullptr ? std::string() : place() + " is a gap and was written";
}

// Kinds whose scores follow one key dim that falls or rises with the entry (huge: in mixed order).
// Large scores come from there and not from the scale alone: a large scale times terms that cancel
// asks for more digits than fp32 sums have.
bool has_ramp(ScoreKind kind) {
  return kind == ScoreKind::rising || kind == ScoreKind::falling || kind == ScoreKind::huge;
}

float softmax_scale(ScoreKind kind, int d_qk) {
  const auto model_scale = 1.0F / std::sqrt(static_cast<float>(d_qk));
  switch (kind) {
    case ScoreKind::flat:
      return model_scale;
    case ScoreKind::peaked:
      return 2.0F;
    case ScoreKind::rising:
    case ScoreKind::falling:
      return 1.0F;
    case ScoreKind::huge:
      return 16.0F;
    case ScoreKind::zero:
      return 0.0F;
    case ScoreKind::negative:
      return -1.0F;
  }
  return model_scale;
}

}  // namespace

struct SyntheticProblem::Impl {
  // One cache with its list: main and extra are built by the same code.
  struct Source {
    int index = 0;  // 0 main, 1 extra
    int width = 0;
    SyntheticCache cache;
    SyntheticList list;
    std::int64_t tokens = 0;  // that rows may reference; the pool has more
    HostBuffer pool, slots, lengths;
    MutableCacheView view;
    IndexList index_list;
  };

  SyntheticOptions options;
  Source sources[2];
  HostBuffer q, sink, out, lse;
  DecodeCall call;
  std::int64_t used = 0;

  struct Outputs {
    Plane<std::uint16_t> out;
    Plane<std::uint32_t> lse;
  };

  explicit Impl(const SyntheticOptions& given) : options(given) {
    prepare_rows();
    for (int i = 0; i < 2; ++i) build_source(i);
    build_queries();
    build_sink();
    build_outputs();
    call.rows = options.rows;
    call.softmax_scale = softmax_scale(options.scores, qk_dims(options.spec.format));
    call.main_cache = sources[0].view.view();
    call.extra_cache = sources[1].view.view();
    call.main_list = sources[0].index_list;
    call.extra_list = sources[1].index_list;
  }

  [[nodiscard]] std::int64_t row_id(int row) const {
    return options.row_ids[static_cast<std::size_t>(row)];
  }
  [[nodiscard]] HostileKind hostile(int row) const {
    return options.hostile[static_cast<std::size_t>(row)];
  }

  void prepare_rows();
  void build_source(int index);
  void poison_pool(Source& s);
  [[nodiscard]] std::int64_t token_of(const Source& s, int row, int entry) const;
  [[nodiscard]] int given_length(const Source& s, int row) const;
  [[nodiscard]] bool is_invalid(const Source& s, int row, int entry) const;
  [[nodiscard]] std::int32_t invalid_value(const Source& s, Rng& random) const;
  void fill_list(Source& s, const Placer& placer, int row);
  void write_tokens(Source& s, const Placer& placer);
  void write_token(Source& s, int row, int entry, HostileKind hostility, std::int32_t slot);
  void build_queries();
  void build_sink();
  void build_outputs();
  [[nodiscard]] Outputs outputs() const;
};

void SyntheticProblem::Impl::prepare_rows() {
  const auto rows = static_cast<std::size_t>(options.rows);
  if (options.row_ids.empty()) {
    options.row_ids.resize(rows);
    std::iota(options.row_ids.begin(), options.row_ids.end(), 0);
  }
  const bool any_hostile = !options.hostile.empty();
  if (!any_hostile) options.hostile.assign(rows, HostileKind::none);
  SPLITWAVE_CHECK(options.row_ids.size() == rows && options.hostile.size() == rows,
                  "row_ids and hostile hold one entry a row");
  SPLITWAVE_CHECK(!any_hostile || options.sharing == Sharing::own,
                  "hostile rows must own their tokens");
  SPLITWAVE_CHECK(options.rows <= options.spec.rows_max, "rows must fit rows_max");
}

std::int64_t SyntheticProblem::Impl::token_of(const Source& s, int row, int entry) const {
  const std::int64_t first = std::int64_t{row} * s.width;
  switch (options.sharing) {
    case Sharing::own:
      return first + entry;
    case Sharing::shared:
      return (entry + row_id(row) * 7) % s.width;
    case Sharing::duplicates:
      return first + entry / 3;
    case Sharing::single:
      return first;
  }
  return first;
}

void SyntheticProblem::Impl::build_source(int index) {
  Source& s = sources[index];
  s.index = index;
  s.width = index == 0 ? options.spec.main_width : options.spec.extra_width;
  s.cache = index == 0 ? options.main_cache : options.extra_cache;
  s.list = index == 0 ? options.main_list : options.extra_list;
  s.view.page_size = s.cache.page_size;
  s.view.page_stride_bytes =
      page_bytes(options.spec.format, s.cache.page_size) + s.cache.stride_pad_bytes;
  if (s.width == 0) return;  // no list, no cache
  s.tokens = options.sharing == Sharing::shared ? s.width : std::int64_t{options.rows} * s.width;
  s.view.pages = (s.tokens + s.cache.page_size - 1) / s.cache.page_size + s.cache.spare_pages;
  SPLITWAVE_CHECK(s.view.pages <= (k_int_max - 2) / s.cache.page_size,
                  "the pool's slots must fit an int32");
  const std::int64_t bytes = s.view.pages == 0
                                 ? 0
                                 : (s.view.pages - 1) * s.view.page_stride_bytes +
                                       page_bytes(options.spec.format, s.cache.page_size);
  s.pool = HostBuffer(bytes);
  s.view.base = s.pool.data();
  poison_pool(s);
  const Placer placer(s.cache, s.view.pages,
                      mix(options.placement_seed, k_stream_place, index, s.view.pages));
  s.index_list.row_stride = s.width + s.list.row_stride_pad;
  if (options.rows == 0) return;
  s.slots = HostBuffer(((options.rows - 1) * s.index_list.row_stride + s.width) *
                       static_cast<std::int64_t>(sizeof(std::int32_t)));
  s.index_list.slots = s.slots.as<std::int32_t>();
  if (s.list.lengths != LengthKind::none) {
    s.lengths = HostBuffer(options.rows * static_cast<std::int64_t>(sizeof(std::int32_t)));
    for (int row = 0; row < options.rows; ++row) {
      s.lengths.as<std::int32_t>()[row] = given_length(s, row);
    }
    s.index_list.lengths = s.lengths.as<std::int32_t>();
  }
  for (int row = 0; row < options.rows; ++row) fill_list(s, placer, row);
  write_tokens(s, placer);
}

void SyntheticProblem::Impl::poison_pool(Source& s) {
  const KvFormat format = options.spec.format;
  const int byte = options.poison == PoisonKind::zero   ? 0
                   : options.poison == PoisonKind::huge ? 0x7F
                                                        : 0xFF;
  const std::int64_t used_bytes = page_bytes(format, s.cache.page_size);
  const auto total = static_cast<std::int64_t>(s.pool.bytes().size());
  if (!s.pool.is_sparse()) {
    std::memset(s.pool.data(), byte, s.pool.bytes().size());
  } else {
    for (std::int64_t page = 0; page < s.view.pages; ++page) {
      const std::int64_t first = page * s.view.page_stride_bytes;
      const std::int64_t last = std::min(first + used_bytes + 64, total);
      std::memset(s.pool.data() + first, byte, static_cast<std::size_t>(last - first));
    }
  }
  if (options.poison != PoisonKind::stale) return;
  for (std::int64_t slot = 0; slot < s.view.pages * s.cache.page_size; ++slot) {
    const std::uint64_t seed = mix(options.seed, k_stream_stale, s.index, slot);
    pack_row(format, synthetic_bits::random_row(format, options.scales, seed), s.view, slot);
  }
}

int SyntheticProblem::Impl::given_length(const Source& s, int row) const {
  Rng random(mix(options.seed, k_stream_length, s.index, row_id(row)));
  switch (s.list.lengths) {
    case LengthKind::none:
    case LengthKind::full:
      return s.width;
    case LengthKind::zero:
      return 0;
    case LengthKind::ragged:
      return static_cast<int>(random.below(static_cast<std::uint32_t>(s.width) + 1));
    case LengthKind::negative:
      return random.below(2) == 0 ? -1 : k_int_min;
    case LengthKind::beyond:
      return random.below(2) == 0 ? s.width + 1 : k_int_max;
    case LengthKind::trimmed: {
      int length = s.width;
      while (length > 0 && is_invalid(s, row, length - 1)) --length;
      return length;
    }
  }
  return s.width;
}

bool SyntheticProblem::Impl::is_invalid(const Source& s, int row, int entry) const {
  switch (s.list.invalid) {
    case InvalidKind::none:
      return false;
    case InvalidKind::leading:
      return entry < (s.width + 2) / 3;
    case InvalidKind::trailing:
      return entry >= s.width - (s.width + 2) / 3;
    case InvalidKind::scattered:
      return mix(options.seed ^ static_cast<std::uint64_t>(s.index), k_stream_invalid, row_id(row),
                 entry) %
                 10 <
             3;
    case InvalidKind::block:
      return entry / k_block_entries % 2 == 1;
    case InvalidKind::all:
      return true;
  }
  return false;
}

std::int32_t SyntheticProblem::Impl::invalid_value(const Source& s, Rng& random) const {
  const auto pool = static_cast<std::int32_t>(s.view.pages * s.cache.page_size);
  const std::int32_t negative[] = {-1, -2, -pool - 1, k_int_min, k_int_min + 1};
  const std::int32_t beyond[] = {pool, pool + 1, k_int_max, k_int_max - 1};
  InvalidValue kind = s.list.invalid_value;
  if (kind == InvalidValue::mixed)
    kind = random.below(2) == 0 ? InvalidValue::negative : InvalidValue::beyond_pool;
  if (kind == InvalidValue::minus_one) return -1;
  return kind == InvalidValue::negative ? negative[random.below(5)] : beyond[random.below(4)];
}

// Entries within the length, then what stands past it, then what stands in the stride's gap.
void SyntheticProblem::Impl::fill_list(Source& s, const Placer& placer, int row) {
  std::int32_t* list = s.slots.as<std::int32_t>() + row * s.index_list.row_stride;
  const int length = std::clamp(given_length(s, row), 0, s.width);
  Rng values(mix(options.seed, k_stream_invalid_value, s.index, row_id(row)));
  for (int i = 0; i < length; ++i) {
    list[i] = is_invalid(s, row, i) ? invalid_value(s, values) : placer.slot(token_of(s, row, i));
  }
  // Past the end anything may stand: poisoned slots of the pool, used ones, invalid ones.
  Rng past(mix(options.seed, k_stream_past_end, s.index, row_id(row)));
  const bool is_last = row + 1 == options.rows;
  const std::int64_t filled = std::min<std::int64_t>(s.list.row_stride_pad, k_gap_entries_max);
  const std::int64_t end = is_last ? s.width : s.width + filled;
  for (std::int64_t i = length; i < end; ++i) {
    const std::int64_t spare = s.view.pages * s.cache.page_size - s.tokens;
    const std::uint64_t pick = past.below(4);
    if (pick == 0 || (pick == 1 && spare == 0)) {
      list[i] = invalid_value(s, past);
    } else if (pick == 1) {
      list[i] = placer.slot(
          s.tokens + static_cast<std::int64_t>(past.below(static_cast<std::uint32_t>(spare))));
    } else {
      list[i] =
          placer.slot(static_cast<std::int64_t>(past.below(static_cast<std::uint32_t>(s.tokens))));
    }
  }
}

void SyntheticProblem::Impl::write_tokens(Source& s, const Placer& placer) {
  std::vector<bool> is_written(static_cast<std::size_t>(s.tokens), false);
  const CacheView cache = s.view.view();
  std::vector<int> entries;  // that this row uses
  for (int row = 0; row < options.rows; ++row) {
    const int length = row_length(cache, s.index_list, s.width, row);
    entries.clear();
    for (int i = 0; i < length; ++i) {
      if (is_valid_slot(cache, list_entry(s.index_list, row, i))) entries.push_back(i);
    }
    used += static_cast<std::int64_t>(entries.size());
    for (const int entry : entries) {
      const std::int64_t token = token_of(s, row, entry);
      if (is_written[static_cast<std::size_t>(token)]) continue;
      is_written[static_cast<std::size_t>(token)] = true;
      // One hostile key in the middle of the row is enough, and harder to see than all of them.
      const bool is_middle = entry == entries[entries.size() / 2];
      write_token(s, row, entry, is_middle ? hostile(row) : HostileKind::none, placer.slot(token));
    }
  }
}

void SyntheticProblem::Impl::write_token(Source& s, int row, int entry, HostileKind hostility,
                                         std::int32_t slot) {
  const KvFormat format = options.spec.format;
  // The token's name must not depend on the row's place in the batch.
  const bool is_shared = options.sharing == Sharing::shared;
  const std::int64_t token = token_of(s, row, entry);
  const std::int64_t owner = is_shared ? -1 : row_id(row);
  const std::int64_t local = is_shared ? token : token - std::int64_t{row} * s.width;
  const auto source = static_cast<std::uint64_t>(s.index);
  KvRow kv = synthetic_bits::random_row(format, options.scales,
                                        mix(options.seed ^ source, k_stream_token, owner, local));
  if (has_ramp(options.scores)) {
    const int total = options.spec.main_width + options.spec.extra_width;
    int position = entry + (s.index == 0 ? 0 : options.spec.main_width);
    if (options.scores == ScoreKind::huge) position = static_cast<int>(position * 61LL % total);
    const float ramp = 2.0F * static_cast<float>(position) / static_cast<float>(total) - 1.0F;
    kv.rope[0] = float_to_bf16(0.4F * ramp);
  }
  switch (hostility) {
    case HostileKind::nan_code:
      kv.codes[100] = 0xFF;
      break;
    case HostileKind::nan_scale:
      kv.scales_e8m0[3] = 0xFF;
      kv.scales_f32[1] = std::numeric_limits<float>::quiet_NaN();
      break;
    case HostileKind::nan_rope:
      kv.rope[63] = k_bf16_nan;
      break;
    case HostileKind::huge_keys:
      kv.scales_e8m0.fill(254);
      kv.scales_f32.fill(0x1p127F);
      break;
    default:
      break;
  }
  pack_row(format, kv, s.view, slot);
  if (format == KvFormat::v4 && options.poison != PoisonKind::zero) {
    const SlotOffsets at = slot_offsets(format, s.view.page_size, s.view.page_stride_bytes, slot);
    s.view.base[at.scales + k_v4_scales] = 0xFF;  // the pad byte is nobody's
  }
}

void SyntheticProblem::Impl::build_queries() {
  const int d = qk_dims(options.spec.format);
  const int heads = options.spec.heads;
  const Strides strides =
      strides_of(options.q_order, options.rows, heads, d, options.q_row_pad, options.q_head_pad);
  call.q_head_stride = strides.head;
  call.q_row_stride = strides.row;
  if (options.rows == 0) return;
  q = HostBuffer(2 * strides.extent);
  if (!q.is_sparse()) std::memset(q.data(), 0xFF, q.bytes().size());  // the gaps: NaN
  call.q = q.as<std::uint16_t>();
  const int rope = d - k_rope_dims;
  for (int row = 0; row < options.rows; ++row) {
    for (int head = 0; head < heads; ++head) {
      std::uint16_t* out_q =
          q.as<std::uint16_t>() + row * call.q_row_stride + head * call.q_head_stride;
      Rng random(mix(options.seed, k_stream_q, row_id(row), head));
      synthetic_bits::fill_bf16(random, synthetic_bits::k_q_exponent, out_q, d);
      if (has_ramp(options.scores)) out_q[rope] = float_to_bf16(64.0F);
      if (options.scores == ScoreKind::falling) out_q[rope] = float_to_bf16(-64.0F);
      switch (hostile(row)) {
        case HostileKind::nan_q:
          out_q[head % d] = k_bf16_nan;
          break;
        case HostileKind::nan_q_one_head:
          if (head == heads / 2) out_q[d - 1] = k_bf16_nan;
          break;
        case HostileKind::inf_q:
          out_q[(head * 5) % d] = k_bf16_inf;
          break;
        case HostileKind::huge_q:
          std::fill_n(out_q, d, k_bf16_huge);
          break;
        default:
          break;
      }
    }
  }
}

void SyntheticProblem::Impl::build_sink() {
  if (options.sink == SinkKind::none) return;
  constexpr float k_inf = std::numeric_limits<float>::infinity();
  sink = HostBuffer(options.spec.heads * static_cast<std::int64_t>(sizeof(float)));
  call.sink = sink.as<float>();
  for (int head = 0; head < options.spec.heads; ++head) {
    Rng random(mix(options.seed, k_stream_sink, head, 0));
    const float finite =
        static_cast<float>(random.below(1U << 20)) / static_cast<float>(1U << 17) - 4.0F;
    SinkKind kind = options.sink;
    if (kind == SinkKind::mixed) kind = static_cast<SinkKind>(1 + random.below(3));
    sink.as<float>()[head] = kind == SinkKind::minus_inf  ? -k_inf
                             : kind == SinkKind::plus_inf ? k_inf
                                                          : finite;
  }
}

void SyntheticProblem::Impl::build_outputs() {
  const int heads = options.spec.heads;
  const Strides strides = strides_of(options.out_order, options.rows, heads, k_value_dims,
                                     options.out_row_pad, options.out_head_pad);
  call.out_head_stride = strides.head;
  call.out_row_stride = strides.row;
  call.lse_row_stride = heads + options.lse_row_pad;
  if (options.rows == 0) return;
  out = HostBuffer(2 * strides.extent);
  call.out = out.as<std::uint16_t>();
  if (options.wants_lse) {
    lse = HostBuffer(4 * ((options.rows - 1) * call.lse_row_stride + heads));
    call.lse = lse.as<float>();
  }
}

SyntheticProblem::Impl::Outputs SyntheticProblem::Impl::outputs() const {
  const int heads = options.spec.heads;
  const bool is_row_major = options.out_order == StrideOrder::row_major;
  Outputs o;
  o.out = {.data = out.as<std::uint16_t>(),
           .outer = is_row_major ? options.rows : heads,
           .outer_stride = is_row_major ? call.out_row_stride : call.out_head_stride,
           .inner = is_row_major ? heads : options.rows,
           .inner_stride = is_row_major ? call.out_head_stride : call.out_row_stride,
           .dims = k_value_dims,
           .is_sparse = out.is_sparse()};
  o.lse = {.data = lse.as<std::uint32_t>(),
           .outer = options.rows,
           .outer_stride = call.lse_row_stride,
           .inner = 1,
           .dims = heads,
           .is_sparse = lse.is_sparse()};
  return o;
}

SyntheticProblem::SyntheticProblem(const SyntheticOptions& options)
    : impl_(std::make_unique<Impl>(options)) {
  poison_outputs();
}
SyntheticProblem::SyntheticProblem(SyntheticProblem&&) noexcept = default;
SyntheticProblem& SyntheticProblem::operator=(SyntheticProblem&&) noexcept = default;
SyntheticProblem::~SyntheticProblem() = default;

const ProblemSpec& SyntheticProblem::spec() const { return impl_->options.spec; }
const DecodeCall& SyntheticProblem::call() const { return impl_->call; }
std::int64_t SyntheticProblem::used_entries() const { return impl_->used; }

CallBuffers SyntheticProblem::buffers() {
  Impl& p = *impl_;
  return {p.q.bytes(),
          p.sources[0].pool.bytes(),
          p.sources[1].pool.bytes(),
          p.sources[0].slots.bytes(),
          p.sources[1].slots.bytes(),
          p.sources[0].lengths.bytes(),
          p.sources[1].lengths.bytes(),
          p.sink.bytes(),
          p.out.bytes(),
          p.lse.bytes()};
}

void SyntheticProblem::poison_outputs() {
  const Impl::Outputs o = impl_->outputs();
  for_each_element(o.out, [](std::uint16_t* element) { *element = k_out_poison; });
  for_each_element(o.lse, [](std::uint32_t* element) { *element = k_lse_poison; });
  for_each_gap(o.out, [](std::uint16_t* element) { *element = k_out_poison; });
  for_each_gap(o.lse, [](std::uint32_t* element) { *element = k_lse_poison; });
}

std::string SyntheticProblem::check_outputs() const {
  const Impl::Outputs o = impl_->outputs();
  std::string failure = check_plane(o.out, k_out_poison, "out");
  return failure.empty() ? check_plane(o.lse, k_lse_poison, "lse") : failure;
}

}  // namespace splitwave
