// splitwave doctor: what this machine offers, which variants it can run, what is missing and how to
// get it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/text_table.h"
#include "command.h"
#include "measure/fingerprint.h"
#include "splitwave/decoder.h"

namespace splitwave::app {
namespace {

struct Missing {
  std::string what;
  std::string remedy;
};

struct Diagnosis {
  std::string backend;
  std::string reason;
  std::vector<DeviceSpec> devices;
  std::vector<VariantListing> variants;
  std::vector<Missing> missing;
  measure::Fingerprint fingerprint;
};

const char* name_of(Backend backend) { return backend == Backend::cuda ? "cuda" : "cpu"; }

bool has_isa(const std::vector<VariantListing>& variants, const std::string& isa) {
  for (const VariantListing& v : variants) {
    if (v.traits.isa == isa && v.runnable) return true;
  }
  return false;
}

// What would make decode faster here and is absent, each with its remedy.
std::vector<Missing> find_missing(const Diagnosis& diagnosis) {
  std::vector<Missing> missing;
  bool has_cuda_variant = false;
  for (const VariantListing& v : diagnosis.variants) has_cuda_variant |= v.traits.backend == "cuda";
  if (!has_cuda_variant) {
    missing.push_back({"the CUDA backend is not in this build",
                       "install the CUDA toolkit (nvcc), configure with -DSPLITWAVE_CUDA=ON and "
                       "build again"});
  }
  if (!diagnosis.fingerprint.gpu_absent.empty()) {
    missing.push_back({"no GPU: " + diagnosis.fingerprint.gpu_absent,
                       "decode runs on the CPU; `splitwave plan --device NAME` plans for a GPU of "
                       "the device table"});
  }
  if (has_isa(diagnosis.variants, "scalar") && !has_isa(diagnosis.variants, "avx2") &&
      !has_isa(diagnosis.variants, "neon")) {
    missing.push_back({"no vector ISA that the CPU kernels use",
                       "run on a processor with AVX2, AVX-512 or NEON; the scalar kernels are "
                       "correct and slow"});
  }
  return missing;
}

Expected<Diagnosis> diagnose() {
  Diagnosis diagnosis;
  diagnosis.fingerprint = measure::collect_fingerprint();
  diagnosis.devices = list_devices();
  diagnosis.variants = list_variants();
  const Expected<Decoder> decoder = Decoder::create(ProblemSpec{});
  if (!decoder) return decoder.error();
  diagnosis.backend = name_of(decoder->backend());
  diagnosis.reason = decoder->backend_reason();
  diagnosis.missing = find_missing(diagnosis);
  return diagnosis;
}

void print_json(const Diagnosis& diagnosis) {
  JsonWriter json;
  json.begin_object();
  json.field("backend", diagnosis.backend).field("backend_reason", diagnosis.reason);
  json.key("devices").begin_array();
  for (const DeviceSpec& d : diagnosis.devices) {
    json.begin_object();
    json.field("name", d.name).field("product", d.product).field("arch", d.arch);
    json.field(d.arch == 0 ? "threads" : "sm_count", d.sm_count);
    json.field("l2_bytes", d.l2_bytes).field("source", d.source);
    json.end_object();
  }
  json.end_array();
  json.key("variants").begin_array();
  for (const VariantListing& v : diagnosis.variants) {
    json.begin_object();
    json.field("name", v.traits.name).field("backend", v.traits.backend);
    json.field("class", v.traits.numerics_class).field("isa", v.traits.isa);
    json.field("format", splitwave::name_of(v.traits.format));
    json.field("block_heads", v.traits.block_heads).field("tile_rows", v.traits.tile_rows);
    json.field("runnable", v.runnable).field("why_not", v.why_not);
    json.end_object();
  }
  json.end_array();
  json.key("missing").begin_array();
  for (const Missing& m : diagnosis.missing) {
    json.begin_object().field("what", m.what).field("remedy", m.remedy).end_object();
  }
  json.end_array();
  json.key("fingerprint");
  measure::write_json(json, diagnosis.fingerprint);
  json.end_object();
  std::fputs(json.str().c_str(), stdout);
}

void print_text(const Diagnosis& diagnosis) {
  std::printf("backend: %s (%s)\n\n", diagnosis.backend.c_str(), diagnosis.reason.c_str());
  TextTable devices({"device", "product", "workers or SMs"});
  for (const DeviceSpec& d : diagnosis.devices) {
    devices.add_row({d.name, d.product, std::to_string(d.sm_count)});
  }
  std::printf("%s\n", devices.str().c_str());
  TextTable variants({"variant", "class", "isa", "runs here"});
  for (const VariantListing& v : diagnosis.variants) {
    variants.add_row({v.traits.name, v.traits.numerics_class, v.traits.isa,
                      v.runnable ? "yes" : "no: " + v.why_not});
  }
  std::printf("%s\n", variants.str().c_str());
  for (const Missing& m : diagnosis.missing) {
    std::printf("missing: %s\n  remedy: %s\n", m.what.c_str(), m.remedy.c_str());
  }
}

}  // namespace

void add_doctor(CLI::App& root, CommandContext& context) {
  CLI::App* command = add_command(root, context, "doctor",
                                  "what this machine offers and what is missing",
                                  "splitwave doctor --json");
  command->callback([&context, command] {
    const Expected<Diagnosis> diagnosis = diagnose();
    if (!diagnosis) return fail(context, *command, diagnosis.error());
    if (context.json) {
      print_json(*diagnosis);
    } else {
      print_text(*diagnosis);
    }
  });
}

}  // namespace splitwave::app
