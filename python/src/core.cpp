// The extension module: splitwave.h in Python's types. Owns handles, statuses as exceptions and the
// release of the GIL; shapes are read by arguments.cpp, conveniences live in splitwave/*.py. Arrays
// are passed by DLPack and never copied.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <mutex>
#include <string>

#include "arguments.h"

namespace splitwave_python {
namespace {

// BAD_INPUT becomes ValueError, anything else RuntimeError, with the library's words.
void check(splitwave_status status) {
  if (status == SPLITWAVE_OK) return;
  const char* message = splitwave_last_error();
  if (status == SPLITWAVE_ERROR_BAD_INPUT) throw nb::value_error(message);
  PyErr_SetString(PyExc_RuntimeError, message);
  throw nb::python_error();
}

// Statuses that were met without the GIL keep their message: it is the thread's.
template <class Body>
void check_without_gil(Body&& body) {
  splitwave_status status = SPLITWAVE_OK;
  {
    const nb::gil_scoped_release released;
    status = body();
  }
  check(status);
}

class Decoder {
 public:
  Decoder(int format, int heads, int main_width, int extra_width, int rows_max, int numerics,
          int operands, float value_range_max, int backend, int device, int threads,
          bool read_environment, bool owns_workspace, const std::string& plan) {
    splitwave_problem_init(&problem_);
    problem_.format = format;
    problem_.heads = heads;
    problem_.main_width = main_width;
    problem_.extra_width = extra_width;
    problem_.rows_max = rows_max;
    problem_.numerics = numerics;
    problem_.operands = operands;
    problem_.value_range_max = value_range_max;
    splitwave_options options;
    splitwave_options_init(&options);
    options.backend = backend;
    options.device = device;
    options.threads = threads;
    options.read_environment = read_environment ? 1 : 0;
    options.owns_workspace = owns_workspace ? 1 : 0;
    options.plan = plan.c_str();
    check_without_gil([&] { return splitwave_decoder_create(&problem_, &options, &decoder_); });
    splitwave_decoder_info_init(&info_);
    check(splitwave_decoder_get_info(decoder_, &info_));
    expected_.format = format;
    expected_.heads = heads;
    expected_.is_cuda = info_.backend == SPLITWAVE_BACKEND_CUDA;
    expected_.device = device;
    owns_workspace_ = owns_workspace;
  }
  ~Decoder() {
    const nb::gil_scoped_release released;
    splitwave_decoder_destroy(decoder_);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  [[nodiscard]] nb::dict info() const {
    nb::dict made;
    made["backend"] = expected_.is_cuda ? "cuda" : "cpu";
    made["backend_reason"] = info_.backend_reason;
    made["device"] = info_.device_name;
    made["device_arch"] = info_.device_arch;
    made["device_sms"] = info_.device_sms;
    made["rows_max"] = info_.rows_max;
    made["workspace_bytes_own"] = info_.workspace_bytes_own;
    made["workspace_bytes_caller"] = owns_workspace_ ? 0 : info_.workspace_bytes_caller;
    return made;
  }

  [[nodiscard]] nb::dict plan(int rows) const {
    splitwave_plan_info p;
    splitwave_plan_info_init(&p);
    check(splitwave_decoder_get_plan(decoder_, rows, &p));
    nb::dict made;
    made["mode"] = p.mode == SPLITWAVE_MODE_EXACT ? "exact" : "free";
    made["numerics"] = p.numerics == SPLITWAVE_CLASS_THROUGHPUT ? "throughput" : "latency";
    made["variant"] = p.variant;
    made["numerics_class"] = p.numerics_class;
    made["isa"] = p.isa;
    made["chunk_rows"] = p.chunk_rows;
    made["block_heads"] = p.block_heads;
    made["head_blocks"] = p.head_blocks;
    made["tile_rows"] = p.tile_rows;
    made["prefetch"] = p.prefetch;
    made["chunks"] = p.chunks;
    made["splits"] = p.splits;
    made["ctas"] = p.ctas;
    made["ctas_per_sm"] = p.ctas_per_sm;
    made["waves"] = p.waves;
    made["utilization"] = p.utilization;
    made["predicted_us"] = p.predicted_us;
    static const char* const provenances[] = {"modelled", "measured", "forced"};
    made["provenance"] = provenances[p.provenance];
    made["warps"] = p.warps;
    made["stages"] = p.stages;
    made["threads"] = p.threads;
    made["registers"] = p.registers;
    made["shared_bytes"] = p.shared_bytes;
    nb::list reasons;
    for (int i = 0; i < p.reasons; ++i) {
      reasons.append(splitwave_decoder_plan_reason(decoder_, rows, i));
    }
    made["reasons"] = reasons;
    return made;
  }

  void run(nb::handle q, nb::handle main_cache, nb::handle main_slots, nb::handle main_lengths,
           nb::handle extra_cache, nb::handle extra_slots, nb::handle extra_lengths,
           float softmax_scale, nb::handle sink, nb::handle out, nb::handle lse, uint64_t stream,
           nb::handle workspace) {
    const Array q_array("q", q);
    q_array.require(Array::Type::bf16, 3, expected_);
    const int64_t rows = q_array.shape(0);
    if (rows > SPLITWAVE_ROWS_MAX) q_array.refuse("too many rows", "split the call");
    const RowsHeads q_strides = rows_heads_of(q_array, rows, expected_.qk_dims(), expected_);
    const Array out_array("out", out, true);
    const RowsHeads out_strides = rows_heads_of(out_array, rows, 512, expected_);

    splitwave_decode_call call;
    splitwave_decode_call_init(&call);
    call.rows = static_cast<int32_t>(rows);
    call.softmax_scale = softmax_scale;
    call.q = q_array.data<const uint16_t>();
    call.q_row_stride = q_strides.row_stride;
    call.q_head_stride = q_strides.head_stride;
    call.out = out_array.data<uint16_t>();
    call.out_row_stride = out_strides.row_stride;
    call.out_head_stride = out_strides.head_stride;

    const Array main("main_cache", main_cache), list("main_indices", main_slots);
    const Array lengths("main_lengths", main_lengths);
    if (problem_.main_width > 0) {
      call.main_cache = cache_of(main, expected_);
      call.main_list = list_of(list, lengths, rows, problem_.main_width, expected_);
    }
    const Array extra("extra_cache", extra_cache), extra_list("extra_indices", extra_slots);
    const Array more_lengths("extra_lengths", extra_lengths);
    if (problem_.extra_width > 0) {
      call.extra_cache = cache_of(extra, expected_);
      call.extra_list = list_of(extra_list, more_lengths, rows, problem_.extra_width, expected_);
    } else if (extra_list.has_value() && extra_list.ndim() > 0 &&
               extra_list.shape(extra_list.ndim() - 1) > 0) {
      extra_list.refuse("given", "the decoder was created with extra_width = 0");
    }
    const Array sink_array("sink", sink), lse_array("lse", lse, true);
    if (sink_array.has_value()) {
      sink_array.require(Array::Type::float32, 1, expected_);
      sink_array.require_shape(0, expected_.heads, "heads of the decoder");
      call.sink = sink_array.data<const float>();
    }
    if (lse_array.has_value()) {
      lse_array.require(Array::Type::float32, 2, expected_);
      lse_array.require_shape(0, rows, "rows of the call");
      lse_array.require_shape(1, expected_.heads, "heads of the decoder");
      call.lse = lse_array.data<float>();
      call.lse_row_stride = rows > 1 ? lse_array.stride(0) : expected_.heads;
    }
    const Array space("workspace", workspace, true);
    if (space.has_value()) {
      space.require(Array::Type::byte, 1, expected_);
      call.workspace = space.data<void>();
      call.workspace_bytes = space.bytes();
    }
    call.stream = reinterpret_cast<void*>(stream);
    check_without_gil([&] {
      const std::lock_guard<std::mutex> one_at_a_time(mutex_);
      return splitwave_decode(decoder_, &call);
    });
  }

 private:
  splitwave_problem problem_;
  splitwave_decoder_info info_;
  splitwave_decoder* decoder_ = nullptr;
  Expected expected_;
  bool owns_workspace_ = false;
  std::mutex mutex_;
};

nb::list variants() {
  nb::list made;
  check(splitwave_visit_variants(
      [](const splitwave_variant* v, void* user) {
        nb::dict one;
        one["name"] = v->name;
        one["backend"] = v->backend;
        one["numerics_class"] = v->numerics_class;
        one["isa"] = v->isa;
        one["format"] = v->format == SPLITWAVE_FORMAT_V4 ? "v4" : "v32";
        one["operands"] = v->operands == SPLITWAVE_OPERANDS_BF16 ? "bf16" : "f16";
        one["block_heads"] = v->block_heads;
        one["tile_rows"] = v->tile_rows;
        one["warps"] = v->warps;
        one["stages"] = v->stages;
        one["threads"] = v->threads;
        one["registers"] = v->registers;
        one["shared_bytes"] = v->shared_bytes;
        one["ctas_per_sm"] = v->ctas_per_sm;
        one["is_experiment_arm"] = v->is_experiment_arm != 0;
        one["is_runnable"] = v->runnable != 0;
        one["why_not"] = v->why_not;
        static_cast<nb::list*>(user)->append(one);
        return 0;
      },
      &made));
  return made;
}

// [.., heads, 512] and [.., heads], host memory, dense: out_a and lse_a receive the merge.
void merge(nb::handle out_a, nb::handle lse_a, nb::handle out_b, nb::handle lse_b) {
  const Expected host;
  const Array a("out_a", out_a, true), la("lse_a", lse_a, true), b("out_b", out_b);
  const Array lb("lse_b", lse_b);
  int64_t n = 0;
  for (const Array* lse : {&la, &lb}) {
    lse->require(Array::Type::float32, 2, host);
    if (lse->shape(0) > 1 && lse->stride(0) != lse->shape(1)) {
      lse->refuse("rows with gaps", "a dense array is required");
    }
    lse->require_shape(0, la.shape(0), "rows of lse_a");
    lse->require_shape(1, la.shape(1), "heads of lse_a");
    n = la.shape(0) * la.shape(1);
  }
  for (const Array* out : {&a, &b}) {
    out->require(Array::Type::bf16, 3, host);
    out->require_shape(0, la.shape(0), "rows of lse_a");
    out->require_shape(1, la.shape(1), "heads of lse_a");
    out->require_shape(2, 512, "value dimensions");
    if ((out->shape(1) > 1 && out->stride(1) != 512) ||
        (out->shape(0) > 1 && out->stride(0) != 512 * out->shape(1))) {
      out->refuse("rows or heads with gaps", "a dense array is required");
    }
  }
  check_without_gil([&] {
    return splitwave_merge(a.data<uint16_t>(), la.data<float>(), b.data<const uint16_t>(),
                           lb.data<const float>(), n);
  });
}

}  // namespace
}  // namespace splitwave_python

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  using splitwave_python::Decoder;
  m.doc() = "splitwave.h in Python's types; use splitwave.Decoder";
  m.def("version", &splitwave_version);
  m.def("abi_version", &splitwave_abi_version);
  m.def("variants", &splitwave_python::variants);
  m.def("merge", &splitwave_python::merge, nb::arg("out_a"), nb::arg("lse_a"), nb::arg("out_b"),
        nb::arg("lse_b"));
  nb::class_<Decoder>(m, "Decoder")
      .def(nb::init<int, int, int, int, int, int, int, float, int, int, int, bool, bool,
                    const std::string&>(),
           nb::arg("format"), nb::arg("heads"), nb::arg("main_width"), nb::arg("extra_width"),
           nb::arg("rows_max"), nb::arg("numerics"), nb::arg("operands"),
           nb::arg("value_range_max"), nb::arg("backend"), nb::arg("device"), nb::arg("threads"),
           nb::arg("read_environment"), nb::arg("owns_workspace"), nb::arg("plan"))
      .def("info", &Decoder::info)
      .def("plan", &Decoder::plan, nb::arg("rows"))
      .def("run", &Decoder::run, nb::arg("q"), nb::arg("main_cache"), nb::arg("main_indices"),
           nb::arg("main_lengths").none(), nb::arg("extra_cache").none(),
           nb::arg("extra_indices").none(), nb::arg("extra_lengths").none(),
           nb::arg("softmax_scale"), nb::arg("sink").none(), nb::arg("out"), nb::arg("lse").none(),
           nb::arg("stream"), nb::arg("workspace").none());
}
