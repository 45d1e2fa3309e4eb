// From lists to rows: division by multiplication, effective lengths, and a cursor that yields the
// valid entries of a position range in order, main first.
#include "kernels/cpu/row_entries.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace splitwave::cpu {
namespace {

TEST(Divider, EqualsTheHardwareDivision) {
  const std::array<std::uint32_t, 12> divisors = {1,  2,  3,   5,   53,         64,
                                                  61, 69, 256, 576, 2147483646U, 2147483647U};
  for (const std::uint32_t d : divisors) {
    const Divider divider(d);
    for (std::uint64_t n = 0; n <= 0x7FFFFFFFU; n = n * 3 / 2 + 1) {
      for (const std::uint64_t near : {n - 1, n, n + 1, n / d * d, n / d * d + d - 1}) {
        if (near > 0x7FFFFFFFU) continue;
        const auto value = static_cast<std::uint32_t>(near);
        ASSERT_EQ(divider.quotient(value), value / d) << value << " / " << d;
      }
    }
  }
}

TEST(Pool, AddressesRowsBeyondTwoGigabytes) {
  const CacheView view{nullptr, std::int64_t{1} << 31, 1, 592};
  const Pool pool(KvFormat::v4, view);
  const std::int32_t slot = std::numeric_limits<std::int32_t>::max();
  ASSERT_TRUE(pool.is_valid(slot));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool.row(slot).data),
            std::uintptr_t{592} * 0x7FFFFFFF);
}

TEST(Pool, PlacesV4ScalesBehindAllDataRowsOfThePage) {
  const CacheView view{nullptr, 4, 53, 53 * 584 + 16};
  const RowRef row = Pool(KvFormat::v4, view).row(2 * 53 + 7);
  const std::uintptr_t page = 2 * (53 * 584 + 16);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(row.data), page + 7 * 576);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(row.scales), page + 53 * 576 + 7 * 8);
}

struct Lists {
  // Pools of 10 slots; slots -1, 10 and the least integer are invalid.
  std::vector<std::int32_t> main_slots = {3, -1, 10, 4, std::numeric_limits<std::int32_t>::min(),
                                          -1};
  std::vector<std::int32_t> extra_slots = {-1, 7, 8};
  CacheView view{nullptr, 10, 1, 584};
  Pool pool{KvFormat::v4, view};
};

TEST(EffectiveLength, EndsAtTheLastValidEntryWhenNoneIsGiven) {
  const Lists lists;
  EXPECT_EQ(effective_length(lists.pool, {lists.main_slots.data(), 6, nullptr}, 6, 0), 4);
  EXPECT_EQ(effective_length(lists.pool, {lists.main_slots.data() + 1, 6, nullptr}, 2, 0), 0);
}

TEST(EffectiveLength, ClampsAGivenLength) {
  const Lists lists;
  for (const auto& [given, effective] : {std::pair{-5, 0}, {0, 0}, {5, 5}, {6, 6}, {999, 6}}) {
    const std::int32_t length = given;
    EXPECT_EQ(effective_length(lists.pool, {lists.main_slots.data(), 6, &length}, 6, 0), effective);
  }
}

std::vector<int> yielded(const Lists& lists, int main_length, std::int64_t begin, std::int64_t end,
                         int at_once) {
  RowEntries entries{lists.main_slots.data(), lists.extra_slots.data(), main_length, 3};
  EntryCursor cursor(entries, lists.pool, lists.pool, begin, end);
  std::vector<int> slots;
  std::array<RowRef, 16> rows;
  for (int count = cursor.fill(rows.data(), at_once); count > 0;
       count = cursor.fill(rows.data(), at_once)) {
    for (int i = 0; i < count; ++i) {
      const auto address = reinterpret_cast<std::uintptr_t>(rows[static_cast<std::size_t>(i)].data);
      slots.push_back(static_cast<int>(address / 584));
    }
  }
  return slots;
}

TEST(EntryCursor, YieldsValidEntriesInOrderWhateverTheBatchSize) {
  const Lists lists;
  for (const int at_once : {1, 2, 3, 16}) {
    EXPECT_EQ(yielded(lists, 6, 0, 9, at_once), (std::vector<int>{3, 4, 7, 8}));
    EXPECT_EQ(yielded(lists, 4, 0, 7, at_once), (std::vector<int>{3, 4, 7, 8}));
  }
}

TEST(EntryCursor, StaysInsideItsPositions) {
  const Lists lists;
  EXPECT_EQ(yielded(lists, 4, 1, 6, 16), (std::vector<int>{4, 7}));
  EXPECT_EQ(yielded(lists, 4, 5, 6, 16), (std::vector<int>{7}));
  EXPECT_EQ(yielded(lists, 4, 6, 7, 16), (std::vector<int>{8}));
  EXPECT_EQ(yielded(lists, 0, 0, 3, 16), (std::vector<int>{7, 8}));
  EXPECT_TRUE(yielded(lists, 4, 1, 3, 16).empty());
}

}  // namespace
}  // namespace splitwave::cpu
