// Layer counts: DeepSeek-V4-Flash config.json, compress_ratios = [0,0,4,128,4,128,...,4,128,4,0]:
// of 43 layers two attend the window alone, 21 the C4 stream, 20 the C128 stream. V4-Pro: 61
// layers, [128,128,4,128,4,...]: 31 C128, 30 C4. V3.2: 61 layers, top-k 2048.
#include "experiment/streams.h"

#include "base/nearest_name.h"

namespace splitwave::experiment {
namespace {

constexpr int k_window = 128;
constexpr int k_flash_topk = 512;
constexpr int k_pro_topk = 1024;
constexpr int k_v32_topk = 2048;
constexpr int k_width_step = 64;

int c128_width(int context_max) {
  const int entries = std::max(1, context_max / 128);
  return (entries + k_width_step - 1) / k_width_step * k_width_step;
}

}  // namespace

Expected<ModelMix> model_mix(std::string_view name, int context_max) {
  const Stream c128{"c128", 20, k_window, 128, c128_width(context_max)};
  if (name == "v4-flash") {
    return ModelMix{"v4-flash",
                    KvFormat::v4,
                    64,
                    {{"window", 2, k_window, 0, 0}, {"c4", 21, k_window, 4, k_flash_topk}, c128}};
  }
  if (name == "v4-pro") {
    Stream pro_c128 = c128;
    pro_c128.layers = 31;
    return ModelMix{"v4-pro", KvFormat::v4, 128, {{"c4", 30, k_window, 4, k_pro_topk}, pro_c128}};
  }
  if (name == "v32") {
    return ModelMix{"v32", KvFormat::v32, 128, {{"sparse", 61, k_v32_topk, 0, 0}}};
  }
  constexpr std::string_view k_known[] = {"v4-flash", "v4-pro", "v32"};
  return bad_input("unknown model '" + std::string(name) + "'" + did_you_mean(name, k_known) +
                   ": one of " + join_names(k_known));
}

}  // namespace splitwave::experiment
