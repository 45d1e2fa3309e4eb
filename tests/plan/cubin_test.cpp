// The cubin reader: a cubin built by hand, cubins of the toolkit where there is one, damaged files.
#include "plan/cubin.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace splitwave {
namespace {

using Image = std::vector<std::uint8_t>;

// Widths above 8 are zeros.
void put(Image& image, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) {
    image.push_back(i < 8 ? static_cast<std::uint8_t>(value >> (8 * i)) : std::uint8_t{0});
  }
}

void set(Image& image, std::size_t at, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) {
    image[at + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(value >> (8 * i));
  }
}

struct HandSection {
  std::string name;
  std::uint32_t type;
  Image bytes;
  std::uint64_t nobits_size = 0;
  std::uint32_t link = 0;
};

// A little ELF writer: header, section bytes, section table.
Image elf_of(std::vector<HandSection> sections, std::uint32_t flags) {
  Image names(1, 0);
  std::vector<std::uint64_t> name_offsets;
  sections.insert(sections.begin(), HandSection{"", 0, {}, 0, 0});
  sections.push_back({".shstrtab", 3, {}, 0, 0});
  for (const HandSection& s : sections) {
    name_offsets.push_back(names.size());
    names.insert(names.end(), s.name.begin(), s.name.end());
    names.push_back(0);
  }
  sections.back().bytes = names;
  Image image = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x41, 8};
  image.resize(64);
  set(image, 0x12, 190, 2);
  set(image, 0x30, flags, 4);
  set(image, 0x3a, 64, 2);
  set(image, 0x3c, sections.size(), 2);
  set(image, 0x3e, sections.size() - 1, 2);
  std::vector<std::uint64_t> offsets;
  for (const HandSection& s : sections) {
    offsets.push_back(image.size());
    image.insert(image.end(), s.bytes.begin(), s.bytes.end());
  }
  set(image, 0x28, image.size(), 8);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const HandSection& s = sections[i];
    put(image, name_offsets[i], 4);
    put(image, s.type, 4);
    put(image, 0, 16);
    put(image, offsets[i], 8);
    put(image, s.nobits_size > 0 ? s.nobits_size : s.bytes.size(), 8);
    put(image, s.link, 4);
    put(image, 0, 20);
  }
  return image;
}

void put_sized(Image& info, int number, const std::vector<std::uint32_t>& words) {
  put(info, 4, 1);
  put(info, static_cast<std::uint64_t>(number), 1);
  put(info, words.size() * 4, 2);
  for (const std::uint32_t word : words) put(info, word, 4);
}

// Two entries (96 and 40 registers) and a device function that must not be listed.
Image hand_cubin(std::uint32_t arch = 120) {
  Image strings(1, 0);
  for (const char* name : {"alpha", "helper", "beta"}) {
    strings.insert(strings.end(), name, name + std::string(name).size() + 1);
  }
  Image symbols(24, 0);
  const std::array<std::pair<int, int>, 3> functions = {{{1, 0x10}, {7, 0}, {14, 0x10}}};
  for (const auto& [name, other] : functions) {
    put(symbols, static_cast<std::uint64_t>(name), 4);
    put(symbols, 0x12, 1);
    put(symbols, static_cast<std::uint64_t>(other), 1);
    put(symbols, 0, 18);
  }
  Image info;
  put_sized(info, 0x2f, {1, 96});
  put_sized(info, 0x2f, {2, 24});
  put_sized(info, 0x2f, {3, 40});
  put_sized(info, 0x11, {3, 0});
  Image alpha;
  put(alpha, 0x00084c02, 4);  // form 2, attribute 0x4c: 8 barriers
  put(alpha, 0x00005003, 4);
  put_sized(alpha, 0x05, {64, 4, 1});
  return elf_of({{".strtab", 3, strings, 0, 0},
                 {".symtab", 2, symbols, 0, 1},
                 {".nv.info", 0x70000000, info, 0, 2},
                 {".nv.info.alpha", 0x70000000, alpha, 0, 2},
                 {".nv.shared.alpha", 8, {}, 5120, 0}},
                0x6000004 | arch << 8);
}

std::string refusal(const Image& image) {
  const auto parsed = parse_cubin(image);
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.error().kind, ErrorKind::bad_input);
  return parsed.error().message;
}

TEST(CubinReader, ReadsRegistersThreadsBarriersAndSharedMemoryOfEntries) {
  const auto cubin = parse_cubin(hand_cubin());
  ASSERT_TRUE(cubin.ok()) << cubin.error().message;
  EXPECT_EQ(cubin->arch, 120);
  ASSERT_EQ(cubin->kernels.size(), 2U);
  EXPECT_EQ(cubin->kernels[0].name, "alpha");
  EXPECT_EQ(cubin->kernels[0].registers, 96);
  EXPECT_EQ(cubin->kernels[0].threads_max, 256);
  EXPECT_EQ(cubin->kernels[0].barriers, 8);
  EXPECT_EQ(cubin->kernels[0].static_shared_bytes, 4096) << "without the driver's 1,024";
  EXPECT_EQ(cubin->kernels[1].name, "beta");
  EXPECT_EQ(cubin->kernels[1].registers, 40);
  EXPECT_EQ(cubin->kernels[1].threads_max, 0);
  EXPECT_EQ(cubin->kernels[1].static_shared_bytes, 0);
  EXPECT_EQ(parse_cubin(hand_cubin(89))->kernels[0].static_shared_bytes, 5120)
      << "before sm_90 the section holds no reserve";
}

TEST(CubinReader, RefusesWhatIsNoCubinWithTheReason) {
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(refusal({}), "not a 64-bit little-endian ELF"));
  EXPECT_TRUE(has(refusal({'M', 'Z'}), "what works: the output of nvcc -cubin"));
  Image x86 = hand_cubin();
  set(x86, 0x12, 62, 2);
  EXPECT_TRUE(has(refusal(x86), "machine 62 is not a CUDA architecture"));
  Image far = hand_cubin();
  set(far, 0x28, ~std::uint64_t{0} - 8, 8);
  EXPECT_TRUE(has(refusal(far), "section table lies outside"));
  EXPECT_TRUE(has(refusal(elf_of({}, 0)), "no symbol table"));
  EXPECT_TRUE(has(refusal(elf_of({{".strtab", 3, Image(1, 0), 0, 0}, {".symtab", 2, {}, 0, 1}}, 0)),
                  "holds no kernel"));
  EXPECT_TRUE(has(refusal(elf_of({{".symtab", 2, {}, 0, 99}}, 0)), "names no string table"));
}

TEST(CubinReader, EveryTruncationAndEveryDamagedByteIsReadWithinBounds) {
  const Image whole = hand_cubin();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_cubin(std::span(whole).first(length)).ok()) << length;
  }
  std::mt19937 random(7);
  int refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    Image damaged = whole;
    for (int n = 0; n < 1 + trial % 4; ++n) {
      damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
    }
    // A copy of exactly this size, so that a sanitizer sees a read past its end.
    const Image exact(damaged.begin(), damaged.end());
    refused += parse_cubin(exact).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

// ---- against the toolkit -----------------------------------------------------------------------

std::string nvcc() {
  for (const char* path : {"/usr/local/cuda/bin/nvcc", "/usr/bin/nvcc"}) {
    if (std::filesystem::exists(path)) return path;
  }
  return {};
}

Image read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Image(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

TEST(CubinReader, AgreesWithPtxasOnCompiledKernels) {
  if (nvcc().empty()) GTEST_SKIP() << "no nvcc on this machine";
  const std::filesystem::path folder =
      std::filesystem::path(SPLITWAVE_BINARY_DIR) / "cubin_reader_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "kernels.cu")
      << "extern \"C\" __global__ void __launch_bounds__(192) alpha(float* p) {\n"
         "  __shared__ float s[192];\n"
         "  s[threadIdx.x] = p[threadIdx.x];\n  __syncthreads();\n"
         "  p[threadIdx.x] = s[191 - threadIdx.x];\n}\n"
         "extern \"C\" __global__ void beta(float* p) {\n  p[threadIdx.x] *= 2;\n}\n";
  for (const int arch : {80, 90, 120}) {
    const std::filesystem::path cubin_path = folder / ("k" + std::to_string(arch) + ".cubin");
    const std::filesystem::path log_path = folder / ("k" + std::to_string(arch) + ".log");
    const std::string command = nvcc() + " -arch=sm_" + std::to_string(arch) +
                                " -cubin -Xptxas -v -o '" + cubin_path.string() + "' '" +
                                (folder / "kernels.cu").string() + "' > '" + log_path.string() +
                                "' 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    const auto cubin = parse_cubin(read_file(cubin_path));
    ASSERT_TRUE(cubin.ok()) << cubin.error().message;
    EXPECT_EQ(cubin->arch, arch);
    ASSERT_EQ(cubin->kernels.size(), 2U);
    EXPECT_EQ(cubin->kernels[0].threads_max, 192);
    EXPECT_EQ(cubin->kernels[0].static_shared_bytes, 768);
    EXPECT_EQ(cubin->kernels[0].barriers, 1);
    EXPECT_EQ(cubin->kernels[1].static_shared_bytes, 0);
    EXPECT_EQ(cubin->kernels[1].barriers, 0);
    // ptxas prints "Compiling entry function 'NAME'" and then "Used N registers".
    std::ifstream log(log_path);
    const std::string text((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
    for (const CubinKernel& kernel : cubin->kernels) {
      const std::size_t entry = text.find("function '" + kernel.name + "'");
      ASSERT_NE(entry, std::string::npos) << text;
      const std::size_t used = text.find("Used ", entry);
      ASSERT_NE(used, std::string::npos) << text;
      EXPECT_EQ(kernel.registers, std::atoi(text.c_str() + used + 5)) << kernel.name;
    }
  }
}

}  // namespace
}  // namespace splitwave
