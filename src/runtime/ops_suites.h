// The operators' contract cases as suites of `verify`. Owns the bridge from OpsCase to SuiteResult;
// suite_registry.cpp lists the functions.
#pragma once

#include "runtime/suite_registry.h"

namespace splitwave {

[[nodiscard]] Expected<SuiteResult> run_indexer_suite(const SuiteRequest& request);
[[nodiscard]] Expected<SuiteResult> run_topk_suite(const SuiteRequest& request);
[[nodiscard]] Expected<SuiteResult> run_select_suite(const SuiteRequest& request);
[[nodiscard]] Expected<SuiteResult> run_cache_write_suite(const SuiteRequest& request);
[[nodiscard]] Expected<SuiteResult> run_compressor_suite(const SuiteRequest& request);

}  // namespace splitwave
