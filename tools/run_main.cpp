// SPDX-License-Identifier: Apache-2.0
// hg-run: runs a model on .npy files and writes its outputs as .npy files.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/command_line/command_line.h"
#include "tools/process.h"
#include "tools/run_job.h"

namespace {

constexpr char kExamples[] = R"(Examples:
  hg-run resnet18.hgm --input image.npy --output-dir out
  hg-run bert.hgm --input ids=ids.npy --input mask=mask.npy --output-dir out --threads 2
  hg-run own_ops.hgm --plugin libacme.so --input x.npy --output-dir out
  hg-run filters.hgm --entry blur --input image.npy --output-dir out
  hg-run bert.hgm --input 'ids:i64[1,128]=0..30521' --input mask=mask.npy --output-dir out --seed 7
  hg-run --batch jobs.json

Inputs without a name are used in the model's order; hg-info MODEL.hgm lists them. Each output is
written to DIR/NAME.npy. A bf16 file is what numpy.save writes for an ml_dtypes.bfloat16 array; bf16
and f16 inputs also accept f32 files. --batch runs the jobs of a JSON array and prints one JSON line
per job. Job keys: model, inputs, output_dir; optional: function, device, precision, threads, seed,
grad_outputs, stream. Jobs of one model with the same stream, such as "a", continue from the states
that the job before left.

Exit codes: 0 ok, 1 usage (or a job of --batch failed), 2 unreadable file, 3 unsupported,
4 inputs and model do not fit.)";

void print_line(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

void print_written(const std::vector<std::string>& written, bool as_json) {
  if (as_json) {
    print_line(nlohmann::json{{"status", "ok"}, {"outputs", written}}.dump());
    return;
  }
  for (const std::string& path : written) print_line(path);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hg::tools;
  use_utf8(argc, argv);
  CommandLine line("hg-run", "Runs a Hologram model on .npy files.", kExamples);
  RunJob job;
  std::string batch;
  bool as_json = false;
  line.add("MODEL", job.model, "the model, an .hgm file");
  line.add("--entry,--function", job.entry, "the entry to run, if the file has several");
  line.add("--adapter", job.adapters,
           "an adapter from hg-train --lora, once per adapter; several add up");
  line.add("--input,-i", job.inputs,
           "[NAME=]FILE.npy, or random numbers: 'ids:i64[1,128]=0..49151', once per input");
  line.add("--output-dir,-o", job.output_dir, "folder for the outputs; created if missing");
  line.add_flag("--as-f32", job.as_f32, "write f16 and bf16 outputs as f32, for numpy");
  line.add("--seed", job.seed, "seed of random inputs and random ops").shows_default();
  line.add("--device", job.device, "cpu, vulkan or auto").shows_default();
  line.add("--precision", job.precision, "f32, bf16 or i8: see hg-bench --help").shows_default();
  line.add("--packed", job.packed, "a file for packed weights, which later runs map");
  line.add("--threads", job.threads, "number of threads; 0: all").is_at_least(0).shows_default();
  line.add("--grad-output", job.grad_outputs,
           "FILE.npy, once per float output: also write grad_input_0.npy ...");
  line.add("--kernel", job.kernels, "conv=gemm: use only this kernel for this op");
  line.add("--disable-pass", job.disabled_passes, "a compiler pass to disable");
  line.add("--plugin", job.plugins, "libacme.so: a shared library that adds ops");
  line.add("--batch", batch, "run the jobs of this JSON file; other options apply to all jobs");
  line.add_flag("--json", as_json, "print the list of written files as JSON");
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  if (!batch.empty()) {
    if (!job.model.empty()) return finish("hg-run", usage("--batch takes no MODEL"));
    const Outcome result = run_batch(batch, job, print_line);
    return finish("hg-run", result);
  }
  if (job.model.empty()) return finish("hg-run", usage("no MODEL is given; see hg-run --help"));
  if (job.output_dir.empty()) return finish("hg-run", usage("no --output-dir is given"));
  std::vector<std::string> written, notes;
  GpuOfTool gpu;
  Streams streams;
  const Outcome result = run(job, gpu, streams, written, notes);
  for (const std::string& note : notes) std::fprintf(stderr, "hg-run: note: %s\n", note.c_str());
  if (result.ok()) print_written(written, as_json);
  return finish("hg-run", result);
}
