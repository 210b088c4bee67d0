// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/entries.h"

#include <algorithm>

#include "converter/cli/inputs.h"
#include "converter/cli/sizes.h"
#include "converter/core/input_paths.h"
#include "converter/interpret/attributes.h"

namespace hg::convert {
namespace {

bool has_argument(const ScriptProgram& program, const std::string& path) {
  return std::any_of(program.inputs.begin(), program.inputs.end(),
                     [&](const ScriptInput& input) { return is_path_into(path, input.name); });
}

// Calls give(k, name) for each entry that an option with this name applies to.
template <class Give>
void give_to_entries(const std::vector<std::string>& entries, std::span<const Loaded> programs,
                     const std::string& name, std::string_view option, const Give& give) {
  const size_t slash = name.find('/');
  const auto owner = slash == std::string::npos
                         ? entries.end()
                         : std::find(entries.begin(), entries.end(), name.substr(0, slash));
  if (owner != entries.end())
    return give(static_cast<size_t>(owner - entries.begin()), name.substr(slash + 1));
  if (name.empty())
    throw Failure{Exit::usage,
                  str_cat(option, ": with several entries an input needs a name, as in '",
                          entries[0], "/x:f32[n,3]'")};
  bool is_given = false;
  for (size_t k = 0; k < entries.size(); ++k) {
    if (!has_argument(programs[k].program, name)) continue;
    give(k, name);
    is_given = true;
  }
  if (is_given) return;
  std::string takes;
  for (size_t k = 0; k < entries.size(); ++k)
    takes += str_cat("; `", entries[k], "` takes (", describe_inputs(programs[k].program), ")");
  throw Failure{Exit::usage, str_cat(option, ": no entry has an input '", name, "'", takes)};
}

}  // namespace

std::vector<Job> jobs_of_entries(const Job& job, const std::vector<std::string>& names,
                                 std::span<const Loaded> entries) {
  std::vector<Job> jobs(entries.size(), job);
  for (Job& each : jobs) {
    each.inputs.clear();
    each.constants.clear();
  }
  for (const InputOption& input : job.inputs)
    give_to_entries(names, entries, input.spec.name, str_cat("--input '", input.spec.name, "'"),
                    [&](size_t k, const std::string& name) {
                      jobs[k].inputs.push_back(input);
                      jobs[k].inputs.back().spec.name = name;
                    });
  for (const ConstantOption& constant : job.constants)
    give_to_entries(names, entries, constant.name, str_cat("--constant ", constant.name),
                    [&](size_t k, const std::string& name) {
                      jobs[k].constants.push_back({name, constant.value});
                    });
  return jobs;
}

void keep_own_symbols(Job& job) {
  const auto is_foreign = [&](const SizeOption& option) { return !has_symbol(job, option.symbol); };
  std::erase_if(job.dims, is_foreign);
  std::erase_if(job.check_sizes, is_foreign);
}

void refuse_unknown_symbols(const Job& job, std::span<const Job> entries) {
  const auto refuse = [&](std::string_view option, const SizeOption& size, auto list) {
    const bool is_known = std::any_of(entries.begin(), entries.end(), [&](const Job& each) {
      return std::any_of((each.*list).begin(), (each.*list).end(),
                         [&](const SizeOption& own) { return own.symbol == size.symbol; });
    });
    if (!is_known)
      throw Failure{Exit::usage,
                    str_cat(option, " ", size.symbol, ": no --input has a size ", size.symbol)};
  };
  for (const SizeOption& size : job.dims) refuse("--dim", size, &Job::dims);
  for (const SizeOption& size : job.check_sizes) refuse("--check-size", size, &Job::check_sizes);
}

void add_check_of_entry(const std::string& entry, const CheckResult& one, CheckResult& all) {
  all.exit = one.exit;
  if (all.exit != Exit::ok) all.message = str_cat("`", entry, "`: ", one.message);
  for (CheckedCase each : one.cases) {
    each.entry = entry;
    all.cases.push_back(std::move(each));
  }
  all.wrong_nodes.insert(all.wrong_nodes.end(), one.wrong_nodes.begin(), one.wrong_nodes.end());
  const auto add = [&](const std::vector<std::string>& from, std::vector<std::string>& to) {
    for (const std::string& line : from) to.push_back(str_cat(entry, ": ", line));
  };
  add(one.warnings, all.warnings);
  add(one.not_exercised, all.not_exercised);
  add(one.drawn, all.drawn);
}

void refuse_changing_attributes(const std::string& model, std::span<const ImportedEntry> entries) {
  const auto refuse = [&](const ImportedEntry& reader, const ImportedEntry& setter) {
    for (const AttributeRead& read : reader.imported.attribute_reads) {
      const auto& changed = setter.imported.changed_attributes;
      if (std::find(changed.begin(), changed.end(), read.path) == changed.end() ||
          only_counts(reader.program, read))
        continue;
      throw Failure{Exit::unsupported,
                    str_cat(model, ": `", reader.name, "` reads the attribute '", read.path,
                            "', which `", setter.name,
                            "` sets; a file keeps only tensors between runs, so make it a buffer "
                            "(register_buffer) of one dtype and shape")};
    }
  };
  for (const ImportedEntry& reader : entries)
    for (const ImportedEntry& setter : entries)
      if (&reader != &setter) refuse(reader, setter);
  for (const ImportedEntry& entry : entries) refuse(entry, entry);
}

}  // namespace hg::convert
