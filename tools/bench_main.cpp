// SPDX-License-Identifier: Apache-2.0
// hg-bench: measures a model's latency and memory. Timed runs touch nothing but the session.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "hg/model.h"
#include "hg/session.h"
#include "lib/graph/clock.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/overwrites.h"
#include "tools/entry.h"
#include "tools/gpu.h"
#include "tools/inputs.h"
#include "tools/process.h"
#include "tools/profile.h"

namespace hg::tools {
namespace {

constexpr char kExamples[] = R"(Examples:
  hg-bench resnet18.hgm --input 'f32[1,3,224,224]' --threads 1
  hg-bench resnet18.hgm --dim n=8 --repeat 20 --profile
  hg-bench resnet18.hgm --input x.npy --trace resnet18.json
  hg-bench bert.hgm --input ids.npy --input mask.npy --json --output-dir out
  hg-bench resnet18.hgm --autotune --tuning resnet18.tuning

Without --input, every input gets random numbers; --dim sets its symbolic sizes.
load_ms is the time from opening the file to the planned session; create_ms is the part that
compiles and plans. peak_bytes is everything the session holds during a run, except weights mapped
from the file.

--tuning names a file with the measurements of --autotune. It is read if it exists, and rewritten.

A profile shows the shortest time of each node over the timed runs, and how close the node comes to
this machine's measured peak: in matrix products or memory traffic, whichever bounds it.
Open a trace in https://ui.perfetto.dev; it shows the nodes end to end.

Exit codes: 0 ok, 1 usage, 2 unreadable file, 3 unsupported, 4 inputs and model do not fit.)";

struct BenchJob {
  std::string model, entry;
  std::vector<std::string> inputs;
  std::vector<std::string> dims;
  std::string device = "cpu";
  int threads = 0;
  int warmup = 3;
  int repeat = 10;
  int sessions = 1;
  bool all_times = false;
  bool profile = false;
  std::string trace;
  std::string output_dir;
  std::vector<std::string> disabled_passes;
  std::vector<std::string> kernels;
  bool low_memory = false;
  std::string precision = "f32";
  bool autotune = false;
  std::string tuning;
  std::string packed;
  uint64_t seed = 0;
};

struct Measurement {
  double load_ms = 0, create_ms = 0;
  std::vector<double> run_ms;  // sorted
  Memory memory;
  double flops = 0;
  std::vector<ProfileRow> profile;
  MachinePeak peak;  // when profiling

  double quantile(double q) const { return run_ms[q * static_cast<double>(run_ms.size() - 1)]; }
  double median() const {
    const size_t n = run_ms.size();
    return (run_ms[(n - 1) / 2] + run_ms[n / 2]) / 2;
  }
};

std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(path_of(path), std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

Outcome write_tuning(const std::string& path, const Session& session) {
  const std::vector<std::byte> bytes = session.tuning();
  std::ofstream file(path_of(path), std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) return usage("--tuning ", path, ": cannot be written");
  return {};
}

// The timed runs of one session. With profiling, the shortest time of each node.
Status time_runs(const BenchJob& job, Session& session, bool profile, Measurement& result) {
  for (int i = 0; i < job.warmup + job.repeat; ++i) {
    const Clock::time_point begin = Clock::now();
    HG_TRY(session.run());
    if (i < job.warmup) continue;
    result.run_ms.push_back(ms_since(begin));
    if (!profile) continue;
    // Interruptions only increase a time.
    std::vector<ProfileRow> rows = session.profile();
    for (size_t r = 0; r < rows.size() && r < result.profile.size(); ++r)
      rows[r].ms = std::min(rows[r].ms, result.profile[r].ms);
    result.profile = std::move(rows);
  }
  return {};
}

// The timed runs of several sessions at once, each on a thread of its own.
Status time_together(const BenchJob& job, std::vector<Session>& sessions, Measurement& result) {
  std::vector<Measurement> parts(sessions.size());
  std::vector<Status> ends(sessions.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < sessions.size(); ++i)
    threads.emplace_back([&, i] { ends[i] = time_runs(job, sessions[i], false, parts[i]); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < sessions.size(); ++i) {
    HG_TRY(ends[i]);
    result.run_ms.insert(result.run_ms.end(), parts[i].run_ms.begin(), parts[i].run_ms.end());
  }
  return {};
}

Outcome check_files(const BenchJob& job, const Session& session) {
  std::vector<FileOption> written = {
      {"--trace", job.trace}, {"--tuning", job.tuning}, {"--packed", job.packed}};
  if (!job.output_dir.empty())
    for (std::string& path : output_paths(session, job.output_dir))
      written.push_back({"--output-dir", std::move(path)});
  std::vector<FileOption> read = files_in("--input", job.inputs);
  read.push_back({"MODEL", job.model});
  return check_overwrites(written, read);
}

Outcome measure(const BenchJob& job, Measurement& result) {
  Result<Device> device = parse_device(job.device);
  if (!device.ok()) return usage(device.status().message());
  Result<SymbolSizes> dims = parse_dims(job.dims);
  if (!dims.ok()) return usage(dims.status().message());

  const Clock::time_point start = Clock::now();
  Result<Model> model = load_model(job.model, job.entry);
  if (!model.ok()) return outcome(model.status());
  result.load_ms = ms_since(start);

  InputArrays arrays;
  const RandomInputs random{.seed = job.seed, .dims = *dims, .fills_missing = true};
  if (Outcome opened = open_inputs(model->graph(), job.inputs, &random, arrays); !opened.ok())
    return opened;
  if (Outcome fits = match_types(model->graph(), arrays, nullptr); !fits.ok()) return fits;

  const Clock::time_point create = Clock::now();
  SessionOptions options;
  options.device = *device;
  options.threads = job.threads;
  options.seed = job.seed;
  options.disabled_passes = job.disabled_passes;
  options.kernels = job.kernels;
  options.low_memory = job.low_memory;
  options.precision = *parse_precision(job.precision);
  options.autotune = job.autotune;
  if (!job.tuning.empty()) options.tuning = bytes_of(job.tuning);
  options.packed = job.packed;
  GpuOfTool gpu;
  if (Status given = gpu.give_to(options); !given.ok()) return outcome(given);
  const bool profile = job.profile || !job.trace.empty();
  options.profile = profile;
  std::vector<Session> others;
  for (int i = 1; i < job.sessions; ++i) {
    Result<Session> other = Session::create(*model, options);
    if (!other.ok()) return outcome(other.status());
    if (Outcome set = set_inputs(*other, arrays); !set.ok()) return set;
    others.push_back(std::move(*other));
  }
  Result<Session> session = Session::create(*model, std::move(options));
  if (!session.ok()) return outcome(session.status());
  if (Outcome o = check_files(job, *session); !o.ok()) return o;
  if (Outcome set = set_inputs(*session, arrays); !set.ok()) return set;
  if (Status planned = session->plan(); !planned.ok()) return outcome(planned);
  result.create_ms = ms_since(create);
  result.load_ms += result.create_ms;
  if (!job.tuning.empty())
    if (Outcome written = write_tuning(job.tuning, *session); !written.ok()) return written;
  if (!job.packed.empty())
    if (Status saved = session->save_packed(); !saved.ok())
      return {Exit::unreadable, std::string(saved.message())};

  if (others.empty()) {
    if (Status ran = time_runs(job, *session, profile, result); !ran.ok()) return outcome(ran);
  } else {
    others.push_back(std::move(*session));
    Status ran = time_together(job, others, result);
    *session = std::move(others.back());
    if (!ran.ok()) return outcome(ran);
  }
  std::sort(result.run_ms.begin(), result.run_ms.end());
  if (profile) {
    Result<MachinePeak> peak = measure_peak(job.threads);
    if (!peak.ok()) return outcome(peak.status());
    result.peak = *peak;
  }
  Result<Memory> memory = session->memory();
  if (!memory.ok()) return outcome(memory.status());
  result.memory = *memory;
  result.flops = session->flops();
  if (job.output_dir.empty()) return {};
  std::vector<std::string> written;
  return write_outputs(*session, job.output_dir, false, written);
}

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Chrome's trace event format: complete events, in microseconds.
Outcome write_trace(const std::string& path, const Measurement& m) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  double at = 0;
  for (const ProfileRow& row : m.profile) {
    events.push_back({{"name", row.module.empty() ? row.node : row.module},
                      {"cat", row.op},
                      {"ph", "X"},
                      {"ts", at * 1e3},
                      {"dur", row.ms * 1e3},
                      {"pid", 1},
                      {"tid", 1},
                      {"args",
                       {{"node", row.node},
                        {"op", row.op},
                        {"kernel", row.kernel},
                        {"flops", row.flops},
                        {"bytes", row.bytes},
                        {"share_of_peak", share_of_peak(row, m.peak)}}}});
    at += row.ms;
  }
  std::ofstream file(path_of(path), std::ios::binary);
  file << dumped({{"traceEvents", events}, {"displayTimeUnit", "ms"}}) << '\n';
  if (!file.flush()) return usage("--trace ", path, ": cannot be written");
  return {};
}

void print_json(const BenchJob& job, const Measurement& m) {
  nlohmann::ordered_json out = {{"load_ms", m.load_ms},
                                {"create_ms", m.create_ms},
                                {"latency_ms",
                                 {{"min", m.run_ms.front()},
                                  {"median", m.median()},
                                  {"p90", m.quantile(0.9)},
                                  {"p99", m.quantile(0.99)},
                                  {"max", m.run_ms.back()}}},
                                {"peak_bytes", m.memory.peak_bytes},
                                {"arena_bytes", m.memory.arena_bytes},
                                {"arena_lower_bound_bytes", m.memory.arena_lower_bound},
                                {"weights_bytes", m.memory.weights_bytes},
                                {"packed_bytes", m.memory.packed_bytes},
                                {"mapped_bytes", m.memory.mapped_bytes},
                                {"flops", m.flops}};
  for (const ProfileRow& row : m.profile) {
    out["profile"].push_back({{"node", row.node},
                              {"op", row.op},
                              {"kernel", row.kernel},
                              {"module", row.module},
                              {"ms", row.ms},
                              {"flops", row.flops},
                              {"bytes", row.bytes},
                              {"share_of_peak", share_of_peak(row, m.peak)}});
  }
  if (job.all_times) out["run_ms"] = m.run_ms;
  if (!m.profile.empty()) out["peak"] = {{"gflops", m.peak.gflops}, {"gbytes", m.peak.gbytes}};
  std::puts(dumped(out).c_str());
}

void print_text(const BenchJob& job, const Measurement& m) {
  std::printf("latency   %.4f ms median, %.4f min, %.4f p90, of %d runs\n", m.median(),
              m.run_ms.front(), m.quantile(0.9), job.repeat);
  std::printf("work      %sFLOP, %.2f GFLOP/s\n", count_text(m.flops).c_str(),
              m.flops / (m.median() * 1e6));
  std::printf("loading   %.2f ms, of which %.2f compile and plan\n", m.load_ms, m.create_ms);
  std::printf("memory    %s peak; arena %s (lower bound %s), weights %s, packed %s\n",
              bytes_text(m.memory.peak_bytes).c_str(), bytes_text(m.memory.arena_bytes).c_str(),
              bytes_text(m.memory.arena_lower_bound).c_str(),
              bytes_text(m.memory.weights_bytes).c_str(),
              bytes_text(m.memory.packed_bytes).c_str());
  if (job.profile) std::fputs(profile_text(m.profile, m.peak).c_str(), stdout);
}

}  // namespace
}  // namespace hg::tools

int main(int argc, char** argv) {
  using namespace hg::tools;
  use_utf8(argc, argv);
  CommandLine line("hg-bench", "Measures a Hologram model.", kExamples);
  BenchJob job;
  bool as_json = false;
  line.add("MODEL", job.model, "the model, an .hgm file").is_required();
  line.add("--entry", job.entry, "the entry to time, if the file has several");
  line.add("--input,-i", job.inputs,
           "[NAME=]FILE.npy, or random numbers: 'ids:i64[1,128]=0..49151'");
  line.add("--dim", job.dims, "n=4: the size of a symbol that no --input determines");
  line.add("--seed", job.seed, "seed of random inputs and random ops").shows_default();
  line.add("--device", job.device, "cpu, vulkan or auto").shows_default();
  line.add("--threads", job.threads, "number of threads; 0: all").is_at_least(0).shows_default();
  line.add("--warmup", job.warmup, "untimed runs before the timed ones")
      .is_at_least(0)
      .shows_default();
  line.add("--repeat", job.repeat, "timed runs").is_at_least(1).shows_default();
  const CommandLine::Option sessions =
      line.add("--sessions", job.sessions, "sessions that run at once, each on its own thread")
          .is_at_least(1)
          .shows_default();
  line.add_flag("--profile", job.profile, "also print the time of each node").excludes(sessions);
  line.add("--trace", job.trace, "write the node times to this file as a Chrome trace")
      .excludes(sessions);
  line.add("--disable-pass", job.disabled_passes, "a compiler pass to disable");
  line.add("--kernel", job.kernels, "conv=gemm: use only this kernel for this op");
  line.add_flag("--low-memory", job.low_memory, "use weights in place, without packed copies");
  line.add("--precision", job.precision,
           "bf16: round products with constant weights to 16 bits; i8: round inputs of products "
           "with quantized weights to 8 bits")
      .is_one_of({"f32", "bf16", "i8"})
      .shows_default();
  line.add_flag("--autotune", job.autotune, "measure which kernels are fastest");
  line.add("--tuning", job.tuning, "a file for the measurements of --autotune");
  line.add("--packed", job.packed, "a file for packed weights, which later runs map");
  line.add("--output-dir,-o", job.output_dir, "write the outputs to this folder as .npy");
  const CommandLine::Option json = line.add_flag("--json", as_json, "print one JSON object");
  line.add_flag("--all-times", job.all_times, "add the time of each run to the JSON object, sorted")
      .needs(json);
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  Measurement measurement;
  Outcome result = measure(job, measurement);
  if (result.ok() && !job.trace.empty()) result = write_trace(job.trace, measurement);
  if (!job.profile) measurement.profile.clear();
  if (result.ok() && as_json) print_json(job, measurement);
  if (result.ok() && !as_json) print_text(job, measurement);
  return finish("hg-bench", result);
}
