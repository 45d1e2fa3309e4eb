// Names and keys.
#include "runtime/contract_cell.h"

#include <array>

namespace splitwave {
namespace {

template <class E, std::size_t N>
std::string pick(const std::array<const char*, N>& names, E value) {
  return names[static_cast<std::size_t>(value)];
}

std::string name_of(LengthKind v) {
  return pick(std::array{"none", "zero", "full", "ragged", "negative", "beyond", "trimmed"}, v);
}
std::string name_of(InvalidKind v) {
  return pick(std::array{"none", "leading", "trailing", "scattered", "block", "all"}, v);
}
std::string name_of(InvalidValue v) {
  return pick(std::array{"minus_one", "negative", "beyond_pool", "mixed"}, v);
}
std::string name_of(SinkKind v) {
  return pick(std::array{"none", "finite", "minus_inf", "plus_inf", "mixed"}, v);
}
std::string name_of(PoisonKind v) { return pick(std::array{"zero", "nan", "huge", "stale"}, v); }
std::string name_of(ScoreKind v) {
  return pick(std::array{"flat", "peaked", "rising", "falling", "huge", "zero", "negative"}, v);
}
std::string name_of(ScaleKind v) {
  return pick(std::array{"normal", "power_of_two", "wide", "large"}, v);
}
std::string name_of(Placement v) {
  return pick(std::array{"sequential", "pages_permuted", "scattered"}, v);
}
std::string name_of(Sharing v) {
  return pick(std::array{"own", "shared", "duplicates", "single"}, v);
}
std::string name_of(StrideOrder v) { return pick(std::array{"row_major", "head_major"}, v); }
std::string name_of(HostileKind v) {
  return pick(std::array{"none", "nan_q", "nan_q_one_head", "inf_q", "huge_q", "nan_code",
                         "nan_scale", "nan_rope", "huge_keys"},
              v);
}

// The hostile rows by name, or none.
std::string hostile_rows(const SyntheticOptions& p) {
  std::string text;
  for (std::size_t row = 0; row < p.hostile.size(); ++row) {
    if (p.hostile[row] == HostileKind::none) continue;
    text += (text.empty() ? "" : "+") + name_of(p.hostile[row]) + "@" + std::to_string(row);
  }
  return text.empty() ? "none" : text;
}

// How a page's stride relates to its bytes: tight, rounded as serving stacks do, or so many bytes
// more.
std::string stride_name(KvFormat format, const SyntheticCache& cache) {
  if (cache.stride_pad_bytes == 0) return "tight";
  constexpr std::int64_t k_serving_unit_bytes = 576;
  const std::int64_t stride = page_bytes(format, cache.page_size) + cache.stride_pad_bytes;
  if (cache.stride_pad_bytes < k_serving_unit_bytes && stride % k_serving_unit_bytes == 0) {
    return "multiple_of_576";
  }
  return "plus_" + std::to_string(cache.stride_pad_bytes);
}

void add_source(std::vector<CellDimension>& d, bool is_main, KvFormat format, int width,
                const SyntheticCache& cache, const SyntheticList& list) {
  const auto name = [&](std::string_view main_name, std::string_view extra_name) {
    return is_main ? main_name : extra_name;
  };
  d.push_back({name("main_width", "extra_width"), std::to_string(width)});
  d.push_back({name("main_page_size", "extra_page_size"), std::to_string(cache.page_size)});
  d.push_back({name("main_page_stride", "extra_page_stride"), stride_name(format, cache)});
  d.push_back({name("main_placement", "extra_placement"), name_of(cache.placement)});
  d.push_back({name("main_spare_pages", "extra_spare_pages"), std::to_string(cache.spare_pages)});
  d.push_back({name("main_lengths", "extra_lengths"), name_of(list.lengths)});
  d.push_back({name("main_invalid", "extra_invalid"), name_of(list.invalid)});
  d.push_back({name("main_invalid_value", "extra_invalid_value"), name_of(list.invalid_value)});
  d.push_back({name("main_list_pad", "extra_list_pad"), std::to_string(list.row_stride_pad)});
}

}  // namespace

const char* name_of(CellCheck check) {
  constexpr std::array k_names{"accuracy",    "alone",    "identical", "neighbours",
                               "placed",      "paged",    "poisoned",  "repeated",
                               "fewer_heads", "plan",     "threads",   "rearranged",
                               "trimmed",     "declared", "shrunk",    "executed"};
  return k_names[static_cast<std::size_t>(check)];
}

std::vector<CellDimension> dimensions_of(const ContractCell& cell) {
  const SyntheticOptions& p = cell.problem;
  std::vector<CellDimension> d;
  d.push_back({"check", name_of(cell.check)});
  d.push_back({"format", name_of(p.spec.format)});
  d.push_back({"heads", std::to_string(p.spec.heads)});
  d.push_back({"rows", std::to_string(p.rows)});
  add_source(d, true, p.spec.format, p.spec.main_width, p.main_cache, p.main_list);
  add_source(d, false, p.spec.format, p.spec.extra_width, p.extra_cache, p.extra_list);
  d.push_back({"class", p.spec.numerics == NumericsClass::throughput ? "throughput" : "latency"});
  d.push_back({"operands", p.spec.operands == OperandType::bf16 ? "bf16" : "f16"});
  d.push_back({"sharing", name_of(p.sharing)});
  d.push_back({"scores", name_of(p.scores)});
  d.push_back({"scales", name_of(p.scales)});
  d.push_back({"sink", name_of(p.sink)});
  d.push_back({"poison", name_of(p.poison)});
  d.push_back({"hostile", hostile_rows(p)});
  d.push_back({"q_order", name_of(p.q_order)});
  d.push_back({"q_pad", std::to_string(p.q_head_pad) + "+" + std::to_string(p.q_row_pad)});
  d.push_back({"out_order", name_of(p.out_order)});
  d.push_back({"out_pad", std::to_string(p.out_head_pad) + "+" + std::to_string(p.out_row_pad)});
  d.push_back({"lse", p.wants_lse ? std::to_string(p.lse_row_pad) : "no"});
  d.push_back({"plan", cell.plan.empty() ? "default" : cell.plan});
  d.push_back({"parameter", std::to_string(cell.parameter)});
  d.push_back({"variation", cell.variation.empty() ? "none" : cell.variation});
  return d;
}

std::string key_of(const ContractCell& cell) {
  static const std::vector<CellDimension> k_defaults = dimensions_of(ContractCell{});
  const std::vector<CellDimension> d = dimensions_of(cell);
  std::string key = d[0].value;
  for (std::size_t i = 1; i < d.size(); ++i) {
    if (d[i].value == k_defaults[i].value) continue;
    key += ' ';
    key += d[i].name;
    key += '=';
    key += d[i].value;
  }
  return key;
}

}  // namespace splitwave
