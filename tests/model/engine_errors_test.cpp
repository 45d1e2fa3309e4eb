// What the engine refuses, and that a refusal changes nothing.
#include <cstring>
#include <fstream>

#include "model/engine_fixtures.h"
#include "model/safetensors.h"

namespace splitwave::model {
namespace {

TEST(EngineErrors, OptionsOutOfRangeAreRefusedByName) {
  EngineOptions options = small_options();
  options.positions_max = 100;
  const auto refused = make_cpu_engine(tiny_checkpoint(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("positions_max = 100"), std::string::npos);
  options = small_options();
  options.opportunistic_k0 = 99;
  EXPECT_FALSE(make_cpu_engine(tiny_checkpoint(), options).ok());
  options = small_options();
  options.plan = "target_cta=5";
  EXPECT_FALSE(make_cpu_engine(tiny_checkpoint(), options).ok());
}

// The tiny checkpoint with one routing entry of layer 0 replaced.
Expected<std::unique_ptr<Engine>> engine_with_expert(std::int64_t token, int slot,
                                                     std::int64_t expert) {
  const auto original = tiny_checkpoint();
  std::vector<TensorToWrite> tensors;
  std::vector<std::int64_t> table;
  for (const Tensor* t : original->tensors()) {
    const void* data = t->data;
    if (t->name == "layers.0.ffn.gate.tid2eid") {
      table.resize(static_cast<std::size_t>(t->bytes / 8));
      std::memcpy(table.data(), t->data, static_cast<std::size_t>(t->bytes));
      table[static_cast<std::size_t>(token * t->shape[1] + slot)] =
          expert == -100 ? table[static_cast<std::size_t>(token * t->shape[1])] : expert;
      data = table.data();
    }
    tensors.push_back({t->name, t->dtype, t->shape, data});
  }
  EXPECT_FALSE(table.empty());
  const test::TempDir dir;
  EXPECT_TRUE(write_safetensors(dir.file("model.safetensors"), tensors).ok());
  std::ofstream(dir.file("config.json")) << to_config_json(original->config());
  auto opened = Checkpoint::open(dir.path().string());
  EXPECT_TRUE(opened.ok());
  return make_cpu_engine(std::make_shared<const Checkpoint>(std::move(*opened)), small_options());
}

TEST(EngineErrors, ARoutingTableMayNameOnlyExpertsThatExistAndEachOnce) {
  EXPECT_TRUE(engine_with_expert(7, 0, tiny_checkpoint()->config().routed_experts - 1).ok() ||
              engine_with_expert(7, 0, 0).ok());
  for (const std::int64_t expert : {std::int64_t{16}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    const auto engine = engine_with_expert(7, 2, expert);
    ASSERT_FALSE(engine.ok()) << expert;
    EXPECT_NE(
        engine.error().message.find("layers.0.ffn.gate.tid2eid[7, 2] = " + std::to_string(expert)),
        std::string::npos)
        << engine.error().message;
  }
  const auto twice = engine_with_expert(7, 3, -100);
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.error().message.find("must differ"), std::string::npos);
}

TEST(EngineErrors, AStepThatIsRefusedLeavesTheSequenceAsItWas) {
  const auto engine = make_engine();
  const std::vector<std::int32_t> prompt{1, 2, 3};
  int reused = -1;
  const auto id = engine->open(prompt, &reused);
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(reused, 0);
  std::vector<float> logits(4096);
  const std::vector<std::int32_t> bad{5, 4096};
  const StepRow unreserved{*id, prompt};
  EXPECT_FALSE(engine->step(std::span(&unreserved, 1), logits).ok());
  ASSERT_TRUE(engine->reserve(*id, 3));
  const StepRow out_of_vocabulary{*id, bad};
  EXPECT_FALSE(engine->step(std::span(&out_of_vocabulary, 1), logits).ok());
  const StepRow unknown{77, prompt};
  EXPECT_FALSE(engine->step(std::span(&unknown, 1), logits).ok());
  const StepRow twice[2] = {{*id, prompt}, {*id, prompt}};
  EXPECT_FALSE(engine->step(twice, logits).ok());
  EXPECT_FALSE(engine->step(std::span(&unreserved, 1), std::span(logits).first(5)).ok());
  EXPECT_EQ(engine->length(*id), 0);
  EXPECT_TRUE(engine->step(std::span(&unreserved, 1), logits).ok());
  EXPECT_EQ(engine->length(*id), 3);
}

TEST(EngineErrors, AFullPoolSaysNoAndFreesOnClose) {
  EngineOptions options = small_options();
  options.kv_tokens_max = 256;
  options.sequences_max = 2;
  const auto engine = make_engine(options);
  const std::vector<std::int32_t> prompt{1};
  const auto a = engine->open(prompt, nullptr);
  const auto b = engine->open(prompt, nullptr);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_FALSE(engine->open(prompt, nullptr).ok());
  EXPECT_TRUE(engine->reserve(*a, 200));
  EXPECT_FALSE(engine->reserve(*b, 1));
  EXPECT_EQ(engine->kv_usage().pages_used, 2);
  engine->close(*a);
  EXPECT_EQ(engine->kv_usage().pages_used, 0);
  EXPECT_TRUE(engine->reserve(*b, 1));
  EXPECT_FALSE(engine->reserve(*b, options.positions_max + 1));
}

}  // namespace
}  // namespace splitwave::model
