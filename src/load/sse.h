// Server-sent events out of a byte stream, as far as completion APIs use them. Owns SseReader;
// called by the load generator for every response chunk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace splitwave::load {

class SseReader {
 public:
  // Appends the data of each event that is complete, lines joined with "\n". Comments and other
  // fields are skipped; LF, CRLF and CR end a line. Cuts between bytes change nothing.
  void push(std::string_view bytes, std::vector<std::string>* events);

 private:
  void take_line(std::vector<std::string>* events);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
};

}  // namespace splitwave::load
