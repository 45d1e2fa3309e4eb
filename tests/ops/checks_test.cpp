// What the operators refuse, and that a refusal names the field, its value and what works.
#include <gtest/gtest.h>

#include "runtime/ops_check.h"

namespace splitwave {
namespace {

std::string message(const Status& status) { return status ? "accepted" : status.error().message; }

// A call that is accepted; each test breaks one field of it.
struct Legal {
  IndexerSpec spec;
  alignas(16) std::uint8_t bytes[64] = {};
  LogitsCall logits;
  Legal() {
    logits.rows = 2;
    logits.q = bytes;
    logits.q_row_stride_bytes = 64 * 128;
    logits.weights = reinterpret_cast<const float*>(bytes);
    logits.weights_row_stride = 64;
    logits.keys = {bytes, 4, 64, 8448};
    logits.key_pages = {reinterpret_cast<const std::int32_t*>(bytes), 512};
    logits.lengths = reinterpret_cast<const std::int32_t*>(bytes);
    logits.logits = reinterpret_cast<float*>(bytes);
    logits.logits_row_stride = 32768;
  }
};

TEST(OpsChecks, AcceptALegalCallAndZeroRows) {
  Legal legal;
  EXPECT_EQ(message(check_indexer_spec(legal.spec)), "accepted");
  EXPECT_EQ(message(check_logits_call(legal.spec, legal.logits)), "accepted");
  EXPECT_EQ(message(check_logits_call(legal.spec, LogitsCall{})), "accepted");
}

TEST(OpsChecks, NameTheFieldTheValueAndWhatWorks) {
  Legal legal;
  legal.spec.heads = 65;
  EXPECT_EQ(message(check_indexer_spec(legal.spec)), "heads = 65: 1 to 64 is required");
  legal = Legal();
  legal.logits.keys.page_stride_bytes = 8447;
  EXPECT_EQ(message(check_logits_call(legal.spec, legal.logits)),
            "keys.page_stride_bytes = 8447: at least 8448 and a multiple of 16 is required");
  legal.logits.keys.page_stride_bytes = 8448;
  legal.logits.weights = nullptr;
  EXPECT_EQ(message(check_logits_call(legal.spec, legal.logits)),
            "weights = null: a pointer is required");
  TopKCall top;
  top.k = 513;
  EXPECT_EQ(message(check_top_k_call(legal.spec, top)), "k = 513: 1 to 512 is required");
}

TEST(OpsChecks, RefuseAPoolWhoseSlotsDoNotFitInt32) {
  Legal legal;
  std::int32_t out[1024];
  SelectCall call;
  call.logits = legal.logits;
  call.k = 512;
  call.kv_pages = legal.logits.key_pages;
  call.kv_pool_pages = 33'554'432;  // * 64 = 2^31
  call.slots = out;
  call.slots_row_stride = 512;
  call.counts = out;
  EXPECT_EQ(message(check_select_call(legal.spec, call)),
            "kv_pool_pages = 33554432: 0 to 33554431 is required");
  call.kv_pool_pages = 33'554'431;
  EXPECT_EQ(message(check_select_call(legal.spec, call)), "accepted");
}

TEST(OpsChecks, RefuseCompressorsThatTheModelsDoNotHave) {
  CompressorSpec spec;
  spec.ratio = 8;
  EXPECT_EQ(message(check_compressor_spec(spec)),
            "ratio = 8: 4 (with overlap) or 128 (online) is required");
  spec = CompressorSpec{};
  spec.target = CompressorTarget::indexer_fp8;
  EXPECT_NE(message(check_compressor_spec(spec)), "accepted");
  spec = CompressorSpec{};
  spec.hadamard = true;
  EXPECT_NE(message(check_compressor_spec(spec)), "accepted");
}

TEST(OpsChecks, RefuseABrokenPromiseOfOneTokenEach) {
  CompressCall call;
  call.sequences = 3;
  call.tokens = 4;
  call.one_token_each = true;
  EXPECT_EQ(message(check_compress_call(CompressorSpec{}, call)),
            "tokens = 4: one_token_each promises as many tokens as sequences, 3");
}

}  // namespace
}  // namespace splitwave
