// The C interface gives the C++ interface's bits and words, from any thread.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "formats/synthetic.h"
#include "splitwave/decoder.h"
#include "splitwave/splitwave.h"

namespace splitwave {
namespace {

SyntheticOptions everything(KvFormat format) {
  SyntheticOptions options;
  options.spec.format = format;
  options.spec.heads = 5;
  options.spec.main_width = 40;
  options.spec.extra_width = 53;
  options.spec.rows_max = 8;
  options.rows = 3;
  options.main_cache.page_size = 1;
  options.extra_cache.page_size = 53;
  options.main_list.lengths = LengthKind::ragged;
  options.extra_list.invalid = InvalidKind::scattered;
  options.sink = SinkKind::mixed;
  options.poison = PoisonKind::nan;
  return options;
}

splitwave_problem problem_of(const ProblemSpec& spec) {
  splitwave_problem problem;
  splitwave_problem_init(&problem);
  problem.format = static_cast<std::int32_t>(spec.format);
  problem.heads = spec.heads;
  problem.main_width = spec.main_width;
  problem.extra_width = spec.extra_width;
  problem.rows_max = spec.rows_max;
  return problem;
}

splitwave_options cpu() {
  splitwave_options options;
  splitwave_options_init(&options);
  options.backend = SPLITWAVE_BACKEND_CPU;
  options.threads = 2;
  options.read_environment = 0;
  return options;
}

splitwave_cache cache_of(const CacheView& view) {
  return {view.base, view.pages, view.page_stride_bytes, view.page_size, 0};
}

splitwave_decode_call call_of(const DecodeCall& call) {
  splitwave_decode_call made;
  splitwave_decode_call_init(&made);
  made.rows = call.rows;
  made.softmax_scale = call.softmax_scale;
  made.q = call.q;
  made.q_row_stride = call.q_row_stride;
  made.q_head_stride = call.q_head_stride;
  made.main_cache = cache_of(call.main_cache);
  made.extra_cache = cache_of(call.extra_cache);
  made.main_list = {call.main_list.slots, call.main_list.row_stride, call.main_list.lengths};
  made.extra_list = {call.extra_list.slots, call.extra_list.row_stride, call.extra_list.lengths};
  made.sink = call.sink;
  made.out = call.out;
  made.out_row_stride = call.out_row_stride;
  made.out_head_stride = call.out_head_stride;
  made.lse = call.lse;
  made.lse_row_stride = call.lse_row_stride;
  return made;
}

// Every bit of out and lse, in the rows' order.
std::vector<std::uint32_t> bits_of(const ProblemSpec& spec, const DecodeCall& call) {
  std::vector<std::uint32_t> bits;
  for (int row = 0; row < call.rows; ++row) {
    for (int h = 0; h < spec.heads; ++h) {
      const std::uint16_t* out = call.out + row * call.out_row_stride + h * call.out_head_stride;
      bits.insert(bits.end(), out, out + k_value_dims);
      std::uint32_t lse = 0;
      if (call.lse != nullptr) std::memcpy(&lse, call.lse + row * call.lse_row_stride + h, 4);
      bits.push_back(lse);
    }
  }
  return bits;
}

class Handle {
 public:
  Handle(const splitwave_problem& problem, const splitwave_options& options) {
    status_ = splitwave_decoder_create(&problem, &options, &decoder_);
  }
  ~Handle() { splitwave_decoder_destroy(decoder_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  [[nodiscard]] splitwave_decoder* get() const { return decoder_; }
  [[nodiscard]] splitwave_status status() const { return status_; }

 private:
  splitwave_decoder* decoder_ = nullptr;
  splitwave_status status_ = SPLITWAVE_OK;
};

TEST(CApi, GivesTheBitsOfTheCppInterface) {
  for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
    SyntheticProblem problem(everything(format));
    DecoderOptions options;
    options.backend = Backend::cpu;
    options.threads = 2;
    options.read_environment = false;
    Expected<Decoder> decoder = Decoder::create(problem.spec(), options);
    ASSERT_TRUE(decoder.ok()) << decoder.error().message;
    problem.poison_outputs();
    ASSERT_TRUE(decoder->run(problem.call()).ok());
    const auto expected = bits_of(problem.spec(), problem.call());

    const Handle handle(problem_of(problem.spec()), cpu());
    ASSERT_EQ(handle.status(), SPLITWAVE_OK) << splitwave_last_error();
    problem.poison_outputs();
    const splitwave_decode_call call = call_of(problem.call());
    ASSERT_EQ(splitwave_decode(handle.get(), &call), SPLITWAVE_OK) << splitwave_last_error();
    EXPECT_EQ(problem.check_outputs(), "");
    EXPECT_EQ(bits_of(problem.spec(), problem.call()), expected);
  }
}

TEST(CApi, APlanTextIsThePlanOverride) {
  SyntheticProblem problem(everything(KvFormat::v4));
  splitwave_options options = cpu();
  options.plan = "mode=free,target_ctas=64";
  const Handle handle(problem_of(problem.spec()), options);
  ASSERT_EQ(handle.status(), SPLITWAVE_OK) << splitwave_last_error();
  splitwave_plan_info plan;
  splitwave_plan_info_init(&plan);
  ASSERT_EQ(splitwave_decoder_get_plan(handle.get(), 3, &plan), SPLITWAVE_OK);
  EXPECT_EQ(plan.mode, SPLITWAVE_MODE_FREE);
  EXPECT_GT(plan.splits, 1);
}

TEST(CApi, RefusesACallInTheWordsOfTheCppInterface) {
  SyntheticProblem problem(everything(KvFormat::v4));
  const Handle handle(problem_of(problem.spec()), cpu());
  splitwave_decode_call call = call_of(problem.call());
  call.extra_cache.page_stride_bytes -= 8;
  EXPECT_EQ(splitwave_decode(handle.get(), &call), SPLITWAVE_ERROR_BAD_INPUT);
  EXPECT_NE(std::string(splitwave_last_error()).find("extra_cache.page_stride_bytes"),
            std::string::npos)
      << splitwave_last_error();
}

TEST(CApi, AMissingCudaBackendIsTheEnvironmentsFault) {
  splitwave_options options = cpu();
  options.backend = SPLITWAVE_BACKEND_CUDA;
  const ProblemSpec spec;
  const Handle handle(problem_of(spec), options);
  if (handle.status() == SPLITWAVE_OK) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_EQ(handle.status(), SPLITWAVE_ERROR_ENVIRONMENT) << splitwave_last_error();
}

TEST(CApi, KeepsTheErrorOfEachThreadApart) {
  splitwave_problem problem = problem_of({});
  problem.heads = 0;
  const Handle here(problem, cpu());
  const std::string before = splitwave_last_error();
  EXPECT_NE(before.find("heads = 0"), std::string::npos);
  std::thread([&] {
    EXPECT_STREQ(splitwave_last_error(), "");
    splitwave_problem other = problem_of({});
    other.main_width = -1;
    const Handle there(other, cpu());
    EXPECT_NE(std::string(splitwave_last_error()).find("main_width = -1"), std::string::npos);
  }).join();
  EXPECT_EQ(splitwave_last_error(), before);
}

TEST(CApi, MergesLikeTheCppInterface) {
  std::vector<std::uint16_t> out_a(3 * k_value_dims, 0x3f80), out_b(3 * k_value_dims, 0x4040);
  std::vector<float> lse_a = {0.5F, std::numeric_limits<float>::infinity(), 2.0F};
  const std::vector<float> lse_b = {1.5F, -3.0F, std::numeric_limits<float>::infinity()};
  std::vector<std::uint16_t> expected_out = out_a;
  std::vector<float> expected_lse = lse_a;
  merge_partials(expected_out.data(), expected_lse.data(), out_b.data(), lse_b.data(), 3);
  ASSERT_EQ(splitwave_merge(out_a.data(), lse_a.data(), out_b.data(), lse_b.data(), 3),
            SPLITWAVE_OK);
  EXPECT_EQ(out_a, expected_out);
  EXPECT_EQ(lse_a, expected_lse);
  EXPECT_EQ(out_a[k_value_dims], 0x4040);  // an empty side takes the other
}

TEST(CApi, HandsOutPlansForTheMostRowsItAllows) {
  splitwave_problem problem = problem_of({});
  problem.heads = 1;
  problem.rows_max = SPLITWAVE_ROWS_MAX;
  const Handle handle(problem, cpu());
  ASSERT_EQ(handle.status(), SPLITWAVE_OK) << splitwave_last_error();
  splitwave_plan_info plan;
  splitwave_plan_info_init(&plan);
  EXPECT_EQ(splitwave_decoder_get_plan(handle.get(), SPLITWAVE_ROWS_MAX, &plan), SPLITWAVE_OK);
}

}  // namespace
}  // namespace splitwave
