// SHA-256 (FIPS 180-4), with nothing but the standard library: records and sealed plans name the
// bytes that they were made from, and anyone can check the name with sha256sum. Called by
// src/experiment; not for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace splitwave {

class Sha256 {
 public:
  void update(std::string_view bytes);
  // 64 lower-case hex digits. The object is spent afterwards.
  [[nodiscard]] std::string hex_digest();

 private:
  void compress(const unsigned char* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> buffer_{};
  std::size_t buffered_ = 0;
  std::uint64_t total_bytes_ = 0;
};

[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace splitwave
