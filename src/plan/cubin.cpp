// ELF64, little endian, machine 190. Offsets below are the ELF specification's; the attribute
// numbers are those that nvcc writes (checked in tests/plan against cubins of the toolkit at hand).
#include "plan/cubin.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

namespace splitwave {
namespace {

constexpr std::uint16_t k_machine_cuda = 190;
constexpr std::uint8_t k_abi_since_13 = 0x41;  // CUDA 13 moved the architecture inside e_flags
constexpr std::size_t k_section_header_bytes = 64;
constexpr std::size_t k_symbol_bytes = 24;
constexpr std::uint32_t k_section_symbols = 2;
constexpr std::uint8_t k_symbol_is_entry = 0x10;  // of st_other: a __global__ function
// From sm_90 on .nv.shared holds the driver's reserve as well.
constexpr std::int64_t k_reserved_shared_bytes = 1024;

constexpr std::uint8_t k_attribute_max_threads = 0x05;
constexpr std::uint8_t k_attribute_required_threads = 0x10;
constexpr std::uint8_t k_attribute_registers = 0x2f;
constexpr std::uint8_t k_attribute_barriers = 0x4c;

Error malformed(const std::string& what) {
  return bad_input("cubin: " + what + "; what works: the output of nvcc -cubin");
}

// Every read is checked against the file; a read past its end gives nothing.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

  [[nodiscard]] std::optional<std::uint64_t> integer(std::uint64_t offset, int width) const {
    if (offset > bytes_.size() || bytes_.size() - offset < static_cast<std::size_t>(width)) {
      return std::nullopt;
    }
    std::uint64_t value = 0;
    for (int i = width - 1; i >= 0; --i) {
      value = value << 8 | bytes_[offset + static_cast<std::size_t>(i)];
    }
    return value;
  }

  [[nodiscard]] std::optional<Bytes> part(std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes_.size() || bytes_.size() - offset < length) return std::nullopt;
    return Bytes(bytes_.subspan(offset, length));
  }

  // A string that ends within the bytes.
  [[nodiscard]] std::optional<std::string> text(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return std::nullopt;
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(offset);
    const auto end = std::find(begin, bytes_.end(), std::uint8_t{0});
    if (end == bytes_.end()) return std::nullopt;
    return std::string(begin, end);
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

struct Section {
  std::string name;
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t link = 0;
};

struct Header {
  std::uint64_t section_offset = 0;
  std::size_t section_count = 0;
  std::size_t names_index = 0;
  int arch = 0;
};

Expected<Header> read_header(const Bytes& file) {
  constexpr std::array<std::uint8_t, 6> magic = {0x7f, 'E', 'L', 'F', 2, 1};
  for (std::size_t i = 0; i < magic.size(); ++i) {
    if (file.integer(i, 1) != magic[i]) return malformed("not a 64-bit little-endian ELF file");
  }
  const auto abi = file.integer(7, 1);
  const auto machine = file.integer(0x12, 2);
  const auto sections = file.integer(0x28, 8);
  const auto flags = file.integer(0x30, 4);
  const auto entry_bytes = file.integer(0x3a, 2);
  const auto count = file.integer(0x3c, 2);
  const auto names = file.integer(0x3e, 2);
  if (!abi || !machine || !sections || !flags || !entry_bytes || !count || !names) {
    return malformed("the ELF header is cut off");
  }
  if (*machine != k_machine_cuda) {
    return malformed("machine " + std::to_string(*machine) + " is not a CUDA architecture (190)");
  }
  if (*entry_bytes != k_section_header_bytes || *count == 0 || *names >= *count) {
    return malformed("the section table has a size that no cubin has");
  }
  const std::uint64_t arch = *abi == k_abi_since_13 ? *flags >> 8 & 0xff : *flags & 0xff;
  return Header{*sections, static_cast<std::size_t>(*count), static_cast<std::size_t>(*names),
                static_cast<int>(arch)};
}

Expected<std::vector<Section>> read_sections(const Bytes& file, const Header& header) {
  const auto table =
      file.part(header.section_offset, header.section_count * k_section_header_bytes);
  if (!table) return malformed("the section table lies outside the file");
  std::vector<Section> sections(header.section_count);
  std::vector<std::uint64_t> name_offsets(header.section_count);
  for (std::size_t s = 0; s < header.section_count; ++s) {
    const std::uint64_t at = s * k_section_header_bytes;
    name_offsets[s] = *table->integer(at, 4);
    sections[s].type = static_cast<std::uint32_t>(*table->integer(at + 4, 4));
    sections[s].offset = *table->integer(at + 24, 8);
    sections[s].size = *table->integer(at + 32, 8);
    sections[s].link = static_cast<std::uint32_t>(*table->integer(at + 40, 4));
  }
  const Section& names_section = sections[header.names_index];
  const auto names = file.part(names_section.offset, names_section.size);
  if (!names) return malformed("the section names lie outside the file");
  for (std::size_t s = 0; s < header.section_count; ++s) {
    const auto name = names->text(name_offsets[s]);
    if (!name) return malformed("section " + std::to_string(s) + " has no name");
    sections[s].name = *name;
  }
  return sections;
}

struct Symbol {
  std::string name;
  bool is_entry = false;
};

Expected<std::vector<Symbol>> read_symbols(const Bytes& file,
                                           const std::vector<Section>& sections) {
  const auto table = std::find_if(sections.begin(), sections.end(),
                                  [](const Section& s) { return s.type == k_section_symbols; });
  if (table == sections.end()) return malformed("no symbol table");
  if (table->link >= sections.size()) return malformed("the symbol table names no string table");
  const auto bytes = file.part(table->offset, table->size);
  const Section& strings_section = sections[table->link];
  const auto strings = file.part(strings_section.offset, strings_section.size);
  if (!bytes || !strings) return malformed("the symbols lie outside the file");
  std::vector<Symbol> symbols(bytes->size() / k_symbol_bytes);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::uint64_t at = i * k_symbol_bytes;
    const auto name = strings->text(*bytes->integer(at, 4));
    if (!name) return malformed("symbol " + std::to_string(i) + " has no name");
    symbols[i].name = *name;
    symbols[i].is_entry = (*bytes->integer(at + 5, 1) & k_symbol_is_entry) != 0;
  }
  return symbols;
}

struct Attribute {
  std::uint8_t number = 0;
  std::uint64_t short_value = 0;  // of the one- and two-byte forms
  std::optional<Bytes> data;      // of the sized form
};

// .nv.info is a list of (form, number, value): form 1 has no value, 2 a byte and a pad byte, 3 two
// bytes, 4 a two-byte size and as many bytes.
Expected<std::vector<Attribute>> read_attributes(const Bytes& section, const std::string& name) {
  std::vector<Attribute> attributes;
  std::uint64_t at = 0;
  while (at < section.size()) {
    const auto form = section.integer(at, 1);
    const auto number = section.integer(at + 1, 1);
    const auto value = section.integer(at + 2, 2);
    if (!form || !number || !value) return malformed("section " + name + " is cut off");
    Attribute attribute;
    attribute.number = static_cast<std::uint8_t>(*number);
    attribute.short_value = *form == 2 ? *value & 0xff : *value;
    at += 4;
    if (*form == 4) {
      attribute.data = section.part(at, *value);
      if (!attribute.data) return malformed("section " + name + " is cut off");
      at += *value;
    } else if (*form < 1 || *form > 4) {
      return malformed("section " + name + " has an attribute of unknown form " +
                       std::to_string(*form));
    }
    attributes.push_back(attribute);
  }
  return attributes;
}

Expected<std::vector<Attribute>> section_attributes(const Bytes& file, const Section& section) {
  const auto bytes = file.part(section.offset, section.size);
  if (!bytes) return malformed("section " + section.name + " lies outside the file");
  return read_attributes(*bytes, section.name);
}

constexpr std::uint64_t k_count_max = 1 << 20;  // no register or thread count comes near

Status read_registers(const Bytes& file, const Section& section, const std::vector<Symbol>& symbols,
                      std::map<std::string, CubinKernel>& kernels) {
  const auto attributes = section_attributes(file, section);
  if (!attributes.ok()) return attributes.error();
  for (const Attribute& a : *attributes) {
    if (a.number != k_attribute_registers || !a.data) continue;
    const auto index = a.data->integer(0, 4);
    const auto count = a.data->integer(4, 4);
    if (!index || !count || *index >= symbols.size() || *count > k_count_max) {
      return malformed("a register count in .nv.info names no function");
    }
    const Symbol& symbol = symbols[*index];
    if (!symbol.is_entry) continue;
    if (symbol.name.empty()) return malformed("a register count in .nv.info names no function");
    kernels[symbol.name].name = symbol.name;
    kernels[symbol.name].registers = static_cast<int>(*count);
  }
  return {};
}

Status read_kernel_info(const Bytes& file, const Section& section, CubinKernel& kernel) {
  const auto attributes = section_attributes(file, section);
  if (!attributes.ok()) return attributes.error();
  for (const Attribute& a : *attributes) {
    if (a.number == k_attribute_barriers && !a.data) {
      kernel.barriers = static_cast<int>(a.short_value);
    }
    if (!a.data) continue;
    if (a.number != k_attribute_max_threads && a.number != k_attribute_required_threads) continue;
    std::uint64_t threads = 1;
    for (std::uint64_t d = 0; d < 3; ++d) {
      const auto extent = a.data->integer(d * 4, 4);
      if (!extent || *extent == 0 || *extent > k_count_max || threads > k_count_max) {
        return malformed("section " + section.name + " has a thread count that no launch has");
      }
      threads *= *extent;
    }
    if (threads > k_count_max) {
      return malformed("section " + section.name + " has a thread count that no launch has");
    }
    kernel.threads_max = static_cast<int>(threads);
  }
  return {};
}

constexpr std::string_view k_info = ".nv.info";
constexpr std::string_view k_shared = ".nv.shared.";

Status read_kernel_sections(const Bytes& file, const std::vector<Section>& sections, int arch,
                            std::map<std::string, CubinKernel>& kernels) {
  for (const Section& section : sections) {
    const std::string_view name = section.name;
    if (name.starts_with(k_info) && name.size() > k_info.size() + 1) {
      const auto kernel = kernels.find(section.name.substr(k_info.size() + 1));
      if (kernel == kernels.end()) continue;
      const Status read = read_kernel_info(file, section, kernel->second);
      if (!read) return read.error();
    } else if (name.starts_with(k_shared)) {
      const auto kernel = kernels.find(section.name.substr(k_shared.size()));
      if (kernel == kernels.end()) continue;
      if (section.size > k_count_max * 16) {
        return malformed("section " + section.name + " is larger than any shared memory");
      }
      const auto bytes = static_cast<std::int64_t>(section.size);
      const std::int64_t reserve = arch >= 90 ? k_reserved_shared_bytes : 0;
      kernel->second.static_shared_bytes = std::max<std::int64_t>(0, bytes - reserve);
    }
  }
  return {};
}

}  // namespace

Expected<Cubin> parse_cubin(std::span<const std::uint8_t> bytes) {
  const Bytes file(bytes);
  const auto header = read_header(file);
  if (!header.ok()) return header.error();
  const auto sections = read_sections(file, *header);
  if (!sections.ok()) return sections.error();
  const auto symbols = read_symbols(file, *sections);
  if (!symbols.ok()) return symbols.error();

  std::map<std::string, CubinKernel> kernels;
  for (const Section& section : *sections) {
    if (section.name != k_info) continue;
    const Status read = read_registers(file, section, *symbols, kernels);
    if (!read) return read.error();
  }
  const Status read = read_kernel_sections(file, *sections, header->arch, kernels);
  if (!read) return read.error();
  if (kernels.empty()) return malformed("the file holds no kernel");
  Cubin cubin;
  cubin.arch = header->arch;
  for (auto& [name, kernel] : kernels) cubin.kernels.push_back(std::move(kernel));
  return cubin;
}

}  // namespace splitwave
