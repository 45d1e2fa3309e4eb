// The accuracy gates: inf and NaN positions, elements, row and tensor norms, cosine distance, lse.
// The figures cover the whole tensor.
#include "formats/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "formats/bf16.h"

namespace splitwave {
namespace {

// docs/contract.md states these; KERNELS.md's contract is their source.
constexpr double k_row_rel_l2_max = 4e-3;
constexpr double k_tensor_rel_l2_max = 3e-3;
constexpr double k_element_abs_max = 1e-3;
constexpr double k_element_rel_max = 2.0 / 128;
constexpr double k_cosine_distance_max = 5e-6;
constexpr double k_lse_error_max = 2e-5;
constexpr double k_lse_error_max_v32 = 2e-3;  // V3.2: K is rounded once, kernels may round twice
// Norms below this are compared by the element rule alone: a large finite sink can push a whole
// head under bf16's smallest normal number, where a relative norm says nothing.
constexpr double k_norm_floor = 1e-30;

// The gates in the order in which they are reported: an earlier gate's failure explains a later
// one's.
enum class Gate : std::uint8_t { positions, elements, norms, cosine, lse, none };

// Keeps the first failure of the earliest gate that failed.
class Report {
 public:
  explicit Report(std::string& failure) : failure_(failure) {}
  template <class... Args>
  void fail(Gate gate, const char* format, Args... args) {
    if (gate >= failed_) return;
    char text[256];
    std::snprintf(text, sizeof text, format, args...);
    failure_ = text;
    failed_ = gate;
  }

 private:
  std::string& failure_;
  Gate failed_ = Gate::none;
};

// Whether both are finite. Non-finite values must be the same inf or both NaN.
bool finite_pair(double got, double want, bool& positions_match) {
  if (std::isfinite(got) && std::isfinite(want)) return true;
  const bool same = (std::isnan(got) && std::isnan(want)) || got == want;
  positions_match = positions_match && same;
  return false;
}

struct Sums {
  double error2 = 0, want2 = 0, got2 = 0, cross = 0;
  void add(double got, double want) {
    error2 += (got - want) * (got - want);
    want2 += want * want;
    got2 += got * got;
    cross += got * want;
  }
  void add(const Sums& other) {
    error2 += other.error2;
    want2 += other.want2;
    got2 += other.got2;
    cross += other.cross;
  }
  [[nodiscard]] double rel_l2() const {
    return std::sqrt(error2) / std::max(std::sqrt(want2), k_norm_floor);
  }
  [[nodiscard]] double cosine_distance() const {
    const double total = want2 + got2;
    return total <= k_norm_floor * k_norm_floor ? 0.0 : 1.0 - 2.0 * cross / total;
  }
};

Sums compare_cell(const std::uint16_t* got_bits, const double* want, std::int64_t row,
                  std::int64_t head, Report& report) {
  Sums sums;
  const auto r = static_cast<long long>(row);
  const auto h = static_cast<long long>(head);
  for (int c = 0; c < k_value_dims; ++c) {
    const double got = bf16_to_float(got_bits[c]);
    bool positions_match = true;
    const bool finite = finite_pair(got, want[c], positions_match);
    if (!positions_match) {
      report.fail(
          Gate::positions,
          "out[row %lld, head %lld, dim %d] is %g, the reference %g: inf and NaN must match", r, h,
          c, got, want[c]);
    }
    if (!finite) continue;
    const double error = std::fabs(got - want[c]);
    if (error > k_element_abs_max && error > k_element_rel_max * std::fabs(want[c])) {
      report.fail(
          Gate::elements,
          "out[row %lld, head %lld, dim %d] is %.6g, the reference %.6g: off by %.3g, allowed "
          "1e-3 or 2/128 of it",
          r, h, c, got, want[c], error);
    }
    sums.add(got, want[c]);
  }
  return sums;
}

void compare_lse(const ProblemSpec& spec, const DecodeCall& call, const ReferenceResult& reference,
                 Comparison& result, Report& report) {
  const double allowed = spec.format == KvFormat::v32 ? k_lse_error_max_v32 : k_lse_error_max;
  for (std::int64_t row = 0; row < call.rows; ++row) {
    for (std::int64_t head = 0; head < spec.heads; ++head) {
      const double got = call.lse[row * call.lse_row_stride + head];
      const double want = reference.lse[static_cast<std::size_t>(row * spec.heads + head)];
      const auto r = static_cast<long long>(row);
      const auto h = static_cast<long long>(head);
      bool positions_match = true;
      const bool finite = finite_pair(got, want, positions_match);
      if (!positions_match) {
        report.fail(Gate::positions,
                    "lse[row %lld, head %lld] is %g, the reference %g: inf and NaN must match", r,
                    h, got, want);
      }
      if (!finite) continue;
      const double error = std::fabs(got - want) / std::max(1.0, std::fabs(want));
      result.worst_lse_error = std::max(result.worst_lse_error, error);
      if (error > allowed) {
        report.fail(Gate::lse,
                    "lse[row %lld, head %lld] is %.9g, the reference %.9g: off by %.3g of "
                    "max(1, |lse|), allowed %g",
                    r, h, got, want, error, allowed);
      }
    }
  }
}

}  // namespace

Comparison compare_decode(const ProblemSpec& spec, const DecodeCall& call,
                          const ReferenceResult& reference) {
  Comparison result;
  Report report(result.failure);
  Sums tensor;
  std::int64_t worst_row = 0;
  std::int64_t worst_head = 0;
  for (std::int64_t row = 0; row < call.rows; ++row) {
    for (std::int64_t head = 0; head < spec.heads; ++head) {
      const std::uint16_t* got = call.out + row * call.out_row_stride + head * call.out_head_stride;
      const double* want = reference.out.data() + (row * spec.heads + head) * k_value_dims;
      const Sums sums = compare_cell(got, want, row, head, report);
      tensor.add(sums);
      if (sums.rel_l2() > result.worst_row_rel_l2) {
        result.worst_row_rel_l2 = sums.rel_l2();
        worst_row = row;
        worst_head = head;
      }
    }
  }
  if (result.worst_row_rel_l2 > k_row_rel_l2_max) {
    report.fail(Gate::norms, "out[row %lld, head %lld] has relative L2 error %.3g, allowed %g",
                static_cast<long long>(worst_row), static_cast<long long>(worst_head),
                result.worst_row_rel_l2, k_row_rel_l2_max);
  }
  result.rel_l2 = tensor.rel_l2();
  if (result.rel_l2 > k_tensor_rel_l2_max) {
    report.fail(Gate::norms, "out has relative L2 error %.3g over the tensor, allowed %g",
                result.rel_l2, k_tensor_rel_l2_max);
  }
  result.cosine_distance = tensor.cosine_distance();
  if (result.cosine_distance > k_cosine_distance_max) {
    report.fail(Gate::cosine, "out has cosine distance %.3g over the tensor, allowed %g",
                result.cosine_distance, k_cosine_distance_max);
  }
  if (call.lse != nullptr) compare_lse(spec, call, reference, result, report);
  result.ok = result.failure.empty();
  return result;
}

}  // namespace splitwave
