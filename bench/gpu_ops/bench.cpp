// Times of the operators at decode shapes. Keys and logits rotate over sets larger than the L2
// unless a line says "warm". Bytes: each input once, each output once.
#include <algorithm>
#include <cstring>

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

// Codes without NaN, scales around 1/16.
std::vector<std::uint8_t> random_pages(IndexerFormat format, int pages) {
  CaseRandom random(1);
  const std::size_t page = indexer_page_bytes(format, 64);
  const std::size_t values = 64 * indexer_value_bytes(format);
  std::vector<std::uint8_t> out(page * pages);
  const std::uint8_t mask = format == IndexerFormat::bf16 ? 0xBF : 0xBE;
  for (std::uint8_t& b : out) b = static_cast<std::uint8_t>(random.bits()) & mask;
  for (int p = 0; p < pages && format != IndexerFormat::bf16; ++p) {
    for (int i = 0; i < 64; ++i) {
      std::uint8_t* scale = out.data() + p * page + values + i * 4;
      const float s = static_cast<float>(0.05 + 0.02 * random.uniform());
      if (format == IndexerFormat::fp8) std::memcpy(scale, &s, 4);
      if (format == IndexerFormat::fp4) std::memset(scale, 120 + random.below(8), 4);
    }
  }
  return out;
}

// One indexer problem: rows of equal length over `sets` disjoint page sets.
struct IndexerBench {
  IndexerSpec spec;
  int rows, sets;
  std::int64_t pages;
  Device<std::uint8_t> pool, q;
  Device<std::uint8_t> q_scales;
  Device<float> weights, logits;
  Device<std::int32_t> table, lengths, slots, counts;

  IndexerBench(IndexerFormat format, int heads, int row_count, std::int64_t length, int set_count)
      : rows(row_count),
        sets(set_count),
        pages(length / 64 * row_count * set_count),
        pool(static_cast<std::size_t>(pages) * indexer_page_bytes(format, 64)),
        q(random_bytes(static_cast<std::size_t>(row_count) * heads * indexer_value_bytes(format))),
        q_scales(std::vector<std::uint8_t>(static_cast<std::size_t>(row_count) * heads * 4, 125)),
        weights(CaseRandom(2).floats(static_cast<std::size_t>(row_count) * heads)),
        logits(static_cast<std::size_t>(row_count) * length),
        table(shuffled(pages)),
        lengths(std::vector<std::int32_t>(row_count, static_cast<std::int32_t>(length))),
        slots(static_cast<std::size_t>(row_count) * 2048),
        counts(row_count) {
    spec.keys = format;
    spec.query = format == IndexerFormat::bf16 ? IndexerQuery::bf16 : IndexerQuery::native;
    spec.heads = heads;
    spec.rows_max = row_count;
    spec.length_max = length;
    spec.k_max = 2048;
    const std::vector<std::uint8_t> unit = random_pages(format, 1024);
    fill_pool(pool.get(), pool.size(), unit.size(), unit);
  }
  static std::vector<std::uint8_t> random_bytes(std::size_t count) {
    CaseRandom random(4);
    std::vector<std::uint8_t> out(count);
    for (std::uint8_t& b : out) b = static_cast<std::uint8_t>(random.bits()) & 0xBEU;
    return out;
  }
  static std::vector<std::int32_t> shuffled(std::int64_t count) {
    std::vector<std::int32_t> ids(count);
    for (std::int64_t i = 0; i < count; ++i) ids[i] = static_cast<std::int32_t>(i);
    CaseRandom random(9);
    for (std::int64_t i = count - 1; i > 0; --i) {
      std::swap(ids[i], ids[random.bits() % static_cast<std::uint64_t>(i + 1)]);
    }
    return ids;
  }
  [[nodiscard]] LogitsCall logits_call(int set, cudaStream_t stream) const {
    LogitsCall call;
    call.rows = rows;
    call.q = q.get();
    const IndexerFormat stored = spec.query == IndexerQuery::bf16 ? IndexerFormat::bf16 : spec.keys;
    call.q_row_stride_bytes = std::int64_t{spec.heads} * indexer_value_bytes(stored);
    call.q_scales = q_scales.get();
    call.q_scales_row_stride = std::int64_t{spec.heads} * 4;
    call.weights = weights.get();
    call.weights_row_stride = spec.heads;
    call.keys = {pool.get(), pages, 64, indexer_page_bytes(spec.keys, 64)};
    const std::int64_t width = spec.length_max / 64;
    call.key_pages = {table.get() + set % sets * rows * width, width};
    call.lengths = lengths.get();
    call.logits = logits.get();
    call.logits_row_stride = spec.length_max;
    call.stream = stream;
    return call;
  }
  [[nodiscard]] double bytes() const {
    return static_cast<double>(rows) * spec.length_max * (indexer_row_bytes(spec.keys) + 4);
  }
};

void bench_logits(Context& context, IndexerFormat format, int heads, int rows,
                  std::int64_t length) {
  const double set_bytes = static_cast<double>(rows) * length * indexer_row_bytes(format);
  const int sets = std::clamp(static_cast<int>(4e8 / set_bytes) + 1, 2, 24);
  IndexerBench bench(format, heads, rows, length, sets);
  bench.spec.owns_logits = false;
  Indexer indexer = made(Indexer::create(bench.spec, cuda_options()));
  const Timing timing = time_calls(context.stream, std::max(sets, 6), [&](int i) {
    return indexer.logits(bench.logits_call(i, context.stream));
  });
  report(context, "logits",
         std::string(name_of(format)) + " heads " + std::to_string(heads) + " rows " +
             std::to_string(rows) + " keys " + std::to_string(length),
         timing, bench.bytes());
}

void bench_select(Context& context, int rows, std::int64_t length, int k) {
  const double set_bytes = static_cast<double>(rows) * length * 132;
  const int sets = std::clamp(static_cast<int>(4e8 / set_bytes) + 1, 2, 12);
  IndexerBench bench(IndexerFormat::fp8, 64, rows, length, sets);
  Indexer indexer = made(Indexer::create(bench.spec, cuda_options()));
  const Timing timing = time_calls(context.stream, std::max(sets, 6), [&](int i) {
    SelectCall call;
    call.logits = bench.logits_call(i, context.stream);
    call.logits.logits = nullptr;
    call.k = k;
    call.kv_pages = call.logits.key_pages;
    call.kv_page_size = 64;
    call.kv_pool_pages = bench.pages;
    call.slots = bench.slots.get();
    call.slots_row_stride = 2048;
    call.counts = bench.counts.get();
    return indexer.select(call);
  });
  report(context, "select",
         "fp8 heads 64 rows " + std::to_string(rows) + " keys " + std::to_string(length) + " k " +
             std::to_string(k),
         timing, bench.bytes() + 4.0 * rows * k);
}

void bench_topk(Context& context, int rows, std::int64_t length, int k, bool is_warm) {
  const double set_bytes = 4.0 * rows * length;
  const int sets = is_warm ? 1 : std::clamp(static_cast<int>(2.5e8 / set_bytes) + 1, 2, 24);
  const std::size_t cells = static_cast<std::size_t>(rows) * length;
  const Device<float> logits(cells * sets);
  const std::size_t unit = std::min<std::size_t>(cells * sets, std::size_t{1} << 21);
  const std::vector<float> values = CaseRandom(11).floats(unit);
  std::vector<std::uint8_t> raw(unit * 4);
  std::memcpy(raw.data(), values.data(), raw.size());
  fill_pool(reinterpret_cast<std::uint8_t*>(logits.get()), cells * sets * 4, raw.size(), raw);
  const Device<std::int32_t> lengths(
      std::vector<std::int32_t>(rows, static_cast<std::int32_t>(length)));
  const Device<std::int32_t> indices(static_cast<std::size_t>(rows) * k);
  const Device<std::int32_t> counts(rows);
  IndexerSpec spec;
  spec.rows_max = rows;
  spec.length_max = length;
  spec.k_max = k;
  spec.owns_logits = false;
  Indexer indexer = made(Indexer::create(spec, cuda_options()));
  const Timing timing = time_calls(context.stream, std::max(sets, 8), [&](int i) {
    TopKCall call;
    call.rows = rows;
    call.k = k;
    call.logits = logits.get() + i % sets * cells;
    call.logits_row_stride = length;
    call.lengths = lengths.get();
    call.indices = indices.get();
    call.indices_row_stride = k;
    call.counts = counts.get();
    call.stream = context.stream;
    return indexer.top_k(call);
  });
  report(context, "topk",
         std::string(is_warm ? "warm" : "cold") + " rows " + std::to_string(rows) + " length " +
             std::to_string(length) + " k " + std::to_string(k),
         timing, 4.0 * rows * (length + k));
}

void bench_kv_write(Context& context, KvFormat format, int rows) {
  const int nope = format == KvFormat::v4 ? k_v4_nope_dims : k_v32_nope_dims;
  CaseRandom random(21);
  const Device<std::uint16_t> latent(
      random.bf16s(static_cast<std::size_t>(rows) * (nope + k_rope_dims)));
  const Device<float> table(std::vector<float>(512 * 64, 0.7F));
  std::vector<std::int32_t> positions(rows);
  std::vector<std::int64_t> slots(rows);
  for (int i = 0; i < rows; ++i) positions[i] = i % 512, slots[i] = std::int64_t{i} * 61;
  const Device<std::int32_t> positions_device(positions);
  const Device<std::int64_t> slots_device(slots);
  const std::int64_t stride = page_bytes(format, 64);
  const Device<std::uint8_t> pool(static_cast<std::size_t>(stride) * rows);
  CacheWriter writer = made(CacheWriter::create(cuda_options()));
  KvWriteCall call;
  call.format = format;
  call.rows = rows;
  call.nope = latent.get();
  call.nope_row_stride = call.rope_row_stride = nope + k_rope_dims;
  call.rope = latent.get() + nope;
  call.table = {table.get(), 512};
  call.positions = positions_device.get();
  call.slots = slots_device.get();
  call.cache = {pool.get(), rows, 64, stride};
  call.stream = context.stream;
  const Timing timing = time_calls(context.stream, 20, [&](int) { return writer.write_kv(call); });
  report(context, "write_kv", std::string(name_of(format)) + " rows " + std::to_string(rows),
         timing, static_cast<double>(rows) * (2.0 * (nope + k_rope_dims) + row_bytes(format) + 12));
}

void bench_compress(Context& context, int ratio, int dims, int sequences, int tokens_each) {
  CompressorSpec spec;
  spec.ratio = ratio;
  spec.dims = dims;
  spec.target = dims == 512 ? CompressorTarget::v4_cache : CompressorTarget::indexer_fp8;
  spec.hadamard = dims == 128;
  const int channels = ratio == 4 ? 2 * dims : dims;
  const std::int64_t tokens = std::int64_t{sequences} * tokens_each;
  spec.sequences_max = sequences;
  spec.tokens_max = tokens;
  CaseRandom random(31);
  const Device<float> kv(random.floats(tokens * channels));
  const Device<float> gate(random.floats(tokens * channels));
  const Device<float> ape(random.floats(static_cast<std::size_t>(ratio) * channels));
  const Device<std::uint16_t> norm(random.bf16s(dims));
  const Device<float> state(compressor_state_floats(ratio, dims) * sequences);
  check(cudaMemset(state.get(), 0, state.size() * 4), "memset");
  std::vector<std::int32_t> offsets(sequences + 1), start(sequences, ratio - 1), slot(sequences);
  std::vector<std::int64_t> slots(tokens);
  if (tokens_each > 1) std::fill(start.begin(), start.end(), 0);
  for (int s = 0; s <= sequences; ++s) offsets[s] = s * tokens_each;
  for (int s = 0; s < sequences; ++s) slot[s] = s;
  for (std::int64_t t = 0; t < tokens; ++t) slots[t] = t;
  const Device<std::int32_t> offsets_device(offsets), start_device(start), slot_device(slot);
  const Device<std::int64_t> slots_device(slots);
  const std::int64_t stride =
      dims == 512 ? page_bytes(KvFormat::v4, 64) : indexer_page_bytes(IndexerFormat::fp8, 64);
  const std::int64_t pages = tokens / 64 + 1;
  const Device<std::uint8_t> pool(static_cast<std::size_t>(stride * pages));
  Compressor compressor = made(Compressor::create(spec, cuda_options()));
  CompressCall call;
  call.sequences = sequences;
  call.tokens = tokens;
  call.offsets = offsets_device.get();
  call.start = start_device.get();
  call.state_slot = slot_device.get();
  call.one_token_each = tokens_each == 1;
  call.kv = kv.get();
  call.gate = gate.get();
  call.token_stride = channels;
  call.ape = ape.get();
  call.norm = norm.get();
  call.state = state.get();
  call.state_slots = sequences;
  call.slots = slots_device.get();
  call.cache = {pool.get(), pages, 64, stride};
  call.stream = context.stream;
  const Timing timing = time_calls(context.stream, 10, [&](int) { return compressor.run(call); });
  const double state_bytes = 4.0 * compressor_state_floats(ratio, dims);
  report(context, "compress",
         "ratio " + std::to_string(ratio) + " dims " + std::to_string(dims) + " sequences " +
             std::to_string(sequences) + " tokens " + std::to_string(tokens_each),
         timing, sequences * state_bytes + 8.0 * tokens * channels);
}

}  // namespace

void run_indexer_bench(Context& context) {
  for (const int rows : {1, 16, 64, 96}) {
    bench_logits(context, IndexerFormat::fp8, 64, rows, 32768);
  }
  bench_logits(context, IndexerFormat::fp8, 64, 64, 8192);
  bench_logits(context, IndexerFormat::fp8, 32, 64, 32768);
  bench_logits(context, IndexerFormat::fp8, 8, 64, 32768);
  bench_logits(context, IndexerFormat::fp4, 64, 64, 32768);
  bench_logits(context, IndexerFormat::bf16, 64, 64, 32768);
  bench_logits(context, IndexerFormat::fp8, 64, 16, 131072);
  for (const int rows : {16, 64, 96}) bench_select(context, rows, 32768, 512);
}

void run_topk_bench(Context& context) {
  for (const bool is_warm : {true, false}) {
    for (const int k : {512, 1024, 2048}) bench_topk(context, 64, 131072, k, is_warm);
    for (const int rows : {16, 64, 96}) bench_topk(context, rows, 32768, 512, is_warm);
  }
  bench_topk(context, 64, 8192, 512, true);
  bench_topk(context, 8, 262144, 2048, true);
  bench_topk(context, 8, 1 << 20, 2048, false);
}

void run_writes_bench(Context& context) {
  for (const int rows : {64, 96, 8192}) bench_kv_write(context, KvFormat::v4, rows);
  bench_kv_write(context, KvFormat::v32, 64);
  for (const int dims : {512, 128}) bench_compress(context, 4, dims, 96, 1);
  bench_compress(context, 128, 512, 96, 1);
  bench_compress(context, 4, 512, 4, 2048);
  bench_compress(context, 128, 512, 4, 2048);
}

}  // namespace splitwave::gpu_ops
