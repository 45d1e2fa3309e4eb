// Bits are compared as bits (NaN payloads included); values by formats/compare.h.
#include "experiment/gates.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "formats/bf16.h"
#include "formats/compare.h"

namespace splitwave::experiment {
namespace {

constexpr std::uint16_t k_out_poison = 0x7FB7;  // a signalling NaN: no conversion makes one
constexpr std::uint32_t k_lse_poison = 0x7FA5A5A5U;

// Elements of one row of an output that differ from those of a row of another; the first one's
// place and values go to detail.
struct RowDifference {
  std::int64_t elements = 0;
  std::string first;
};

RowDifference compare_rows(const DecodeOutput& a, int row_a, const DecodeOutput& b, int row_b,
                           int heads, const std::string& other_name) {
  RowDifference out;
  const auto n = static_cast<std::size_t>(heads) * k_value_dims;
  const std::uint16_t* x = a.out.data() + static_cast<std::size_t>(row_a) * n;
  const std::uint16_t* y = b.out.data() + static_cast<std::size_t>(row_b) * n;
  for (std::size_t i = 0; i < n; ++i) {
    if (x[i] == y[i]) continue;
    if (out.elements++ == 0) {
      out.first = "row " + std::to_string(row_a) + " head " + std::to_string(i / k_value_dims) +
                  " dim " + std::to_string(i % k_value_dims) + ": " +
                  std::to_string(bf16_to_float(x[i])) + " in the batch, " +
                  std::to_string(bf16_to_float(y[i])) + " " + other_name;
    }
  }
  const auto h = static_cast<std::size_t>(heads);
  for (std::size_t i = 0; i < h; ++i) {
    const float p = a.lse[static_cast<std::size_t>(row_a) * h + i];
    const float q = b.lse[static_cast<std::size_t>(row_b) * h + i];
    if (std::memcmp(&p, &q, sizeof p) == 0) continue;
    if (out.elements++ == 0) {
      out.first = "row " + std::to_string(row_a) + " head " + std::to_string(i) +
                  " lse: " + std::to_string(p) + " in the batch, " + std::to_string(q) + " " +
                  other_name;
    }
  }
  return out;
}

void add(GateOutcome& outcome, const RowDifference& difference) {
  if (difference.elements == 0) return;
  if (outcome.detail.empty()) outcome.detail = difference.first;
  outcome.worst += static_cast<double>(difference.elements);
  outcome.passed = false;
}

Expected<DecodeOutput> run_with_output(const ProblemSpec& spec, DecodeCall call,
                                       const RunCall& run) {
  DecodeOutput output;
  output.attach(call, spec.heads);
  if (Status status = run(call); !status.ok()) return status.error();
  return output;
}

}  // namespace

void DecodeOutput::attach(DecodeCall& call, int heads) {
  const auto vectors = static_cast<std::size_t>(call.rows) * static_cast<std::size_t>(heads);
  out.assign(vectors * k_value_dims, k_out_poison);
  float poison = 0;
  std::memcpy(&poison, &k_lse_poison, sizeof poison);
  lse.assign(vectors, poison);
  call.out = out.data();
  call.out_head_stride = k_value_dims;
  call.out_row_stride = std::int64_t{heads} * k_value_dims;
  call.lse = lse.data();
  call.lse_row_stride = heads;
}

bool DecodeOutput::operator==(const DecodeOutput& other) const {
  return out == other.out && lse.size() == other.lse.size() &&
         std::memcmp(lse.data(), other.lse.data(), lse.size() * sizeof(float)) == 0;
}

SelectedRows::SelectedRows(const ProblemSpec& spec, const DecodeCall& call,
                           const std::vector<int>& rows)
    : call_(call) {
  const int d = qk_dims(spec.format);
  call_.rows = static_cast<int>(rows.size());
  q_.reserve(rows.size() * static_cast<std::size_t>(spec.heads * d));
  for (const int row : rows) {
    for (int head = 0; head < spec.heads; ++head) {
      const std::uint16_t* q = call.q + row * call.q_row_stride + head * call.q_head_stride;
      q_.insert(q_.end(), q, q + d);
    }
  }
  call_.q = q_.data();
  call_.q_head_stride = d;
  call_.q_row_stride = std::int64_t{spec.heads} * d;
  const int widths[2] = {spec.main_width, spec.extra_width};
  IndexList* lists[2] = {&call_.main_list, &call_.extra_list};
  for (int c = 0; c < 2; ++c) {
    IndexList& list = *lists[c];
    if (widths[c] == 0) continue;
    for (const int row : rows) {
      const std::int32_t* slots = list.slots + row * list.row_stride;
      slots_[c].insert(slots_[c].end(), slots, slots + widths[c]);
      if (list.lengths != nullptr) lengths_[c].push_back(list.lengths[row]);
    }
    list.slots = slots_[c].data();
    list.row_stride = widths[c];
    if (list.lengths != nullptr) list.lengths = lengths_[c].data();
  }
}

Expected<GateOutcome> invariance_gate(const ProblemSpec& spec, const DecodeCall& call,
                                      const RunCall& run) {
  const auto batch = run_with_output(spec, call, run);
  if (!batch.ok()) return batch.error();
  GateOutcome outcome{true, 0, {}};
  for (int row = 0; row < call.rows; ++row) {
    const SelectedRows alone(spec, call, {row});
    const auto output = run_with_output(spec, alone.call(), run);
    if (!output.ok()) return output.error();
    add(outcome, compare_rows(*batch, row, *output, 0, spec.heads, "alone"));
  }
  std::vector<int> order(static_cast<std::size_t>(call.rows));
  std::iota(order.rbegin(), order.rend(), 0);
  const SelectedRows reversed(spec, call, order);
  const auto output = run_with_output(spec, reversed.call(), run);
  if (!output.ok()) return output.error();
  for (int row = 0; row < call.rows; ++row) {
    add(outcome, compare_rows(*batch, row, *output, call.rows - 1 - row, spec.heads,
                              "in the reversed batch"));
  }
  return outcome;
}

Expected<GateOutcome> repeat_gate(const ProblemSpec& spec, const DecodeCall& call,
                                  const RunCall& run) {
  const auto first = run_with_output(spec, call, run);
  if (!first.ok()) return first.error();
  const auto second = run_with_output(spec, call, run);
  if (!second.ok()) return second.error();
  GateOutcome outcome{true, 0, {}};
  for (int row = 0; row < call.rows; ++row) {
    add(outcome, compare_rows(*first, row, *second, row, spec.heads, "when repeated"));
  }
  return outcome;
}

Expected<GateOutcome> accuracy_gate(const ProblemSpec& spec, const DecodeCall& call,
                                    const ReferenceResult& reference, const RunCall& run) {
  DecodeOutput output;
  DecodeCall attached = call;
  output.attach(attached, spec.heads);
  if (Status status = run(attached); !status.ok()) return status.error();
  const Comparison comparison = compare_decode(spec, attached, reference);
  return GateOutcome{comparison.ok, comparison.worst_row_rel_l2, comparison.failure};
}

ReferenceResult parallel_reference(const ProblemSpec& spec, const DecodeCall& call, int threads) {
  const auto row_out = static_cast<std::size_t>(spec.heads) * k_value_dims;
  const auto row_lse = static_cast<std::size_t>(spec.heads);
  ReferenceResult all;
  all.out.resize(static_cast<std::size_t>(call.rows) * row_out);
  all.lse.resize(static_cast<std::size_t>(call.rows) * row_lse);
  std::atomic<int> next{0};
  const auto work = [&] {
    for (int row = next++; row < call.rows; row = next++) {
      const SelectedRows one(spec, call, {row});
      const ReferenceResult r = reference_decode(spec, one.call());
      const auto at = static_cast<std::size_t>(row);
      std::copy(r.out.begin(), r.out.end(),
                all.out.begin() + static_cast<std::ptrdiff_t>(at * row_out));
      std::copy(r.lse.begin(), r.lse.end(),
                all.lse.begin() + static_cast<std::ptrdiff_t>(at * row_lse));
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < std::min(threads, call.rows); ++i) helpers.emplace_back(work);
    work();
  }
  return all;
}

}  // namespace splitwave::experiment
