// The GPU benchmark: microseconds a call, cold L2 by rotating disjoint row sets, CUDA-graph
// replays, the decode and combine steps apart. One point a (shape, batch, class, variant); the
// reader picks the best of a class. Times on an idle card.
#include <algorithm>
#include <numeric>
#include <random>

#include "c128_lengths.h"
#include "gpu_test.h"
#include "plan/chunks.h"

namespace splitwave::gpu {
namespace {

// of the extra list
enum class Lengths : std::uint8_t {
  full,
  trace,  // ragged, from k_c128_lengths
  even,   // their mean in every row
};

struct Shape {
  const char* name;
  KvFormat format;
  int heads, main_width, extra_width, main_page, extra_page;
  Lengths lengths = Lengths::full;
};
constexpr Shape k_shapes[] = {
    {"v4_h64", KvFormat::v4, 64, 128, 512, 256, 64},
    {"v4_h32", KvFormat::v4, 32, 128, 512, 256, 64},
    {"v4_h16", KvFormat::v4, 16, 128, 512, 256, 64},
    {"v4_h8", KvFormat::v4, 8, 128, 512, 256, 64},
    {"v4pro_h128", KvFormat::v4, 128, 128, 1024, 256, 64},
    {"v4_swaonly_h64", KvFormat::v4, 64, 128, 0, 256, 64},
    {"v32_h128", KvFormat::v32, 128, 2048, 0, 64, 64},
    {"v32_h16", KvFormat::v32, 16, 2048, 0, 64, 64},
    {"v4_h64_c128_trace", KvFormat::v4, 64, 128, 1152, 256, 2, Lengths::trace},
    {"v4_h64_c128_even", KvFormat::v4, 64, 128, 1152, 256, 2, Lengths::even},
    {"v4_h16_c128_trace", KvFormat::v4, 16, 128, 1152, 256, 2, Lengths::trace},
    {"v4_h16_c128_even", KvFormat::v4, 16, 128, 1152, 256, 2, Lengths::even},
};
constexpr int k_batches[] = {1, 2, 4, 8, 10, 14, 16, 19, 24, 29, 32, 48, 64, 80, 96, 128, 256};
constexpr std::int64_t k_pool_bytes = 1LL << 30;
constexpr std::int64_t k_cold_bytes = 200LL << 20;  // more than three times an H200's L2
constexpr int k_calls_min = 24;
constexpr int k_replays = 15;
constexpr int k_split_ctas_max = 300;  // about two waves: beyond, splitting a row only costs

// A pool of plausible rows: random codes without NaN, scales near 2^-8, small RoPE dims. One block
// of pages is made on the host and repeated.
struct Pool {
  DeviceBytes memory;
  CacheView view;

  Pool(KvFormat format, int page_size, std::mt19937_64& random) {
    const std::int64_t page = page_bytes(format, page_size);
    view.page_size = page_size;
    view.page_stride_bytes = (page + 575) / 576 * 576;
    if (format == KvFormat::v32) view.page_stride_bytes = page;
    view.pages = k_pool_bytes / view.page_stride_bytes;
    const std::int64_t block_pages = std::min<std::int64_t>(view.pages, 64);
    std::vector<std::uint8_t> block(static_cast<std::size_t>(block_pages * view.page_stride_bytes));
    for (std::uint8_t& b : block)
      b = static_cast<std::uint8_t>(random() % 0x70 + (random() & 0x80));
    for (std::int64_t pg = 0; pg < block_pages; ++pg) {
      std::uint8_t* at = block.data() + pg * view.page_stride_bytes;
      for (int r = 0; r < page_size; ++r) {
        const int rope = format == KvFormat::v4 ? r * 576 + 448 : r * 656 + 528;
        for (int d = 0; d < 64; ++d) {
          const std::uint16_t v = static_cast<std::uint16_t>(0x3D00 + (random() & 0x80FF));
          std::memcpy(at + rope + 2 * d, &v, 2);
        }
        if (format == KvFormat::v4) {
          std::memset(at + page_size * 576 + r * 8, 119, 8);
        } else {
          const float scales[4] = {0.004F, 0.003F, 0.005F, 0.0041F};
          std::memcpy(at + r * 656 + 512, scales, 16);
        }
      }
    }
    memory = DeviceBytes(static_cast<std::size_t>(view.pages * view.page_stride_bytes));
    for (std::int64_t pg = 0; pg < view.pages; pg += block_pages) {
      const std::int64_t n = std::min(block_pages, view.pages - pg);
      GPU_REQUIRE(cudaMemcpy(memory.as<std::uint8_t>() + pg * view.page_stride_bytes, block.data(),
                             static_cast<std::size_t>(n * view.page_stride_bytes),
                             cudaMemcpyHostToDevice));
    }
    view.base = memory.as<std::uint8_t>();
  }
};

struct Inputs {
  DeviceBytes q, main_slots, extra_slots, main_lengths, extra_lengths, out, lse;
  int sets = 0;
};

// Disjoint sets of rows: a window of consecutive slots and distinct scattered ones.
Inputs make_inputs(const Shape& s, int rows, const Pool& main, const Pool& extra,
                   const std::vector<int>& lengths, std::mt19937_64& random) {
  Inputs in;
  const std::int64_t kv = std::int64_t{rows} * (s.main_width + s.extra_width) * row_bytes(s.format);
  in.sets = static_cast<int>(std::clamp<std::int64_t>(k_cold_bytes / kv + 1, 3, 400));
  const std::size_t all = static_cast<std::size_t>(in.sets) * static_cast<std::size_t>(rows);
  const auto slots = [&](int width, const CacheView& cache, bool is_window) {
    std::vector<std::int32_t> v(all * static_cast<std::size_t>(width));
    const std::int64_t pool = cache.pages * cache.page_size;
    // A stride prime to the pool visits every slot once: distinct and scattered.
    std::int64_t step = pool / 7 * 3 + 1;
    while (std::gcd(step, pool) != 1) ++step;
    std::int64_t at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(pool));
    for (std::size_t i = 0; i < v.size(); ++i) {
      const bool jump = !is_window || i % static_cast<std::size_t>(width) == 0;
      at = (at + (jump ? step + 977 * (is_window ? 131 : 0) : 1)) % pool;
      v[i] = static_cast<std::int32_t>(at);
    }
    DeviceBytes d(v.size() * 4);
    if (!v.empty())
      GPU_REQUIRE(cudaMemcpy(d.as<void>(), v.data(), d.bytes(), cudaMemcpyHostToDevice));
    return d;
  };
  in.main_slots = slots(s.main_width, main.view, s.format == KvFormat::v4);
  in.extra_slots = slots(s.extra_width, extra.view, false);
  std::vector<std::uint16_t> q(static_cast<std::size_t>(rows) * s.heads * qk_dims(s.format));
  for (std::uint16_t& v : q) v = static_cast<std::uint16_t>(0x3E00 + (random() & 0x81FF));
  in.q = DeviceBytes(q.size() * 2 * static_cast<std::size_t>(std::min(in.sets, 8)));
  for (int i = 0; i < std::min(in.sets, 8); ++i) {
    GPU_REQUIRE(cudaMemcpy(in.q.as<std::uint16_t>() + i * q.size(), q.data(), q.size() * 2,
                           cudaMemcpyHostToDevice));
  }
  std::vector<std::int32_t> main_lengths(all, s.main_width), extra_lengths(all, s.extra_width);
  for (std::size_t i = 0; i < all && !lengths.empty(); ++i) {
    extra_lengths[i] = std::min(s.extra_width, lengths[i % lengths.size()]);
  }
  in.main_lengths = DeviceBytes(all * 4);
  in.extra_lengths = DeviceBytes(all * 4);
  GPU_REQUIRE(
      cudaMemcpy(in.main_lengths.as<void>(), main_lengths.data(), all * 4, cudaMemcpyHostToDevice));
  GPU_REQUIRE(cudaMemcpy(in.extra_lengths.as<void>(), extra_lengths.data(), all * 4,
                         cudaMemcpyHostToDevice));
  in.out = DeviceBytes(static_cast<std::size_t>(rows) * s.heads * k_value_dims * 2);
  in.lse = DeviceBytes(static_cast<std::size_t>(rows) * s.heads * 4);
  return in;
}

DecodeCall call_of(const Shape& s, int rows, int set, const Inputs& in, const Pool& main,
                   const Pool& extra) {
  DecodeCall c;
  const std::int64_t row = std::int64_t{set} * rows;
  c.rows = rows;
  c.q_head_stride = qk_dims(s.format);
  c.q_row_stride = c.q_head_stride * s.heads;
  c.q = in.q.as<std::uint16_t>() + (set % std::min(in.sets, 8)) * rows * c.q_row_stride;
  c.main_cache = main.view;
  c.extra_cache = extra.view;
  c.main_list = {in.main_slots.as<std::int32_t>() + row * s.main_width, s.main_width,
                 in.main_lengths.as<std::int32_t>() + row};
  if (s.extra_width > 0) {
    c.extra_list = {in.extra_slots.as<std::int32_t>() + row * s.extra_width, s.extra_width,
                    in.extra_lengths.as<std::int32_t>() + row};
  }
  c.softmax_scale = 0.0442F;
  c.out = in.out.as<std::uint16_t>();
  c.out_head_stride = k_value_dims;
  c.out_row_stride = k_value_dims * s.heads;
  c.lse = in.lse.as<float>();
  c.lse_row_stride = s.heads;
  return c;
}

// Median over replays of a graph of calls that rotate the sets, in us a call.
double time_calls(CudaBackend& backend, const Shape& s, int rows, const Inputs& in,
                  const Pool& main, const Pool& extra) {
  cudaStream_t stream;
  GPU_REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const int calls = std::max(k_calls_min, in.sets);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  GPU_REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < calls; ++i) {
    DecodeCall call = call_of(s, rows, i % in.sets, in, main, extra);
    call.stream = stream;
    if (const Status st = backend.run(call); !st) std::printf("%s\n", st.error().message.c_str());
  }
  GPU_REQUIRE(cudaStreamEndCapture(stream, &graph));
  GPU_REQUIRE(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t a, b;
  GPU_REQUIRE(cudaEventCreate(&a));
  GPU_REQUIRE(cudaEventCreate(&b));
  std::vector<float> ms;
  for (int i = 0; i < k_replays + 2; ++i) {
    GPU_REQUIRE(cudaEventRecord(a, stream));
    GPU_REQUIRE(cudaGraphLaunch(exec, stream));
    GPU_REQUIRE(cudaEventRecord(b, stream));
    GPU_REQUIRE(cudaStreamSynchronize(stream));
    float t = 0;
    GPU_REQUIRE(cudaEventElapsedTime(&t, a, b));
    if (i >= 2) ms.push_back(t);
  }
  std::nth_element(ms.begin(), ms.begin() + k_replays / 2, ms.end());
  cudaEventDestroy(a);
  cudaEventDestroy(b);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return ms[k_replays / 2] * 1e3 / calls;
}

struct Arm {
  std::string variant;
  NumericsClass numerics;
  int chunk_rows;  // 0: the class's
};

void bench_point(JsonWriter& json, const Shape& s, int rows, const Arm& arm, const Inputs& in,
                 const Pool& main, const Pool& extra, double& best_us, std::string& best) {
  ProblemSpec spec;
  spec.format = s.format;
  spec.heads = s.heads;
  spec.main_width = s.main_width;
  spec.extra_width = s.extra_width;
  spec.rows_max = rows;
  spec.numerics = arm.numerics;
  PlanOverrides overrides;
  if (arm.chunk_rows > 0) overrides.chunk_rows = arm.chunk_rows;
  const auto backend = make_backend(spec, arm.variant, overrides);
  const double total = time_calls(*backend, s, rows, in, main, extra);
  double decode = total;
  const DecodeCall sample = call_of(s, rows, 0, in, main, extra);
  if (backend->launches(sample) > 1) {
    backend->set_hooks({.runs_schedule = false, .runs_combine = false});
    decode = time_calls(*backend, s, rows, in, main, extra);
  }
  const Plan& plan = backend->plan_for(rows);
  const char* name = arm.numerics == NumericsClass::throughput ? "throughput" : "latency";
  json.begin_object().field("batch", rows).field("class", name);
  json.field("chunk_rows", plan.chunk_rows).field("variant", plan.variant);
  json.field("block_heads", plan.block_heads).field("launches", backend->launches(sample));
  json.field("us_median", total).field("decode_us", decode).end_object();
  if (best_us == 0 || total < best_us) {
    best_us = total;
    best = plan.variant + "/" + name + "/" + std::to_string(plan.chunk_rows);
  }
}

// Of variants with one head block only the one with the deepest ring: the others are for smaller
// SMs.
bool is_largest_of_its_block(const VariantTraits& v, const std::vector<VariantTraits>& variants) {
  return std::none_of(variants.begin(), variants.end(), [&](const VariantTraits& o) {
    return o.block_heads == v.block_heads && o.isa == v.isa && o.ctas_per_item == v.ctas_per_item &&
           o.shared_bytes > v.shared_bytes;
  });
}

// Every variant of a point that is worth timing, or with `chosen` what the planner takes.
std::vector<Arm> arms_of(const Shape& s, int rows, const std::vector<VariantTraits>& variants,
                         bool chosen) {
  constexpr int k_latency_rows_max = 8;  // deployments at or under it use the class
  std::vector<Arm> arms;
  if (chosen) {
    arms.push_back({"", NumericsClass::throughput, 0});
    if (rows <= k_latency_rows_max) arms.push_back({"", NumericsClass::latency, 0});
    return arms;
  }
  for (const VariantTraits& v : variants) {
    if (v.block_heads > std::max(8, s.heads) || !is_largest_of_its_block(v, variants)) continue;
    arms.push_back({v.name, NumericsClass::throughput, 0});
    const bool many = rows * ((s.heads + v.block_heads - 1) / v.block_heads) > 300;
    if (!many) arms.push_back({v.name, NumericsClass::latency, 0});
    const int width = s.main_width + s.extra_width;
    const int pairs = rows * ((s.heads + v.block_heads - 1) / v.block_heads);
    for (const int chunk : {192, 256, 384, width / 2}) {
      const int chunks = (width + chunk - 1) / chunk;
      if (chunk % 64 != 0 || chunks < 2 || pairs * chunks > k_split_ctas_max) continue;
      arms.push_back({v.name, NumericsClass::throughput, chunk});
    }
  }
  return arms;
}

void bench_shape(JsonWriter& json, const Shape& s, bool quick, bool chosen,
                 const std::vector<int>& lengths) {
  std::mt19937_64 random(7);
  const Pool main(s.format, s.main_page, random);
  const Pool extra(s.format, s.extra_page, random);
  json.begin_object().field("shape", s.name).field("heads", s.heads);
  json.field("main_width", s.main_width).field("extra_width", s.extra_width);
  json.key("points").begin_array();
  const std::vector<VariantTraits> variants = variants_here(s.format);
  for (const int rows : k_batches) {
    if (quick && (rows & (rows - 1)) != 0) continue;
    const Inputs in = make_inputs(s, rows, main, extra, lengths, random);
    double best_us = 0;
    std::string best;
    for (const Arm& arm : arms_of(s, rows, variants, chosen))
      bench_point(json, s, rows, arm, in, main, extra, best_us, best);
    std::printf("%-16s B=%-4d %8.2f us  %s\n", s.name, rows, best_us, best.c_str());
    std::fflush(stdout);
  }
  json.end_array().end_object();
}

std::vector<int> lengths_of(const Shape& s) {
  if (s.lengths == Lengths::full) return {};
  std::vector<int> lengths(std::begin(k_c128_lengths), std::end(k_c128_lengths));
  if (s.lengths == Lengths::trace) return lengths;
  const std::int64_t sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  return {static_cast<int>(sum / static_cast<std::int64_t>(lengths.size()))};
}

}  // namespace

void run_bench(JsonWriter& json, bool quick, bool chosen, const std::string& only) {
  json.key("bench").begin_array();
  for (const Shape& s : k_shapes) {
    if (only.empty() || only == s.name) bench_shape(json, s, quick, chosen, lengths_of(s));
  }
  json.end_array();
}

}  // namespace splitwave::gpu
