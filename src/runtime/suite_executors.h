// The executors of the decode suite, one a backend, and what each lets the suite vary. Called by
// the suite registry.
#pragma once

#include <memory>

#include "runtime/contract_suite.h"
#include "splitwave/status.h"

namespace splitwave {

// threads: CPU workers of a run that does not say; 0: all cores.
[[nodiscard]] std::unique_ptr<SuiteExecutor> make_cpu_suite_executor(int threads);

// Copies every buffer to the device and the results back. Without a CUDA build or a device: an
// environment error.
[[nodiscard]] Expected<std::unique_ptr<SuiteExecutor>> make_cuda_suite_executor(int device);
[[nodiscard]] SuiteTraits cuda_suite_traits();

}  // namespace splitwave
