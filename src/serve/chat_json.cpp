// The JSON side of chat_encoding.h: messages and tools out of a request body, and JSON text in the
// style of V4's prompts.
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_writer.h"
#include "serve/chat_encoding.h"

namespace splitwave::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, ChatRole>, 6> k_roles = {
    {{"system", ChatRole::system},
     {"developer", ChatRole::developer},
     {"user", ChatRole::user},
     {"assistant", ChatRole::assistant},
     {"tool", ChatRole::tool},
     {"latest_reminder", ChatRole::latest_reminder}}};

// false: too deep.
bool write_python_json(const Json& value, int depth, std::string* out) {
  if (depth > k_json_depth_max) return false;
  if (value.is_string()) {
    *out += '"' + json_escape(value.get_ref<const std::string&>()) + '"';
    return true;
  }
  if (!value.is_structured()) {
    *out += value.dump();
    return true;
  }
  *out += value.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!first) *out += ", ";
    first = false;
    if (value.is_object()) *out += '"' + json_escape(key) + "\": ";
    if (!write_python_json(item, depth + 1, out)) return false;
  }
  *out += value.is_object() ? '}' : ']';
  return true;
}

// Reads the fields of one JSON object; the first mistake is kept, with the field's name.
class Fields {
 public:
  Fields(const Json& object, std::string name) : object_(object), name_(std::move(name)) {}

  [[nodiscard]] const Json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  void text(const char* key, std::string* to) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return fail(key, "expected a string");
    *to = value->get<std::string>();
  }
  void flag(const char* key, bool* to) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return fail(key, "expected true or false");
    *to = value->get<bool>();
  }
  void fail(const std::string& key, const std::string& what) {
    if (status.ok()) status = bad_input(name_ + "." + key + ": " + what);
  }

  Status status;

 private:
  const Json& object_;
  std::string name_;
};

// A string, or text parts, which V4 joins with blank lines.
void read_content(Fields* fields, std::string* to) {
  const Json* content = fields->find("content");
  if (content == nullptr) return;
  if (content->is_string()) {
    *to = content->get<std::string>();
    return;
  }
  if (!content->is_array()) return fields->fail("content", "expected a string or text parts");
  for (std::size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string field = "content[" + std::to_string(i) + "]";
    const auto type = part.find("type");  // end() when part is no object
    if (type == part.end() || *type != "text") {
      return fields->fail(field, "only parts of type \"text\" are supported");
    }
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string()) {
      return fields->fail(field + ".text", "expected a string");
    }
    if (i > 0) *to += "\n\n";
    *to += text->get_ref<const std::string&>();
  }
}

void read_tool_calls(Fields* fields, std::vector<ChatToolCall>* to) {
  const Json* calls = fields->find("tool_calls");
  if (calls == nullptr) return;
  if (!calls->is_array()) return fields->fail("tool_calls", "expected an array");
  for (std::size_t i = 0; i < calls->size(); ++i) {
    const Json& call = (*calls)[i];
    const std::string field = "tool_calls[" + std::to_string(i) + "]";
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
      return fields->fail(field + ".function", "expected an object with name and arguments");
    }
    ChatToolCall out;
    Fields outer(call, field);
    Fields inner(call["function"], field + ".function");
    outer.text("id", &out.id);
    inner.text("name", &out.name);
    const Json* arguments = inner.find("arguments");
    if (arguments != nullptr && arguments->is_object()) {
      auto text = python_json(*arguments);  // some clients send the object itself
      if (!text) inner.fail("arguments", text.error().message);
      if (text) out.arguments = std::move(*text);
    } else {
      inner.text("arguments", &out.arguments);
    }
    if (out.name.empty()) inner.fail("name", "expected the function's name");
    for (const Fields* part : {&outer, &inner}) {
      if (part->status.ok()) continue;
      const std::string& message = part->status.error().message;
      const std::size_t colon = message.find(": ");
      return fields->fail(message.substr(0, colon), message.substr(colon + 2));
    }
    to->push_back(std::move(out));
  }
}

Expected<ChatMessage> read_message(const Json& json, const std::string& name) {
  if (!json.is_object()) return bad_input(name + ": expected an object");
  Fields fields(json, name);
  ChatMessage m;
  std::string role;
  fields.text("role", &role);
  bool known = false;
  std::string names;
  for (const auto& [text, value] : k_roles) {
    if (role == text) {
      m.role = value;
      known = true;
    }
    names += (names.empty() ? "" : ", ") + std::string(text);
  }
  if (!known) fields.fail("role", "'" + role + "' is not one of " + names);
  read_content(&fields, &m.content);
  if (m.role == ChatRole::assistant) {
    fields.text("reasoning", &m.reasoning_content);
    fields.text("reasoning_content", &m.reasoning_content);
    read_tool_calls(&fields, &m.tool_calls);
    fields.flag("prefix", &m.prefix);
  } else if (fields.find("content") == nullptr) {
    fields.fail("content", "expected a string or text parts");
  }
  if (m.role == ChatRole::tool) fields.text("tool_call_id", &m.tool_call_id);
  fields.text("task", &m.task);
  if (const Json* tools = fields.find("tools"); tools != nullptr) {
    auto read = read_chat_tools(*tools);
    if (!read) return bad_input(name + "." + read.error().message);
    m.tools = std::move(*read);
  }
  if (const Json* format = fields.find("response_format"); format != nullptr) {
    auto text = python_json(*format);
    if (!text) return bad_input(name + ".response_format: " + text.error().message);
    m.response_format = std::move(*text);
  }
  if (!fields.status.ok()) return fields.status.error();
  return m;
}

}  // namespace

Expected<std::string> python_json(const nlohmann::ordered_json& value) {
  std::string out;
  if (!write_python_json(value, 0, &out)) {
    return bad_input("nested deeper than " + std::to_string(k_json_depth_max));
  }
  return out;
}

Expected<std::vector<ChatMessage>> read_chat_messages(const nlohmann::ordered_json& messages) {
  if (!messages.is_array()) return bad_input("messages: expected an array of messages");
  if (messages.size() > k_chat_messages_max) {
    return bad_input("messages: " + std::to_string(messages.size()) + " messages; at most " +
                     std::to_string(k_chat_messages_max));
  }
  std::vector<ChatMessage> out;
  out.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    auto message = read_message(messages[i], "messages[" + std::to_string(i) + "]");
    if (!message) return message.error();
    if (message->prefix && i + 1 < messages.size()) {
      return bad_input("messages[" + std::to_string(i) + "].prefix: only the last message may");
    }
    out.push_back(std::move(*message));
  }
  return out;
}

Expected<std::vector<std::string>> read_chat_tools(const nlohmann::ordered_json& tools) {
  if (!tools.is_array()) return bad_input("tools: expected an array");
  if (tools.size() > k_chat_tools_max) {
    return bad_input("tools: " + std::to_string(tools.size()) + " tools; at most " +
                     std::to_string(k_chat_tools_max));
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string name = "tools[" + std::to_string(i) + "]";
    const Json& tool = tools[i];
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) {
      return bad_input(name + ".function: expected an object");
    }
    const Json& function = tool["function"];
    if (!function.contains("name") || !function["name"].is_string()) {
      return bad_input(name + ".function.name: expected a string");
    }
    auto text = python_json(function);
    if (!text) return bad_input(name + ".function: " + text.error().message);
    out.push_back(std::move(*text));
  }
  return out;
}

void attach_tools(std::vector<ChatMessage>* messages, std::vector<std::string> tools,
                  std::string response_format) {
  if (tools.empty() && response_format.empty()) return;
  if (messages->empty() || messages->front().role != ChatRole::system) {
    ChatMessage system;
    system.role = ChatRole::system;
    messages->insert(messages->begin(), std::move(system));
  }
  if (!tools.empty()) messages->front().tools = std::move(tools);
  if (!response_format.empty()) messages->front().response_format = std::move(response_format);
}

}  // namespace splitwave::serve
