// splitwave project: what a faster component would give, and whether claims about it fit together.
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "base/text_table.h"
#include "command.h"
#include "plan/projection.h"

namespace splitwave::app {
namespace {

struct Arguments {
  ProjectionInput input;
  std::string speedup;
  std::vector<std::string> measured;
  std::string claim_marginal_ms;
  std::string claim_tok_s;
};

bool parse_number(std::string_view text, double& number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

// "1.25:1.8", or one number for both ends.
Expected<Interval> parse_range(const char* flag, const std::string& text) {
  const auto colon = text.find(':');
  Interval range;
  const std::string_view all(text);
  const bool good = colon == std::string::npos
                        ? parse_number(all, range.low) && parse_number(all, range.high)
                        : parse_number(all.substr(0, colon), range.low) &&
                              parse_number(all.substr(colon + 1), range.high);
  if (good) return range;
  return bad_input(std::string(flag) + "='" + text + "'; what works: LO:HI, such as 1.25:1.8");
}

Expected<MeasuredThroughput> parse_measured(const std::string& text) {
  const auto colon = text.find(':');
  MeasuredThroughput measured;
  double concurrency = 0;
  if (colon != std::string::npos &&
      parse_number(std::string_view(text).substr(0, colon), concurrency) &&
      parse_number(std::string_view(text).substr(colon + 1), measured.tok_s) && concurrency >= 1 &&
      concurrency == static_cast<int>(concurrency)) {
    measured.concurrency = static_cast<int>(concurrency);
    return measured;
  }
  return bad_input("--measured holds '" + text +
                   "'; what works: CONCURRENCY:TOK_S, such as 64:811");
}

Status read_arguments(Arguments& arguments) {
  const auto speedup = parse_range("--speedup", arguments.speedup);
  if (!speedup) return speedup.error();
  arguments.input.speedup = *speedup;
  for (const std::string& text : arguments.measured) {
    const auto measured = parse_measured(text);
    if (!measured) return measured.error();
    arguments.input.measured.push_back(*measured);
  }
  if (!arguments.claim_marginal_ms.empty()) {
    const auto claim = parse_range("--claim-marginal-ms", arguments.claim_marginal_ms);
    if (!claim) return claim.error();
    arguments.input.claim_marginal_ms = *claim;
  }
  if (!arguments.claim_tok_s.empty()) {
    const auto claim = parse_range("--claim-tok-s", arguments.claim_tok_s);
    if (!claim) return claim.error();
    arguments.input.claim_tok_s = *claim;
  }
  return {};
}

void write_range(JsonWriter& json, const char* name, const Interval& range) {
  json.key(name).begin_array().value(range.low).value(range.high).end_array();
}

void write_texts(JsonWriter& json, const char* name, const std::vector<std::string>& texts) {
  json.key(name).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

void print_json(const ProjectionInput& input, const Projection& projection) {
  JsonWriter json;
  json.begin_object();
  json.field("fixed_ms", input.fixed_ms).field("marginal_ms", input.marginal_ms);
  json.field("share_ms", input.share_ms);
  json.key("intervals").begin_object();
  write_range(json, "speedup", input.speedup);
  write_range(json, "marginal_ms", projection.marginal_ms);
  json.end_object();
  write_texts(json, "arithmetic", projection.arithmetic);
  json.key("points").begin_array();
  for (const ProjectedPoint& point : projection.points) {
    json.begin_object();
    json.field("concurrency", point.concurrency).field("line_tok_s", point.line_tok_s);
    write_range(json, "step_ms", point.step_ms);
    write_range(json, "tok_s", point.tok_s);
    write_range(json, "gain_percent", {100 * point.gain.low, 100 * point.gain.high});
    json.key("measured_tok_s");
    point.measured_tok_s ? json.value(*point.measured_tok_s) : json.null();
    if (point.gain_over_measured) {
      write_range(json, "gain_over_measured_percent",
                  {100 * point.gain_over_measured->low, 100 * point.gain_over_measured->high});
    }
    write_texts(json, "arithmetic", point.arithmetic);
    json.end_object();
  }
  json.end_array();
  std::vector<std::string> texts;
  for (const Inconsistency& found : projection.inconsistencies) {
    texts.push_back(found.kind + ": " + found.text);
  }
  write_texts(json, "inconsistencies", texts);
  json.end_object();
  std::fputs(json.str().c_str(), stdout);
}

std::string range_text(const Interval& range, int decimals) {
  return fixed(range.low, decimals) + " .. " + fixed(range.high, decimals);
}

void print_text(const Projection& projection) {
  TextTable table({"concurrency", "line tok/s", "step_ms", "tok/s", "gain %", "measured tok/s"});
  for (const ProjectedPoint& point : projection.points) {
    table.add_row({std::to_string(point.concurrency), fixed(point.line_tok_s, 1),
                   range_text(point.step_ms, 1), range_text(point.tok_s, 0),
                   range_text({100 * point.gain.low, 100 * point.gain.high}, 1),
                   point.measured_tok_s ? fixed(*point.measured_tok_s, 1) : "-"});
  }
  std::fputs(table.str().c_str(), stdout);
  std::printf("\n");
  for (const std::string& text : projection.arithmetic) std::printf("%s\n", text.c_str());
  for (const ProjectedPoint& point : projection.points) {
    std::printf("at %d:\n", point.concurrency);
    for (const std::string& text : point.arithmetic) std::printf("  %s\n", text.c_str());
  }
  if (projection.inconsistencies.empty()) return;
  std::printf("\ninconsistencies:\n");
  for (const Inconsistency& found : projection.inconsistencies) {
    std::printf("  %s: %s\n", found.kind.c_str(), found.text.c_str());
  }
}

void run(CommandContext& context, const CLI::App& command, Arguments& arguments) {
  const Status read = read_arguments(arguments);
  if (!read) return fail(context, command, read.error());
  const auto projection = project(arguments.input);
  if (!projection) return fail(context, command, projection.error());
  context.json ? print_json(arguments.input, *projection) : print_text(*projection);
}

}  // namespace

void add_project(CLI::App& root, CommandContext& context) {
  auto arguments = std::make_shared<Arguments>();
  ProjectionInput& input = arguments->input;
  CLI::App* command = add_command(
      root, context, "project", "throughput from an assumed speed-up of one component",
      "splitwave project --fixed-ms 18 --marginal-ms 1.05 --share-ms 0.79 --speedup 1.25:1.8 "
      "--at 64,96 --measured 64:811,96:845");
  command->add_option("--fixed-ms", input.fixed_ms, "step time that no request adds")->required();
  command->add_option("--marginal-ms", input.marginal_ms, "step time that a request adds")
      ->required();
  command->add_option("--share-ms", input.share_ms, "the component's part of that")->required();
  command->add_option("--speedup", arguments->speedup, "of the component, LO:HI")->required();
  command->add_option("--at", input.at, "concurrencies")->delimiter(',')->required();
  command->add_option("--measured", arguments->measured, "CONCURRENCY:TOK_S, ..")->delimiter(',');
  command->add_option("--claim-marginal-ms", arguments->claim_marginal_ms,
                      "a claim to check, LO:HI");
  command->add_option("--claim-tok-s", arguments->claim_tok_s,
                      "a claim to check at the largest of --at, LO:HI");
  command->callback([&context, command, arguments] { run(context, *command, *arguments); });
}

}  // namespace splitwave::app
