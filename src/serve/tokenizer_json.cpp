// Field by field; every mistake is reported as FILE: field: value and what would work.
#include "serve/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "serve/utf8.h"

namespace splitwave::serve {
namespace {

using Json = nlohmann::json;

// GPT-2's byte alphabet: printable Latin-1 bytes stand for themselves, the others for U+0100 on.
const std::unordered_map<char32_t, unsigned char>& byte_alphabet() {
  static const auto* alphabet = [] {
    auto* map = new std::unordered_map<char32_t, unsigned char>;
    char32_t next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
      (*map)[printable ? static_cast<char32_t>(b) : next++] = static_cast<unsigned char>(b);
    }
    return map;
  }();
  return *alphabet;
}

// The bytes that a vocabulary entry stands for; nullopt when it is not in the alphabet (the names
// of special tokens are not).
std::optional<std::string> to_bytes(const std::string& entry) {
  std::string bytes;
  for (std::size_t i = 0; i < entry.size();) {
    const auto lead = static_cast<unsigned char>(entry[i]);
    char32_t point = lead;
    std::size_t length = 1;
    if (lead >= 0xE0) return std::nullopt;  // the alphabet ends at U+0143
    if (lead >= 0xC0) {
      point = (lead & 0x1FU) << 6 | (static_cast<unsigned char>(entry[i + 1]) & 0x3FU);
      length = 2;
    }
    const auto found = byte_alphabet().find(point);
    if (found == byte_alphabet().end()) return std::nullopt;
    bytes += static_cast<char>(found->second);
    i += length;
  }
  return bytes;
}

std::string shown(const Json& value) {
  std::string text = value.is_structured() ? std::string(value.type_name()) : value.dump();
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

class Reader {
 public:
  Reader(const Json& root, std::string name) : root_(root), name_(std::move(name)) {}

  Expected<TokenizerFile> run() {
    if (!root_.is_object()) return error("", "expected a JSON object");
    using Step = Status (Reader::*)();
    for (const Step step : {&Reader::check_unsupported, &Reader::read_vocabulary,
                            &Reader::read_added, &Reader::read_merges, &Reader::read_splits}) {
      if (Status s = (this->*step)(); !s.ok()) return s.error();
    }
    return std::move(file_);
  }

 private:
  [[nodiscard]] Error error(const std::string& field, const std::string& what) const {
    return bad_input(name_ + ": " + (field.empty() ? "" : field + ": ") + what);
  }

  // The member, or null.
  static const Json& member(const Json& object, const char* key) {
    static const Json null;
    if (!object.is_object()) return null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
  }

  // The field is absent, null, or one of allowed.
  [[nodiscard]] Status expect(const Json& object, const std::string& where, const char* key,
                              std::initializer_list<Json> allowed) const {
    const Json& value = member(object, key);
    if (value.is_null()) return {};
    std::string names;
    for (const Json& one : allowed) {
      if (value == one) return {};
      names += (names.empty() ? "" : " or ") + one.dump();
    }
    return error(where + key, shown(value) + " is not supported; only " + names);
  }

  Status check_unsupported() {
    for (const char* key : {"truncation", "padding"}) {
      if (!member(root_, key).is_null()) return error(key, "is not supported; only null");
    }
    const Json& normalizer = member(root_, "normalizer");
    const Json& steps = member(normalizer, "normalizers");
    if (!normalizer.is_null() && !(steps.is_array() && steps.empty())) {
      return error("normalizer", "only null or an empty sequence is supported");
    }
    for (const char* key : {"post_processor", "decoder"}) {
      const std::string where = std::string(key) + ".";
      if (Status s = expect(member(root_, key), where, "type", {"ByteLevel"}); !s.ok()) return s;
    }
    const Json& model = member(root_, "model");
    if (!model.is_object()) return error("model", "expected an object");
    if (member(model, "type") != "BPE") {
      return error("model.type", shown(member(model, "type")) + " is not supported; only \"BPE\"");
    }
    for (const char* key : {"dropout", "unk_token"}) {
      if (!member(model, key).is_null()) {
        return error(std::string("model.") + key, "is not supported; only null");
      }
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (Status s = expect(model, "model.", key, {""}); !s.ok()) return s;
    }
    for (const char* key : {"byte_fallback", "fuse_unk", "ignore_merges"}) {
      if (Status s = expect(model, "model.", key, {false}); !s.ok()) return s;
    }
    return {};
  }

  // Puts a token's bytes at its id.
  Status place(const std::string& field, const Json& id, std::string bytes) {
    if (!id.is_number_integer() || id < 0 || id >= k_token_ids_max) {
      return error(
          field, shown(id) + " is no token id (0 to " + std::to_string(k_token_ids_max - 1) + ")");
    }
    const auto index = id.get<std::size_t>();
    if (bytes.empty()) return error(field, "an empty token");
    if (file_.token_bytes.size() <= index) file_.token_bytes.resize(index + 1);
    std::string& place = file_.token_bytes[index];
    if (!place.empty() && place != bytes) {
      return error(field, "id " + id.dump() + " is taken by another token");
    }
    place = std::move(bytes);
    return {};
  }

  Status read_vocabulary() {
    const Json& vocabulary = member(member(root_, "model"), "vocab");
    if (!vocabulary.is_object()) return error("model.vocab", "expected an object of token to id");
    file_.byte_ids.fill(-1);
    for (const auto& [entry, id] : vocabulary.items()) {
      const auto bytes = to_bytes(entry);
      if (Status s = place("model.vocab['" + entry + "']", id, bytes.value_or(entry)); !s.ok()) {
        return s;
      }
      ids_.emplace(entry, id.get<TokenId>());
      if (bytes && bytes->size() == 1) {
        file_.byte_ids[static_cast<unsigned char>((*bytes)[0])] = id.get<TokenId>();
      }
    }
    for (std::size_t byte = 0; byte < file_.byte_ids.size(); ++byte) {
      if (file_.byte_ids[byte] < 0) {
        return error("model.vocab", "no token for byte " + std::to_string(byte) +
                                        "; a byte-level vocabulary has all 256");
      }
    }
    return {};
  }

  Status read_added() {
    const Json& added = member(root_, "added_tokens");
    if (added.is_null()) return {};
    if (!added.is_array()) return error("added_tokens", "expected an array");
    for (std::size_t i = 0; i < added.size(); ++i) {
      const std::string where = "added_tokens[" + std::to_string(i) + "].";
      const Json& token = added[i];
      const Json& content = member(token, "content");
      if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
        return error(where + "content", "expected a text");
      }
      for (const char* key : {"lstrip", "rstrip", "single_word"}) {
        if (Status s = expect(token, where, key, {false}); !s.ok()) return s;
      }
      for (const char* key : {"special", "normalized"}) {
        if (Status s = expect(token, where, key, {true, false}); !s.ok()) return s;
      }
      AddedToken out;
      out.content = content.get<std::string>();
      if (Status s = place(where + "id", member(token, "id"), out.content); !s.ok()) return s;
      out.id = member(token, "id").get<TokenId>();
      out.is_special = member(token, "special") == true;
      // The default of `tokenizers`: special tokens are matched before the others.
      const Json& normalized = member(token, "normalized");
      out.is_normalized = normalized.is_null() ? !out.is_special : normalized == true;
      file_.added.push_back(std::move(out));
    }
    return {};
  }

  Status read_merges() {
    const Json& merges = member(member(root_, "model"), "merges");
    if (!merges.is_array()) return error("model.merges", "expected an array");
    file_.merges.reserve(merges.size());
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const std::string field = "model.merges[" + std::to_string(i) + "]";
      std::pair<std::string, std::string> pair;
      if (merges[i].is_string()) {
        const auto& text = merges[i].get_ref<const std::string&>();
        const std::size_t space = text.find(' ');
        pair.first = text.substr(0, space);
        if (space != std::string::npos) pair.second = text.substr(space + 1);
      } else if (merges[i].is_array() && merges[i].size() == 2 && merges[i][0].is_string() &&
                 merges[i][1].is_string()) {
        pair = {merges[i][0].get<std::string>(), merges[i][1].get<std::string>()};
      } else {
        return error(field, "expected \"left right\" or [\"left\", \"right\"]");
      }
      Bpe::Merge merge;
      const auto look_up = [&](const std::string& token, TokenId* id) {
        const auto found = ids_.find(token);
        if (found == ids_.end()) return false;
        *id = found->second;
        return true;
      };
      for (const auto& [token, id] :
           {std::pair{pair.first, &merge.left}, std::pair{pair.second, &merge.right},
            std::pair{pair.first + pair.second, &merge.result}}) {
        if (!look_up(token, id)) return error(field, "'" + token + "' is not in model.vocab");
      }
      file_.merges.push_back(merge);
    }
    return {};
  }

  Status read_splits() {
    const Json& pre = member(root_, "pre_tokenizer");
    const bool is_sequence = member(pre, "type") == "Sequence";
    const Json& steps = is_sequence ? member(pre, "pretokenizers") : pre;
    const std::size_t count = is_sequence ? steps.size() : 1;
    bool byte_level = false;
    for (std::size_t i = 0; i < count; ++i) {
      const Json& step = is_sequence && steps.is_array() ? steps[i] : steps;
      const std::string where = !is_sequence
                                    ? "pre_tokenizer."
                                    : "pre_tokenizer.pretokenizers[" + std::to_string(i) + "].";
      if (byte_level) return error(where + "type", "nothing may follow ByteLevel");
      byte_level = member(step, "type") == "ByteLevel";
      if (byte_level) {
        for (const char* key : {"add_prefix_space", "use_regex"}) {  // both default to true
          if (member(step, key) != false) {
            return error(where + key, "is not supported; only false");
          }
        }
        continue;
      }
      if (member(step, "type") != "Split") {
        return error(where + "type", shown(member(step, "type")) +
                                         " is not supported; only \"Split\" and \"ByteLevel\"");
      }
      if (Status s = expect(step, where, "invert", {false}); !s.ok()) return s;
      if (member(step, "behavior") != "Isolated") {
        return error(where + "behavior",
                     shown(member(step, "behavior")) + " is not supported; only \"Isolated\"");
      }
      const Json& regex = member(member(step, "pattern"), "Regex");
      if (!regex.is_string()) return error(where + "pattern.Regex", "expected a regex");
      file_.split_patterns.push_back(regex.get<std::string>());
    }
    if (!byte_level) return error("pre_tokenizer", "the last step must be ByteLevel");
    return {};
  }

  const Json& root_;
  std::string name_;
  TokenizerFile file_;
  std::unordered_map<std::string, TokenId> ids_;  // of model.vocab, by its spelling
};

}  // namespace

Expected<TokenizerFile> read_tokenizer_json(std::string_view json, const std::string& name) {
  const Json root = Json::parse(json, nullptr, false);
  if (root.is_discarded()) return bad_input(name + ": not JSON");
  return Reader(root, name).run();
}

}  // namespace splitwave::serve
