// Modelled constants and the text record.
#include "plan/calibration.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "base/nearest_name.h"
#include "splitwave/layout.h"

namespace splitwave {
namespace {

constexpr std::string_view k_header = "splitwave-calibration 1";
constexpr std::size_t k_records_max = 256;
constexpr std::size_t k_line_length_max = 512;

// ---------------------------------------------------------------------------------------------
// Modelled: fitted by least squares of log time to measurements of one H200 (2026-11-30) with this
// project's design before its kernels were written: one CTA a row with 8 to 64 heads, 2 and 5
// chunks merged in a cluster or by a second kernel, wgmma and mma.sync. tests/plan/cost_test.cpp
// holds 39 of them and the residuals (4.7 % rms); launches of several waves of 5-CTA clusters are
// left out: those pack badly and the model does not know it. The time per head was held at 98 % of
// the tensor rate: free, the fit prefers a rate that the hardware does not have and a larger cost
// per item. Other devices: clock and tensor rate scale the row terms; latencies are taken as they
// are.

constexpr double k_anchor_clock_ghz = 1.98;
constexpr double k_launch_us = 0.6;       // an empty kernel as a graph node: 0.58..0.64 us
constexpr double k_item_us = 4.06;        // indices, first tile, softmax sums, store
constexpr double k_item_head_us = 0.126;  // Q in and output out, per head
constexpr double k_row_ns = 14.5;         // 29 clocks: dequantisation and phases
constexpr double k_combine_us = 1.4;      // a second kernel, launched while the first ends
constexpr double k_cluster_us = 0.04;
constexpr double k_cluster_head_us = 0.017;  // through distributed shared memory
// An item over a cluster of C CTAs: the row's time falls as 1 / C and the exchange costs a fixed 2
// us. From the sm_90a family on one H200 (docs/kernels/sm90a.md): 16 heads an item, 640 rows, 22.9
// us on one CTA, 20.2 on two, 16.4 on four; the model's one-CTA figures are as much too small.
constexpr double k_spread_us = 2.0;
constexpr double k_residency_share = 0.8;       // two CTAs on an SM: 29.4 us against 17.1
constexpr double k_gather_share = 0.70;         // random 576-byte rows: 3.4 of 4.8 TB/s
constexpr double k_cache_bytes_per_clock = 22;  // one SM from L2: 5.8 TB/s over 132 SMs
constexpr double k_wgmma_share = 0.98;          // of the datasheet's dense rate
constexpr double k_hopper_mma_sync_share = k_wgmma_share / 1.8;  // Hopper's full rate needs wgmma
// Where mma.sync is the tensor cores' own instruction; assumed, nobody has measured it here.
constexpr double k_mma_sync_share = 0.9;

double head_row_flops(KvFormat format) { return 2.0 * (qk_dims(format) + k_value_dims); }

CostConstants modelled_gpu(const DeviceSpec& device, const VariantTraits& traits) {
  CostConstants c;
  const double clock = device.sm_clock_ghz > 0 ? device.sm_clock_ghz : k_anchor_clock_ghz;
  c.launch_us = k_launch_us;
  c.item_us = k_item_us;
  c.item_head_us = k_item_head_us;
  c.row_ns = k_row_ns * k_anchor_clock_ghz / clock;
  const double share = traits.isa == "wgmma" ? k_wgmma_share
                       : device.arch == 90   ? k_hopper_mma_sync_share
                                             : k_mma_sync_share;
  if (device.bf16_tflops > 0 && device.sm_count > 0) {
    const double flops_per_ns = device.bf16_tflops * 1e3 / device.sm_count;
    c.row_head_ns = head_row_flops(traits.format) / (flops_per_ns * share);
  }
  if (traits.ctas_per_item > 1) {
    c.item_us += k_spread_us;
    c.row_ns /= traits.ctas_per_item;
    c.row_head_ns /= traits.ctas_per_item;
  }
  c.gather_gbps = device.dram_gbps * k_gather_share;
  c.cache_gbps = k_cache_bytes_per_clock * clock * device.sm_count;
  c.combine_us = k_combine_us;
  c.cluster_us = k_cluster_us;
  c.cluster_head_us = k_cluster_head_us;
  c.residency_share = k_residency_share;
  c.source = "modelled: scaled from one H200's measurements by clock, tensor rate and bandwidth";
  return c;
}

// Multiply-add rates of one core, GFLOP/s, when the spec brings none: vector width and issue of
// current server cores near 3 GHz. A measured record replaces them.
double core_gflops(const DeviceSpec& device, std::string_view isa) {
  if (device.bf16_tflops > 0 && device.sm_count > 0) {
    return device.bf16_tflops * 1e3 / device.sm_count;
  }
  if (isa.find("bf16") != std::string_view::npos) return 400;
  if (isa.find("avx512") != std::string_view::npos || isa.find("AVX3") == 0) return 180;
  if (isa.find("avx2") != std::string_view::npos || isa.find("AVX2") == 0) return 90;
  return 30;
}

CostConstants modelled_cpu(const DeviceSpec& device, const VariantTraits& traits) {
  CostConstants c;
  c.launch_us = 3;  // waking the worker pool and waiting for it
  c.item_us = 1;    // indices, Q conversion, output
  c.item_head_us = 0.05;
  c.row_ns = 60;  // dequantising 512 codes in vectors, once for all heads of the block
  c.row_head_ns = head_row_flops(traits.format) / (core_gflops(device, traits.isa) * 0.8);
  const double dram_gbps = device.dram_gbps > 0 ? device.dram_gbps : 20;
  c.gather_gbps = dram_gbps * 0.6;  // random rows of nine cache lines
  c.cache_gbps = dram_gbps * 4;
  c.combine_us = 1;
  c.source = "modelled: a vector core of this ISA near 3 GHz";
  return c;
}

// ---------------------------------------------------------------------------------------------
// Text.

struct DoubleKey {
  std::string_view name;
  double CostConstants::*field;
};

constexpr std::array k_double_keys = {
    DoubleKey{"launch_us", &CostConstants::launch_us},
    DoubleKey{"item_us", &CostConstants::item_us},
    DoubleKey{"item_head_us", &CostConstants::item_head_us},
    DoubleKey{"row_ns", &CostConstants::row_ns},
    DoubleKey{"row_head_ns", &CostConstants::row_head_ns},
    DoubleKey{"gather_gbps", &CostConstants::gather_gbps},
    DoubleKey{"cache_gbps", &CostConstants::cache_gbps},
    DoubleKey{"combine_us", &CostConstants::combine_us},
    DoubleKey{"cluster_us", &CostConstants::cluster_us},
    DoubleKey{"cluster_head_us", &CostConstants::cluster_head_us},
    DoubleKey{"residency_share", &CostConstants::residency_share},
};

constexpr std::array<std::string_view, k_double_keys.size() + 4> k_key_names = {
    "device",          "numerics_class",      "launch_us",
    "item_us",         "item_head_us",        "row_ns",
    "row_head_ns",     "gather_gbps",         "cache_gbps",
    "combine_us",      "cluster_us",          "cluster_head_us",
    "residency_share", "charges_whole_tiles", "source"};

Error refused(std::size_t line, const std::string& message) {
  return bad_input("calibration: line " + std::to_string(line) + ": " + message);
}

struct OpenRecord {
  CalibrationRecord record;
  std::array<bool, k_key_names.size()> seen{};
};

Status set_double(CostConstants& constants, const DoubleKey& key, std::string_view value,
                  std::size_t line) {
  double number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, code] = std::from_chars(value.data(), end, number);
  if (code != std::errc() || stop != end || !std::isfinite(number) || number < 0) {
    return refused(line, std::string(key.name) + "='" + std::string(value) +
                             "' is not a finite number at or above 0");
  }
  constants.*key.field = number;
  return {};
}

Status set_key(OpenRecord& open, std::string_view key, std::string_view value, std::size_t line) {
  std::size_t index = 0;
  while (index < k_key_names.size() && k_key_names[index] != key) ++index;
  if (index == k_key_names.size()) {
    return refused(line, "unknown key '" + std::string(key) + "'" + did_you_mean(key, k_key_names) +
                             "; keys are " + join_names(k_key_names));
  }
  if (open.seen[index]) return refused(line, "key '" + std::string(key) + "' is given twice");
  open.seen[index] = true;
  CostConstants& constants = open.record.constants;
  for (const DoubleKey& entry : k_double_keys) {
    if (entry.name == key) return set_double(constants, entry, value, line);
  }
  if (key == "device") open.record.device = std::string(value);
  if (key == "numerics_class") open.record.numerics_class = std::string(value);
  if (key == "source") constants.source = std::string(value);
  if (key == "charges_whole_tiles") {
    if (value != "0" && value != "1") {
      return refused(line, "charges_whole_tiles='" + std::string(value) + "' is neither 0 nor 1");
    }
    constants.charges_whole_tiles = value == "1";
  }
  return {};
}

Status close(OpenRecord& open, std::size_t line, std::vector<CalibrationRecord>& records) {
  for (std::size_t k = 0; k < k_key_names.size(); ++k) {
    if (!open.seen[k]) {
      return refused(line, "the record ends without key '" + std::string(k_key_names[k]) + "'");
    }
  }
  if (open.record.numerics_class.empty() || open.record.constants.source.empty()) {
    return refused(line, "numerics_class and source must not be empty");
  }
  // A record is somebody's measurement; what is only modelled needs no record.
  open.record.constants.provenance = Provenance::measured;
  records.push_back(open.record);
  open = OpenRecord{};
  return {};
}

std::string number_text(double number) {
  std::array<char, 32> buffer{};
  const auto [end, code] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return code == std::errc() ? std::string(buffer.data(), end) : "0";
}

}  // namespace

CostConstants modelled_constants(const DeviceSpec& device, const VariantTraits& traits) {
  return traits.backend == "cpu" ? modelled_cpu(device, traits) : modelled_gpu(device, traits);
}

CostConstants constants_for(const DeviceSpec& device, const VariantTraits& traits,
                            std::span<const CalibrationRecord> records) {
  for (const CalibrationRecord& record : records) {
    const bool is_device =
        record.device.empty() || record.device == device.name || record.device == device.product;
    if (is_device && record.numerics_class == traits.numerics_class) return record.constants;
  }
  return modelled_constants(device, traits);
}

std::string to_text(const CalibrationRecord& record) {
  std::string text(k_header);
  const auto add = [&text](std::string_view key, std::string_view value) {
    text += "\n" + std::string(key) + "=" + std::string(value);
  };
  add("device", record.device);
  add("numerics_class", record.numerics_class);
  for (const DoubleKey& key : k_double_keys)
    add(key.name, number_text(record.constants.*key.field));
  add("charges_whole_tiles", record.constants.charges_whole_tiles ? "1" : "0");
  add("source", record.constants.source);
  return text + "\n";
}

Expected<std::vector<CalibrationRecord>> parse_calibration(const std::string& text) {
  std::vector<CalibrationRecord> records;
  OpenRecord open;
  bool is_open = false;
  std::size_t line = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    ++line;
    const std::size_t end = rest.find('\n');
    const std::string_view content = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (content.empty()) continue;
    if (content.size() > k_line_length_max) {
      return refused(line, "has " + std::to_string(content.size()) + " characters; at most " +
                               std::to_string(k_line_length_max) + " are read");
    }
    if (content == k_header) {
      if (is_open) {
        const Status closed = close(open, line, records);
        if (!closed) return closed.error();
      }
      if (records.size() == k_records_max) {
        return refused(line, "more than " + std::to_string(k_records_max) + " records");
      }
      is_open = true;
      continue;
    }
    const std::size_t equals = content.find('=');
    if (!is_open || equals == std::string_view::npos) {
      return refused(line, "'" + std::string(content) + "' is not key=value inside a record; a " +
                               "record begins with '" + std::string(k_header) + "'");
    }
    const Status set = set_key(open, content.substr(0, equals), content.substr(equals + 1), line);
    if (!set) return set.error();
  }
  if (is_open) {
    const Status closed = close(open, line, records);
    if (!closed) return closed.error();
  }
  return records;
}

}  // namespace splitwave
