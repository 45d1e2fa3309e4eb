// The attention streams of a model: which index lists one decode step attends in how many layers,
// and how long they are for a context. Owns Stream and the mixes of the published models; no data,
// no device. Called by the workload, the executor and the report.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

// One kind of attention layer. Its main list holds the newest tokens (V4: the sliding window; V3.2:
// the indexer's choice), its extra list the compressed entries: one for each extra_ratio tokens.
struct Stream {
  std::string name;
  int layers = 0;       // how often a decode step runs it
  int main_width = 0;   // entries of a full main list
  int extra_ratio = 0;  // tokens of context for one extra entry; 0: no extra cache
  int extra_width = 0;

  bool operator==(const Stream&) const = default;
};

[[nodiscard]] inline int main_length(const Stream& s, int context) {
  return std::min(context, s.main_width);
}
[[nodiscard]] inline int extra_length(const Stream& s, int context) {
  return s.extra_ratio == 0 ? 0 : std::min(context / s.extra_ratio, s.extra_width);
}

struct ModelMix {
  std::string name;
  KvFormat format = KvFormat::v4;
  int heads = 0;
  std::vector<Stream> streams;
};

// v4-flash, v4-pro (window, C4 top-k and C128 streams, by compress_ratios of their config.json; the
// MTP layer is not counted) or v32. context_max: the longest context that the lists must be able to
// hold; C128 widths follow from it, in steps of 64. An unknown name is refused with those that
// exist.
[[nodiscard]] Expected<ModelMix> model_mix(std::string_view name, int context_max);

}  // namespace splitwave::experiment
