// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/programs.h"

#include <algorithm>
#include <set>

#include "converter/cli/entries.h"
#include "converter/cli/options.h"
#include "converter/load/exported/exported.h"
#include "converter/load/onnx/onnx.h"
#include "converter/load/sha256.h"

namespace hg::convert {
namespace {

bool is_torchscript(const SourceFile& file) {
  return file.format != Format::onnx && file.format != Format::exported;
}

// Returns the inputs of an ONNX file that options name. Inputs of other entries have the entry's
// name and a slash before their own.
std::set<std::string> named_inputs(const Job& job, const std::string& entry) {
  std::set<std::string> names;
  const auto add = [&](const std::string& name) {
    names.insert(name);
    if (!entry.empty() && name.starts_with(entry + "/"))
      names.insert(name.substr(entry.size() + 1));
  };
  for (const InputOption& input : job.inputs) add(input.spec.name);
  for (const ConstantOption& constant : job.constants) add(constant.name);
  return names;
}

std::vector<Loaded> load(const Job& job, const SourceFile& file, const std::string& entry) {
  const auto& [path, label, format] = file;
  std::vector<Loaded> one;
  if (format == Format::exported) one.push_back(load_exported(path, label, job.custom));
  if (format == Format::onnx) {
    const auto keep = [&](const std::string& weights) {
      refuse_overwriting(job, {{str_cat("the external data of ", label), weights}});
    };
    one.push_back(load_onnx(path, label, named_inputs(job, entry), keep));
  }
  if (!one.empty()) return one;
  return load_script(path, job.custom,
                     job.methods.empty() ? std::vector<std::string>{"forward"} : job.methods);
}

void refuse_wrong_options(const Job& job, const SourceFile& file) {
  if (job.onnxruntime && file.format != Format::onnx)
    throw Failure{Exit::usage, file.label + ": --onnxruntime applies to ONNX models only"};
  if (!job.methods.empty() && !is_torchscript(file))
    throw Failure{Exit::usage, file.label + ": --method applies to TorchScript modules only"};
}

void refuse_repeated(std::string_view option, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::count(names.begin(), names.end(), name) > 1)
      throw Failure{Exit::usage, str_cat(option, " ", name, " is given twice")};
}

}  // namespace

std::vector<SourceFile> recognise_files(const Job& job, std::unique_ptr<StandardInput>& input) {
  std::vector<SourceFile> files;
  for (const EntryFile& each : job.entry_files) {
    files.push_back({each.path, each.path, recognise(each.path, each.path)});
    if (files.back().format == Format::gguf)
      throw Failure{Exit::usage, each.path + ": a GGUF file cannot be an entry; convert it alone"};
  }
  if (!files.empty()) return files;
  std::string path = job.model, label = path;
  if (path == "-") {
    input = std::make_unique<StandardInput>();
    path = input->path();
    label = "standard input";
  }
  return {{path, label, recognise(path, label)}};
}

std::string sha256_of_files(const std::vector<SourceFile>& files) {
  std::string hashes;
  for (const SourceFile& file : files)
    hashes += str_cat(hashes.empty() ? "" : " ", sha256_of_file(file.path));
  return hashes;
}

std::vector<EntryProgram> read_programs(const Job& job, const std::vector<SourceFile>& files) {
  std::vector<std::string> names;
  for (const EntryFile& each : job.entry_files) names.push_back(each.name);
  refuse_repeated("--entry", names);
  refuse_repeated("--method", job.methods);
  if (names.empty() && job.methods.size() > 1) names = job.methods;
  for (const SourceFile& file : files) refuse_wrong_options(job, file);

  std::vector<Loaded> all;
  std::vector<const SourceFile*> origins;
  for (size_t k = 0; k < files.size(); ++k)
    for (Loaded& loaded : load(job, files[k], job.entry_files.empty() ? "" : names[k])) {
      all.push_back(std::move(loaded));
      origins.push_back(&files[k]);
    }
  std::vector<Job> jobs = {job};
  if (!names.empty()) jobs = jobs_of_entries(job, names, all);
  std::vector<EntryProgram> programs;
  for (size_t k = 0; k < all.size(); ++k) {
    if (!job.entry_files.empty()) jobs[k].model = origins[k]->label;
    programs.push_back(
        {names.empty() ? "" : names[k], origins[k]->format, std::move(jobs[k]), std::move(all[k])});
  }
  return programs;
}

}  // namespace hg::convert
