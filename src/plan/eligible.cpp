// Serving, class, overrides: in that order.
#include "plan/eligible.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string_view>

#include "base/check.h"
#include "base/nearest_name.h"
#include "plan/occupancy.h"

namespace splitwave {
namespace {

const char* name_of(OperandType type) { return type == OperandType::bf16 ? "bf16" : "f16"; }

std::string arch_name(int arch) { return arch == 0 ? "a CPU" : "sm_" + std::to_string(arch); }

const char* backend_of(const DeviceSpec& device) { return device.arch == 0 ? "cpu" : "cuda"; }

// One thing that a variant must have to serve a problem on a device.
struct Requirement {
  std::string text;
  std::function<bool(const VariantTraits&)> holds;
};

std::vector<Requirement> requirements(const ProblemSpec& spec, const DeviceSpec& device) {
  return {
      {std::string("backend ") + backend_of(device),
       [&](const VariantTraits& t) { return t.backend == backend_of(device); }},
      {std::string("format ") + name_of(spec.format),
       [&](const VariantTraits& t) { return t.format == spec.format; }},
      {std::string(name_of(spec.operands)) + " operands",
       [&](const VariantTraits& t) { return t.operands == spec.operands; }},
      {"code for " + arch_name(device.arch),
       [&](const VariantTraits& t) { return runs_on(t, device.arch); }},
      {"a CTA that fits an SM of " + device.name,
       [&](const VariantTraits& t) { return residency_on(device, t) > 0; }},
  };
}

std::string offer_of(const VariantTraits& t) {
  std::string archs;
  for (const int arch : t.archs) archs += (archs.empty() ? "sm_" : "/") + std::to_string(arch);
  return t.name + " (" + t.backend + ", " + name_of(t.format) + ", " + name_of(t.operands) +
         (archs.empty() ? "" : ", " + archs) + ")";
}

// The three lists. `missing` names each requirement that nobody offers, or, when each is offered by
// somebody, the requirements that the closest variant lacks.
Error refuse_unserved(const std::vector<Requirement>& required,
                      std::span<const VariantTraits> candidates, const DeviceSpec& device) {
  std::string required_text, offered_text, missing_text;
  const auto append = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : "; ") + item;
  };
  std::size_t closest_lacks = required.size() + 1;
  std::string closest_text;
  for (const VariantTraits& t : candidates) {
    append(offered_text, offer_of(t));
    std::string lacks_text;
    std::size_t lacks = 0;
    for (const Requirement& r : required) {
      if (r.holds(t)) continue;
      ++lacks;
      append(lacks_text, r.text);
    }
    if (lacks < closest_lacks) {
      closest_lacks = lacks;
      closest_text = lacks_text + " (in " + t.name + ", the closest)";
    }
  }
  for (const Requirement& r : required) {
    append(required_text, r.text);
    if (std::none_of(candidates.begin(), candidates.end(), r.holds)) append(missing_text, r.text);
  }
  if (missing_text.empty()) missing_text = closest_text;
  if (offered_text.empty()) offered_text = "nothing: this build has no variant for " + device.name;
  return bad_input("no variant serves this problem on " + device.name + "; required: " +
                   required_text + "; offered: " + offered_text + "; missing: " + missing_text);
}

// An override that a variant either has or has not.
struct VariantOverride {
  std::string_view field;
  const std::optional<int> PlanOverrides::*wanted;
  int VariantTraits::*offered;
  bool changes_bits;
};

constexpr std::array k_variant_overrides = {
    VariantOverride{"tile_rows", &PlanOverrides::tile_rows, &VariantTraits::tile_rows, true},
    VariantOverride{"warps", &PlanOverrides::warps, &VariantTraits::warps, true},
    VariantOverride{"block_heads", &PlanOverrides::block_heads, &VariantTraits::block_heads, false},
    VariantOverride{"stages", &PlanOverrides::stages, &VariantTraits::stages, false},
    VariantOverride{"ctas_per_sm", &PlanOverrides::ctas_per_sm, &VariantTraits::ctas_per_sm, false},
};

using Variants = std::vector<const VariantTraits*>;

Expected<Variants> named_variant(const Variants& serving, const std::string& name) {
  std::vector<std::string_view> names;
  for (const VariantTraits* t : serving) {
    if (t->name == name) return Variants{t};
    names.push_back(t->name);
  }
  return bad_input("plan override: variant='" + name + "' does not serve this problem here" +
                   did_you_mean(name, names) + "; what works: " + join_names(names));
}

std::string values_of(const Variants& variants, int VariantTraits::*field) {
  std::set<int> values;
  for (const VariantTraits* t : variants) values.insert(t->*field);
  std::string text;
  for (const int value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

// Keeps the variants that have what the overrides of one kind ask for.
Expected<Variants> narrowed(Variants variants, const PlanOverrides& overrides, bool changes_bits,
                            const std::string& where) {
  for (const VariantOverride& o : k_variant_overrides) {
    const std::optional<int>& wanted = overrides.*o.wanted;
    if (!wanted || o.changes_bits != changes_bits) continue;
    Variants kept;
    for (const VariantTraits* t : variants) {
      if (t->*o.offered == *wanted) kept.push_back(t);
    }
    if (kept.empty()) {
      return bad_input("plan override: " + std::string(o.field) + "=" + std::to_string(*wanted) +
                       " is offered by no variant of " + where +
                       "; what works: " + values_of(variants, o.offered));
    }
    variants = std::move(kept);
  }
  return variants;
}

Variants of_class(const Variants& variants, const std::string& numerics_class) {
  Variants kept;
  for (const VariantTraits* t : variants) {
    if (t->numerics_class == numerics_class) kept.push_back(t);
  }
  return kept;
}

// Experiment arms are used only where nothing else is left.
Variants without_arms(const Variants& variants) {
  Variants kept;
  for (const VariantTraits* t : variants) {
    if (!t->is_experiment_arm) kept.push_back(t);
  }
  return kept.empty() ? variants : kept;
}

// Whose class is the default. The latency class cuts rows into short chunks, whose partials cost a
// launch unless the kernel folds them: a class that does comes first there.
const VariantTraits& preferred(const Variants& variants, NumericsClass numerics) {
  const auto folds = std::find_if(variants.begin(), variants.end(),
                                  [](const VariantTraits* t) { return t->folds_partials; });
  const bool takes = numerics == NumericsClass::latency && folds != variants.end();
  return takes ? **folds : *variants.front();
}

}  // namespace

bool runs_on(const VariantTraits& traits, int arch) {
  if (arch == 0) return traits.archs.empty();
  return std::any_of(traits.archs.begin(), traits.archs.end(),
                     [arch](int built) { return built / 10 == arch / 10 && built <= arch; });
}

std::int64_t items_at_once(const DeviceSpec& device, const VariantTraits& traits) {
  const std::int64_t ctas =
      std::int64_t{device.sm_count} * std::max(1, residency_on(device, traits));
  if (traits.ctas_per_item <= 1) return ctas;
  // A cluster lies within one GPC. An H200 of 132 SMs holds 66 clusters of two, but 30 of four and
  // 15 of eight (cudaOccupancyMaxActiveClusters, docs/kernels/sm90a.md): a tenth is lost.
  const std::int64_t usable = traits.ctas_per_item > 2 ? ctas * 10 / 11 : ctas;
  return std::max<std::int64_t>(1, usable / traits.ctas_per_item);
}

int residency_on(const DeviceSpec& device, const VariantTraits& traits) {
  if (device.arch == 0) return 1;
  const Expected<Occupancy> fits =
      occupancy_of(device, {traits.threads, traits.registers, traits.shared_bytes, /*barriers=*/0});
  return fits.ok() ? std::min(fits->ctas_per_sm, std::max(1, traits.ctas_per_sm)) : 0;
}

Expected<EligibleVariants> eligible_variants(const ProblemSpec& spec, const DeviceSpec& device,
                                             std::span<const VariantTraits> candidates,
                                             const PlanOverrides& overrides) {
  const std::vector<Requirement> required = requirements(spec, device);
  Variants serving;
  for (const VariantTraits& t : candidates) {
    SPLITWAVE_CHECK(t.block_heads >= 1 && t.tile_rows >= 1, "traits of " + t.name + " lack sizes");
    const bool serves = std::all_of(required.begin(), required.end(),
                                    [&t](const Requirement& r) { return r.holds(t); });
    if (serves) serving.push_back(&t);
  }
  if (serving.empty()) return refuse_unserved(required, candidates, device);

  EligibleVariants result;
  const std::string default_class =
      preferred(without_arms(serving), overrides.numerics.value_or(spec.numerics)).numerics_class;
  const bool may_leave_class = overrides.variant || overrides.tile_rows || overrides.warps;
  Variants chosen = serving;
  if (overrides.variant) {
    Expected<Variants> named = named_variant(serving, *overrides.variant);
    if (!named.ok()) return named.error();
    chosen = *named;
  }
  Expected<Variants> kept = narrowed(chosen, overrides, /*changes_bits=*/true, "this build");
  if (!kept.ok()) return kept.error();
  chosen = *kept;
  // The default class where it is left, else the class of the first variant that is.
  const Variants in_default = of_class(chosen, default_class);
  result.numerics_class =
      in_default.empty() ? without_arms(chosen).front()->numerics_class : default_class;
  kept = narrowed(of_class(chosen, result.numerics_class), overrides, /*changes_bits=*/false,
                  "numerics class " + result.numerics_class);
  if (!kept.ok()) return kept.error();
  result.variants = without_arms(*kept);
  if (may_leave_class && result.numerics_class != default_class) {
    result.reasons.push_back("an override left numerics class " + default_class + " for " +
                             result.numerics_class + ": results differ in their last bits");
  }
  return result;
}

}  // namespace splitwave
