// The text of SPLITWAVE_PLAN. Owns the keys, their ranges and the words of their refusals: one
// table that the parser and the printer both read. Must not judge whether a kernel can honour a
// value: that is choose_plan's. Called by src/runtime (the environment), the experiment runner
// (arms) and flags.
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/nearest_name.h"
#include "splitwave/plan.h"

namespace splitwave {
namespace {

// A whole line that an operator deploys; longer text is a mistake, not a plan.
constexpr std::size_t k_text_length_max = 1024;
constexpr std::size_t k_variant_length_max = 96;

// One key whose value is an integer.
struct IntegerKey {
  std::string_view name;
  std::optional<int> PlanOverrides::*field;
  int least;
  int most;
  std::string_view what;  // the unit, for the refusal
};

// Ranges: what any kernel of this design could take (KERNELS: head blocks up to the 128 heads of
// the contract, 32 warps is a CTA's limit, 32 CTAs an SM's); choose_plan narrows them to what
// exists.
constexpr std::array k_integer_keys = {
    IntegerKey{"target_ctas", &PlanOverrides::target_ctas, 1, 1 << 20, "CTAs"},
    IntegerKey{"block_heads", &PlanOverrides::block_heads, 1, 128, "heads"},
    IntegerKey{"tile_rows", &PlanOverrides::tile_rows, 1, 1024, "KV rows"},
    IntegerKey{"warps", &PlanOverrides::warps, 1, 32, "warps"},
    IntegerKey{"stages", &PlanOverrides::stages, 1, 32, "stages"},
    IntegerKey{"ctas_per_sm", &PlanOverrides::ctas_per_sm, 1, 32, "CTAs"},
    IntegerKey{"chunk_rows", &PlanOverrides::chunk_rows, 1, 1 << 20, "KV rows"},
    IntegerKey{"prefetch", &PlanOverrides::prefetch, 0, 4096, "KV rows ahead"},
    IntegerKey{"overlap", &PlanOverrides::overlap, 0, 1, "off or on"},
};

// In the order in which to_string prints them.
constexpr std::array<std::string_view, k_integer_keys.size() + 3> k_key_names = {
    "mode",   "class",       "target_ctas", "block_heads", "tile_rows", "warps",
    "stages", "ctas_per_sm", "chunk_rows",  "prefetch",    "overlap",   "variant"};

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

Error refused_key(std::string_view key) {
  return bad_input("plan override: unknown key " + quoted(key) + did_you_mean(key, k_key_names) +
                   "; keys are " + join_names(k_key_names));
}

Error refused_word(std::string_view key, std::string_view value,
                   std::span<const std::string_view> words) {
  return bad_input("plan override: " + std::string(key) + "=" + quoted(value) + " is unknown" +
                   did_you_mean(value, words) + "; what works: " + join_names(words));
}

Status set_integer(PlanOverrides& overrides, const IntegerKey& key, std::string_view value) {
  int number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, code] = std::from_chars(value.data(), end, number);
  if (code != std::errc() || stop != end || number < key.least || number > key.most) {
    return bad_input("plan override: " + std::string(key.name) + "=" + quoted(value) +
                     " is not an integer of " + std::to_string(key.least) + ".." +
                     std::to_string(key.most) + " (" + std::string(key.what) + ")");
  }
  overrides.*key.field = number;
  return {};
}

Status set_variant(PlanOverrides& overrides, std::string_view value) {
  // The registry's names: anything else could not be printed back and parsed again.
  const bool is_name = value.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
                       std::string_view::npos;
  if (value.empty() || value.size() > k_variant_length_max || !is_name) {
    return bad_input("plan override: variant=" + quoted(value) +
                     " is not a variant's name: letters, "
                     "digits, '_', '.' and '-', at most " +
                     std::to_string(k_variant_length_max) +
                     " of them (`splitwave doctor` lists the names)");
  }
  overrides.variant = std::string(value);
  return {};
}

Status set_mode(PlanOverrides& overrides, std::string_view value) {
  constexpr std::array<std::string_view, 2> words = {"exact", "free"};
  if (value != words[0] && value != words[1]) return refused_word("mode", value, words);
  overrides.mode = value == words[0] ? SplitMode::exact : SplitMode::free;
  return {};
}

Status set_class(PlanOverrides& overrides, std::string_view value) {
  constexpr std::array<std::string_view, 2> words = {"throughput", "latency"};
  if (value != words[0] && value != words[1]) return refused_word("class", value, words);
  overrides.numerics = value == words[0] ? NumericsClass::throughput : NumericsClass::latency;
  return {};
}

Status set_field(PlanOverrides& overrides, std::string_view key, std::string_view value) {
  if (key == "mode") return set_mode(overrides, value);
  if (key == "class") return set_class(overrides, value);
  if (key == "variant") return set_variant(overrides, value);
  for (const IntegerKey& entry : k_integer_keys) {
    if (entry.name == key) return set_integer(overrides, entry, value);
  }
  return refused_key(key);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace

Expected<PlanOverrides> parse_plan_overrides(const std::string& text) {
  PlanOverrides overrides;
  if (text.size() > k_text_length_max) {
    return bad_input("plan override: the text has " + std::to_string(text.size()) +
                     " characters; at most " + std::to_string(k_text_length_max) + " are read");
  }
  if (trimmed(text).empty()) return overrides;
  std::array<bool, k_key_names.size()> seen{};
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = trimmed(rest.substr(0, comma));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return bad_input("plan override: " + quoted(item) + " in " + quoted(text) +
                       " is not key=value; an example that works: mode=free,target_ctas=512");
    }
    const std::string_view key = trimmed(item.substr(0, equals));
    const Status set = set_field(overrides, key, trimmed(item.substr(equals + 1)));
    if (!set) return set.error();
    for (std::size_t k = 0; k < k_key_names.size(); ++k) {
      if (k_key_names[k] != key) continue;
      if (seen[k]) {
        return bad_input("plan override: key " + quoted(key) + " is given twice in " +
                         quoted(text) + "; give it once");
      }
      seen[k] = true;
    }
    if (comma == std::string_view::npos) return overrides;
    rest.remove_prefix(comma + 1);
  }
}

std::string to_string(const PlanOverrides& overrides) {
  std::string text;
  const auto add = [&text](std::string_view key, std::string_view value) {
    if (!text.empty()) text += ',';
    text += key;
    text += '=';
    text += value;
  };
  if (overrides.mode) add("mode", *overrides.mode == SplitMode::exact ? "exact" : "free");
  if (overrides.numerics) {
    add("class", *overrides.numerics == NumericsClass::throughput ? "throughput" : "latency");
  }
  for (const IntegerKey& key : k_integer_keys) {
    const std::optional<int>& value = overrides.*key.field;
    if (value) add(key.name, std::to_string(*value));
  }
  if (overrides.variant) add("variant", *overrides.variant);
  return text;
}

}  // namespace splitwave
