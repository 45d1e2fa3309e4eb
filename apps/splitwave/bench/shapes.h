// The shapes that `bench` knows by name: attention layers of published models. Owns the table; the
// numbers are the models' published configurations (deepseek-ai/DeepSeek-V4-Flash, -Pro, -V3.2).
#pragma once

#include <string>
#include <vector>

#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave::bench {

struct Shape {
  std::string name;
  std::string what;  // for --help
  KvFormat format = KvFormat::v4;
  int heads = 0;
  int main_width = 0;
  int extra_width = 0;
  int main_page_size = 64;
  int extra_page_size = 64;

  [[nodiscard]] int width() const { return main_width + extra_width; }
  // One row's arithmetic: q.k over d_qk and p.v over 512, two operations a multiply-add.
  [[nodiscard]] double flops_per_row() const;
  // What one row must move: its KV rows once, q in, out and lse out.
  [[nodiscard]] double bytes_per_row() const;
};

[[nodiscard]] const std::vector<Shape>& shapes();

// Refuses an unknown name with the nearest known one. heads > 0 replaces the shape's head count (a
// tensor-parallel rank holds fewer).
[[nodiscard]] Expected<Shape> find_shape(const std::string& name, int heads);

}  // namespace splitwave::bench
