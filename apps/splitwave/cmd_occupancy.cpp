// splitwave occupancy: CTAs and warps per SM of a kernel described by flags or read from a cubin,
// and what binds.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/text_table.h"
#include "command.h"
#include "device_argument.h"
#include "plan/cubin.h"
#include "plan/occupancy.h"

namespace splitwave::app {
namespace {

constexpr std::uintmax_t k_cubin_bytes_max = 256 << 20;  // far above any kernel of this kind

struct Flags {
  std::string device = "auto";
  int threads = 0;
  int registers = 0;
  std::int64_t shared_bytes = 0;
  int barriers = 0;
  std::string cubin;
  std::string kernel;
};

struct Described {
  std::string name;  // of the kernel in the cubin; empty without one
  KernelResources resources;
};

Expected<Cubin> read_cubin(const std::string& path) {
  std::error_code code;
  const std::uintmax_t size = std::filesystem::file_size(path, code);
  if (code) return bad_input("cubin='" + path + "' cannot be read: " + code.message());
  if (size > k_cubin_bytes_max) {
    return bad_input("cubin='" + path + "' has " + std::to_string(size) + " bytes; at most " +
                     std::to_string(k_cubin_bytes_max) + " are read");
  }
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint8_t> bytes(size);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (!file) return bad_input("cubin='" + path + "' cannot be read");
  return parse_cubin(bytes);
}

Expected<CubinKernel> pick_kernel(const Cubin& cubin, const std::string& wanted) {
  std::string names;
  for (const CubinKernel& kernel : cubin.kernels) {
    if (kernel.name == wanted || (wanted.empty() && cubin.kernels.size() == 1)) return kernel;
    names += (names.empty() ? "" : ", ") + kernel.name;
  }
  if (wanted.empty()) {
    return bad_input("the cubin holds " + std::to_string(cubin.kernels.size()) +
                     " kernels; name one with --kernel: " + names);
  }
  return bad_input("kernel='" + wanted + "' is not in the cubin; what works: " + names);
}

// A cubin runs on its own capability and on later minor ones of the same major.
Status check_arch(const Cubin& cubin, const DeviceSpec& device) {
  if (cubin.arch / 10 == device.arch / 10 && cubin.arch <= device.arch) return {};
  return bad_input("the cubin is built for sm_" + std::to_string(cubin.arch) +
                   " and cannot run on " + device.name + " (sm_" + std::to_string(device.arch) +
                   "); name a device of its architecture");
}

Expected<Described> describe(const Flags& flags, const DeviceSpec& device) {
  Described described{"", {flags.threads, flags.registers, flags.shared_bytes, flags.barriers}};
  if (flags.cubin.empty()) return described;
  const Expected<Cubin> cubin = read_cubin(flags.cubin);
  if (!cubin.ok()) return cubin.error();
  if (const Status fits = check_arch(*cubin, device); !fits) return fits.error();
  const Expected<CubinKernel> kernel = pick_kernel(*cubin, flags.kernel);
  if (!kernel.ok()) return kernel.error();
  described.name = kernel->name;
  described.resources.registers = kernel->registers;
  described.resources.barriers = kernel->barriers;
  described.resources.shared_bytes += kernel->static_shared_bytes;
  if (flags.threads == 0) {
    if (kernel->threads_max == 0) {
      return bad_input("kernel " + kernel->name +
                       " declares no launch bounds; give the CTA's size with --threads");
    }
    described.resources.threads = kernel->threads_max;
  }
  return described;
}

void print_json(const DeviceSpec& device, const Described& kernel, const Occupancy& o) {
  JsonWriter json;
  json.begin_object().field("device", device.name);
  if (!kernel.name.empty()) json.field("kernel", kernel.name);
  json.field("threads", kernel.resources.threads).field("registers", kernel.resources.registers);
  json.field("shared_bytes", kernel.resources.shared_bytes);
  json.field("barriers", kernel.resources.barriers);
  json.field("ctas_per_sm", o.ctas_per_sm).field("warps_per_sm", o.warps_per_sm);
  json.field("occupancy", o.occupancy).key("limiters").begin_array();
  for (const std::string& limiter : o.limiters) json.value(limiter);
  json.end_array().key("limits").begin_array();
  for (const OccupancyLimit& limit : o.limits) {
    json.begin_object().field("resource", limit.resource).field("ctas", limit.ctas).end_object();
  }
  json.end_array().end_object();
  std::fputs(json.str().c_str(), stdout);
}

void print_text(const DeviceSpec& device, const Described& kernel, const Occupancy& o) {
  if (!kernel.name.empty()) std::printf("kernel %s\n", kernel.name.c_str());
  std::printf("%s (%s): %d threads, %d registers, %lld shared bytes\n", device.name.c_str(),
              device.product.c_str(), kernel.resources.threads, kernel.resources.registers,
              static_cast<long long>(kernel.resources.shared_bytes));
  std::printf("%d CTA%s and %d of %d warps per SM, %.1f %%\n", o.ctas_per_sm,
              o.ctas_per_sm == 1 ? "" : "s", o.warps_per_sm, device.max_threads_per_sm / 32,
              o.occupancy * 100);
  TextTable table({"resource", "CTAs", "binds"});
  for (const OccupancyLimit& limit : o.limits) {
    table.add_row(
        {limit.resource, std::to_string(limit.ctas), limit.ctas == o.ctas_per_sm ? "yes" : ""});
  }
  std::fputs(table.str().c_str(), stdout);
}

void run(CommandContext& context, const CLI::App& command, const Flags& flags) {
  const auto chosen = device_argument(flags.device);
  if (!chosen.ok()) return fail(context, command, chosen.error());
  if (chosen->device.arch == 0 && flags.device == "auto") {
    return fail(
        context, command,
        environment_error("no CUDA device is visible; name one of the table with --device: " +
                          device_names()));
  }
  const auto kernel = describe(flags, chosen->device);
  if (!kernel.ok()) return fail(context, command, kernel.error());
  const auto occupancy = occupancy_of(chosen->device, kernel->resources);
  if (!occupancy.ok()) return fail(context, command, occupancy.error());
  if (context.json) {
    print_json(chosen->device, *kernel, *occupancy);
  } else {
    print_text(chosen->device, *kernel, *occupancy);
  }
}

}  // namespace

void add_occupancy(CLI::App& root, CommandContext& context) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_command(root, context, "occupancy", "CTAs and warps per SM of a kernel, and what binds",
                  "splitwave occupancy --device rtx-pro-6000 --threads 128 --registers 168 "
                  "--shared-bytes 81920");
  command->add_option("--device", flags->device, "one of " + device_names())->capture_default_str();
  command->add_option("--threads", flags->threads, "threads of a CTA (with --cubin: its bounds)");
  CLI::Option* registers =
      command->add_option("--registers", flags->registers, "registers of a thread");
  command->add_option("--shared-bytes", flags->shared_bytes,
                      "shared memory of a CTA (with --cubin: the dynamic part)");
  CLI::Option* barriers = command->add_option("--barriers", flags->barriers, "named barriers");
  command
      ->add_option("--cubin", flags->cubin, "read registers, shared memory and bounds from a cubin")
      ->excludes(registers)
      ->excludes(barriers);
  command->add_option("--kernel", flags->kernel, "which kernel of the cubin");
  command->callback([&context, command, flags] { run(context, *command, *flags); });
}

}  // namespace splitwave::app
