// The named shapes.
#include "bench/shapes.h"

#include <string_view>

#include "base/nearest_name.h"

namespace splitwave::bench {

double Shape::flops_per_row() const {
  return 2.0 * heads * width() * (qk_dims(format) + k_value_dims);
}

double Shape::bytes_per_row() const {
  const double kv = static_cast<double>(width()) * row_bytes(format);
  const double q = 2.0 * heads * qk_dims(format);
  const double out = 2.0 * heads * k_value_dims + 4.0 * heads;
  return kv + q + out;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {"v4-flash", "V4-Flash, CSA layer: window 128 + top-k 512", KvFormat::v4, 64, 128, 512, 64,
       64},
      {"v4-pro", "V4-Pro, CSA layer: window 128 + top-k 1024", KvFormat::v4, 128, 128, 1024, 64,
       64},
      {"v4-swa", "V4, window-only layer", KvFormat::v4, 64, 128, 0, 64, 64},
      {"v4-c128", "V4-Flash, HCA layer at 64 Ki tokens: window 128 + 512 of ratio 128, pages of 2",
       KvFormat::v4, 64, 128, 512, 64, 2},
      {"v3.2", "V3.2, 128 heads, top-k 2048", KvFormat::v32, 128, 2048, 0, 64, 64},
      {"v3.2-tp8", "V3.2, one of 8 tensor-parallel ranks: 16 heads", KvFormat::v32, 16, 2048, 0, 64,
       64},
  };
  return all;
}

Expected<Shape> find_shape(const std::string& name, int heads) {
  std::vector<std::string_view> names;
  for (const Shape& shape : shapes()) names.push_back(shape.name);
  if (heads < 0 || heads > k_heads_max) {
    return bad_input("--heads " + std::to_string(heads) + ": 1..128 is required (0: the shape's)");
  }
  for (Shape shape : shapes()) {
    if (shape.name != name) continue;
    if (heads > 0) shape.heads = heads;
    return shape;
  }
  return bad_input("--shape '" + name + "' is unknown" + did_you_mean(name, names) +
                   "; shapes are " + join_names(names));
}

}  // namespace splitwave::bench
