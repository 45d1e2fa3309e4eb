// Two tries, walked from every byte that can begin a token.
#include "serve/added_tokens.h"

#include <algorithm>

namespace splitwave::serve {

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    insert(token, token.is_normalized ? &normalized_ : &raw_);
  }
}

void AddedTokens::insert(const AddedToken& token, Trie* trie) {
  std::int32_t node = 0;
  for (const char c : token.content) {
    const auto byte = static_cast<unsigned char>(c);
    auto& children = (*trie)[static_cast<std::size_t>(node)].children;
    const auto found = std::find_if(children.begin(), children.end(),
                                    [&](const auto& child) { return child.first == byte; });
    if (found != children.end()) {
      node = found->second;
      continue;
    }
    const auto created = static_cast<std::int32_t>(trie->size());
    children.emplace_back(byte, created);
    trie->emplace_back();
    node = created;
  }
  (*trie)[static_cast<std::size_t>(node)].id = token.id;
}

AddedTokens::Match AddedTokens::longest(const Trie& trie, std::string_view text) {
  Match best;
  const Node* node = trie.data();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto child = std::find_if(node->children.begin(), node->children.end(),
                                    [&](const auto& c) { return c.first == byte; });
    if (child == node->children.end()) break;
    node = &trie[static_cast<std::size_t>(child->second)];
    if (node->id >= 0) best = {node->id, i + 1};
  }
  return best;
}

void AddedTokens::split_with(const Trie& trie, std::string_view text,
                             std::span<const ByteSpan> literal, std::vector<TextPiece>* pieces) {
  std::vector<TextPiece> out;
  for (const TextPiece& piece : *pieces) {
    if (piece.id >= 0) {
      out.push_back(piece);
      continue;
    }
    std::size_t plain = piece.span.begin;  // where the text without a token begins
    std::size_t at = piece.span.begin;
    auto next = std::partition_point(literal.begin(), literal.end(),
                                     [&](const ByteSpan& s) { return s.end <= at; });
    while (at < piece.span.end) {
      while (next != literal.end() && next->end <= at) ++next;
      if (next != literal.end() && next->begin <= at) {
        at = std::min(next->end, piece.span.end);
        continue;
      }
      const std::size_t limit =
          next == literal.end() ? piece.span.end : std::min(next->begin, piece.span.end);
      const Match match = longest(trie, text.substr(at, limit - at));
      if (match.id < 0) {
        ++at;
        continue;
      }
      if (plain < at) out.push_back({{plain, at}, -1});
      out.push_back({{at, at + match.bytes}, match.id});
      at += match.bytes;
      plain = at;
    }
    if (plain < piece.span.end) out.push_back({{plain, piece.span.end}, -1});
  }
  *pieces = std::move(out);
}

std::vector<TextPiece> AddedTokens::split(std::string_view text,
                                          std::span<const ByteSpan> literal) const {
  std::vector<TextPiece> pieces;
  if (text.empty()) return pieces;
  pieces.push_back({{0, text.size()}, -1});
  split_with(raw_, text, literal, &pieces);
  split_with(normalized_, text, literal, &pieces);
  return pieces;
}

}  // namespace splitwave::serve
