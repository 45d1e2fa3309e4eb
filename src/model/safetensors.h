// Safetensors files by mmap. Owns SafetensorsFile: the header checked against the file's bytes, the
// tensors as views. A malformed header is refused before any tensor is handed out: nothing is read
// out of bounds. Format: 8-byte little-endian header length, JSON header, data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "splitwave/status.h"

namespace splitwave::model {

enum class DType : std::uint8_t { bf16, f16, f32, f8_e4m3, f8_e8m0, i8, u8, i32, i64 };

[[nodiscard]] int size_bytes(DType dtype);
[[nodiscard]] const char* name_of(DType dtype);  // the name in a safetensors header

struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  const std::uint8_t* data =
      nullptr;  // inside the mapping; aligned to at least the header's padding
  std::int64_t bytes = 0;
};

// "BF16 [4, 128]"
[[nodiscard]] std::string describe(DType dtype, const std::vector<std::int64_t>& shape);

inline constexpr std::int64_t k_safetensors_header_bytes_max = 100 << 20;

// Checks a header against the number of data bytes behind it and returns the tensors with data =
// data_base + offset. source names the file in errors. Exposed for the fuzzer.
[[nodiscard]] Expected<std::vector<Tensor>> parse_safetensors_header(std::string_view header,
                                                                     const std::uint8_t* data_base,
                                                                     std::int64_t data_bytes,
                                                                     const std::string& source);

class SafetensorsFile {
 public:
  [[nodiscard]] static Expected<SafetensorsFile> open(const std::string& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  struct Mapping;
  SafetensorsFile();
  std::unique_ptr<Mapping> mapping_;
  std::vector<Tensor> tensors_;
};

// One tensor to write; data stays the caller's.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
};

// Writes a file atomically (temporary name, then rename).
[[nodiscard]] Status write_safetensors(const std::string& path,
                                       const std::vector<TensorToWrite>& tensors);

}  // namespace splitwave::model
