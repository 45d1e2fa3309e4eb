// One cell of the numerics contract: a point of the matrix of formats, shapes, lists, caches, sinks
// and plans, and what must hold there. Owns ContractCell and its canonical key; runs nothing. A
// cell's content follows from its key, so a cell is never "the same with another seed".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/synthetic.h"

namespace splitwave {

// What must hold. accuracy judges against the double reference; all others demand the same bits,
// and judge the base run's accuracy as well.
enum class CellCheck : std::uint8_t {
  accuracy,
  alone,        // a row alone, as in its slot of the batch
  identical,    // one row's problem in every slot of the batch, as alone
  neighbours,   // beside rows that hold NaN, inf and huge values (parameter: HostileKind)
  placed,       // tokens elsewhere in the pool (parameter: Placement)
  paged,        // pages of another size (parameter) and stride
  poisoned,     // other bytes where no row may look (parameter: PoisonKind)
  repeated,     // again on the same decoder, after another problem
  fewer_heads,  // the first heads of a longer call (parameter: the longer one)
  plan,         // a plan override that must not change bits (variation)
  threads,      // CPU workers (parameter)
  rearranged,   // other strides of q, out, lse and lists; no lse (parameter: which)
  trimmed,      // lengths given, instead of trailing padding
  declared,     // other limits declared at creation
  shrunk,       // fewer live rows on the same decoder
  executed,     // another way to launch (variation)
};

inline constexpr int k_rearrangements = 6;  // parameters of CellCheck::rearranged

struct ContractCell {
  CellCheck check = CellCheck::accuracy;
  std::string family;  // which group of cells it belongs to: docs/contract.md lists them
  SyntheticOptions problem;
  std::string plan;       // SPLITWAVE_PLAN's text for the base run
  int parameter = 0;      // see CellCheck
  std::string variation;  // see CellCheck
};

struct CellDimension {
  std::string_view name;
  std::string value;
};
// Every dimension with its value, in a fixed order.
[[nodiscard]] std::vector<CellDimension> dimensions_of(const ContractCell& cell);
// The dimensions that differ from a default cell's, as "name=value name=value": equal keys, equal
// cells.
[[nodiscard]] std::string key_of(const ContractCell& cell);

[[nodiscard]] const char* name_of(CellCheck check);

}  // namespace splitwave
