// The meaning of each check: which problem is run besides the base one, and which rows must be
// equal.
#include "runtime/contract_judge.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "formats/compare.h"
#include "formats/reference.h"

namespace splitwave {
namespace {

// Content by key: FNV-1a, so that a cell's bits do not depend on its place in the list.
std::uint64_t seed_of(const std::string& key) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

// A problem to run beside the base one, and which of its rows must have whose bits.
struct Variant {
  SyntheticOptions problem;
  SuiteRun run;
  std::vector<std::pair<int, int>> rows;  // row of the base, row of this
};

SuiteRun run_of(const SyntheticOptions& problem, const std::string& plan) {
  return {.spec = problem.spec, .plan = plan};
}

std::vector<std::pair<int, int>> same_rows(int rows) {
  std::vector<std::pair<int, int>> pairs;
  for (int row = 0; row < rows; ++row) pairs.emplace_back(row, row);
  return pairs;
}

std::vector<std::int64_t> ids_of(const SyntheticOptions& p) {
  if (!p.row_ids.empty()) return p.row_ids;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(p.rows));
  for (std::size_t row = 0; row < ids.size(); ++row) ids[row] = static_cast<std::int64_t>(row);
  return ids;
}

// At most this many rows of a large batch are run alone: the ends and some between.
constexpr int k_alone_rows_max = 6;

std::vector<Variant> alone(const ContractCell& cell) {
  std::vector<Variant> variants;
  const SyntheticOptions& base = cell.problem;
  const int step = std::max(1, (base.rows + k_alone_rows_max - 2) / (k_alone_rows_max - 1));
  for (int row = 0; row < base.rows; row += step) {
    const int taken = row + step >= base.rows ? base.rows - 1 : row;
    Variant v{base, run_of(base, cell.plan), {{taken, 0}}};
    v.problem.rows = 1;
    v.problem.row_ids = {ids_of(base)[static_cast<std::size_t>(taken)]};
    v.problem.placement_seed += 1 + static_cast<std::uint64_t>(row);
    variants.push_back(std::move(v));
  }
  return variants;
}

Variant identical(const ContractCell& cell) {
  Variant v{cell.problem, run_of(cell.problem, cell.plan), {}};
  v.problem.rows = 1;
  v.problem.row_ids = {ids_of(cell.problem).front()};
  for (int row = 0; row < cell.problem.rows; ++row) v.rows.emplace_back(row, 0);
  return v;
}

// Every second row turns hostile; the others must not notice.
Variant neighbours(const ContractCell& cell) {
  Variant v{cell.problem, run_of(cell.problem, cell.plan), {}};
  v.problem.hostile.assign(static_cast<std::size_t>(v.problem.rows), HostileKind::none);
  for (int row = 0; row < v.problem.rows; ++row) {
    if (row % 2 == 0) {
      v.problem.hostile[static_cast<std::size_t>(row)] = static_cast<HostileKind>(cell.parameter);
    } else {
      v.rows.emplace_back(row, row);
    }
  }
  return v;
}

// Which strides a rearrangement changes; parameter selects one of k_rearrangements.
void rearrange(SyntheticOptions& p, int which) {
  switch (which) {
    case 0:
      p.q_head_pad = 8;
      p.q_row_pad = 72;
      break;
    case 1:
      p.out_head_pad = 8;
      p.out_row_pad = 72;
      p.lse_row_pad = 5;
      break;
    case 2:
      p.q_order = p.out_order = StrideOrder::head_major;
      break;
    case 3:
      p.main_list.row_stride_pad = 1;
      p.extra_list.row_stride_pad = 64;
      break;
    case 4:
      p.wants_lse = false;
      break;
    case 5:
      p.main_cache.stride_pad_bytes = 8;
      p.extra_cache.stride_pad_bytes = 560;
      break;
    default:
      SPLITWAVE_CHECK(false, "rearrangement " + std::to_string(which) + " is not one");
  }
}

// As many leading rows of the base as live rows on the same decoder.
Variant shrunk(const ContractCell& cell) {
  Variant v{cell.problem, run_of(cell.problem, cell.plan), {}};
  v.problem.rows = std::max(1, cell.problem.rows / 2);
  v.rows = same_rows(v.problem.rows);
  return v;
}

std::vector<Variant> variants_of(const ContractCell& cell) {
  const SyntheticOptions& base = cell.problem;
  Variant v{base, run_of(base, cell.plan), same_rows(base.rows)};
  switch (cell.check) {
    case CellCheck::accuracy:
      return {};
    case CellCheck::alone:
      return alone(cell);
    case CellCheck::identical:
      return {identical(cell)};
    case CellCheck::neighbours:
      return {neighbours(cell)};
    case CellCheck::placed:
      v.problem.main_cache.placement = v.problem.extra_cache.placement =
          static_cast<Placement>(cell.parameter);
      v.problem.placement_seed += 1;
      break;
    case CellCheck::paged:
      v.problem.main_cache.page_size = v.problem.extra_cache.page_size = cell.parameter;
      break;
    case CellCheck::poisoned:
      v.problem.poison = static_cast<PoisonKind>(cell.parameter);
      break;
    case CellCheck::repeated:
      break;
    case CellCheck::fewer_heads:
      v.problem.spec.heads = v.run.spec.heads = cell.parameter;
      break;
    case CellCheck::plan:
      v.run.plan = cell.variation;
      break;
    case CellCheck::threads:
      v.run.threads = cell.parameter;
      break;
    case CellCheck::rearranged:
      rearrange(v.problem, cell.parameter);
      break;
    case CellCheck::trimmed:
      v.problem.main_list.lengths = v.problem.extra_list.lengths = LengthKind::trimmed;
      break;
    case CellCheck::declared:
      v.problem.spec.rows_max = v.run.spec.rows_max = cell.parameter;
      break;
    case CellCheck::shrunk:
      return {shrunk(cell)};
    case CellCheck::executed:
      v.run.execution = cell.variation;
      break;
  }
  return {v};
}

// Bits of (row, head): 512 of out and, where both have it, the lse.
std::string differing_bits(const DecodeCall& a, int row_a, const DecodeCall& b, int row_b,
                           int heads) {
  char text[200];
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::uint16_t* out_a = a.out + row_a * a.out_row_stride + head * a.out_head_stride;
    const std::uint16_t* out_b = b.out + row_b * b.out_row_stride + head * b.out_head_stride;
    for (int c = 0; c < k_value_dims; ++c) {
      if (out_a[c] == out_b[c]) continue;
      std::snprintf(text, sizeof text,
                    "out[row %d, head %d, dim %d] is 0x%04x, and 0x%04x in row %d of the variation",
                    row_a, static_cast<int>(head), c, out_a[c], out_b[c], row_b);
      return text;
    }
    if (a.lse == nullptr || b.lse == nullptr) continue;
    const float lse_a = a.lse[row_a * a.lse_row_stride + head];
    const float lse_b = b.lse[row_b * b.lse_row_stride + head];
    if (std::memcmp(&lse_a, &lse_b, sizeof lse_a) == 0) continue;
    std::snprintf(text, sizeof text,
                  "lse[row %d, head %d] is %.9g, and %.9g in row %d of the variation", row_a,
                  static_cast<int>(head), lse_a, lse_b, row_b);
    return text;
  }
  return {};
}

// Whether the variant's call can share the base's decoder: then it is made on it, after the base's.
bool shares_decoder(CellCheck check) {
  return check == CellCheck::repeated || check == CellCheck::shrunk;
}

class Judge {
 public:
  Judge(const ContractCell& cell, SuiteExecutor& executor, std::mutex& gate)
      : cell_(cell), executor_(executor), gate_(gate) {
    cell_.problem.seed = seed_of(key_of(cell));
    if (cell_.check == CellCheck::identical) {
      cell_.problem.row_ids.assign(static_cast<std::size_t>(cell_.problem.rows), 7);
    }
  }

  CellVerdict judge() {
    SyntheticProblem base(cell_.problem);
    const ReferenceResult reference = reference_decode(base.spec(), base.call());
    run_base(base);
    if (verdict_.failure.empty()) check_accuracy(base, reference);
    if (verdict_.failure.empty()) check_variants(base);
    return std::move(verdict_);
  }

 private:
  void fail(std::string reason) {
    if (verdict_.failure.empty()) verdict_.failure = std::move(reason);
  }

  void run(const SuiteRun& how, std::span<SyntheticProblem* const> problems) {
    std::vector<HostCall> calls;
    for (SyntheticProblem* p : problems) calls.push_back({p->call(), p->buffers()});
    Status status;
    {
      const std::lock_guard lock(gate_);
      status = executor_.run(how, calls);
    }
    if (!status.ok()) fail("refused: " + status.error().message);
    for (const SyntheticProblem* p : problems) {
      if (std::string text = p->check_outputs(); !text.empty()) fail(std::move(text));
    }
  }
  void run_base(SyntheticProblem& base) {
    SyntheticProblem* const only[] = {&base};
    run(run_of(cell_.problem, cell_.plan), only);
  }

  void check_accuracy(const SyntheticProblem& base, const ReferenceResult& reference) {
    const Comparison c = compare_decode(base.spec(), base.call(), reference);
    verdict_.rel_l2 = c.rel_l2;
    verdict_.row_rel_l2 = c.worst_row_rel_l2;
    verdict_.lse_error = c.worst_lse_error;
    if (!c.ok) fail(c.failure);
  }

  void check_variants(const SyntheticProblem& base) {
    for (const Variant& v : variants_of(cell_)) {
      SyntheticProblem problem(v.problem);
      if (shares_decoder(cell_.check)) {
        // Another problem first, so that the workspace holds something else; then a larger one's
        // rows before the smaller call.
        SyntheticOptions other_options = cell_.problem;
        other_options.seed += 1;
        SyntheticProblem other(other_options);
        SyntheticProblem* const sequence[] = {&other, &problem};
        run(v.run, sequence);
      } else {
        SyntheticProblem* const only[] = {&problem};
        run(v.run, only);
      }
      if (!verdict_.failure.empty()) {
        verdict_.failure = "variation: " + verdict_.failure;
        return;
      }
      for (const auto& [row, other_row] : v.rows) {
        fail(differing_bits(base.call(), row, problem.call(), other_row, cell_.problem.spec.heads));
        if (!verdict_.failure.empty()) return;
      }
    }
  }

  ContractCell cell_;
  SuiteExecutor& executor_;
  std::mutex& gate_;
  CellVerdict verdict_;
};

}  // namespace

CellVerdict judge_cell(const ContractCell& cell, SuiteExecutor& executor, std::mutex& gate) {
  return Judge(cell, executor, gate).judge();
}

}  // namespace splitwave
