// Every variant against the double reference, over the contract's dimensions.
#include <algorithm>
#include <future>
#include <thread>

#include "formats/compare.h"
#include "formats/reference.h"
#include "gpu_test.h"

namespace splitwave::gpu {
namespace {

struct Width {
  int main, extra;
};
constexpr Width k_widths[] = {{0, 0},    {1, 0},    {133, 0},  {192, 0},   {128, 512}, {640, 0},
                              {0, 512},  {128, 64}, {1152, 0}, {128, 1024}, {2048, 0}, {128, 4096}};
constexpr int k_heads[] = {1, 3, 8, 16, 17, 33, 64, 128};
constexpr int k_pages[] = {1, 2, 32, 53, 61, 64, 69, 128, 256, 576};

template <class E>
E pick(std::uint64_t& state, int count) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return static_cast<E>((state >> 33) % static_cast<std::uint64_t>(count));
}

// Case i: widths, heads and pages in turn, the rest drawn.
SyntheticOptions options_of(int i, KvFormat format) {
  std::uint64_t s = 977ULL * static_cast<std::uint64_t>(i) + (format == KvFormat::v4 ? 1 : 2);
  SyntheticOptions o;
  const Width w = k_widths[i % std::size(k_widths)];
  o.spec.format = format;
  o.spec.main_width = w.main;
  o.spec.extra_width = w.extra;
  o.spec.heads = k_heads[(i / 3) % std::size(k_heads)];
  o.spec.numerics = i % 2 == 0 ? NumericsClass::throughput : NumericsClass::latency;
  o.rows = w.main + w.extra > 2000 ? 2 : 3;
  o.spec.rows_max = o.rows;
  o.seed = static_cast<std::uint64_t>(i) + 1;
  o.main_cache.page_size = k_pages[i % std::size(k_pages)];
  o.extra_cache.page_size = k_pages[(i / 2 + 3) % std::size(k_pages)];
  o.main_cache.stride_pad_bytes = 8 * pick<int>(s, 5);
  o.extra_cache.stride_pad_bytes = 8 * pick<int>(s, 5);
  o.main_list.lengths = pick<LengthKind>(s, 6);
  o.extra_list.lengths = pick<LengthKind>(s, 6);
  o.main_list.invalid = pick<InvalidKind>(s, 6);
  o.extra_list.invalid = pick<InvalidKind>(s, 6);
  o.main_list.row_stride_pad = pick<int>(s, 3) * 5;
  o.scores = pick<ScoreKind>(s, 7);
  o.scales = pick<ScaleKind>(s, 3);
  o.sink = pick<SinkKind>(s, 5);
  o.poison = pick<PoisonKind>(s, 4);
  o.q_head_pad = 8 * pick<int>(s, 2);
  o.out_row_pad = 8 * pick<int>(s, 2);
  return o;
}

}  // namespace

void check_accuracy(Report& report, bool quick) {
  report.families.push_back("accuracy against the double reference, every variant");
  const int cases = quick ? 24 : 120;
  for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
    const std::vector<VariantTraits> variants = variants_here(format);
    std::vector<std::unique_ptr<DeviceProblem>> problems;
    std::vector<std::future<ReferenceResult>> references;
    for (int i = 0; i < cases; ++i) {
      problems.push_back(std::make_unique<DeviceProblem>(options_of(i, format)));
      references.push_back(std::async(std::launch::async, [p = problems.back().get()] {
        return reference_decode(p->host().spec(), p->host().call());
      }));
    }
    for (int i = 0; i < cases; ++i) {
      DeviceProblem& problem = *problems[static_cast<std::size_t>(i)];
      const ReferenceResult reference = references[static_cast<std::size_t>(i)].get();
      for (const VariantTraits& variant : variants) {
        const auto backend = make_backend(problem.host().spec(), variant.name);
        problem.poison_outputs();
        run_and_wait(*backend, problem.call());
        problem.download();
        const std::string name = variant.name + " accuracy case " + std::to_string(i);
        const std::string unwritten = problem.host().check_outputs();
        report.check(unwritten.empty(), name + ": " + unwritten);
        const Comparison c =
            compare_decode(problem.host().spec(), problem.host().call(), reference);
        report.check(c.ok, name + ": " + c.failure);
        if (c.ok) report.worst_rel_l2 = std::max(report.worst_rel_l2, c.worst_row_rel_l2);
      }
    }
  }
}

}  // namespace splitwave::gpu
