// A state machine over a buffer that holds only what cannot be decided yet: an unfinished tag, the
// newlines that may belong to a block of tool calls, a JSON value until its end.
#include "serve/tool_stream.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_writer.h"

namespace splitwave::serve {
namespace {

using Kind = OutputEvent::Kind;

constexpr std::string_view k_think_close = "</think>";
constexpr std::string_view k_calls_open = "<｜DSML｜tool_calls>";
constexpr std::string_view k_calls_close = "</｜DSML｜tool_calls>";
constexpr std::string_view k_invoke_open = "<｜DSML｜invoke";
constexpr std::string_view k_invoke_close = "</｜DSML｜invoke>";
constexpr std::string_view k_param_open = "<｜DSML｜parameter";
constexpr std::string_view k_param_close = "</｜DSML｜parameter>";
constexpr std::string_view k_space = " \t\r\n";
constexpr std::size_t k_newlines_before_calls_max = 2;

// How many last bytes of text may be the begin of marker.
std::size_t open_end(std::string_view text, std::string_view marker) {
  for (std::size_t n = std::min(text.size(), marker.size() - 1); n > 0; --n) {
    if (text.ends_with(marker.substr(0, n))) return n;
  }
  return 0;
}

// Without up to two newlines at the end, which belong to the block that follows.
std::string_view without_separator(std::string_view text) {
  for (std::size_t i = 0; i < k_newlines_before_calls_max && text.ends_with('\n'); ++i) {
    text.remove_suffix(1);
  }
  return text;
}

void drop_space(std::string* text) {
  text->erase(0, std::min(text->find_first_not_of(k_space), text->size()));
}

// Whether text, which may go on, begins with tag.
enum class Match { yes, no, open };
Match match(std::string_view text, std::string_view tag) {
  if (text.starts_with(tag)) return Match::yes;
  return tag.starts_with(text) ? Match::open : Match::no;
}

// The attributes of a tag: what stands between `before` and the first of `after`.
struct Header {
  Match match = Match::open;
  std::string name;
  std::size_t end = 0;     // past the tag
  bool is_string = false;  // of a parameter
};

Header without_header(Match match) {
  Header header;
  header.match = match;
  return header;
}

// The same at every cut: an unfinished tag is refused once it is longer than a finished one may be.
bool is_refused(const Header& header, std::size_t bytes) {
  if (header.match == Match::no) return true;
  return (header.match == Match::open ? bytes : header.end) > k_dsml_header_bytes_max;
}

Header read_invoke_header(std::string_view text) {
  std::size_t at = text.find_first_not_of(k_space, k_invoke_open.size());
  if (at == std::string_view::npos) return {};
  constexpr std::string_view name_open = "name=\"";
  if (const Match name = match(text.substr(at), name_open); name != Match::yes) {
    return without_header(name);
  }
  at += name_open.size();
  const std::size_t end = text.find("\">", at);
  if (end == std::string_view::npos) return {};
  return {Match::yes, std::string(text.substr(at, end - at)), end + 2};
}

Header read_param_header(std::string_view text) {
  std::size_t at = text.find_first_not_of(k_space, k_param_open.size());
  if (at == std::string_view::npos) return {};
  constexpr std::string_view name_open = "name=\"";
  if (const Match name = match(text.substr(at), name_open); name != Match::yes) {
    return without_header(name);
  }
  at += name_open.size();
  const std::size_t end = text.find("\">", at);
  if (end == std::string_view::npos) return {};
  const std::string_view attributes = text.substr(at, end - at);
  for (const bool is_string : {true, false}) {
    const std::string_view tail = is_string ? "\" string=\"true" : "\" string=\"false";
    if (!attributes.ends_with(tail)) continue;
    return {Match::yes, std::string(attributes.substr(0, attributes.size() - tail.size())), end + 2,
            is_string};
  }
  return without_header(Match::no);
}

}  // namespace

void OutputParser::push(std::string_view text, std::vector<OutputEvent>* events) {
  buffer_ += text;
  while (advance(events)) {
  }
}

bool OutputParser::advance(std::vector<OutputEvent>* events) {
  switch (state_) {
    case State::reasoning:
    case State::content:
      return advance_text(events);
    case State::between_calls:
      return advance_between_calls(events);
    case State::between_params:
      return advance_between_params(events);
    case State::string_value:
      return advance_string_value(events);
    case State::json_value:
      return advance_json_value(events);
    case State::after_calls:
      drop_space(&buffer_);
      return buffer_.empty() ? false : fail("text follows the tool calls", events);
    case State::rest:
      emit_text(buffer_, events);
      buffer_.clear();
      return false;
  }
  return false;
}

bool OutputParser::advance_text(std::vector<OutputEvent>* events) {
  const std::string_view text = buffer_;
  const std::size_t think =
      state_ == State::reasoning ? text.find(k_think_close) : std::string_view::npos;
  const std::size_t calls = options_.tools ? text.find(k_calls_open) : std::string_view::npos;
  if (think != std::string_view::npos && think < calls) {
    emit_text(text.substr(0, think), events);
    buffer_.erase(0, think + k_think_close.size());
    state_ = State::content;
    return true;
  }
  if (calls != std::string_view::npos) {
    emit_text(without_separator(text.substr(0, calls)), events);
    buffer_.erase(0, calls + k_calls_open.size());
    state_ = State::between_calls;
    return true;
  }
  std::size_t held = state_ == State::reasoning ? open_end(text, k_think_close) : 0;
  if (options_.tools) {
    const std::string_view decided = text.substr(0, text.size() - open_end(text, k_calls_open));
    held = std::max(held, text.size() - without_separator(decided).size());
  }
  const std::size_t ready = text.size() - held;
  emit_text(text.substr(0, ready), events);
  buffer_.erase(0, ready);
  return false;
}

bool OutputParser::advance_between_calls(std::vector<OutputEvent>* events) {
  drop_space(&buffer_);
  const Match close = match(buffer_, k_calls_close);
  if (close == Match::yes) {
    buffer_.erase(0, k_calls_close.size());
    state_ = State::after_calls;
    return true;
  }
  const Match open = match(buffer_, k_invoke_open);
  if (open != Match::yes) {
    if (open == Match::open || close == Match::open) return false;
    return fail("expected an invoke tag or the end of the tool calls", events);
  }
  const Header header = read_invoke_header(buffer_);
  if (is_refused(header, buffer_.size())) {
    return fail("an invoke tag without a name", events);
  }
  if (header.match == Match::open) return false;
  buffer_.erase(0, header.end);
  parameters_.clear();
  ++tool_;
  events->push_back({Kind::tool_begin, tool_, header.name});
  state_ = State::between_params;
  return true;
}

bool OutputParser::advance_between_params(std::vector<OutputEvent>* events) {
  drop_space(&buffer_);
  const Match close = match(buffer_, k_invoke_close);
  if (close == Match::yes) {
    buffer_.erase(0, k_invoke_close.size());
    emit_arguments(parameters_.empty() ? "{}" : "}", events);
    events->push_back({Kind::tool_end, tool_, ""});
    ++complete_;
    state_ = State::between_calls;
    return true;
  }
  const Match open = match(buffer_, k_param_open);
  if (open != Match::yes) {
    if (open == Match::open || close == Match::open) return false;
    return fail("expected a parameter tag or the end of the invoke", events);
  }
  const Header header = read_param_header(buffer_);
  if (is_refused(header, buffer_.size())) {
    return fail("a parameter tag without name and string=\"true|false\"", events);
  }
  if (header.match == Match::open) return false;
  if (!parameters_.insert(header.name).second) {
    return fail("parameter '" + header.name + "' is given twice", events);
  }
  buffer_.erase(0, header.end);
  std::string json = parameters_.size() == 1 ? "{\"" : ", \"";
  json += json_escape(header.name) + "\": ";
  if (header.is_string) json += '"';
  emit_arguments(std::move(json), events);
  state_ = header.is_string ? State::string_value : State::json_value;
  scanned_ = 0;
  return true;
}

bool OutputParser::advance_string_value(std::vector<OutputEvent>* events) {
  const std::size_t close = buffer_.find(k_param_close);
  const std::size_t ready =
      close == std::string::npos ? buffer_.size() - open_end(buffer_, k_param_close) : close;
  std::string json = json_escape(std::string_view(buffer_).substr(0, ready));
  if (close != std::string::npos) json += '"';
  emit_arguments(std::move(json), events);
  if (close == std::string::npos) {
    buffer_.erase(0, ready);
    return false;
  }
  buffer_.erase(0, close + k_param_close.size());
  state_ = State::between_params;
  return true;
}

bool OutputParser::advance_json_value(std::vector<OutputEvent>* events) {
  const std::size_t close = buffer_.find(k_param_close, scanned_);
  scanned_ = std::min(close, buffer_.size() - open_end(buffer_, k_param_close));
  if (scanned_ > k_dsml_json_value_bytes_max) return fail("a value is too long", events);
  if (close == std::string::npos) return false;
  close_json_value(std::string_view(buffer_).substr(0, close), events);
  buffer_.erase(0, close + k_param_close.size());
  state_ = State::between_params;
  return true;
}

// Arguments stay JSON whatever the model wrote.
void OutputParser::close_json_value(std::string_view value,
                                    std::vector<OutputEvent>* events) const {
  const std::size_t begin = std::min(value.find_first_not_of(k_space), value.size());
  const std::string_view inner = value.substr(begin, value.find_last_not_of(k_space) - begin + 1);
  if (nlohmann::json::accept(inner)) return emit_arguments(std::string(inner), events);
  emit_arguments('"' + json_escape(value) + '"', events);
}

bool OutputParser::fail(const std::string& why, std::vector<OutputEvent>* events) {
  malformed_ = why;
  state_ = State::rest;
  emit_text(buffer_, events);
  buffer_.clear();
  return false;
}

void OutputParser::finish(std::vector<OutputEvent>* events) {
  switch (state_) {
    case State::reasoning:
    case State::content:
    case State::rest:
      emit_text(buffer_, events);
      break;
    case State::string_value:
      emit_arguments(json_escape(buffer_), events);
      break;
    case State::json_value:
      emit_arguments(buffer_, events);
      break;
    case State::between_calls:
    case State::between_params:  // the begin of a tag says nothing
    case State::after_calls:
      break;
  }
  if (inside_tool_calls()) malformed_ = "the output ends inside the tool calls";
  buffer_.clear();
}

void OutputParser::emit_text(std::string_view text, std::vector<OutputEvent>* events) const {
  if (text.empty()) return;
  events->push_back(
      {state_ == State::reasoning ? Kind::reasoning : Kind::content, -1, std::string(text)});
}

void OutputParser::emit_arguments(std::string text, std::vector<OutputEvent>* events) const {
  if (!text.empty()) events->push_back({Kind::tool_arguments, tool_, std::move(text)});
}

}  // namespace splitwave::serve
