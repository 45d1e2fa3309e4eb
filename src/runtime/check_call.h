// Host-visible argument checks. Owns every rule of splitwave/problem.h that can be checked without
// reading the caller's memory: a refusal names the field, its value and what works. Called by
// Decoder before a backend sees a spec or a call. Success allocates nothing.
#pragma once

#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave {

// What is fixed at creation.
[[nodiscard]] Status check_problem_spec(const ProblemSpec& spec);

// What a call brings. Pointers are checked for null and alignment, never followed.
[[nodiscard]] Status check_decode_call(const ProblemSpec& spec, const DecodeCall& call);

// The caller's workspace: any pointer where none is needed, an aligned one otherwise.
[[nodiscard]] Status check_workspace(const void* workspace, std::int64_t bytes_required);

}  // namespace splitwave
