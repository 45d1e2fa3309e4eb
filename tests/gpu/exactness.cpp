// A row's bits depend on its own inputs and the class, on nothing else: each family changes
// something that must not matter and compares bytes.
#include <algorithm>

#include "gpu_test.h"

namespace splitwave::gpu {
namespace {

using Bytes = std::vector<std::uint8_t>;

SyntheticOptions base_options(KvFormat format, int rows, NumericsClass numerics) {
  SyntheticOptions o;
  o.spec.format = format;
  o.spec.heads = 64;
  o.spec.main_width = format == KvFormat::v4 ? 128 : 1152;
  o.spec.extra_width = format == KvFormat::v4 ? 512 : 0;
  o.spec.numerics = numerics;
  o.spec.rows_max = rows;
  o.rows = rows;
  o.main_list.lengths = LengthKind::ragged;
  o.extra_list.lengths = LengthKind::ragged;
  o.main_list.invalid = InvalidKind::scattered;
  o.sink = SinkKind::mixed;
  o.scores = ScoreKind::peaked;
  return o;
}

// Rows [first, first + rows) of the call.
DecodeCall rows_of(DecodeCall call, int first, int rows) {
  call.q += first * call.q_row_stride;
  call.out += first * call.out_row_stride;
  if (call.lse != nullptr) call.lse += first * call.lse_row_stride;
  for (IndexList* list : {&call.main_list, &call.extra_list}) {
    if (list->slots != nullptr) list->slots += first * list->row_stride;
    if (list->lengths != nullptr) list->lengths += first;
  }
  call.rows = rows;
  return call;
}

Bytes run(CudaBackend& backend, DeviceProblem& problem, const DecodeCall& call) {
  problem.poison_outputs();
  run_and_wait(backend, call);
  problem.download();
  return problem.output();
}

// Bytes of one row of out.
Bytes row_bytes(DeviceProblem& problem, int row) {
  const DecodeCall& call = problem.host().call();
  const int heads = problem.host().spec().heads;
  Bytes bytes;
  for (int h = 0; h < heads; ++h) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(call.out + row * call.out_row_stride +
                                                             h * call.out_head_stride);
    bytes.insert(bytes.end(), from, from + k_value_dims * 2);
  }
  const auto* lse = reinterpret_cast<const std::uint8_t*>(call.lse + row * call.lse_row_stride);
  bytes.insert(bytes.end(), lse, lse + heads * 4);
  return bytes;
}

std::vector<Bytes> all_rows(DeviceProblem& problem, int rows) {
  std::vector<Bytes> made;
  for (int r = 0; r < rows; ++r) made.push_back(row_bytes(problem, r));
  return made;
}

void variants_agree(Report& report, KvFormat format, NumericsClass numerics) {
  report.families.push_back("variants of a class agree bit by bit");
  for (const int heads : {64, 13}) {
    SyntheticOptions o = base_options(format, 6, numerics);
    o.spec.heads = heads;
    DeviceProblem problem(o);
    std::vector<std::pair<std::string, Bytes>> first_of_class;
    for (const VariantTraits& v : variants_here(format)) {
      const auto backend = make_backend(o.spec, v.name);
      const Bytes got = run(*backend, problem, problem.call());
      const auto known = std::find_if(first_of_class.begin(), first_of_class.end(),
                                      [&](const auto& p) { return p.first == v.numerics_class; });
      if (known == first_of_class.end()) {
        first_of_class.emplace_back(v.numerics_class, got);
      } else {
        report.check(known->second == got, v.name + " differs within " + v.numerics_class + ", " +
                                               std::to_string(heads) + " heads");
      }
    }
  }
}

void rows_alone_and_in_batches(Report& report, KvFormat format, NumericsClass numerics) {
  report.families.push_back("a row alone, in batches 1..96 and 200, in every slot");
  constexpr int k_rows = 200;
  const SyntheticOptions o = base_options(format, k_rows, numerics);
  DeviceProblem problem(o);
  const auto backend = make_backend(o.spec, "");
  run(*backend, problem, problem.call());
  const std::vector<Bytes> expected = all_rows(problem, k_rows);
  for (int batch = 1; batch <= 96; ++batch) {
    const int first = (batch * 37) % (k_rows - batch + 1);
    run(*backend, problem, rows_of(problem.call(), first, batch));
    bool same = true;
    for (int r = first; r < first + batch; ++r) {
      same = same && row_bytes(problem, r) == expected[static_cast<std::size_t>(r)];
    }
    report.check(same, "batch " + std::to_string(batch) + " changes a row");
  }
  for (int r = 0; r < k_rows; r += 7) {
    run(*backend, problem, rows_of(problem.call(), r, 1));
    report.check(row_bytes(problem, r) == expected[static_cast<std::size_t>(r)],
                 "row " + std::to_string(r) + " alone differs");
  }
}

void hostile_neighbours(Report& report, KvFormat format) {
  report.families.push_back("beside NaN, inf and huge neighbours; pages permuted");
  SyntheticOptions o = base_options(format, 18, NumericsClass::throughput);
  o.main_list.lengths = o.extra_list.lengths = LengthKind::full;
  DeviceProblem clean(o);
  const auto backend = make_backend(o.spec, "");
  run(*backend, clean, clean.call());
  const std::vector<Bytes> expected = all_rows(clean, o.rows);
  SyntheticOptions hostile = o;
  hostile.placement_seed = 99;
  hostile.main_cache.placement = Placement::pages_permuted;
  hostile.main_cache.page_size = 53;
  for (int r = 0; r < o.rows; ++r) {
    hostile.hostile.push_back(r % 2 == 0 ? HostileKind::none
                                         : static_cast<HostileKind>(1 + (r / 2) % 8));
  }
  DeviceProblem problem(hostile);
  run(*backend, problem, problem.call());
  for (int r = 0; r < o.rows; r += 2) {
    report.check(row_bytes(problem, r) == expected[static_cast<std::size_t>(r)],
                 "row " + std::to_string(r) + " feels its neighbours or its pages");
  }
}

void workspace_streams_and_repeats(Report& report, KvFormat format, NumericsClass numerics,
                                   bool quick) {
  report.families.push_back("poisoned workspace, two streams, 1,000 repeats");
  const SyntheticOptions o = base_options(format, 12, numerics);
  DeviceProblem problem(o), twin(o);
  const auto backend = make_backend(o.spec, "");
  const auto other = make_backend(o.spec, "");
  const Bytes expected = run(*backend, problem, problem.call());
  DeviceBytes brought(static_cast<std::size_t>(backend->caller_workspace_bytes()));
  for (const int fill : {0xFF, 0x7F, 0x00}) {
    if (brought.bytes() > 0) {
      GPU_REQUIRE(cudaMemset(brought.as<void>(), fill, brought.bytes()));
      problem.poison_outputs();
      (void)backend->run_in(problem.call(), brought.as<void>());
      GPU_REQUIRE(cudaDeviceSynchronize());
      problem.download();
      report.check(problem.output() == expected, "a caller's workspace's content matters");
    }
    if (backend->workspace_bytes() > 0) {
      GPU_REQUIRE(cudaMemset(backend->workspace(), fill,
                             static_cast<std::size_t>(backend->workspace_bytes())));
    }
    report.check(run(*backend, problem, problem.call()) == expected, "workspace content matters");
  }
  const int repeats = quick ? 50 : 1000;
  bool same = true;
  for (int i = 0; i < repeats; ++i) {
    same = same && run(*backend, problem, problem.call()) == expected;
  }
  report.check(same, "a repeat differs");
  cudaStream_t streams[2];
  for (cudaStream_t& s : streams) GPU_REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  DecodeCall a = problem.call(), b = twin.call();
  a.stream = streams[0];
  b.stream = streams[1];
  problem.poison_outputs();
  twin.poison_outputs();
  for (int i = 0; i < 100; ++i) {
    (void)backend->run(a);
    (void)other->run(b);
  }
  GPU_REQUIRE(cudaDeviceSynchronize());
  problem.download();
  twin.download();
  report.check(problem.output() == expected, "stream 0 of two differs");
  report.check(twin.output() == expected, "stream 1 of two differs");
  for (cudaStream_t& s : streams) cudaStreamDestroy(s);
}

void graphs(Report& report, KvFormat format, NumericsClass numerics) {
  report.families.push_back("first call inside capture, graph replay, replay with fewer live rows");
  const SyntheticOptions o = base_options(format, 24, numerics);
  DeviceProblem problem(o);
  const auto eager = make_backend(o.spec, "");
  run(*eager, problem, problem.call());
  const std::vector<Bytes> expected = all_rows(problem, o.rows);
  const auto captured = make_backend(o.spec, "");
  cudaStream_t stream;
  GPU_REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  DecodeCall call = problem.call();
  call.stream = stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  GPU_REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const Status status = captured->run(call);
  GPU_REQUIRE(cudaStreamEndCapture(stream, &graph));
  report.check(static_cast<bool>(status), "the first call cannot be captured");
  GPU_REQUIRE(cudaGraphInstantiate(&exec, graph, 0));
  const auto replay = [&] {
    problem.poison_outputs();
    GPU_REQUIRE(cudaGraphLaunch(exec, stream));
    GPU_REQUIRE(cudaStreamSynchronize(stream));
    problem.download();
  };
  replay();
  report.check(all_rows(problem, o.rows) == expected, "graph replay differs from eager");
  // Rows beyond the live ones become padding: length 0 in both lists.
  for (const int live : {1, 7, 23}) {
    std::vector<std::int32_t> zeros(static_cast<std::size_t>(o.rows - live), 0);
    for (const IndexList* list : {&call.main_list, &call.extra_list}) {
      if (list->lengths == nullptr) continue;
      GPU_REQUIRE(cudaMemcpy(const_cast<std::int32_t*>(list->lengths) + live, zeros.data(),
                             zeros.size() * 4, cudaMemcpyHostToDevice));
    }
    replay();
    bool same = true;
    for (int r = 0; r < live; ++r) {
      same = same && row_bytes(problem, r) == expected[static_cast<std::size_t>(r)];
    }
    report.check(same, "replay with " + std::to_string(live) + " live rows differs");
    const CallBuffers b = problem.host().buffers();
    for (const auto& [from, to] : {std::pair(b.main_lengths, call.main_list.lengths),
                                   std::pair(b.extra_lengths, call.extra_list.lengths)}) {
      if (to == nullptr) continue;
      GPU_REQUIRE(cudaMemcpy(const_cast<std::int32_t*>(to), from.data(), from.size(),
                             cudaMemcpyHostToDevice));
    }
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

void work_decomposition(Report& report, KvFormat format) {
  report.families.push_back("every piece length, any number of CTAs, scheduled or computed items");
  SyntheticOptions o = base_options(format, 5, NumericsClass::latency);
  o.spec.main_width = 2048;
  o.spec.extra_width = format == KvFormat::v4 ? 640 : 0;
  DeviceProblem problem(o);
  for (const VariantTraits& v : variants_here(format)) {
    const auto backend = make_backend(o.spec, v.name);
    const Bytes expected = run(*backend, problem, problem.call());
    const int chunks = backend->plan_for(o.rows).chunks;
    for (int piece = 1; piece <= chunks; ++piece) {
      backend->set_hooks({.piece_chunks = piece});
      report.check(run(*backend, problem, problem.call()) == expected,
                   v.name + ": pieces of " + std::to_string(piece) + " chunks differ");
    }
    const std::pair<const char*, CudaHooks> ways[] = {
        {"computed items", {.uses_schedule = false}},
        {"scheduled items", {.always_schedules = true}},
        {"computed items and the combine kernel",
         {.uses_schedule = false, .folds_in_decode = false}},
        {"scheduled items and the combine kernel",
         {.always_schedules = true, .folds_in_decode = false}}};
    for (const auto& [name, hooks] : ways) {
      backend->set_hooks(hooks);
      report.check(run(*backend, problem, problem.call()) == expected,
                   v.name + ": " + name + " differ");
    }
    for (const int ctas : {1, 3, 61}) {
      backend->set_hooks({.ctas = ctas});
      report.check(run(*backend, problem, problem.call()) == expected,
                   v.name + ": " + std::to_string(ctas) + " CTAs differ");
    }
  }
}

// The pages of a problem spread over 5 GiB: a page stride of its own.
void pool_beyond_4_gib(Report& report, KvFormat format) {
  report.families.push_back("a pool beyond 4 GiB with live pages at its end");
  SyntheticOptions o = base_options(format, 4, NumericsClass::throughput);
  o.main_cache.page_size = 16;
  DeviceProblem problem(o);
  const auto backend = make_backend(o.spec, "");
  const Bytes expected = run(*backend, problem, problem.call());
  DecodeCall call = problem.call();
  const CacheView cache = call.main_cache;
  const std::int64_t stride = (5LL << 30) / cache.pages / 16 * 16;
  DeviceBytes pool(static_cast<std::size_t>(stride * cache.pages));
  GPU_REQUIRE(cudaMemset(pool.as<void>(), 0xFF, pool.bytes()));
  const auto bytes = static_cast<std::size_t>(page_bytes(format, cache.page_size));
  GPU_REQUIRE(cudaMemcpy2D(pool.as<void>(), static_cast<std::size_t>(stride), cache.base,
                           static_cast<std::size_t>(cache.page_stride_bytes), bytes,
                           static_cast<std::size_t>(cache.pages), cudaMemcpyDeviceToDevice));
  call.main_cache.base = pool.as<std::uint8_t>();
  call.main_cache.page_stride_bytes = stride;
  report.check(run(*backend, problem, call) == expected, "64-bit addressing");
}

// H heads give the bits that the first H of a longer call give.
void head_prefixes(Report& report, KvFormat format) {
  report.families.push_back("heads 1..128: the first of a longer call");
  SyntheticOptions o = base_options(format, 2, NumericsClass::throughput);
  o.spec.heads = 128;
  DeviceProblem problem(o);
  const auto whole = make_backend(o.spec, "");
  run(*whole, problem, problem.call());
  const Bytes expected = row_bytes(problem, 1);
  for (int heads = 1; heads < 128; heads += heads < 20 ? 1 : 9) {
    ProblemSpec spec = o.spec;
    spec.heads = heads;
    const auto backend = make_backend(spec, "");
    run(*backend, problem, problem.call());
    const Bytes got = row_bytes(problem, 1);
    report.check(std::equal(got.begin(), got.begin() + heads * 1024, expected.begin()),
                 std::to_string(heads) + " heads differ");
  }
}

}  // namespace

// Each variant with ragged rows of several chunks: folded by the last CTA, then by schedule and
// combine.
void run_small_set() {
  for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
    SyntheticOptions o = base_options(format, 2, NumericsClass::latency);
    o.spec.heads = 9;
    o.spec.main_width = 200;
    o.spec.extra_width = format == KvFormat::v4 ? 100 : 0;
    DeviceProblem problem(o);
    for (const VariantTraits& v : variants_here(format)) {
      const auto backend = make_backend(o.spec, v.name);
      run(*backend, problem, problem.call());
      backend->set_hooks({.always_schedules = true, .folds_in_decode = false});
      run(*backend, problem, problem.call());
    }
  }
}

void check_exactness(Report& report, bool quick) {
  for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
    for (const NumericsClass numerics : {NumericsClass::throughput, NumericsClass::latency}) {
      variants_agree(report, format, numerics);
      rows_alone_and_in_batches(report, format, numerics);
      workspace_streams_and_repeats(report, format, numerics, quick);
      graphs(report, format, numerics);
    }
    hostile_neighbours(report, format);
    work_decomposition(report, format);
    pool_beyond_4_gib(report, format);
    head_prefixes(report, format);
  }
}

}  // namespace splitwave::gpu
