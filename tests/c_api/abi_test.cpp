// The binary interface of version 1, as numbers: a field that moves breaks every built caller, so
// it stops the build here. A new field goes to the end of its struct, with a new struct version.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "splitwave/splitwave.h"

#define AT(type, field, offset) static_assert(offsetof(type, field) == (offset), #type "." #field)

static_assert(SPLITWAVE_ABI_VERSION == 1 && sizeof(void*) == 8);
static_assert(sizeof(splitwave_status) == 4);

static_assert(sizeof(splitwave_problem) == 40 && std::is_standard_layout_v<splitwave_problem>);
AT(splitwave_problem, version, 4);
AT(splitwave_problem, format, 8);
AT(splitwave_problem, heads, 12);
AT(splitwave_problem, main_width, 16);
AT(splitwave_problem, extra_width, 20);
AT(splitwave_problem, rows_max, 24);
AT(splitwave_problem, numerics, 28);
AT(splitwave_problem, operands, 32);
AT(splitwave_problem, value_range_max, 36);

static_assert(sizeof(splitwave_options) == 40);
AT(splitwave_options, backend, 8);
AT(splitwave_options, device, 12);
AT(splitwave_options, threads, 16);
AT(splitwave_options, read_environment, 20);
AT(splitwave_options, owns_workspace, 24);
AT(splitwave_options, plan, 32);

static_assert(sizeof(splitwave_decoder_info) == 56);
AT(splitwave_decoder_info, backend, 8);
AT(splitwave_decoder_info, rows_max, 20);
AT(splitwave_decoder_info, workspace_bytes_own, 24);
AT(splitwave_decoder_info, workspace_bytes_caller, 32);
AT(splitwave_decoder_info, device_name, 40);
AT(splitwave_decoder_info, backend_reason, 48);

static_assert(sizeof(splitwave_plan_info) == 128);
AT(splitwave_plan_info, mode, 8);
AT(splitwave_plan_info, provenance, 52);
AT(splitwave_plan_info, ctas, 56);
AT(splitwave_plan_info, predicted_us, 72);
AT(splitwave_plan_info, variant, 80);
AT(splitwave_plan_info, isa, 96);
AT(splitwave_plan_info, warps, 104);
AT(splitwave_plan_info, reasons, 124);

static_assert(sizeof(splitwave_variant) == 96);
AT(splitwave_variant, runnable, 8);
AT(splitwave_variant, is_experiment_arm, 52);
AT(splitwave_variant, name, 56);
AT(splitwave_variant, why_not, 88);

static_assert(sizeof(splitwave_cache) == 32 && sizeof(splitwave_index_list) == 24);
static_assert(sizeof(splitwave_decode_call) == 224);
AT(splitwave_decode_call, rows, 8);
AT(splitwave_decode_call, softmax_scale, 12);
AT(splitwave_decode_call, q, 16);
AT(splitwave_decode_call, main_cache, 40);
AT(splitwave_decode_call, extra_cache, 72);
AT(splitwave_decode_call, main_list, 104);
AT(splitwave_decode_call, extra_list, 128);
AT(splitwave_decode_call, sink, 152);
AT(splitwave_decode_call, out, 160);
AT(splitwave_decode_call, lse, 184);
AT(splitwave_decode_call, stream, 200);
AT(splitwave_decode_call, workspace, 208);
AT(splitwave_decode_call, workspace_bytes, 216);

TEST(Abi, TheLoadedLibraryIsTheHeadersVersion) {
  EXPECT_EQ(splitwave_abi_version(), std::uint32_t{SPLITWAVE_ABI_VERSION});
}
