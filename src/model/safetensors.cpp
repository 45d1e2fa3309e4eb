// Maps, checks and writes safetensors files.
#include "model/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

namespace splitwave::model {
namespace {

using Json = nlohmann::ordered_json;

struct DTypeInfo {
  DType dtype;
  const char* name;
  int bytes;
};

constexpr DTypeInfo k_dtypes[] = {
    {DType::bf16, "BF16", 2},       {DType::f16, "F16", 2},         {DType::f32, "F32", 4},
    {DType::f8_e4m3, "F8_E4M3", 1}, {DType::f8_e8m0, "F8_E8M0", 1}, {DType::i8, "I8", 1},
    {DType::u8, "U8", 1},           {DType::i32, "I32", 4},         {DType::i64, "I64", 8},
};

constexpr int k_rank_max = 8;
constexpr std::int64_t k_elements_max = std::int64_t{1} << 48;

const DTypeInfo& info(DType dtype) {
  return *std::find_if(std::begin(k_dtypes), std::end(k_dtypes),
                       [&](const DTypeInfo& i) { return i.dtype == dtype; });
}

Expected<Tensor> parse_entry(const std::string& name, const Json& entry,
                             const std::uint8_t* data_base, std::int64_t data_bytes,
                             const std::string& source) {
  const auto refuse = [&](const std::string& why) -> Error {
    return bad_input(source + ": tensor " + name + ": " + why);
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return refuse("need dtype, shape and data_offsets");
  }
  Tensor tensor;
  tensor.name = name;
  const auto known = std::find_if(std::begin(k_dtypes), std::end(k_dtypes),
                                  [&](const DTypeInfo& i) { return entry["dtype"] == i.name; });
  if (known == std::end(k_dtypes)) return refuse("unknown dtype " + entry["dtype"].dump());
  tensor.dtype = known->dtype;
  const Json& shape = entry["shape"];
  if (!shape.is_array() || shape.size() > k_rank_max) {
    return refuse("shape must be an array of at most " + std::to_string(k_rank_max) + " sizes");
  }
  std::int64_t elements = 1;
  for (const Json& size : shape) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > std::uint64_t{k_elements_max}) {
      return refuse("shape has " + size.dump() + ", need sizes in 0..2^48");
    }
    const auto n = size.get<std::int64_t>();
    if (n != 0 && elements > k_elements_max / n) return refuse("shape has more than 2^48 elements");
    elements *= n;
    tensor.shape.push_back(n);
  }
  tensor.bytes = elements * known->bytes;
  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return refuse("data_offsets must be two non-negative integers");
  }
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > static_cast<std::uint64_t>(data_bytes)) {
    return refuse("data_offsets " + offsets.dump() + " outside the file's " +
                  std::to_string(data_bytes) + " data bytes");
  }
  if (static_cast<std::int64_t>(end - begin) != tensor.bytes) {
    return refuse(describe(tensor.dtype, tensor.shape) + " needs " + std::to_string(tensor.bytes) +
                  " bytes, data_offsets give " + std::to_string(end - begin));
  }
  tensor.data = data_base + begin;
  return tensor;
}

std::string errno_text() { return std::strerror(errno); }

}  // namespace

int size_bytes(DType dtype) { return info(dtype).bytes; }
const char* name_of(DType dtype) { return info(dtype).name; }

std::string describe(DType dtype, const std::vector<std::int64_t>& shape) {
  std::string text = std::string(name_of(dtype)) + " [";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

Expected<std::vector<Tensor>> parse_safetensors_header(std::string_view header,
                                                       const std::uint8_t* data_base,
                                                       std::int64_t data_bytes,
                                                       const std::string& source) {
  const Json json = Json::parse(header, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return bad_input(source + ": the header is not a JSON object");
  }
  std::vector<Tensor> tensors;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    auto tensor = parse_entry(name, entry, data_base, data_bytes, source);
    if (!tensor) return tensor.error();
    tensors.push_back(std::move(*tensor));
  }
  std::vector<const Tensor*> by_offset;
  for (const Tensor& tensor : tensors) by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(),
            [](const Tensor* a, const Tensor* b) { return a->data < b->data; });
  for (std::size_t i = 1; i < by_offset.size(); ++i) {
    if (by_offset[i - 1]->data + by_offset[i - 1]->bytes > by_offset[i]->data) {
      return bad_input(source + ": tensors " + by_offset[i - 1]->name + " and " +
                       by_offset[i]->name + " overlap");
    }
  }
  return tensors;
}

struct SafetensorsFile::Mapping {
  void* base = MAP_FAILED;
  std::size_t bytes = 0;
  ~Mapping() {
    if (base != MAP_FAILED) munmap(base, bytes);
  }
};

SafetensorsFile::SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

Expected<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return environment_error(path + ": cannot open: " + errno_text());
  struct stat status {};
  const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  auto mapping = std::make_unique<Mapping>();
  if (is_file && status.st_size >= 8) {
    mapping->bytes = static_cast<std::size_t>(status.st_size);
    mapping->base = mmap(nullptr, mapping->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  }
  close(fd);
  if (!is_file || status.st_size < 8) {
    return bad_input(path + ": not a safetensors file: shorter than its 8-byte header length");
  }
  if (mapping->base == MAP_FAILED) return environment_error(path + ": cannot map: " + errno_text());
  const auto* bytes = static_cast<const std::uint8_t*>(mapping->base);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes, sizeof header_bytes);
  const std::uint64_t after_length = mapping->bytes - 8;
  if (header_bytes > after_length ||
      header_bytes > static_cast<std::uint64_t>(k_safetensors_header_bytes_max)) {
    return bad_input(path + ": header length " + std::to_string(header_bytes) +
                     " does not fit the file (" + std::to_string(mapping->bytes) +
                     " bytes) or the limit of 100 MiB");
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes + 8), header_bytes);
  auto tensors =
      parse_safetensors_header(header, bytes + 8 + header_bytes,
                               static_cast<std::int64_t>(after_length - header_bytes), path);
  if (!tensors) return tensors.error();
  SafetensorsFile file;
  file.mapping_ = std::move(mapping);
  file.tensors_ = std::move(*tensors);
  return file;
}

Status write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors) {
  Json header = Json::object();
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  for (const TensorToWrite& tensor : tensors) {
    std::int64_t bytes = size_bytes(tensor.dtype);
    for (const std::int64_t n : tensor.shape) bytes *= n;
    header[tensor.name] = {{"dtype", name_of(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    sizes.push_back(bytes);
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the format aligns the data to 8 bytes
  const std::string temporary = path + ".partial";
  std::FILE* out = std::fopen(temporary.c_str(), "wb");
  if (out == nullptr) return environment_error(temporary + ": cannot create: " + errno_text());
  const std::uint64_t length = text.size();
  bool written = std::fwrite(&length, sizeof length, 1, out) == 1 &&
                 std::fwrite(text.data(), text.size(), 1, out) == 1;
  for (std::size_t i = 0; written && i < tensors.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(sizes[i]);
    written = std::fwrite(tensors[i].data, 1, bytes, out) == bytes;
  }
  written = std::fclose(out) == 0 && written;
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string why = errno_text();
    std::remove(temporary.c_str());
    return environment_error(path + ": cannot write: " + why);
  }
  return {};
}

}  // namespace splitwave::model
