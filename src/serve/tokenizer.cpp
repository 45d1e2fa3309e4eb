// Puts the parts together: added tokens, then the regexes, then the merges, with a cache of short
// pieces, which are most of any text.
#include "serve/tokenizer.h"

#include <array>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/files.h"
#include "serve/added_tokens.h"
#include "serve/bpe.h"
#include "serve/pre_tokenizer.h"
#include "serve/tokenizer_json.h"
#include "serve/utf8.h"

namespace splitwave::serve {
namespace {

// Ids of pieces seen before. Shards keep threads apart; a full shard takes nothing more.
class PieceCache {
 public:
  static constexpr std::size_t k_piece_bytes_max = 64;

  bool find(std::string_view piece, std::vector<TokenId>* ids) {
    Shard& shard = shard_of(piece);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.ids.find(piece);
    if (found == shard.ids.end()) return false;
    ids->insert(ids->end(), found->second.begin(), found->second.end());
    return true;
  }

  void add(std::string_view piece, std::span<const TokenId> ids) {
    Shard& shard = shard_of(piece);
    const std::lock_guard lock(shard.mutex);
    if (shard.ids.size() >= k_pieces_per_shard_max) return;
    shard.ids.try_emplace(std::string(piece), ids.begin(), ids.end());
  }

 private:
  static constexpr std::size_t k_shards = 16;
  static constexpr std::size_t k_pieces_per_shard_max = 4096;

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, std::vector<TokenId>, Hash, std::equal_to<>> ids;
  };

  Shard& shard_of(std::string_view piece) { return shards_[Hash{}(piece) % k_shards]; }

  std::array<Shard, k_shards> shards_;
};

}  // namespace

struct Tokenizer::Impl {
  Impl(TokenizerFile read, PreTokenizer splits)
      : file(std::move(read)),
        added(file.added),
        pre_tokenizer(std::move(splits)),
        bpe(file.byte_ids, file.merges),
        is_added(file.token_bytes.size()),
        is_special(file.token_bytes.size()) {
    for (const AddedToken& token : file.added) {
      by_content.emplace(token.content, token.id);
      is_added[static_cast<std::size_t>(token.id)] = true;
      is_special[static_cast<std::size_t>(token.id)] = token.is_special;
    }
    file.merges = {};
  }

  [[nodiscard]] bool has(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < file.token_bytes.size();
  }

  // Appends the ids of text between added tokens.
  Status encode_plain(std::string_view text, std::vector<TokenId>* ids) {
    const auto pieces = pre_tokenizer.split(text);
    if (!pieces) return pieces.error();
    for (const ByteSpan& span : *pieces) {
      const std::string_view piece = text.substr(span.begin, span.end - span.begin);
      const bool is_short = piece.size() <= PieceCache::k_piece_bytes_max;
      if (is_short && cache.find(piece, ids)) continue;
      const std::size_t before = ids->size();
      bpe.encode(piece, ids);
      if (is_short) cache.add(piece, std::span(*ids).subspan(before));
    }
    return {};
  }

  TokenizerFile file;
  AddedTokens added;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  PieceCache cache;
  std::unordered_map<std::string, TokenId> by_content;
  std::vector<bool> is_added;
  std::vector<bool> is_special;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Expected<Tokenizer> Tokenizer::open(const std::string& directory) {
  const std::string path = directory + "/tokenizer.json";
  const auto text = read_file(path, k_tokenizer_file_bytes_max);
  if (!text) return text.error();
  return parse(*text, path);
}

Expected<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name) {
  auto file = read_tokenizer_json(json, name);
  if (!file) return file.error();
  auto splits = PreTokenizer::compile(file->split_patterns);
  if (!splits) return bad_input(name + ": pre_tokenizer: " + splits.error().message);
  return Tokenizer(std::make_unique<Impl>(std::move(*file), std::move(*splits)));
}

Expected<std::vector<TokenId>> Tokenizer::encode(std::string_view text,
                                                 std::span<const ByteSpan> literal) const {
  if (const std::size_t valid = utf8_valid_prefix(text); valid < text.size()) {
    return bad_input("text: not UTF-8 at byte " + std::to_string(valid));
  }
  std::vector<TokenId> ids;
  for (const TextPiece& piece : impl_->added.split(text, literal)) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
      continue;
    }
    const auto part = text.substr(piece.span.begin, piece.span.end - piece.span.begin);
    if (Status s = impl_->encode_plain(part, &ids); !s.ok()) return s.error();
  }
  return ids;
}

std::int32_t Tokenizer::vocab_size() const {
  return static_cast<std::int32_t>(impl_->file.token_bytes.size());
}

std::string_view Tokenizer::bytes(TokenId id) const {
  return impl_->has(id) ? std::string_view(impl_->file.token_bytes[static_cast<std::size_t>(id)])
                        : std::string_view();
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string out;
  for (const TokenId id : ids) out += bytes(id);
  return out;
}

std::optional<TokenId> Tokenizer::added_token(std::string_view content) const {
  const auto found = impl_->by_content.find(std::string(content));
  if (found == impl_->by_content.end()) return std::nullopt;
  return found->second;
}

bool Tokenizer::is_added(TokenId id) const {
  return impl_->has(id) && impl_->is_added[static_cast<std::size_t>(id)];
}

bool Tokenizer::is_special(TokenId id) const {
  return impl_->has(id) && impl_->is_special[static_cast<std::size_t>(id)];
}

}  // namespace splitwave::serve
