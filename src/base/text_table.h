// Plain text tables for people. Owns TextTable: columns sized to their content, numbers to the
// right.
#pragma once

#include <string>
#include <vector>

namespace splitwave {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);
  void add_row(std::vector<std::string> cells);  // as many cells as the header has
  [[nodiscard]] std::string str() const;         // header, a rule, the rows; each line ends in \n

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Fixed-point text with the given number of decimals.
[[nodiscard]] std::string fixed(double value, int decimals);

}  // namespace splitwave
