// The effective launch of a decoder, read back. Owns the comparison of an arm's overrides with what
// the decoder says that it does: an arm that did not take effect stops the run. Called by the
// decode executor.
#pragma once

#include <string>

#include "experiment/run_record.h"
#include "splitwave/decoder.h"

namespace splitwave::experiment {

// arm and stream are the caller's to set.
[[nodiscard]] Echo launch_echo(const Decoder& decoder, int concurrency);

// Empty when every override that is set shows in the effective plan; else the first that does not:
// "block_heads=32 was asked for, 16 runs".
[[nodiscard]] std::string override_mismatch(const PlanOverrides& overrides, const Decoder& decoder,
                                            int concurrency);

}  // namespace splitwave::experiment
