// Accuracy cells: full crosses of the dimensions that broke others most often, and a pairwise
// covering of everything else.
#include "runtime/contract_cells.h"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "runtime/covering.h"

namespace splitwave {
namespace {

constexpr std::array k_page_sizes{64, 2, 53, 256, 1, 61, 576, 32, 69, 128};
constexpr std::array k_length_kinds{LengthKind::none,   LengthKind::ragged,   LengthKind::full,
                                    LengthKind::beyond, LengthKind::negative, LengthKind::zero};
constexpr std::array k_invalid_kinds{InvalidKind::none,     InvalidKind::scattered,
                                     InvalidKind::trailing, InvalidKind::leading,
                                     InvalidKind::block,    InvalidKind::all};
constexpr std::array k_invalid_values{InvalidValue::mixed, InvalidValue::minus_one,
                                      InvalidValue::negative, InvalidValue::beyond_pool};
constexpr std::array k_sinks{SinkKind::none, SinkKind::mixed, SinkKind::finite, SinkKind::minus_inf,
                             SinkKind::plus_inf};
constexpr std::array k_poisons{PoisonKind::nan, PoisonKind::huge, PoisonKind::stale,
                               PoisonKind::zero};
constexpr std::array k_formats{KvFormat::v4, KvFormat::v32};
constexpr std::array k_classes{NumericsClass::throughput, NumericsClass::latency};

// Multiply-adds of a cell in units of head x key: what the double reference takes its time for.
std::int64_t work(const ContractCell& c) {
  const ProblemSpec& s = c.problem.spec;
  return std::int64_t{c.problem.rows} * s.heads * (s.main_width + s.extra_width);
}
constexpr std::int64_t k_work_max = 900'000;  // the largest single cell: about a second
constexpr std::int64_t k_work_usual = 60'000;

ContractCell base_cell(const char* family, KvFormat format, int heads, int main_width,
                       int extra_width, int rows) {
  ContractCell c;
  c.family = family;
  c.problem.spec = {.format = format,
                    .heads = heads,
                    .main_width = main_width,
                    .extra_width = extra_width,
                    .rows_max = std::max(rows, 1)};
  c.problem.rows = rows;
  return c;
}

std::int64_t pad_to_576(KvFormat format, int page_size) {
  return (576 - page_bytes(format, page_size) % 576) % 576;
}

// A factor of the covering: its levels, the ones the quick suite keeps (the first few), and what a
// level does to a cell. Applied in order: a stride needs its page size.
struct Factor {
  int levels = 0;
  int quick_levels = 0;
  std::function<void(ContractCell&, int)> apply;
};

template <class T, std::size_t N>
Factor factor(const std::array<T, N>& values, int quick_levels,
              std::function<void(ContractCell&, T)> apply) {
  return {static_cast<int>(N), quick_levels,
          [values, apply = std::move(apply)](ContractCell& c, int level) {
            apply(c, values[static_cast<std::size_t>(level)]);
          }};
}

void add_source_factors(std::vector<Factor>& f, SyntheticCache SyntheticOptions::*cache,
                        SyntheticList SyntheticOptions::*list) {
  f.push_back(factor<int, 10>(
      k_page_sizes, 4, [cache](ContractCell& c, int v) { (c.problem.*cache).page_size = v; }));
  f.push_back(factor<int, 4>({0, 8, 576, 4096}, 3, [cache](ContractCell& c, int v) {
    SyntheticCache& pages = c.problem.*cache;
    pages.stride_pad_bytes = v == 576 ? pad_to_576(c.problem.spec.format, pages.page_size) : v;
  }));
  f.push_back(factor<Placement, 3>(
      {Placement::scattered, Placement::pages_permuted, Placement::sequential}, 2,
      [cache](ContractCell& c, Placement v) { (c.problem.*cache).placement = v; }));
  f.push_back(factor<int, 3>(
      {1, 0, 7}, 2, [cache](ContractCell& c, int v) { (c.problem.*cache).spare_pages = v; }));
  f.push_back(factor<LengthKind, 6>(
      k_length_kinds, 4, [list](ContractCell& c, LengthKind v) { (c.problem.*list).lengths = v; }));
  f.push_back(factor<InvalidKind, 6>(k_invalid_kinds, 3, [list](ContractCell& c, InvalidKind v) {
    (c.problem.*list).invalid = v;
  }));
  f.push_back(factor<InvalidValue, 4>(k_invalid_values, 2, [list](ContractCell& c, InvalidValue v) {
    (c.problem.*list).invalid_value = v;
  }));
  f.push_back(factor<int, 3>(
      {0, 1, 64}, 2, [list](ContractCell& c, int v) { (c.problem.*list).row_stride_pad = v; }));
}

std::vector<Factor> covering_factors(const SuiteTraits& traits) {
  std::vector<Factor> f;
  f.push_back(factor<KvFormat, 2>(k_formats, 2,
                                  [](ContractCell& c, KvFormat v) { c.problem.spec.format = v; }));
  f.push_back(factor<int, 14>({16, 8, 64, 5, 128, 1, 2, 3, 17, 32, 48, 65, 96, 127}, 4,
                              [](ContractCell& c, int v) { c.problem.spec.heads = v; }));
  f.push_back(factor<int, 12>({133, 64, 128, 0, 640, 1, 5, 192, 1152, 2048, 4096, 576}, 4,
                              [](ContractCell& c, int v) { c.problem.spec.main_width = v; }));
  f.push_back(factor<int, 11>({0, 133, 64, 1, 512, 5, 128, 192, 640, 1024, 2048}, 4,
                              [](ContractCell& c, int v) { c.problem.spec.extra_width = v; }));
  f.push_back(factor<int, 5>({2, 1, 3, 5, 8}, 3, [](ContractCell& c, int v) {
    c.problem.rows = v;
    c.problem.spec.rows_max = std::max(v, 4);
  }));
  add_source_factors(f, &SyntheticOptions::main_cache, &SyntheticOptions::main_list);
  add_source_factors(f, &SyntheticOptions::extra_cache, &SyntheticOptions::extra_list);
  f.push_back(factor<NumericsClass, 2>(
      k_classes, 2, [](ContractCell& c, NumericsClass v) { c.problem.spec.numerics = v; }));
  f.push_back(factor<OperandType, 2>({OperandType::bf16, OperandType::f16}, 2,
                                     [](ContractCell& c, OperandType v) {
                                       c.problem.spec.operands = v;
                                       // synthetic.h: |q| <= 2 (64 for ramps), |K| <= 0.4375.
                                       if (v == OperandType::f16)
                                         c.problem.spec.value_range_max = 64;
                                     }));
  f.push_back(
      factor<Sharing, 4>({Sharing::own, Sharing::shared, Sharing::duplicates, Sharing::single}, 3,
                         [](ContractCell& c, Sharing v) { c.problem.sharing = v; }));
  f.push_back(factor<ScoreKind, 7>(
      {ScoreKind::flat, ScoreKind::peaked, ScoreKind::rising, ScoreKind::falling, ScoreKind::huge,
       ScoreKind::zero, ScoreKind::negative},
      5, [](ContractCell& c, ScoreKind v) { c.problem.scores = v; }));
  f.push_back(factor<ScaleKind, 3>({ScaleKind::normal, ScaleKind::power_of_two, ScaleKind::wide}, 3,
                                   [](ContractCell& c, ScaleKind v) { c.problem.scales = v; }));
  f.push_back(
      factor<SinkKind, 5>(k_sinks, 2, [](ContractCell& c, SinkKind v) { c.problem.sink = v; }));
  f.push_back(factor<PoisonKind, 4>(k_poisons, 3,
                                    [](ContractCell& c, PoisonKind v) { c.problem.poison = v; }));
  f.push_back(
      factor<StrideOrder, 2>({StrideOrder::row_major, StrideOrder::head_major}, 2,
                             [](ContractCell& c, StrideOrder v) { c.problem.q_order = v; }));
  f.push_back(
      factor<StrideOrder, 2>({StrideOrder::row_major, StrideOrder::head_major}, 2,
                             [](ContractCell& c, StrideOrder v) { c.problem.out_order = v; }));
  f.push_back(factor<std::pair<int, int>, 3>({std::pair{0, 0}, std::pair{8, 0}, std::pair{64, 136}},
                                             3, [](ContractCell& c, std::pair<int, int> v) {
                                               c.problem.q_head_pad = v.first;
                                               c.problem.q_row_pad = v.second;
                                             }));
  f.push_back(factor<std::pair<int, int>, 3>({std::pair{0, 0}, std::pair{8, 0}, std::pair{64, 136}},
                                             3, [](ContractCell& c, std::pair<int, int> v) {
                                               c.problem.out_head_pad = v.first;
                                               c.problem.out_row_pad = v.second;
                                             }));
  f.push_back(factor<int, 3>({0, -1, 3}, 3, [](ContractCell& c, int v) {
    c.problem.wants_lse = v >= 0;
    c.problem.lse_row_pad = std::max(v, 0);
  }));
  std::vector<std::string> plans{""};
  plans.insert(plans.end(), traits.accuracy_plans.begin(), traits.accuracy_plans.end());
  const int count = static_cast<int>(plans.size());
  f.push_back({count, std::min(count, 4), [plans](ContractCell& c, int level) {
                 c.plan = plans[static_cast<std::size_t>(level)];
               }});
  return f;
}

ContractCell cell_of(const std::vector<Factor>& factors, const Assignment& assignment) {
  ContractCell c = base_cell("pairs", KvFormat::v4, 1, 0, 0, 1);
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i].apply(c, assignment[i]);
  return c;
}

// Whether at least one list has entries that a row may use.
bool may_have_keys(const ContractCell& c) {
  const auto has = [](int width, const SyntheticList& list) {
    return width > 0 && list.lengths != LengthKind::zero && list.lengths != LengthKind::negative &&
           list.invalid != InvalidKind::all;
  };
  return has(c.problem.spec.main_width, c.problem.main_list) ||
         has(c.problem.spec.extra_width, c.problem.extra_list);
}

void add_pairs(const SuiteTraits& traits, SuiteSize size, std::vector<ContractCell>& cells) {
  const bool is_quick = size == SuiteSize::quick;
  const std::vector<Factor> factors = covering_factors(traits);
  CoveringRequest request;
  for (const Factor& f : factors) request.levels.push_back(is_quick ? f.quick_levels : f.levels);
  request.cost = [&](const Assignment& a) {
    return static_cast<double>(work(cell_of(factors, a))) / static_cast<double>(k_work_usual);
  };
  request.is_allowed = [&](const Assignment& a) {
    const ContractCell c = cell_of(factors, a);
    // f16 asks for values above 2^-14 or negligible ones; "wide" scales are neither.
    const bool breaks_f16_range =
        c.problem.spec.operands == OperandType::f16 && c.problem.scales == ScaleKind::wide;
    return work(c) <= k_work_max && !breaks_f16_range;
  };
  const Covering covering = cover_pairs(request);
  for (const Assignment& a : covering.assignments) cells.push_back(cell_of(factors, a));
  if (is_quick) return;
  // f16 x wide is the only pair that the contract itself rules out.
  SPLITWAVE_CHECK(covering.pairs_uncovered == 1,
                  std::to_string(covering.pairs_uncovered) + " pairs are not covered");
  constexpr int k_spread_cells = 700;
  const auto is_allowed = request.is_allowed;
  request.is_allowed = [&](const Assignment& a) {
    const ContractCell c = cell_of(factors, a);
    return is_allowed(a) && work(c) <= k_work_usual && may_have_keys(c);
  };
  for (const Assignment& a : spread_pairs(request, covering.assignments, k_spread_cells)) {
    cells.push_back(cell_of(factors, a));
  }
}

void add_heads(SuiteSize size, std::vector<ContractCell>& cells) {
  for (const KvFormat format : k_formats) {
    for (int heads = 1; heads <= k_heads_max; heads += size == SuiteSize::quick ? 21 : 1) {
      cells.push_back(base_cell("heads", format, heads, 70, 33, 1));
    }
  }
}

void add_widths(SuiteSize size, std::vector<ContractCell>& cells) {
  std::vector<int> widths;
  if (size == SuiteSize::quick) {
    widths = {0, 1, 2, 31, 63, 64, 65, 127, 128, 129, 192, 576, 640, 1152, 2048};
  } else {
    for (int w = 0; w <= 136; ++w) widths.push_back(w);
    for (int w = 192; w <= 4096; w += w < 1280 ? 64 : 256) {
      for (const int around : {-1, 0, 1}) widths.push_back(w + around);
    }
  }
  for (const KvFormat format : k_formats) {
    for (const int width : widths) {
      cells.push_back(base_cell("widths", format, 3, width, 0, 1));
      // The same number of entries, cut between the caches at a place that is not a tile's.
      const int main_width = width * 3 / 7;
      if (width >= 2) {
        cells.push_back(base_cell("widths", format, 3, main_width, width - main_width, 1));
      }
    }
    for (const int width : {16, 133, 640})
      cells.push_back(base_cell("widths", format, 3, 0, width, 2));
  }
}

void add_pages(SuiteSize size, std::vector<ContractCell>& cells) {
  for (const KvFormat format : k_formats) {
    for (const int main_page : k_page_sizes) {
      for (const int extra_page : k_page_sizes) {
        if (size == SuiteSize::quick && main_page != 64 && extra_page != 64) continue;
        ContractCell c = base_cell("pages", format, 2, 133, 70, 2);
        c.problem.main_cache = {.page_size = main_page, .placement = Placement::pages_permuted};
        c.problem.extra_cache = {.page_size = extra_page, .stride_pad_bytes = 8};
        cells.push_back(c);
      }
    }
  }
}

void add_lengths(SuiteSize size, std::vector<ContractCell>& cells) {
  for (const KvFormat format : k_formats) {
    for (const LengthKind main : k_length_kinds) {
      for (const LengthKind extra : k_length_kinds) {
        for (const SinkKind sink : k_sinks) {
          for (const NumericsClass numerics : k_classes) {
            if (size == SuiteSize::quick &&
                (sink != SinkKind::mixed || numerics != NumericsClass::latency)) {
              continue;
            }
            ContractCell c = base_cell("lengths", format, 3, 150, 141, 3);
            c.problem.main_list.lengths = main;
            c.problem.extra_list.lengths = extra;
            c.problem.sink = sink;
            c.problem.spec.numerics = numerics;
            cells.push_back(c);
          }
        }
      }
    }
  }
}

void add_invalid(SuiteSize size, std::vector<ContractCell>& cells) {
  for (const KvFormat format : k_formats) {
    for (const InvalidKind kind : k_invalid_kinds) {
      for (const InvalidValue value : k_invalid_values) {
        for (const PoisonKind poison : k_poisons) {
          for (const bool is_main : {true, false}) {
            if (kind == InvalidKind::none && value != InvalidValue::mixed) continue;
            if (size == SuiteSize::quick &&
                (value != InvalidValue::mixed || poison == PoisonKind::zero)) {
              continue;
            }
            ContractCell c =
                base_cell("invalid", format, 2, is_main ? 200 : 9, is_main ? 9 : 200, 2);
            (is_main ? c.problem.main_list : c.problem.extra_list) = {
                .lengths = LengthKind::none, .invalid = kind, .invalid_value = value};
            c.problem.poison = poison;
            cells.push_back(c);
          }
        }
      }
    }
  }
}

// Scales far from 1 (keys that do not cancel), and rows that are NaN or inf by their own doing.
void add_values(std::vector<ContractCell>& cells) {
  for (const KvFormat format : k_formats) {
    for (const int width : {1, 2, 64, 133, 640}) {
      ContractCell c = base_cell("values", format, 5, width, 0, 2);
      c.problem.scales = ScaleKind::large;
      c.problem.sharing = Sharing::single;
      cells.push_back(c);
    }
    for (const HostileKind kind :
         {HostileKind::nan_q, HostileKind::nan_q_one_head, HostileKind::nan_code,
          HostileKind::nan_scale, HostileKind::nan_rope}) {
      for (const int width : {1, 64, 300}) {
        for (const SinkKind sink : {SinkKind::none, SinkKind::mixed}) {
          ContractCell c = base_cell("values", format, 5, width, width / 2, 3);
          c.problem.hostile = {HostileKind::none, kind, HostileKind::none};
          c.problem.sink = sink;
          cells.push_back(c);
        }
      }
    }
  }
}

void add_no_rows(std::vector<ContractCell>& cells) {
  for (const KvFormat format : k_formats) {
    for (const int width : {0, 128})
      cells.push_back(base_cell("no_rows", format, 16, width, width, 0));
  }
}

// Offsets past 2^31 and 2^32 bytes in each buffer whose stride the caller chooses.
void add_far(std::vector<ContractCell>& cells) {
  constexpr std::int64_t k_gib = std::int64_t{1} << 30;
  for (const KvFormat format : k_formats) {
    for (const int page_size : {1, 2, 64}) {
      ContractCell c = base_cell("far", format, 2, page_size * 5, page_size * 4, 1);
      c.problem.main_cache = {.page_size = page_size, .stride_pad_bytes = k_gib, .spare_pages = 1};
      cells.push_back(c);
      std::swap(c.problem.main_cache, c.problem.extra_cache);
      cells.push_back(c);
    }
    for (const int buffer : {0, 1, 2}) {
      ContractCell c = base_cell("far", format, 2, 40, 0, 4);
      constexpr int k_elements = 1 << 30;  // 2 GiB of bf16, 4 GiB of int32
      if (buffer == 0) c.problem.q_row_pad = k_elements;
      if (buffer == 1) c.problem.out_row_pad = k_elements;
      if (buffer == 2) c.problem.main_list.row_stride_pad = k_elements;
      cells.push_back(c);
    }
  }
}

}  // namespace

SuiteTraits cpu_suite_traits() {
  return {.backend = "cpu",
          .accuracy_plans = {"mode=free,target_ctas=512", "class=latency", "tile_rows=16",
                             "mode=free,target_ctas=8", "mode=free,target_ctas=768",
                             "chunk_rows=64", "chunk_rows=200", "tile_rows=64", "mode=free"},
          .bitwise_plans = {"block_heads=8", "block_heads=16", "block_heads=32", "block_heads=64",
                            "block_heads=128", "prefetch=0", "prefetch=1", "prefetch=32"},
          .threads = {1, 2, 3, 8},
          .executions = {}};
}

ContractCell canonical(ContractCell cell) {
  SyntheticOptions& p = cell.problem;
  const auto without_source = [](int width, SyntheticCache& cache, SyntheticList& list) {
    if (width > 0) {
      if (list.invalid == InvalidKind::none) list.invalid_value = InvalidValue::mixed;
      return;
    }
    cache = {};
    list = {};
  };
  without_source(p.spec.main_width, p.main_cache, p.main_list);
  without_source(p.spec.extra_width, p.extra_cache, p.extra_list);
  if (p.rows <= 1) {
    p.q_row_pad = p.out_row_pad = p.lse_row_pad = 0;
    p.main_list.row_stride_pad = p.extra_list.row_stride_pad = 0;
    if (p.sharing == Sharing::shared) p.sharing = Sharing::own;
  }
  if (p.rows <= 1 || p.spec.heads == 1) p.q_order = p.out_order = StrideOrder::row_major;
  if (p.spec.heads == 1) p.q_head_pad = p.out_head_pad = 0;
  return cell;
}

void add_accuracy_cells(const SuiteTraits& traits, SuiteSize size,
                        std::vector<ContractCell>& cells) {
  add_pairs(traits, size, cells);
  add_heads(size, cells);
  add_widths(size, cells);
  add_pages(size, cells);
  add_lengths(size, cells);
  add_invalid(size, cells);
  add_values(cells);
  add_no_rows(cells);
  if (size == SuiteSize::full) add_far(cells);
}

std::vector<ContractCell> decode_cells(const SuiteTraits& traits, SuiteSize size) {
  std::vector<ContractCell> drawn;
  add_accuracy_cells(traits, size, drawn);
  add_exactness_cells(traits, size, drawn);
  std::vector<ContractCell> cells;
  std::unordered_set<std::string> keys;
  for (const ContractCell& cell : drawn) {
    ContractCell c = canonical(cell);
    ProblemSpec& spec = c.problem.spec;
    if (spec.operands == OperandType::f16 &&
        !traits.has_f16[static_cast<std::size_t>(spec.format)]) {
      spec.operands = OperandType::bf16;
      spec.value_range_max = ProblemSpec{}.value_range_max;
    }
    if (keys.insert(key_of(c)).second) cells.push_back(std::move(c));
  }
  return cells;
}

Status check_distinct(const std::vector<ContractCell>& cells) {
  std::unordered_set<std::string> keys;
  for (const ContractCell& cell : cells) {
    if (std::string key = key_of(cell); !keys.insert(key).second) {
      return bad_input("two cells of the suite have the key '" + key +
                       "'; each cell must be its own");
    }
  }
  return {};
}

}  // namespace splitwave
