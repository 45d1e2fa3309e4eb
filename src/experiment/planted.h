// Faults put into an arm on purpose: the tests of the protocol. Owns PlantedFault, which wraps the
// execution of a call and damages what it wrote. Called by the decode executor for arms whose plan
// says planted; the record says so too.
#pragma once

#include <cstdint>

#include "experiment/gates.h"
#include "experiment/run_spec.h"

namespace splitwave::experiment {

class PlantedFault {
 public:
  PlantedFault(Planted kind, const ProblemSpec& spec) : kind_(kind), spec_(spec) {}

  // run, then the damage. flip_bit: the lowest bit of one element of one row, in the second call of
  // more than one row (or the second call, when all have one). drop_key: the first call picks its
  // middle row with a key; from then on that row, wherever it stands, loses one key in one head.
  Status execute(const DecodeCall& call, const RunCall& run);

  // A new point: the fault strikes each of them.
  void restart();

 private:
  void flip_bit(const DecodeCall& call);
  void drop_key(const DecodeCall& call);

  Planted kind_;
  ProblemSpec spec_;
  int calls_ = 0;
  int batch_calls_ = 0;
  bool has_target_ = false;
  std::int32_t target_slot_ = 0;  // the target row's first main slot names it
};

}  // namespace splitwave::experiment
