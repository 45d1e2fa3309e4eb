// Pages are handed out from a ring (permuted, or in order for contiguous lists), so that the sets
// of one batch never share a page and a page comes back only after the whole pool has been used.
#include "experiment/decode_inputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/random.h"
#include "formats/kv_row.h"
#include "formats/synthetic_bits.h"
#include "measure/rotation.h"

namespace splitwave::experiment {
namespace {

// Streams of the seed: what a draw is for.
enum class Draw : std::uint64_t { pages = 1, rows, queries, lists };

std::uint64_t stream_of(Draw what, int stream, int cache) {
  return static_cast<std::uint64_t>(what) << 32 | static_cast<std::uint64_t>(stream) << 8 |
         static_cast<std::uint64_t>(cache);
}

// One cache of a stream: how many entries a row has, how many of them its list names.
struct ListRule {
  int width = 0;
  int page_size = 1;
  bool is_window = false;  // the newest entries; else a choice among all of them
  int ratio = 1;           // tokens of context for one entry

  [[nodiscard]] int entries(int context) const { return context / ratio; }
  [[nodiscard]] int length(int context) const { return std::min(entries(context), width); }
  // Entries that need a slot: a window's ring holds the window alone, from its first page on.
  [[nodiscard]] int slots_needed(int context) const {
    if (!is_window) return entries(context);
    return (entries(context) - length(context)) % page_size + length(context);
  }
  [[nodiscard]] std::int64_t pages_needed(int context) const {
    return (slots_needed(context) + page_size - 1) / page_size;
  }
};

std::int64_t pages_of_batch(const ListRule& rule, const Batch& batch, Locality locality) {
  std::int64_t sum = 0;
  std::int64_t most = 0;
  for (const int context : batch.contexts) {
    sum += rule.pages_needed(context);
    most = std::max(most, rule.pages_needed(context));
  }
  // Contiguous rows do not wrap at the pool's end: one row's pages may be skipped there.
  return locality == Locality::shared ? most : locality == Locality::contiguous ? sum + most : sum;
}

// Hands out pages in ring order.
class PageRing {
 public:
  PageRing(std::int64_t pages, bool is_permuted, Rng rng)
      : pages_(static_cast<std::size_t>(pages)) {
    std::iota(pages_.begin(), pages_.end(), 0);
    if (is_permuted) rng.shuffle(std::span<std::int32_t>(pages_));
  }
  // is_unbroken: in one run, not round the end.
  void take(std::int64_t count, bool is_unbroken, std::vector<std::int32_t>& out) {
    out.clear();
    if (is_unbroken && next_ + static_cast<std::size_t>(count) > pages_.size()) next_ = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      out.push_back(pages_[next_]);
      next_ = next_ + 1 == pages_.size() ? 0 : next_ + 1;
    }
  }

 private:
  std::vector<std::int32_t> pages_;
  std::size_t next_ = 0;
};

// The positions among a row's slots that its list names, ascending: the newest, a run, or a uniform
// choice (selection sampling, Knuth 3.4.2 S).
void choose_positions(const ListRule& rule, int context, Locality locality, Rng& rng,
                      std::vector<int>& out) {
  const int n = rule.slots_needed(context);
  const int k = rule.length(context);
  out.clear();
  int first = n - k;
  if (!rule.is_window && locality == Locality::contiguous && n > k) {
    first = static_cast<int>(rng.below(static_cast<std::uint32_t>(n - k + 1)));
  }
  if (rule.is_window || locality == Locality::contiguous || n == k) {
    for (int i = 0; i < k; ++i) out.push_back(first + i);
    return;
  }
  for (int i = 0; i < n && static_cast<int>(out.size()) < k; ++i) {
    const auto left = static_cast<std::uint32_t>(n - i);
    if (rng.below(left) < static_cast<std::uint32_t>(k) - out.size()) out.push_back(i);
  }
}

}  // namespace

CacheView StreamInputs::Pool::view(KvFormat format) const {
  if (pages == 0) return {};
  return {bytes.data(), pages, page_size, page_bytes(format, page_size)};
}

std::int64_t StreamInputs::list_elements(int rows) const {
  return std::int64_t{rows} * (spec_.main_width + spec_.extra_width + 2);
}

class StreamInputs::Builder {
 public:
  Builder(const RunSpec& run, int stream, std::int64_t cache_bytes)
      : run_(run), stream_(stream), cache_bytes_(cache_bytes) {
    const Stream& s = run.streams[static_cast<std::size_t>(stream)];
    const bool is_v4 = run.format == KvFormat::v4;
    rules_[0] = {s.main_width, run.main_page_size, is_v4, 1};
    rules_[1] = {s.extra_width, run.extra_page_size, false, std::max(1, s.extra_ratio)};
    in_.spec_.format = run.format;
    in_.spec_.heads = run.heads;
    in_.spec_.main_width = s.main_width;
    in_.spec_.extra_width = s.extra_width;
    in_.spec_.rows_max = run.rows_max();
  }

  Expected<StreamInputs> build() {
    for (const PointSpec& p : run_.points) in_.points_.push_back(size_point(p));
    for (int c = 0; c < 2; ++c) {
      if (pages_[c] * bytes_per_page(c) > k_pool_bytes_max) return too_large(c);
      fill_pool(c);
    }
    fill_queries();
    allocate_lists();
    for (std::size_t p = 0; p < in_.points_.size(); ++p) fill_point(p);
    return std::move(in_);
  }

 private:
  [[nodiscard]] std::int64_t bytes_per_page(int cache) const {
    return page_bytes(run_.format, rules_[cache].page_size);
  }

  // Decides the number of sets, and raises the pools' sizes to what they need.
  Point size_point(const PointSpec& p) {
    Point out;
    out.rows = p.concurrency;
    std::int64_t pages[2] = {0, 0};
    for (const Batch& batch : p.batches) {
      for (int c = 0; c < 2; ++c) {
        pages[c] = std::max(pages[c], pages_of_batch(rules_[c], batch, run_.locality));
        for (const int context : batch.contexts) {
          out.touched_bytes += rules_[c].length(context) * row_bytes(run_.format);
        }
      }
    }
    out.touched_bytes /= static_cast<double>(p.batches.size());
    if (run_.cache == CacheState::cold) {
      out.sets = measure::Rotation(std::llround(out.touched_bytes), cache_bytes_).copies();
      for (int c = 0; c < 2; ++c) {
        const std::int64_t set_bytes = std::max<std::int64_t>(1, pages[c] * bytes_per_page(c));
        out.sets =
            static_cast<int>(std::clamp<std::int64_t>(k_pool_bytes_max / set_bytes, 1, out.sets));
      }
    }
    for (int c = 0; c < 2; ++c) pages_[c] = std::max(pages_[c], pages[c] * out.sets);
    return out;
  }

  [[nodiscard]] Error too_large(int cache) const {
    return bad_input("workload: one batch of stream " +
                     run_.streams[static_cast<std::size_t>(stream_)].name + " needs " +
                     std::to_string(pages_[cache] * bytes_per_page(cache) >> 20) +
                     " MiB of KV pool; at most " + std::to_string(k_pool_bytes_max >> 20) +
                     " are used: take lower points or a trace of shorter contexts");
  }

  void fill_pool(int c) {
    Pool& pool = c == 0 ? in_.main_ : in_.extra_;
    pool.page_size = rules_[c].page_size;
    if (rules_[c].width == 0) return;
    pool.pages = std::max<std::int64_t>(1, pages_[c]);
    pool.bytes = HostBuffer(pool.pages * bytes_per_page(c));
    const MutableCacheView view{pool.bytes.data(), pool.pages, pool.page_size, bytes_per_page(c)};
    Rng rng(run_.seed, stream_of(Draw::rows, stream_, c));
    for (std::int64_t slot = 0; slot < pool.pages * pool.page_size; ++slot) {
      pack_row(run_.format, synthetic_bits::random_row(run_.format, ScaleKind::normal, rng.next()),
               view, slot);
    }
  }

  void fill_queries() {
    const int d = qk_dims(run_.format);
    const std::int64_t vectors = std::int64_t{run_.rows_max()} * run_.heads;
    in_.q_ = HostBuffer(vectors * d * 2);
    synthetic_bits::Random random(run_.seed ^ stream_of(Draw::queries, stream_, 0));
    for (std::int64_t v = 0; v < vectors; ++v) {
      synthetic_bits::fill_bf16(random, synthetic_bits::k_q_exponent,
                                in_.q_.as<std::uint16_t>() + v * d, d);
    }
  }

  void allocate_lists() {
    std::int64_t elements = 0;
    for (std::size_t p = 0; p < in_.points_.size(); ++p) {
      in_.points_[p].first_element = elements;
      elements += in_.list_elements(in_.points_[p].rows) * in_.points_[p].sets *
                  static_cast<std::int64_t>(run_.points[p].batches.size());
    }
    in_.lists_ = HostBuffer(elements * 4);
  }

  void fill_point(std::size_t p) {
    std::int32_t* out = in_.lists_.as<std::int32_t>() + in_.points_[p].first_element;
    for (const Batch& batch : run_.points[p].batches) {
      for (int set = 0; set < in_.points_[p].sets; ++set) {
        const auto rows = static_cast<std::int64_t>(batch.contexts.size());
        std::int32_t* slots = out;
        std::int32_t* lengths = out + rows * (in_.spec_.main_width + in_.spec_.extra_width);
        for (int c = 0; c < 2; ++c) {
          fill_lists(c, batch, slots, lengths);
          slots += rows * rules_[c].width;
          lengths += rows;
        }
        out += in_.list_elements(static_cast<int>(rows));
      }
    }
  }

  // One cache's lists of one set: [rows, width] slots, then the rows' lengths.
  void fill_lists(int c, const Batch& batch, std::int32_t* slots, std::int32_t* lengths) {
    const ListRule& rule = rules_[c];
    const bool is_shared = run_.locality == Locality::shared;
    const bool is_unbroken = run_.locality == Locality::contiguous;
    if (is_shared) ring(c).take(pages_of_batch(rule, batch, run_.locality), false, row_pages_);
    for (const int context : batch.contexts) {
      if (!is_shared) ring(c).take(rule.pages_needed(context), is_unbroken, row_pages_);
      choose_positions(rule, context, run_.locality, list_rng_, positions_);
      std::fill_n(slots, rule.width, -1);
      for (std::size_t i = 0; i < positions_.size(); ++i) {
        const int page = positions_[i] / rule.page_size;
        slots[i] = row_pages_[static_cast<std::size_t>(page)] * rule.page_size +
                   positions_[i] % rule.page_size;
      }
      *lengths++ = rule.length(context);
      slots += rule.width;
    }
  }

  PageRing& ring(int c) {
    if (!rings_[c]) {
      rings_[c].emplace(std::max<std::int64_t>(1, pages_[c]), run_.locality != Locality::contiguous,
                        Rng(run_.seed, stream_of(Draw::pages, stream_, c)));
    }
    return *rings_[c];
  }

  const RunSpec& run_;
  int stream_;
  std::int64_t cache_bytes_;
  ListRule rules_[2];
  std::int64_t pages_[2] = {0, 0};
  std::optional<PageRing> rings_[2];
  Rng list_rng_{run_.seed, stream_of(Draw::lists, stream_, 0)};
  std::vector<std::int32_t> row_pages_;
  std::vector<int> positions_;
  StreamInputs in_;
};

Expected<StreamInputs> StreamInputs::make(const RunSpec& run, int stream,
                                          std::int64_t cache_bytes) {
  return Builder(run, stream, cache_bytes).build();
}

DecodeCall StreamInputs::call(int point, int batch, int set) const {
  const Point& p = points_[static_cast<std::size_t>(point)];
  SPLITWAVE_CHECK(set >= 0 && set < p.sets, "set = " + std::to_string(set));
  const std::int32_t* slots = lists_.as<std::int32_t>() + p.first_element +
                              (std::int64_t{batch} * p.sets + set) * list_elements(p.rows);
  const std::int64_t rows = p.rows;
  const std::int32_t* extra_slots = slots + rows * spec_.main_width;
  const std::int32_t* lengths = extra_slots + rows * spec_.extra_width;
  const int d = qk_dims(spec_.format);
  DecodeCall call;
  call.rows = p.rows;
  call.q = q_.as<std::uint16_t>();
  call.q_head_stride = d;
  call.q_row_stride = std::int64_t{spec_.heads} * d;
  call.main_cache = main_.view(spec_.format);
  call.extra_cache = extra_.view(spec_.format);
  call.main_list = {slots, spec_.main_width, lengths};
  if (spec_.extra_width > 0) call.extra_list = {extra_slots, spec_.extra_width, lengths + rows};
  call.softmax_scale = 1.0F / std::sqrt(static_cast<float>(d));
  return call;
}

std::array<std::span<const std::uint8_t>, 4> StreamInputs::blocks() const {
  return {main_.bytes.bytes(), extra_.bytes.bytes(), q_.bytes(), lists_.bytes()};
}

}  // namespace splitwave::experiment
