// Fuzzes the page reader: any geometry, any slot, any bytes. It must refuse or stay inside the pool
// (ASan), and what it reads must survive a round trip through the writer.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "formats/kv_row.h"

namespace {

using namespace splitwave;

// Takes fields off the front of the input; zero once it has run out.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  template <class T>
  T take() {
    T value{};
    const std::size_t n = std::min(size_, sizeof value);
    if (n > 0) std::memcpy(&value, data_, n);
    data_ += n;
    size_ -= n;
    return value;
  }
  [[nodiscard]] const std::uint8_t* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

// Half of the inputs get a geometry that could be right, or the reader would refuse nearly all.
CacheView plausible(KvFormat format, CacheView cache, std::int64_t bytes) {
  cache.page_size = 1 + static_cast<int>(static_cast<unsigned>(cache.page_size) % 8U);
  const std::int64_t used = page_bytes(format, cache.page_size);
  cache.page_stride_bytes = used + 8 * (static_cast<std::uint8_t>(cache.page_stride_bytes) % 16);
  cache.pages = bytes < used ? 0 : 1 + (bytes - used) / cache.page_stride_bytes;
  return cache;
}

bool is_same_row(KvFormat format, const KvRow& a, const KvRow& b) {
  const std::size_t codes = format == KvFormat::v32 ? k_v32_nope_dims : k_v4_nope_dims;
  return std::memcmp(a.codes.data(), b.codes.data(), codes) == 0 && a.rope == b.rope &&
         (format == KvFormat::v32
              ? std::memcmp(a.scales_f32.data(), b.scales_f32.data(), sizeof a.scales_f32) == 0
              : a.scales_e8m0 == b.scales_e8m0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const auto flags = input.take<std::uint8_t>();
  const KvFormat format = (flags & 1U) != 0 ? KvFormat::v32 : KvFormat::v4;
  CacheView cache;
  cache.pages = input.take<std::int64_t>();
  cache.page_size = input.take<std::int32_t>();
  cache.page_stride_bytes = input.take<std::int64_t>();
  auto slot = input.take<std::int64_t>();
  // A heap copy of exactly the pool's bytes: one byte further is ASan's.
  const auto bytes = static_cast<std::int64_t>(input.size());
  const auto pool = std::make_unique<std::uint8_t[]>(input.size());
  if (bytes > 0) std::memcpy(pool.get(), input.data(), input.size());
  cache.base = pool.get();
  if ((flags & 2U) != 0) {
    cache = plausible(format, cache, bytes);
    slot %= 64;
  }
  const Expected<KvRow> row = read_row(format, cache, bytes, slot);
  if (!row.ok()) {
    SPLITWAVE_CHECK(!row.error().message.empty(), "a refusal must say why");
    return 0;
  }
  SPLITWAVE_CHECK(is_valid_slot(cache, slot), "a row was read from outside the pool");
  std::vector<double> values(static_cast<std::size_t>(qk_dims(format)));
  dequantise_row(format, *row, values);
  const MutableCacheView writable{pool.get(), cache.pages, cache.page_size,
                                  cache.page_stride_bytes};
  pack_row(format, *row, writable, slot);
  SPLITWAVE_CHECK(is_same_row(format, *row, unpack_row(format, cache, slot)),
                  "pack and unpack must agree");
  return 0;
}
