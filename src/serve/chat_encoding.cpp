// The encoding of DeepSeek-V4, message by message. The texts between roles are the published ones,
// byte for byte: the model was trained on them.
#include "serve/chat_encoding.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace splitwave::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view k_user = "<｜User｜>";
constexpr std::string_view k_assistant = "<｜Assistant｜>";
constexpr std::string_view k_latest_reminder = "<｜latest_reminder｜>";

constexpr std::string_view k_effort_absolute =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to "
    "resolve the root cause, rigorously stress-testing your logic against all potential paths, "
    "edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, "
    "considered alternative, and rejected hypothesis to ensure absolutely no assumption is left "
    "unchecked.\n\n";

constexpr std::string_view k_effort_beyond =
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: "
    "exhaustively decompose the problem into its most fundamental components, trace every causal "
    "chain to its root, and resolve the underlying cause rather than any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple angles "
    "and are certain that no assumption remains unchecked and no error remains undiscovered.\n\n";

constexpr std::string_view k_tools_before_schemas =
    "## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools "
    "by writing a \"<｜DSML｜tool_calls>\" block like the following:\n\n"
    "<｜DSML｜tool_calls>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE"
    "</｜DSML｜parameter>\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types "
    "(numbers, booleans, arrays, objects), pass the value in JSON format and set "
    "`string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning "
    "inside <think>...</think> BEFORE any tool calls or final response.\n\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";
constexpr std::string_view k_tools_after_schemas =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool "
    "calls.\n";
constexpr std::string_view k_response_format =
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

std::optional<std::string_view> task_token(const std::string& task) {
  static const std::map<std::string, std::string_view> tokens = {
      {"action", "<｜action｜>"}, {"query", "<｜query｜>"}, {"authority", "<｜authority｜>"},
      {"domain", "<｜domain｜>"}, {"title", "<｜title｜>"}, {"read_url", "<｜read_url｜>"}};
  const auto found = tokens.find(task);
  if (found == tokens.end()) return std::nullopt;
  return found->second;
}

// A part of a user turn: the user's text or a tool's result.
struct Block {
  bool is_result = false;
  std::string text;
  std::string call_id;
};

// What the prompt is made of: user and tool messages are joined, so that V4 sees turns.
struct Turn {
  const ChatMessage* message = nullptr;  // null: a turn of tool results only
  ChatRole role = ChatRole::user;
  std::vector<Block> blocks;  // user
  bool drop_reasoning = false;
  std::size_t index = 0;  // of its first message, for errors

  [[nodiscard]] std::string task() const { return message == nullptr ? "" : message->task; }
};

// Consecutive user and tool messages become one turn; a user turn with a task takes no more text.
// The published encoding forgets the task of a message that joins an earlier turn; that is refused.
Expected<std::vector<Turn>> join_turns(const std::vector<ChatMessage>& messages) {
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& m = messages[i];
    const bool open = !turns.empty() && turns.back().role == ChatRole::user;
    if (m.role == ChatRole::tool) {
      if (!open) turns.push_back({nullptr, ChatRole::user, {}, false, i});
      turns.back().blocks.push_back({true, m.content, m.tool_call_id});
    } else if (m.role == ChatRole::user) {
      if (!open || !turns.back().task().empty()) {
        turns.push_back({&m, ChatRole::user, {}, false, i});
      } else if (!m.task.empty()) {
        return bad_input("messages[" + std::to_string(i) +
                         "].task: only the first of consecutive user and tool messages has one");
      }
      turns.back().blocks.push_back({false, m.content, ""});
    } else {
      turns.push_back({&m, m.role, {}, false, i});
    }
  }
  return turns;
}

// The results of one turn in the order of the calls that they answer; text keeps its place.
void sort_results(std::vector<Turn>* turns) {
  std::map<std::string, std::size_t> order;
  for (Turn& turn : *turns) {
    if (turn.role == ChatRole::assistant && !turn.message->tool_calls.empty()) {
      order.clear();
      const auto& calls = turn.message->tool_calls;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        if (!calls[i].id.empty()) order[calls[i].id] = i;
      }
    }
    std::vector<Block> results;
    for (const Block& block : turn.blocks) {
      if (block.is_result) results.push_back(block);
    }
    if (results.size() < 2 || order.empty()) continue;
    const auto place = [&](const Block& b) {
      const auto found = order.find(b.call_id);
      return found == order.end() ? std::size_t{0} : found->second;
    };
    std::stable_sort(results.begin(), results.end(),
                     [&](const Block& a, const Block& b) { return place(a) < place(b); });
    auto next = results.begin();
    for (Block& block : turn.blocks) {
      if (block.is_result) block = *next++;
    }
  }
}

std::ptrdiff_t last_user_turn(const std::vector<Turn>& turns) {
  for (auto i = std::ssize(turns) - 1; i >= 0; --i) {
    const ChatRole role = turns[static_cast<std::size_t>(i)].role;
    if (role == ChatRole::user || role == ChatRole::developer) return i;
  }
  return -1;
}

// Turns before the last user turn lose their reasoning; developer turns there go altogether.
std::vector<Turn> drop_thinking(std::vector<Turn> turns) {
  const std::ptrdiff_t last = last_user_turn(turns);
  std::vector<Turn> kept;
  for (std::ptrdiff_t i = 0; i < std::ssize(turns); ++i) {
    Turn& turn = turns[static_cast<std::size_t>(i)];
    if (i < last && turn.role == ChatRole::developer) continue;
    turn.drop_reasoning = i < last;
    kept.push_back(std::move(turn));
  }
  return kept;
}

class Renderer {
 public:
  Renderer(std::vector<Turn> turns, const ChatOptions& options, bool drops)
      : turns_(std::move(turns)), options_(options), drops_(drops), last_(last_user_turn(turns_)) {}

  Expected<ChatPrompt> run() {
    markup(k_bos_text);
    if (options_.thinking) markup(effort_prefix());
    for (std::size_t i = 0; i < turns_.size(); ++i) {
      if (Status s = turn(i); !s.ok()) return s.error();
      if (Status s = transition(i); !s.ok()) return s.error();
    }
    prompt_.begins_in_thinking = prompt_.text.ends_with(k_think_begin) && ends_with_markup();
    return prompt_;
  }

 private:
  void markup(std::string_view text) { prompt_.text += text; }

  // Text of a message: no added token is found in it.
  void literal(std::string_view text) {
    if (text.empty()) return;
    const std::size_t begin = prompt_.text.size();
    prompt_.text += text;
    if (!prompt_.literal.empty() && prompt_.literal.back().end == begin) {
      prompt_.literal.back().end = prompt_.text.size();
    } else {
      prompt_.literal.push_back({begin, prompt_.text.size()});
    }
  }

  [[nodiscard]] bool ends_with_markup() const {
    return prompt_.literal.empty() || prompt_.literal.back().end < prompt_.text.size();
  }

  [[nodiscard]] std::string_view effort_prefix() const {
    if (options_.effort == ReasoningEffort::none) return "";
    const bool is_max = options_.effort == ReasoningEffort::max;
    if (options_.release == EncodingRelease::april) return is_max ? k_effort_absolute : "";
    return is_max ? k_effort_beyond : k_effort_absolute;
  }

  Status turn(std::size_t i) {
    const Turn& t = turns_[i];
    switch (t.role) {
      case ChatRole::system:
        literal(t.message->content);
        tools_and_format(*t.message);
        return {};
      case ChatRole::developer:
        if (t.message->content.empty()) {
          return bad_input(field(t, "content") + ": a developer message needs text");
        }
        markup(k_user);
        literal(t.message->content);
        tools_and_format(*t.message);
        return {};
      case ChatRole::latest_reminder:
        markup(k_latest_reminder);
        literal(t.message->content);
        return {};
      case ChatRole::assistant:
        return assistant(i);
      case ChatRole::user:
      case ChatRole::tool:  // join_turns left none
        break;
    }
    markup(k_user);
    for (std::size_t b = 0; b < t.blocks.size(); ++b) {
      if (b > 0) markup("\n\n");
      if (t.blocks[b].is_result) markup("<tool_result>");
      literal(t.blocks[b].text);
      if (t.blocks[b].is_result) markup("</tool_result>");
    }
    return {};
  }

  void tools_and_format(const ChatMessage& m) {
    if (!m.tools.empty()) {
      markup("\n\n");
      markup(k_tools_before_schemas);
      for (std::size_t i = 0; i < m.tools.size(); ++i) {
        if (i > 0) markup("\n");
        literal(m.tools[i]);
      }
      markup(k_tools_after_schemas);
    }
    if (!m.response_format.empty()) {
      markup("\n\n");
      markup(k_response_format);
      literal(m.response_format);
    }
  }

  Status assistant(std::size_t i) {
    const Turn& t = turns_[i];
    const bool follows_task = i > 0 && !turns_[i - 1].task().empty();
    if (options_.thinking && !follows_task && (!drops_ || std::ptrdiff_t(i) > last_)) {
      if (!t.drop_reasoning) literal(t.message->reasoning_content);
      markup(k_think_end);
    }
    literal(t.message->content);
    if (!t.message->tool_calls.empty()) {
      markup("\n\n<｜DSML｜tool_calls>\n");
      for (std::size_t c = 0; c < t.message->tool_calls.size(); ++c) {
        if (c > 0) markup("\n");
        if (Status s = invoke(t, c); !s.ok()) return s;
      }
      markup("\n</｜DSML｜tool_calls>");
    }
    if (!t.message->prefix) markup(k_eos_text);
    return {};
  }

  Status invoke(const Turn& t, std::size_t c) {
    const ChatToolCall& call = t.message->tool_calls[c];
    markup("<｜DSML｜invoke name=\"");
    literal(call.name);
    markup("\">\n");
    Json arguments = Json::object();
    if (!call.arguments.empty()) {
      arguments = Json::parse(call.arguments, nullptr, false);
      if (arguments.is_null()) arguments = Json::object();
      if (!arguments.is_object()) {
        arguments = Json::object();
        arguments["arguments"] = call.arguments;
      }
    }
    bool first = true;
    for (const auto& [key, value] : arguments.items()) {
      if (!first) markup("\n");
      first = false;
      const bool is_string = value.is_string();
      markup("<｜DSML｜parameter name=\"");
      literal(key);
      markup(is_string ? "\" string=\"true\">" : "\" string=\"false\">");
      if (is_string) {
        literal(value.get_ref<const std::string&>());
      } else {
        const auto json = python_json(value);
        if (!json) {
          return bad_input(field(t, "tool_calls[" + std::to_string(c) + "].function.arguments") +
                           ": " + json.error().message);
        }
        literal(*json);
      }
      markup("</｜DSML｜parameter>");
    }
    markup("\n</｜DSML｜invoke>");
    return {};
  }

  // What the turn is followed by: nothing, a task's token, or the assistant's prefix.
  Status transition(std::size_t i) {
    const Turn& t = turns_[i];
    if (i + 1 < turns_.size() && turns_[i + 1].role != ChatRole::assistant &&
        turns_[i + 1].role != ChatRole::latest_reminder) {
      return {};
    }
    const bool user = t.role == ChatRole::user || t.role == ChatRole::developer;
    const bool thinks = options_.thinking && (!drops_ || std::ptrdiff_t(i) >= last_);
    if (const std::string task = t.task(); !task.empty()) {
      const auto token = task_token(task);
      if (!token) {
        return bad_input(field(t, "task") + ": '" + task +
                         "' is not one of action, query, authority, domain, title, read_url");
      }
      if (task == "action") {
        markup(k_assistant);
        markup(options_.thinking ? k_think_begin : k_think_end);
      }
      markup(*token);
    } else if (user) {
      markup(k_assistant);
      markup(thinks ? k_think_begin : k_think_end);
    }
    return {};
  }

  static std::string field(const Turn& t, const std::string& name) {
    return "messages[" + std::to_string(t.index) + "]." + name;
  }

  std::vector<Turn> turns_;
  ChatOptions options_;
  bool drops_;
  std::ptrdiff_t last_;
  ChatPrompt prompt_;
};

}  // namespace

Expected<ChatPrompt> encode_chat(const std::vector<ChatMessage>& messages,
                                 const ChatOptions& options) {
  if (messages.empty()) return bad_input("messages: empty; give at least one message");
  auto joined = join_turns(messages);
  if (!joined) return joined.error();
  std::vector<Turn> turns = std::move(*joined);
  sort_results(&turns);
  const bool has_tools = std::any_of(messages.begin(), messages.end(),
                                     [](const ChatMessage& m) { return !m.tools.empty(); });
  const bool drops = options.drop_thinking && !has_tools;
  if (options.thinking && drops) turns = drop_thinking(std::move(turns));
  return Renderer(std::move(turns), options, drops).run();
}

}  // namespace splitwave::serve
