// Correctness on the device: the contract's cases, then what only a device can show: first call
// inside a capture, replays over other data, two streams at once, a live pool past 4 GiB.
#include <algorithm>
#include <cstring>
#include <map>

#include "formats/ops_rows.h"
#include "formats/ops_topk.h"
#include "gpu_bench.h"
#include "runtime/ops_cases.h"

namespace splitwave::gpu_ops {
namespace {

OpsOptions cuda_options() {
  OpsOptions options;
  options.backend = Backend::cuda;
  options.read_environment = false;
  return options;
}

template <class T>
T made(Expected<T> expected) {
  if (!expected) check(Status(expected.error()));
  return std::move(*expected);
}

void expect(Context& context, bool ok, const char* what) {
  std::printf("%-60s %s\n", what, ok ? "ok" : "FAILED");
  context.json->field(what, ok);
  if (!ok) ++context.failed;
}

// A small select problem whose inputs can be changed between replays.
struct SelectProblem {
  static constexpr int k_rows = 24;
  static constexpr int k_heads = 64;
  static constexpr int k_length = 4096;
  static constexpr int k_pages = k_rows * k_length / 64;
  IndexerSpec spec;
  std::vector<std::uint8_t> pool_host, q_host;
  Device<std::uint8_t> pool, q;
  Device<float> weights;
  Device<std::int32_t> pages, lengths, slots, counts;
  SelectCall call;

  explicit SelectProblem(std::uint64_t seed)
      : pool_host(static_cast<std::size_t>(k_pages) * 8448),
        q_host(static_cast<std::size_t>(k_rows) * k_heads * 128),
        pool(pool_host.size()),
        q(q_host.size()),
        weights(CaseRandom(seed).floats(k_rows * k_heads)),
        pages(permutation(seed)),
        lengths(ragged(seed)),
        slots(static_cast<std::size_t>(k_rows) * 512),
        counts(k_rows) {
    CaseRandom random(seed);
    for (std::uint8_t& b : pool_host) b = static_cast<std::uint8_t>(random.bits()) & 0xBEU;
    const std::vector<float> scales = random.floats(64);
    for (int page = 0; page < k_pages; ++page) {
      std::memcpy(pool_host.data() + static_cast<std::size_t>(page) * 8448 + 8192, scales.data(),
                  256);
    }
    for (std::uint8_t& b : q_host) b = static_cast<std::uint8_t>(random.bits()) & 0xBEU;
    check(cudaMemcpy(pool.get(), pool_host.data(), pool_host.size(), cudaMemcpyHostToDevice),
          "pool");
    check(cudaMemcpy(q.get(), q_host.data(), q_host.size(), cudaMemcpyHostToDevice), "q");
    spec.heads = k_heads;
    spec.rows_max = k_rows;
    spec.length_max = k_length;
    spec.k_max = 512;
    call.logits.rows = k_rows;
    call.logits.q = q.get();
    call.logits.q_row_stride_bytes = k_heads * 128;
    call.logits.weights = weights.get();
    call.logits.weights_row_stride = k_heads;
    call.logits.keys = {pool.get(), k_pages, 64, 8448};
    call.logits.key_pages = {pages.get(), k_length / 64};
    call.logits.lengths = lengths.get();
    call.k = 512;
    call.kv_pages = {pages.get(), k_length / 64};
    call.kv_page_size = 64;
    call.kv_pool_pages = k_pages;
    call.slots = slots.get();
    call.slots_row_stride = 512;
    call.counts = counts.get();
  }
  static std::vector<std::int32_t> permutation(std::uint64_t seed) {
    std::vector<std::int32_t> ids(k_pages);
    for (int i = 0; i < k_pages; ++i) ids[i] = i;
    CaseRandom random(seed + 1);
    for (int i = k_pages - 1; i > 0; --i) std::swap(ids[i], ids[random.below(i + 1)]);
    return ids;
  }
  static std::vector<std::int32_t> ragged(std::uint64_t seed) {
    CaseRandom random(seed + 2);
    std::vector<std::int32_t> lengths(k_rows);
    for (std::int32_t& length : lengths) length = random.below(k_length + 1);
    lengths[3] = 0;
    return lengths;
  }
};

void check_capture(Context& context) {
  SelectProblem problem(1);
  Indexer indexer = made(Indexer::create(problem.spec, cuda_options()));
  SelectCall call = problem.call;
  call.logits.stream = context.stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamBeginCapture(context.stream, cudaStreamCaptureModeGlobal), "capture");
  const Status captured = indexer.select(call);  // the object's first call
  check(cudaStreamEndCapture(context.stream, &graph), "capture");
  expect(context, captured.ok(), "select's first call may be captured");
  if (!captured) return;
  check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  const auto replay = [&] {
    check(cudaMemset(problem.slots.get(), 0x77, problem.slots.size() * 4), "memset");
    check(cudaGraphLaunch(exec, context.stream), "replay");
    check(cudaStreamSynchronize(context.stream), "replay");
    return problem.slots.download();
  };
  const std::vector<std::int32_t> first = replay();
  bool repeats = true;
  for (int i = 0; i < 50; ++i) repeats = repeats && replay() == first;
  expect(context, repeats, "50 replays give the same bits");
  // Other lengths under the same graph: an eager call must agree.
  const std::vector<std::int32_t> lengths = SelectProblem::ragged(77);
  check(
      cudaMemcpy(problem.lengths.get(), lengths.data(), lengths.size() * 4, cudaMemcpyHostToDevice),
      "lengths");
  const std::vector<std::int32_t> replayed = replay();
  check(indexer.select(problem.call));
  check(cudaDeviceSynchronize(), "select");
  expect(context, replayed == problem.slots.download() && replayed != first,
         "a replay follows lengths that changed after capture");
  check(cudaGraphExecDestroy(exec), "destroy");
  check(cudaGraphDestroy(graph), "destroy");
}

void check_two_streams(Context& context) {
  SelectProblem a(5);
  SelectProblem b(6);
  Indexer one = made(Indexer::create(a.spec, cuda_options()));
  Indexer two = made(Indexer::create(b.spec, cuda_options()));
  check(one.select(a.call));
  check(two.select(b.call));
  check(cudaDeviceSynchronize(), "select");
  const std::vector<std::int32_t> want_a = a.slots.download();
  const std::vector<std::int32_t> want_b = b.slots.download();
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  }
  bool agrees = true;
  for (int round = 0; round < 30; ++round) {
    SelectCall ca = a.call;
    SelectCall cb = b.call;
    ca.logits.stream = streams[0];
    cb.logits.stream = streams[1];
    check(one.select(ca));
    check(two.select(cb));
    check(cudaDeviceSynchronize(), "select");
    agrees = agrees && a.slots.download() == want_a && b.slots.download() == want_b;
  }
  for (const cudaStream_t stream : streams) check(cudaStreamDestroy(stream), "stream");
  expect(context, agrees, "two objects on two streams give what they give alone");
}

// A pool of more than 4 GiB whose last slots are written, read back through the logits, and right.
void check_large_pool(Context& context) {
  constexpr std::int64_t pages = (std::int64_t{9} << 30) / 2 / 8448;  // 4.5 GiB
  const Device<std::uint8_t> pool(static_cast<std::size_t>(pages) * 8448);
  CaseRandom random(3);
  constexpr int rows = 64;
  const Device<std::uint16_t> keys(random.bf16s(rows * 128));
  std::vector<std::int64_t> slots(rows);
  for (int i = 0; i < rows; ++i) slots[i] = (pages - 1) * 64 + i;
  const Device<std::int64_t> slots_device(slots);
  IndexerKeyWriteCall write;
  write.rows = rows;
  write.keys = keys.get();
  write.keys_row_stride = 128;
  write.slots = slots_device.get();
  write.cache = {pool.get(), pages, 64, 8448};
  CacheWriter writer = made(CacheWriter::create(cuda_options()));
  check(writer.write_indexer_keys(write));
  check(cudaDeviceSynchronize(), "write");
  std::vector<std::uint8_t> page(8448);
  check(cudaMemcpy(page.data(), pool.get() + (pages - 1) * 8448, 8448, cudaMemcpyDeviceToHost),
        "download");
  const std::vector<std::uint16_t> host = keys.download();
  bool agrees = true;
  for (int i = 0; i < rows; ++i) {
    std::vector<std::uint16_t> dims(host.begin() + i * 128, host.begin() + (i + 1) * 128);
    std::uint8_t values[128];
    std::uint8_t scale[4];
    rotate_hadamard(dims.data());
    quantise_indexer_row(IndexerFormat::fp8, ScaleRounding::power_of_two, dims.data(), values,
                         scale);
    agrees = agrees && std::memcmp(values, page.data() + i * 128, 128) == 0 &&
             std::memcmp(scale, page.data() + 8192 + i * 4, 4) == 0;
  }
  expect(context, agrees, "slots past 4 GiB are written where they lie");
  // The logits of that page, and of the same page copied to the front, must be the same bits.
  check(cudaMemcpy(pool.get(), page.data(), 8448, cudaMemcpyHostToDevice), "copy");
  std::vector<std::uint8_t> q(2 * 8 * 128);
  for (std::size_t i = 0; i < q.size() / 2; ++i) {
    q[i] = q[i + q.size() / 2] = static_cast<std::uint8_t>(random.bits()) & 0xBEU;
  }
  std::vector<float> weights = random.floats(8);
  weights.insert(weights.end(), weights.begin(), weights.begin() + 8);
  const Device<std::uint8_t> q_device(q);
  const Device<float> weights_device(weights);
  const Device<std::int32_t> table(
      std::vector<std::int32_t>{static_cast<std::int32_t>(pages - 1), 0});
  const Device<std::int32_t> lengths(std::vector<std::int32_t>{64, 64});
  const Device<float> logits(128);
  IndexerSpec spec;
  spec.heads = 8;
  spec.rows_max = 2;
  spec.length_max = 64;
  LogitsCall call;
  call.rows = 2;
  call.q = q_device.get();
  call.q_row_stride_bytes = 8 * 128;
  call.weights = weights_device.get();
  call.weights_row_stride = 8;
  call.keys = {pool.get(), pages, 64, 8448};
  call.key_pages = {table.get(), 1};
  call.lengths = lengths.get();
  call.logits = logits.get();
  call.logits_row_stride = 64;
  Indexer indexer = made(Indexer::create(spec, cuda_options()));
  check(indexer.logits(call));
  check(cudaDeviceSynchronize(), "logits");
  const std::vector<float> out = logits.download();
  expect(context, std::memcmp(out.data(), out.data() + 64, 256) == 0 && out[0] == out[0],
         "pages past 4 GiB are read where they lie");
}

}  // namespace

void run_contract(Context& context, bool full) {
  std::unique_ptr<OpsMemory> memory = made(make_device_memory(0));
  OpsTarget target;
  target.options = cuda_options();
  target.memory = memory.get();
  std::map<std::string, std::pair<int, int>> counts;  // op -> cases, failed
  double worst = 0;
  int printed = 0;
  for (const OpsCase& one : all_ops_cases(full)) {
    const OpsOutcome outcome = one.run(target);
    auto& [cases, failed] = counts[one.op];
    ++cases;
    worst = std::max(worst, outcome.worst);
    if (outcome.failure.empty()) continue;
    ++failed;
    ++context.failed;
    if (++printed <= 25) {
      std::printf("FAILED %s: %s\n", describe(one).c_str(), outcome.failure.c_str());
    }
  }
  for (const auto& [op, count] : counts) {
    std::printf("contract %-12s cases %4d failed %d\n", op.c_str(), count.first, count.second);
    context.json->key(op).begin_object().field("cases", count.first).field("failed", count.second);
    context.json->end_object();
  }
  std::printf("worst logit error / magnitude %.2e\n", worst);
  context.json->field("worst_logit_error", worst);
}

void run_stress(Context& context) {
  check_capture(context);
  check_two_streams(context);
  check_large_pool(context);
}

}  // namespace splitwave::gpu_ops
