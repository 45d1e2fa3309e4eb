// Backends for testing the contract suite itself: the reference as a perfect backend, and the
// perfect backend with one fault planted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/bf16.h"
#include "formats/reference.h"
#include "runtime/contract_suite.h"

namespace splitwave {

// What a fault may spoil: the call before it is attended (a copy: lists may be replaced), and the
// result after. index counts the calls of one decoder.
struct FaultContext {
  SuiteRun run;
  ProblemSpec spec;
  DecodeCall call;
  int index = 0;
  std::vector<std::int32_t> slots, lengths;  // storage for replaced lists
  ReferenceResult result;
};

struct Fault {
  std::string name{};
  CellCheck seen_by = CellCheck::accuracy;          // a check that must notice it
  std::function<void(FaultContext&)> before{};        // may be empty
  std::function<void(FaultContext&)> after{};         // may be empty
  std::function<void(const FaultContext&)> at_end{};  // once out and lse are written
};

class FaultyExecutor final : public SuiteExecutor {
 public:
  explicit FaultyExecutor(Fault fault) : fault_(std::move(fault)) {}

  Status run(const SuiteRun& run, std::span<const HostCall> calls) override {
    int index = 0;
    for (const HostCall& host : calls) {
      FaultContext context{run, run.spec, host.call, index++, {}, {}, {}};
      if (fault_.before) fault_.before(context);
      context.result = reference_decode(context.spec, context.call);
      if (fault_.after) fault_.after(context);
      write(context);
      if (fault_.at_end) fault_.at_end(context);
    }
    return {};
  }

 private:
  static void write(const FaultContext& c) {
    for (std::int64_t row = 0; row < c.call.rows; ++row) {
      for (std::int64_t head = 0; head < c.spec.heads; ++head) {
        const auto cell = static_cast<std::size_t>(row * c.spec.heads + head);
        std::uint16_t* out =
            c.call.out + row * c.call.out_row_stride + head * c.call.out_head_stride;
        for (int d = 0; d < k_value_dims; ++d) {
          out[d] = double_to_bf16(c.result.out[cell * k_value_dims + static_cast<std::size_t>(d)]);
        }
        if (c.call.lse != nullptr) {
          c.call.lse[row * c.call.lse_row_stride + head] = static_cast<float>(c.result.lse[cell]);
        }
      }
    }
  }
  Fault fault_;
};

}  // namespace splitwave
