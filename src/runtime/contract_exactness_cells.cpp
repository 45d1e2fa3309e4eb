// Exactness cells: for each way in which a row's surroundings may change, shapes under which its
// bits must not.
#include <algorithm>
#include <array>

#include "runtime/contract_cells.h"

namespace splitwave {
namespace {

constexpr std::array k_formats{KvFormat::v4, KvFormat::v32};
constexpr std::array k_classes{NumericsClass::throughput, NumericsClass::latency};

struct Shape {
  int heads = 0;
  int main_width = 0;
  int extra_width = 0;
};
// Several chunks in the latency class, one or more in the other, ragged last tiles in both.
constexpr Shape k_small{3, 45, 100};
constexpr Shape k_flash{64, 128, 512};
constexpr Shape k_long{5, 1300, 0};  // over the single-chunk limit of the throughput class

ContractCell exact_cell(CellCheck check, KvFormat format, NumericsClass numerics, Shape shape,
                        int rows) {
  ContractCell c;
  c.check = check;
  c.family = name_of(check);
  c.problem.spec = {.format = format,
                    .heads = shape.heads,
                    .main_width = shape.main_width,
                    .extra_width = shape.extra_width,
                    .rows_max = std::max(rows, 1),
                    .numerics = numerics};
  c.problem.rows = rows;
  c.problem.scores = ScoreKind::peaked;
  c.problem.main_cache.page_size = 64;
  c.problem.extra_cache.page_size = 2;
  c.problem.extra_list = {.lengths = LengthKind::ragged, .invalid = InvalidKind::scattered};
  return c;
}

// Calls add(format, class) for what every family crosses.
template <class Add>
void for_formats_and_classes(Add add) {
  for (const KvFormat format : k_formats) {
    for (const NumericsClass numerics : k_classes) add(format, numerics);
  }
}

void add_batches(SuiteSize size, KvFormat format, NumericsClass numerics,
                 std::vector<ContractCell>& cells) {
  const bool is_full = size == SuiteSize::full;
  // Every batch size up to 96, one row's problem in each of its slots.
  for (int rows = 1; rows <= 96; rows += is_full ? 1 : 19) {
    cells.push_back(exact_cell(CellCheck::identical, format, numerics, {2, 20, 30}, rows));
  }
  const std::vector<int> batches =
      is_full ? std::vector<int>{1, 2, 3, 5, 8, 16, 17, 33, 64, 96} : std::vector<int>{2, 9};
  for (const int rows : batches) {
    cells.push_back(exact_cell(CellCheck::alone, format, numerics, k_small, rows));
    if (is_full && rows <= 8) {
      cells.push_back(exact_cell(CellCheck::alone, format, numerics, k_long, rows));
      if (rows <= 3) cells.push_back(exact_cell(CellCheck::alone, format, numerics, k_flash, rows));
    }
    if (rows >= 2) {
      cells.push_back(exact_cell(CellCheck::shrunk, format, numerics, k_small, rows));
    }
  }
}

void add_surroundings(SuiteSize size, KvFormat format, NumericsClass numerics,
                      std::vector<ContractCell>& cells) {
  const bool is_full = size == SuiteSize::full;
  for (int kind = 1; kind <= static_cast<int>(HostileKind::huge_keys); ++kind) {
    for (const int rows : {3, 6}) {
      if (!is_full && rows != 3) continue;
      ContractCell c = exact_cell(CellCheck::neighbours, format, numerics, k_small, rows);
      c.parameter = kind;
      cells.push_back(c);
      c.plan = "mode=free,target_ctas=64";  // the same batch: same cuts, so the same bits
      if (is_full) cells.push_back(c);
    }
  }
  for (const Placement placement :
       {Placement::sequential, Placement::pages_permuted, Placement::scattered}) {
    for (const int page_size : {64, 1, 2, 53, 256}) {
      if (!is_full && page_size != 64) continue;
      ContractCell c = exact_cell(CellCheck::placed, format, numerics, k_small, 4);
      c.problem.main_cache.page_size = page_size;
      c.parameter = static_cast<int>(placement);
      cells.push_back(c);
    }
  }
  for (const int page_size : {1, 2, 32, 53, 61, 69, 128, 256, 576}) {
    for (const std::int64_t pad : {0, 8, 4096}) {
      if (!is_full && pad != 8) continue;
      ContractCell c = exact_cell(CellCheck::paged, format, numerics, k_small, 3);
      c.problem.main_cache.stride_pad_bytes = pad;
      c.parameter = page_size;
      cells.push_back(c);
    }
  }
  for (const PoisonKind poison : {PoisonKind::nan, PoisonKind::huge, PoisonKind::stale}) {
    for (const LengthKind lengths :
         {LengthKind::none, LengthKind::ragged, LengthKind::zero, LengthKind::beyond}) {
      if (!is_full && lengths != LengthKind::ragged) continue;
      ContractCell c = exact_cell(CellCheck::poisoned, format, numerics, k_small, 4);
      c.problem.poison = PoisonKind::zero;
      c.problem.main_list = {.lengths = lengths, .invalid = InvalidKind::scattered};
      c.parameter = static_cast<int>(poison);
      cells.push_back(c);
    }
  }
}

void add_call_shapes(SuiteSize size, KvFormat format, NumericsClass numerics,
                     std::vector<ContractCell>& cells) {
  const bool is_full = size == SuiteSize::full;
  for (const int heads : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 96, 127}) {
    if (!is_full && heads != 1 && heads != 8 && heads != 65) continue;
    ContractCell c = exact_cell(CellCheck::fewer_heads, format, numerics, {heads, 45, 100}, 2);
    c.problem.sink = SinkKind::mixed;
    c.parameter = k_heads_max;
    cells.push_back(c);
  }
  for (int which = 0; which < k_rearrangements; ++which) {
    ContractCell c = exact_cell(CellCheck::rearranged, format, numerics, k_small, 4);
    c.parameter = which;
    cells.push_back(c);
  }
  for (const InvalidKind invalid : {InvalidKind::trailing, InvalidKind::all, InvalidKind::block}) {
    ContractCell c = exact_cell(CellCheck::trimmed, format, numerics, k_small, 3);
    c.problem.main_list = {.lengths = LengthKind::none, .invalid = invalid};
    c.problem.extra_list = {.lengths = LengthKind::none, .invalid = InvalidKind::trailing};
    cells.push_back(c);
  }
  for (const int rows : {1, 4}) {
    ContractCell c = exact_cell(CellCheck::declared, format, numerics, k_small, rows);
    c.parameter = 96;
    cells.push_back(c);
  }
}

void add_launches(const SuiteTraits& traits, SuiteSize size, KvFormat format,
                  NumericsClass numerics, std::vector<ContractCell>& cells) {
  const bool is_full = size == SuiteSize::full;
  for (const std::string& plan : traits.bitwise_plans) {
    for (const int heads : {5, 16, 64, 128}) {
      if (!is_full && heads != 16) continue;
      ContractCell c = exact_cell(CellCheck::plan, format, numerics, {heads, 45, 100}, 2);
      c.variation = plan;
      cells.push_back(c);
    }
  }
  for (const int threads : traits.threads) {
    for (const Shape shape : {k_small, k_flash, k_long}) {
      if (!is_full && shape.heads != k_small.heads) continue;
      ContractCell c = exact_cell(CellCheck::threads, format, numerics, shape, 2);
      c.parameter = threads;
      cells.push_back(c);
    }
  }
  for (const char* plan : {"", "mode=free,target_ctas=64", "mode=free,target_ctas=512"}) {
    ContractCell c = exact_cell(CellCheck::repeated, format, numerics, k_small, 5);
    c.plan = plan;
    cells.push_back(c);
  }
  for (const std::string& execution : traits.executions) {
    for (const int rows : {1, 4, 17}) {
      if (!is_full && rows != 4) continue;
      ContractCell c = exact_cell(CellCheck::executed, format, numerics, k_small, rows);
      c.variation = execution;
      cells.push_back(c);
    }
  }
}

}  // namespace

void add_exactness_cells(const SuiteTraits& traits, SuiteSize size,
                         std::vector<ContractCell>& cells) {
  for_formats_and_classes([&](KvFormat format, NumericsClass numerics) {
    add_batches(size, format, numerics, cells);
    add_surroundings(size, format, numerics, cells);
    add_call_shapes(size, format, numerics, cells);
    add_launches(traits, size, format, numerics, cells);
  });
}

}  // namespace splitwave
