// Lays out a table: a column whose cells below the header all look like numbers is right-aligned.
#include "base/text_table.h"

#include <algorithm>
#include <cstdio>

#include "base/check.h"

namespace splitwave {
namespace {

bool looks_numeric(const std::string& cell) {
  return cell.empty() || cell.find_first_not_of("+-.0123456789%xe") == std::string::npos;
}

}  // namespace

std::string fixed(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

TextTable::TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void TextTable::add_row(std::vector<std::string> cells) {
  SPLITWAVE_CHECK(cells.size() == rows_.front().size(),
                  "a row must have as many cells as the header");
  rows_.push_back(std::move(cells));
}

std::string TextTable::str() const {
  const std::size_t columns = rows_.front().size();
  std::vector<std::size_t> width(columns, 0);
  std::vector<bool> right(columns, true);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      width[c] = std::max(width[c], rows_[r][c].size());
      if (r > 0 && !looks_numeric(rows_[r][c])) right[c] = false;
    }
  }
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string pad(width[c] - rows_[r][c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (right[c] ? pad + rows_[r][c] : rows_[r][c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
    if (r == 0) {
      std::size_t total = 0;
      for (std::size_t c = 0; c < columns; ++c) total += width[c] + (c == 0 ? 0 : 2);
      out += std::string(total, '-') + '\n';
    }
  }
  return out;
}

}  // namespace splitwave
