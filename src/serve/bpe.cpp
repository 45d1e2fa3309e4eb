// A linked list of symbols and a heap of candidate pairs; stale candidates are skipped.
#include "serve/bpe.h"

#include <algorithm>
#include <bit>

#include "base/random.h"

namespace splitwave::serve {
namespace {

std::uint64_t pair_key(TokenId left, TokenId right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

struct Symbol {
  TokenId id = -1;  // -1: merged away
  std::int32_t previous = -1;
  std::int32_t next = -1;
};

struct Candidate {
  std::int32_t rank = 0;
  std::int32_t at = 0;  // index of the left symbol
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
};

// For a heap whose front is the lowest rank, then the leftmost.
bool is_later(const Candidate& a, const Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

}  // namespace

Bpe::Bpe(const std::array<TokenId, 256>& byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(byte_ids) {
  slots_.resize(std::bit_ceil(2 * merges.size() + 1));
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t key = pair_key(merges[rank].left, merges[rank].right);
    std::size_t i = splitmix64(key) & (slots_.size() - 1);
    while (slots_[i].pair != ~std::uint64_t{0} && slots_[i].pair != key) {
      i = (i + 1) & (slots_.size() - 1);
    }
    slots_[i] = {key, static_cast<std::int32_t>(rank), merges[rank].result};
  }
}

const Bpe::Slot* Bpe::find(TokenId left, TokenId right) const {
  const std::uint64_t key = pair_key(left, right);
  for (std::size_t i = splitmix64(key) & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].pair == key) return &slots_[i];
    if (slots_[i].pair == ~std::uint64_t{0}) return nullptr;
  }
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>* ids) const {
  const auto count = static_cast<std::int32_t>(piece.size());
  std::vector<Symbol> symbols(piece.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(piece[static_cast<std::size_t>(i)]);
    symbols[static_cast<std::size_t>(i)] = {byte_ids_[byte], i - 1, i + 1 < count ? i + 1 : -1};
  }
  const auto at = [&](std::int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };

  std::vector<Candidate> heap;
  const auto offer = [&](std::int32_t i) {
    if (i < 0 || at(i).next < 0) return;
    const TokenId left = at(i).id;
    const TokenId right = at(at(i).next).id;
    if (const Slot* slot = find(left, right); slot != nullptr) {
      heap.push_back({slot->rank, i, left, right, slot->result});
      std::push_heap(heap.begin(), heap.end(), is_later);
    }
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) offer(i);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), is_later);
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = at(best.at);
    if (left.id != best.left || left.next < 0 || at(left.next).id != best.right) continue;
    Symbol& right = at(left.next);
    right.id = -1;
    left.id = best.result;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = best.at;
    offer(left.previous);
    offer(best.at);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) ids->push_back(symbol.id);
  }
}

}  // namespace splitwave::serve
