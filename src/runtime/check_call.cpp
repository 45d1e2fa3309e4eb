// The rules, in the order of problem.h's fields.
#include "runtime/check_call.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace splitwave {
namespace {

constexpr std::int64_t k_stride_unit_elements = 8;  // 16 bytes of bf16: a vector load
constexpr std::int64_t k_page_stride_unit_bytes = 8;
constexpr std::uintptr_t k_cache_alignment_bytes = 16;
constexpr std::uintptr_t k_workspace_alignment_bytes = 256;
constexpr float k_f16_max = 65504.0F;

Error refused(const std::string& field, const std::string& value, const std::string& works) {
  return bad_input(field + " = " + value + ": " + works);
}

Error refused(const std::string& field, std::int64_t value, const std::string& works) {
  return refused(field, std::to_string(value), works);
}

bool is_aligned(const void* pointer, std::uintptr_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

// group: "" or "main_cache." and the like; names are joined in a refusal only, so that a legal call
// allocates nothing.
Status check_pointer(const char* group, const char* field, const void* pointer,
                     std::uintptr_t alignment) {
  const auto name = [&] { return std::string(group) + field; };
  if (pointer == nullptr) return refused(name(), "null", "a pointer is required when rows > 0");
  if (!is_aligned(pointer, alignment)) {
    return refused(name(), static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer)),
                   "the address must be a multiple of " + std::to_string(alignment));
  }
  return {};
}

Status check_stride_unit(const char* field, std::int64_t stride) {
  if (stride >= 0 && stride % k_stride_unit_elements == 0) return {};
  return refused(field, stride, "a non-negative multiple of 8 elements is required");
}

Status check_cache(const char* group, const ProblemSpec& spec, const CacheView& cache) {
  const auto name = [&](const char* field) { return std::string(group) + field; };
  if (cache.pages < 0) return refused(name("pages"), cache.pages, "0 or more is required");
  if (cache.page_size < 1) {
    return refused(name("page_size"), cache.page_size, "1 token a page or more is required");
  }
  const std::int64_t least = page_bytes(spec.format, cache.page_size);
  if (cache.page_stride_bytes < least || cache.page_stride_bytes % k_page_stride_unit_bytes != 0) {
    return refused(name("page_stride_bytes"), cache.page_stride_bytes,
                   "a multiple of 8 of at least " + std::to_string(least) + " (" +
                       std::to_string(cache.page_size) + " rows of " +
                       std::to_string(row_bytes(spec.format)) + " bytes) is required");
  }
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / cache.page_stride_bytes;
  if (cache.pages > most) {
    return refused(name("pages"), cache.pages,
                   "at most " + std::to_string(most) + " pages of this stride can be addressed");
  }
  if (cache.pages == 0) return {};
  return check_pointer(group, "base", cache.base, k_cache_alignment_bytes);
}

Status check_list(const char* group, const DecodeCall& call, const IndexList& list, int width) {
  if (const Status s = check_pointer(group, "slots", list.slots, 4); !s) return s;
  if (list.lengths != nullptr) {
    if (const Status s = check_pointer(group, "lengths", list.lengths, 4); !s) return s;
  }
  if (call.rows > 1 && list.row_stride < width) {
    return refused(std::string(group) + "row_stride", list.row_stride,
                   "at least the declared width, " + std::to_string(width) + ", is required");
  }
  return {};
}

// Rows and heads of an output may interleave either way but must not overlap.
Status check_out(const ProblemSpec& spec, const DecodeCall& call) {
  if (const Status s = check_pointer("", "out", call.out, 16); !s) return s;
  if (const Status s = check_stride_unit("out_row_stride", call.out_row_stride); !s) return s;
  if (const Status s = check_stride_unit("out_head_stride", call.out_head_stride); !s) return s;
  if (spec.heads > 1 && call.out_head_stride < k_value_dims) {
    return refused("out_head_stride", call.out_head_stride,
                   "at least 512 elements are required: heads would overlap");
  }
  if (call.rows <= 1) return {};
  const std::int64_t all_heads = (spec.heads - 1) * call.out_head_stride + k_value_dims;
  const bool is_row_major = call.out_row_stride >= all_heads;
  const bool is_head_major =
      call.out_row_stride >= k_value_dims &&
      (spec.heads == 1 ||
       call.out_head_stride >= (call.rows - 1) * call.out_row_stride + k_value_dims);
  if (is_row_major || is_head_major) return {};
  return refused("out_row_stride", call.out_row_stride,
                 "at least " + std::to_string(all_heads) +
                     " elements are required with this out_head_stride: rows would overlap");
}

Status check_lse(const ProblemSpec& spec, const DecodeCall& call) {
  if (call.lse == nullptr) return {};
  if (const Status s = check_pointer("", "lse", call.lse, 4); !s) return s;
  if (call.rows > 1 && call.lse_row_stride < spec.heads) {
    return refused("lse_row_stride", call.lse_row_stride,
                   "at least heads = " + std::to_string(spec.heads) + " is required");
  }
  return {};
}

Status check_q(const DecodeCall& call) {
  if (const Status s = check_pointer("", "q", call.q, 16); !s) return s;
  if (const Status s = check_stride_unit("q_row_stride", call.q_row_stride); !s) return s;
  return check_stride_unit("q_head_stride", call.q_head_stride);
}

}  // namespace

Status check_problem_spec(const ProblemSpec& spec) {
  if (spec.format != KvFormat::v32 && spec.format != KvFormat::v4) {
    return refused("format", static_cast<std::int64_t>(spec.format), "v32 or v4 is required");
  }
  if (spec.heads < 1 || spec.heads > k_heads_max) {
    return refused("heads", spec.heads, "1 to 128 is required");
  }
  if (spec.main_width < 0) return refused("main_width", spec.main_width, "0 or more is required");
  if (spec.extra_width < 0) {
    return refused("extra_width", spec.extra_width, "0 or more is required");
  }
  const std::int64_t width = std::int64_t{spec.main_width} + spec.extra_width;
  if (width > std::numeric_limits<std::int32_t>::max()) {
    return refused("main_width + extra_width", width, "at most 2147483647 entries a row");
  }
  if (spec.rows_max < 0) return refused("rows_max", spec.rows_max, "0 or more is required");
  if (spec.operands == OperandType::f16 &&
      !(spec.value_range_max > 0.0F && spec.value_range_max <= k_f16_max)) {
    return refused("value_range_max", std::to_string(spec.value_range_max),
                   "f16 operands need a declared range in (0, 65504]; use bf16 without one");
  }
  return {};
}

Status check_decode_call(const ProblemSpec& spec, const DecodeCall& call) {
  if (call.rows < 0 || call.rows > spec.rows_max) {
    return refused(
        "rows", call.rows,
        "0 to rows_max = " + std::to_string(spec.rows_max) + " of the spec given at creation");
  }
  if (call.rows == 0) return {};
  if (!std::isfinite(call.softmax_scale)) {
    return refused("softmax_scale", std::to_string(call.softmax_scale),
                   "a finite number is required");
  }
  if (const Status s = check_q(call); !s) return s;
  if (spec.main_width > 0) {
    if (const Status s = check_cache("main_cache.", spec, call.main_cache); !s) return s;
    if (const Status s = check_list("main_list.", call, call.main_list, spec.main_width); !s) {
      return s;
    }
  }
  if (spec.extra_width > 0) {
    if (const Status s = check_cache("extra_cache.", spec, call.extra_cache); !s) return s;
    if (const Status s = check_list("extra_list.", call, call.extra_list, spec.extra_width); !s) {
      return s;
    }
  }
  if (call.sink != nullptr) {
    if (const Status s = check_pointer("", "sink", call.sink, 4); !s) return s;
  }
  if (const Status s = check_out(spec, call); !s) return s;
  return check_lse(spec, call);
}

Status check_workspace(const void* workspace, std::int64_t bytes_required) {
  if (bytes_required == 0) return {};
  if (workspace == nullptr) {
    return refused("workspace", "null",
                   std::to_string(bytes_required) +
                       " bytes are required of a caller who brings the workspace; create with "
                       "owns_workspace to leave it to the decoder");
  }
  return check_pointer("", "workspace", workspace, k_workspace_alignment_bytes);
}

}  // namespace splitwave
