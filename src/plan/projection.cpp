// Forward: speed-up -> marginal -> step -> throughput. Backward: claim -> what it would take.
#include "plan/projection.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace splitwave {
namespace {

std::string number(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

// 3 significant digits or so: what a claim is written with.
std::string ms(double value) { return number(value, value < 10 ? 3 : 1) + " ms"; }

std::string rate(double tok_s) { return number(tok_s, tok_s < 100 ? 1 : 0) + " tok/s"; }

std::string percent(double ratio) { return (ratio < 0 ? "" : "+") + number(ratio * 100, 1) + " %"; }

std::string times(double factor) { return number(factor, 2) + "x"; }

bool agrees(double a, double b) {
  return std::abs(a - b) <= k_projection_tolerance * std::max(std::abs(a), std::abs(b));
}

double step_of(const ProjectionInput& in, double marginal_ms, int concurrency) {
  return in.fixed_ms + marginal_ms * concurrency;
}

double throughput(const ProjectionInput& in, double marginal_ms, int concurrency) {
  return concurrency / step_of(in, marginal_ms, concurrency) * 1e3;
}

double marginal_after(const ProjectionInput& in, double speedup) {
  return in.marginal_ms - in.share_ms + in.share_ms / speedup;
}

Interval ordered(const Interval& claim) {
  return {std::min(claim.low, claim.high), std::max(claim.low, claim.high)};
}

const MeasuredThroughput* measured_at(const ProjectionInput& in, int concurrency) {
  for (const MeasuredThroughput& m : in.measured) {
    if (m.concurrency == concurrency) return &m;
  }
  return nullptr;
}

Error refused(const std::string& field, double value, const std::string& works) {
  return bad_input(field + "=" + number(value, 4) + "; what works: " + works);
}

Status check_claim(const char* field, const std::optional<Interval>& claim) {
  if (!claim) return {};
  const double least = std::min(claim->low, claim->high);
  if (std::isfinite(claim->low) && std::isfinite(claim->high) && least > 0) return {};
  return refused(field, least, "two finite numbers above 0");
}

Status check(const ProjectionInput& in) {
  if (!std::isfinite(in.fixed_ms) || in.fixed_ms < 0) {
    return refused("fixed-ms", in.fixed_ms, "a finite number at or above 0");
  }
  if (!std::isfinite(in.marginal_ms) || in.marginal_ms <= 0) {
    return refused("marginal-ms", in.marginal_ms, "a finite number above 0");
  }
  if (!std::isfinite(in.share_ms) || in.share_ms < 0 || in.share_ms > in.marginal_ms) {
    return refused("share-ms", in.share_ms,
                   "0.." + number(in.marginal_ms, 4) + ", a part of the marginal cost");
  }
  if (!std::isfinite(in.speedup.high) || in.speedup.low <= 0 || in.speedup.low > in.speedup.high) {
    return bad_input("speedup=" + number(in.speedup.low, 4) + ":" + number(in.speedup.high, 4) +
                     "; what works: LO:HI with 0 < LO <= HI");
  }
  if (in.at.empty()) return bad_input("at is empty; what works: concurrencies, such as 64,96");
  for (const int c : in.at) {
    if (c < 1) return refused("at", c, "1 or more");
  }
  for (const MeasuredThroughput& m : in.measured) {
    if (m.concurrency < 1) return refused("measured concurrency", m.concurrency, "1 or more");
    if (!std::isfinite(m.tok_s) || m.tok_s <= 0) {
      return refused("measured tok/s", m.tok_s, "a finite number above 0");
    }
  }
  const Status marginal = check_claim("claim-marginal-ms", in.claim_marginal_ms);
  return marginal ? check_claim("claim-tok-s", in.claim_tok_s) : marginal;
}

std::string marginal_arithmetic(const ProjectionInput& in, double speedup) {
  return times(speedup) + ": " + number(in.marginal_ms, 3) + " - " + number(in.share_ms, 3) +
         " + " + number(in.share_ms, 3) + " / " + number(speedup, 2) + " = " +
         ms(marginal_after(in, speedup)) + " per request";
}

std::string step_arithmetic(const ProjectionInput& in, double marginal_ms, int concurrency,
                            const std::string& what) {
  return what + ": " + number(in.fixed_ms, 2) + " + " + number(marginal_ms, 3) + " * " +
         std::to_string(concurrency) + " = " + ms(step_of(in, marginal_ms, concurrency)) + ", " +
         std::to_string(concurrency) +
         " / that = " + rate(throughput(in, marginal_ms, concurrency));
}

ProjectedPoint project_point(const ProjectionInput& in, const Interval& marginal, int concurrency) {
  ProjectedPoint p;
  p.concurrency = concurrency;
  p.line_tok_s = throughput(in, in.marginal_ms, concurrency);
  p.step_ms = {step_of(in, marginal.low, concurrency), step_of(in, marginal.high, concurrency)};
  p.tok_s = {throughput(in, marginal.high, concurrency), throughput(in, marginal.low, concurrency)};
  p.gain = {p.tok_s.low / p.line_tok_s - 1, p.tok_s.high / p.line_tok_s - 1};
  p.arithmetic = {step_arithmetic(in, in.marginal_ms, concurrency, "the line"),
                  step_arithmetic(in, marginal.high, concurrency, times(in.speedup.low)),
                  step_arithmetic(in, marginal.low, concurrency, times(in.speedup.high))};
  if (const MeasuredThroughput* m = measured_at(in, concurrency)) {
    p.measured_tok_s = m->tok_s;
    p.gain_over_measured = {p.tok_s.low / m->tok_s - 1, p.tok_s.high / m->tok_s - 1};
    p.arithmetic.push_back("measured: " + rate(m->tok_s) + ", the line is off by " +
                           percent(p.line_tok_s / m->tok_s - 1));
  }
  return p;
}

// ---- checks
// --------------------------------------------------------------------------------------

using Findings = std::vector<Inconsistency>;

// The line as given against each measured throughput.
void check_line(const ProjectionInput& in, Findings& found) {
  for (const MeasuredThroughput& m : in.measured) {
    const double line = throughput(in, in.marginal_ms, m.concurrency);
    if (agrees(line, m.tok_s)) continue;
    found.push_back({"line", step_arithmetic(in, in.marginal_ms, m.concurrency, "the line") + "; " +
                                 rate(m.tok_s) + " was measured: the line is off by " +
                                 percent(line / m.tok_s - 1) + " there"});
  }
}

// The line through the measured points (least squares of step time) against the line as given.
void check_slope(const ProjectionInput& in, Findings& found) {
  double n = 0, sum_c = 0, sum_s = 0, sum_cc = 0, sum_cs = 0;
  std::string names, rates;
  for (const MeasuredThroughput& m : in.measured) {
    const double c = m.concurrency;
    const double step_ms = c / m.tok_s * 1e3;
    n += 1;
    sum_c += c;
    sum_s += step_ms;
    sum_cc += c * c;
    sum_cs += c * step_ms;
    names += (names.empty() ? "" : ", ") + std::to_string(m.concurrency);
    rates += (rates.empty() ? "" : ", ") + number(m.tok_s, 1);
  }
  const double spread = n * sum_cc - sum_c * sum_c;
  if (spread <= 0) return;  // fewer than two distinct concurrencies
  const double marginal_ms = (n * sum_cs - sum_c * sum_s) / spread;
  const double fixed_ms = (sum_s - marginal_ms * sum_c) / n;
  if (agrees(marginal_ms, in.marginal_ms) && agrees(fixed_ms, in.fixed_ms)) return;
  found.push_back({"slope", rates + " tok/s at " + names + " give " + number(fixed_ms, 1) +
                                " ms + " + number(marginal_ms, 3) + " ms per request, not " +
                                number(in.fixed_ms, 1) + " ms + " + number(in.marginal_ms, 3) +
                                " ms"});
}

// A claimed marginal cost against the one that the speed-up gives.
void check_marginal(const ProjectionInput& in, double speedup, double claimed_ms, Findings& found) {
  const double gives_ms = marginal_after(in, speedup);
  if (agrees(gives_ms, claimed_ms)) return;
  const std::optional<double> needed = speedup_for_marginal(in, claimed_ms);
  found.push_back(
      {"marginal", "a speed-up of " + marginal_arithmetic(in, speedup) + ", not " + ms(claimed_ms) +
                       "; " + ms(claimed_ms) +
                       (needed ? " needs " + times(*needed)
                               : " is below what the rest costs: no speed-up gives it")});
}

// A claimed throughput against the claimed marginal cost, then against the speed-up itself.
void check_throughput(const ProjectionInput& in, double speedup,
                      const std::optional<double>& claimed_ms, double claimed_tok_s,
                      int concurrency, Findings& found) {
  if (claimed_ms && !agrees(throughput(in, *claimed_ms, concurrency), claimed_tok_s)) {
    found.push_back({"throughput", step_arithmetic(in, *claimed_ms, concurrency,
                                                   "the claimed " + ms(*claimed_ms)) +
                                       ", not " + rate(claimed_tok_s)});
  }
  const double gives_ms = marginal_after(in, speedup);
  if (agrees(throughput(in, gives_ms, concurrency), claimed_tok_s)) return;
  // Backward: the marginal cost, and from it the speed-up, that the claimed throughput implies.
  const double implied_ms = (concurrency / claimed_tok_s * 1e3 - in.fixed_ms) / concurrency;
  const std::optional<double> implied = speedup_for_marginal(in, implied_ms);
  found.push_back(
      {"speedup", step_arithmetic(in, gives_ms, concurrency, "a speed-up of " + times(speedup)) +
                      ", not " + rate(claimed_tok_s) + "; " + rate(claimed_tok_s) +
                      (implied ? " needs " + times(*implied) : " is out of any speed-up's reach")});
}

// A gain over the line is not the gain over what runs today when the line misses the measurement.
void check_baseline(const ProjectionInput& in, const std::string& what, double marginal_ms,
                    int concurrency, Findings& found) {
  const MeasuredThroughput* m = measured_at(in, concurrency);
  if (m == nullptr) return;
  const double gives = throughput(in, marginal_ms, concurrency);
  const double line = throughput(in, in.marginal_ms, concurrency);
  const double over_line = gives / line - 1;
  const double over_measured = gives / m->tok_s - 1;
  if (std::abs(over_line - over_measured) <= k_projection_tolerance) return;
  found.push_back(
      {"baseline", what + " gives " + rate(gives) + " at " + std::to_string(concurrency) +
                       ", which is " + percent(over_line) + " over the line's " + rate(line) +
                       " but " + percent(over_measured) + " over the measured " + rate(m->tok_s)});
}

Findings check_claims(const ProjectionInput& in) {
  Findings found;
  check_line(in, found);
  check_slope(in, found);
  const int concurrency = *std::max_element(in.at.begin(), in.at.end());
  std::optional<Interval> marginal, tok_s;
  if (in.claim_marginal_ms) marginal = ordered(*in.claim_marginal_ms);
  if (in.claim_tok_s) tok_s = ordered(*in.claim_tok_s);
  for (const bool is_low : {true, false}) {
    const double speedup = is_low ? in.speedup.low : in.speedup.high;
    std::optional<double> claimed_ms;
    if (marginal) claimed_ms = is_low ? marginal->high : marginal->low;
    if (claimed_ms) check_marginal(in, speedup, *claimed_ms, found);
    if (tok_s) {
      check_throughput(in, speedup, claimed_ms, is_low ? tok_s->low : tok_s->high, concurrency,
                       found);
    }
    const double base_ms = claimed_ms.value_or(marginal_after(in, speedup));
    check_baseline(in, ms(base_ms) + " per request", base_ms, concurrency, found);
    if (in.speedup.low == in.speedup.high && !marginal && !tok_s) break;
  }
  return found;
}

}  // namespace

std::optional<double> speedup_for_marginal(const ProjectionInput& input, double wanted_ms) {
  const double rest_ms = input.marginal_ms - input.share_ms;
  if (wanted_ms <= rest_ms || input.share_ms <= 0) return std::nullopt;
  return input.share_ms / (wanted_ms - rest_ms);
}

Expected<Projection> project(const ProjectionInput& input) {
  const Status checked = check(input);
  if (!checked) return checked.error();
  Projection result;
  result.marginal_ms = {marginal_after(input, input.speedup.high),
                        marginal_after(input, input.speedup.low)};
  result.arithmetic.push_back(marginal_arithmetic(input, input.speedup.low));
  result.arithmetic.push_back(marginal_arithmetic(input, input.speedup.high));
  for (const int concurrency : input.at) {
    result.points.push_back(project_point(input, result.marginal_ms, concurrency));
  }
  result.inconsistencies = check_claims(input);
  return result;
}

}  // namespace splitwave
