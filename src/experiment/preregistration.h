// Was the plan written down before the run? Owns the look-up of a plan file in HEAD's tree, by
// libgit2. Reads HEAD's tree only: a walk through history would fail in a shallow clone. Writes
// nothing. Called by `ab run` and `ab seal` before anything is measured.
#pragma once

#include <string>
#include <string_view>

#include "splitwave/status.h"

namespace splitwave::experiment {

enum class PlanState : std::uint8_t {
  registered,     // HEAD's tree holds these bytes under this path
  no_repository,  // the folder is in no git repository: not pre-registered, for ever
};

struct Preregistration {
  PlanState state = PlanState::no_repository;
  std::string commit;       // HEAD, 40 hex digits; "none" without a repository
  std::string blob;         // git's name of the plan; "none"
  std::string path;         // in the repository
  std::string plan_sha256;  // of the bytes
};

// text: the bytes of the plan file at path. bad_input when HEAD's tree does not hold the file, or
// holds other bytes: commit the plan, then run. environment when libgit2 refuses the repository
// because another user owns it (the message holds the remedy) or cannot read it.
[[nodiscard]] Expected<Preregistration> look_up_plan(const std::string& path,
                                                     std::string_view text);

[[nodiscard]] constexpr const char* name_of(PlanState state) {
  return state == PlanState::registered ? "registered" : "not pre-registered (no repository)";
}

}  // namespace splitwave::experiment
