// SPDX-License-Identifier: Apache-2.0
// Loads, sets inputs, runs, and writes outputs. Every failure becomes an Outcome; nothing here
// prints.
#include "tools/run_job.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "hg/op.h"
#include "hg/plugin.h"
#include "hg/session.h"
#include "hg/train.h"
#include "lib/platform/shared_library.h"
#include "tools/command_line/overwrites.h"
#include "tools/command_line/words.h"
#include "tools/entry.h"
#include "tools/inputs.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

Status load_plugin(const std::string& file, Registry& registry) {
  // The system would search its own folders for a name without a folder, not the current one.
  const std::string path = !path_of(file).has_parent_path() ? "./" + file : file;
  void* const library = open_shared_library(path.c_str());
  if (library == nullptr) return not_found("--plugin ", file, ": ", shared_library_error());
  using Entry = const Plugin* (*)();
  const auto entry = reinterpret_cast<Entry>(find_function(library, "hg_plugin"));
  if (entry == nullptr) {
    close_shared_library(library);
    return unsupported("--plugin ", file, ": it has no HG_PLUGIN of hg/plugin.h");
  }
  const Plugin& plugin = *entry();
  if (version() != plugin.version) {
    const Status other = unsupported("--plugin ", file, ": it was made for Hologram ",
                                     plugin.version, "; this is ", version());
    close_shared_library(library);
    return other;
  }
  const Status added = plugin.add(registry);
  if (added.ok()) return {};
  return Status(added.code(), str_cat("--plugin ", file, ": ", added.message()));
}

// Adds the ops and kernels of each file to `registry`. The files stay loaded. Fails and names the
// file if it cannot be loaded, is not a plugin, is of another version, or if its ops are rejected.
Status load_plugins(std::span<const std::string> files, Registry& registry) {
  for (const std::string& file : files) HG_TRY(load_plugin(file, registry));
  return {};
}

using nlohmann::json;

Outcome read_strings(const json& entry, const char* key, std::vector<std::string>& out) {
  if (!entry.contains(key)) return {};
  if (!entry[key].is_array()) return usage("the job's \"", key, "\" is not a list of paths");
  for (const json& item : entry[key]) {
    if (!item.is_string()) return usage("the job's \"", key, "\" is not a list of paths");
    out.push_back(item.get<std::string>());
  }
  return {};
}

Outcome read_string(const json& entry, const char* key, bool required, std::string& out) {
  if (!entry.contains(key)) return required ? usage("the job has no \"", key, "\"") : Outcome{};
  if (!entry[key].is_string()) return usage("the job's \"", key, "\" is not a string");
  out = entry[key].get<std::string>();
  return {};
}

template <class T>
Outcome read_count(const json& entry, const char* key, T& out) {
  if (!entry.contains(key)) return {};
  if (!entry[key].is_number_unsigned()) return usage("the job's \"", key, "\" is not a count");
  out = entry[key].get<T>();
  return {};
}

Outcome read_job(const json& entry, RunJob& job) {
  if (!entry.is_object()) return usage("the job is not a JSON object");
  for (const auto& [key, value] : entry.items())
    if (const std::string unknown =
            unknown_key(key, {"model", "entry", "stream", "adapters", "inputs", "grad_outputs",
                              "output_dir", "device", "precision", "threads", "seed", "function"});
        !unknown.empty())
      return usage(unknown);
  Outcome result = read_string(entry, "model", true, job.model);
  if (result.ok()) result = read_string(entry, "function", false, job.entry);  // its name in 0.2
  if (result.ok()) result = read_string(entry, "entry", false, job.entry);
  if (result.ok()) result = read_string(entry, "stream", false, job.stream);
  if (result.ok()) result = read_string(entry, "output_dir", true, job.output_dir);
  if (result.ok()) result = read_string(entry, "device", false, job.device);
  if (result.ok()) result = read_string(entry, "precision", false, job.precision);
  if (result.ok()) result = read_strings(entry, "adapters", job.adapters);
  if (result.ok()) result = read_strings(entry, "inputs", job.inputs);
  if (result.ok()) result = read_strings(entry, "grad_outputs", job.grad_outputs);
  if (result.ok()) result = read_count(entry, "seed", job.seed);
  if (result.ok()) result = read_count(entry, "threads", job.threads);
  return result;
}

bool has_gradient(DType dtype) { return is_float(dtype) || is_complex(dtype); }

// Adds an input for the gradient of each float or complex output, and an output grad_input_<k> for
// each such input: the vector-Jacobian products.
Outcome add_gradients(const RunJob& job, Model& model, InputArrays& arrays) {
  Graph graph = model.graph();
  std::vector<Value> ys, xs, seeds;
  for (ValueId id : graph.inputs()) {
    if (has_gradient(graph.value_info(id).type.dtype)) xs.push_back(graph.value(id));
  }
  for (const auto& [output, id] : graph.outputs()) {
    if (has_gradient(graph.value_info(id).type.dtype)) ys.push_back(graph.value(id));
  }
  if (ys.size() != job.grad_outputs.size()) {
    return mismatch(job.grad_outputs.size(), " output gradients are given, but the model has ",
                    ys.size(), " float outputs");
  }
  for (size_t k = 0; k < ys.size(); ++k) {
    Result<Array> array = read_npy(job.grad_outputs[k]);
    if (!array.ok()) return outcome(array.status());
    // Converts a float gradient of another width.
    const DType given = array->dtype();
    const DType dtype = is_float(given) ? given : ys[k].dtype();
    const Value seed = graph.input(str_cat("grad_output_", k), dtype, ys[k].shape());
    seeds.push_back(
        dtype == ys[k].dtype() ? seed : graph.call("cast", {seed}, {{"dtype", ys[k].dtype()}}));
    arrays.push_back(*std::move(array));
  }
  const std::vector<Value> dxs = grad(ys, xs, seeds);
  if (!graph.status().ok()) {
    return {Exit::unsupported, std::string(graph.status().message())};
  }
  for (size_t k = 0; k < dxs.size(); ++k) graph.output(str_cat("grad_input_", k), dxs[k]);
  Result<Model> larger = Model::from_graph(std::move(graph));
  if (!larger.ok()) return outcome(larger.status());
  model = *std::move(larger);
  return {};
}

std::filesystem::path numbered_path(const std::string& folder, size_t k) {
  return path_of(folder) / str_cat("output_", k, ".npy");
}

// `count` is the number of the model's own outputs.
Outcome check_files(const RunJob& job, const Session& session, size_t count) {
  std::vector<FileOption> written;
  if (!job.packed.empty()) written.push_back({"--packed", job.packed});
  for (std::string& path : output_paths(session, job.output_dir))
    written.push_back({"--output-dir", std::move(path)});
  for (size_t k = 0; k < count; ++k)
    written.push_back({"--output-dir", text_of(numbered_path(job.output_dir, k))});
  for (const std::vector<FileOption>& read :
       {files_in("--input", job.inputs), files_in("--grad-output", job.grad_outputs),
        files_in("--adapter", job.adapters)})
    for (const FileOption& each : written)
      if (Outcome o = check_overwrites({&each, 1}, read); !o.ok()) return o;
  return {};
}

// A named output is also found by its number.
Outcome number_outputs(const std::vector<std::string>& written, const std::string& folder) {
  for (size_t k = 0; k < written.size(); ++k) {
    const std::filesystem::path to = numbered_path(folder, k);
    if (std::find(written.begin(), written.end(), text_of(to)) != written.end()) continue;
    std::error_code error;
    std::filesystem::copy_file(path_of(written[k]), to,
                               std::filesystem::copy_options::overwrite_existing, error);
    if (error) return {Exit::unreadable, str_cat(text_of(to), ": cannot be written")};
  }
  return {};
}

Status open_stream(const RunJob& job, const Registry& registry, Streams& streams,
                   SessionOptions& options) {
  if (job.stream.empty()) return {};
  std::shared_ptr<SharedStates>& states = streams[{job.model, job.stream}];
  if (states == nullptr) {
    HG_TRY_ASSIGN(const Model whole, Model::load(job.model, registry));
    HG_TRY_ASSIGN(states, SharedStates::create(whole));
  }
  options.states = states;
  return {};
}

}  // namespace

Outcome run(const RunJob& job, GpuOfTool& gpu, Streams& streams, std::vector<std::string>& written,
            std::vector<std::string>& notes) {
  Result<Device> device = parse_device(job.device);
  if (!device.ok()) return usage(device.status().message());
  Registry registry = Registry::built_in();
  if (const Status loaded = load_plugins(job.plugins, registry); !loaded.ok())
    return outcome(loaded);
  Result<Model> model = load_model(job.model, job.entry, registry, job.adapters);
  if (!model.ok()) return outcome(model.status());
  InputArrays arrays;
  const RandomInputs random{.seed = job.seed};
  if (Outcome opened = open_inputs(model->graph(), job.inputs, &random, arrays); !opened.ok())
    return opened;
  if (Outcome fits = match_types(model->graph(), arrays, &notes); !fits.ok()) return fits;
  const size_t count = model->graph().outputs().size();
  if (!job.grad_outputs.empty()) {
    if (Outcome added = add_gradients(job, *model, arrays); !added.ok()) return added;
  }
  SessionOptions options;
  options.device = *device;
  options.threads = job.threads;
  const Result<Precision> precision = parse_precision(job.precision);
  if (!precision.ok()) return usage(precision.status().message());
  options.precision = *precision;
  options.packed = job.packed;
  options.seed = job.seed;
  options.kernels = job.kernels;
  options.disabled_passes = job.disabled_passes;
  if (Status given = gpu.give_to(options); !given.ok()) return outcome(given);
  if (Status opened = open_stream(job, registry, streams, options); !opened.ok())
    return outcome(opened);
  Result<Session> session = Session::create(*model, std::move(options));
  if (!session.ok()) return outcome(session.status());
  if (Outcome o = check_files(job, *session, count); !o.ok()) return o;
  if (Outcome set = set_inputs(*session, arrays); !set.ok()) return set;
  if (Status ran = session->run(); !ran.ok()) return outcome(ran);
  if (Outcome wrote = write_outputs(*session, job.output_dir, job.as_f32, written); !wrote.ok())
    return wrote;
  if (Outcome numbered = number_outputs(
          {written.begin(), written.begin() + static_cast<std::ptrdiff_t>(count)}, job.output_dir);
      !numbered.ok())
    return numbered;
  if (job.packed.empty()) return {};
  const Status saved = session->save_packed();
  return saved.ok() ? Outcome() : Outcome{Exit::unreadable, std::string(saved.message())};
}

Outcome run_batch(const std::string& list, const RunJob& defaults,
                  void (*answer)(const std::string& line)) {
  std::ifstream file(path_of(list), std::ios::binary);
  if (!file) return {Exit::unreadable, str_cat(list, ": cannot be opened")};
  const json jobs = json::parse(file, nullptr, false);
  if (!jobs.is_array()) return {Exit::unreadable, str_cat(list, ": is not a JSON array of jobs")};
  size_t failed = 0;
  GpuOfTool gpu;
  Streams streams;
  for (const json& entry : jobs) {
    RunJob job = defaults;
    Outcome result = read_job(entry, job);
    std::vector<std::string> written, notes;
    if (result.ok()) result = run(job, gpu, streams, written, notes);
    failed += result.ok() ? 0 : 1;
    const json line = {{"status", to_string(result.exit)}, {"message", result.message}};
    answer(line.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  if (failed == 0) return {};
  return {Exit::usage, str_cat(failed, " of ", jobs.size(), " jobs failed")};
}

}  // namespace hg::tools
