// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/options.h"

#include <charconv>

#include "converter/load/gguf/file.h"
#include "tools/command_line/input_text.h"

namespace hg::convert {
namespace {

using tools::split;
using tools::trim;

template <class... Parts>
[[noreturn]] void usage(const Parts&... parts) {
  throw Failure{Exit::usage, str_cat(parts...)};
}

}  // namespace

InputOption parse_input(std::string_view text) {
  tools::InputText parsed;
  if (const tools::Outcome outcome = tools::parse_input_text(text, parsed); !outcome.ok())
    throw Failure{Exit::usage, outcome.message};
  return {
      {std::move(parsed.name), std::move(parsed.type)}, parsed.range, std::move(parsed.new_name)};
}

SizeOption parse_size(std::string_view option, std::string_view text) {
  SizeOption result;
  size_t equals = text.find('=');
  if (equals == std::string_view::npos || trim(text.substr(0, equals)).empty())
    usage(option, " '", text, "': write it like n=1,4");
  result.symbol = std::string(trim(text.substr(0, equals)));
  for (std::string_view part : split(text.substr(equals + 1))) {
    int64_t size = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (part.empty() || error != std::errc() || end != part.data() + part.size() || size < 0)
      usage(option, " '", text, "': '", part, "' is not a size; write it like n=1,4");
    result.sizes.push_back(size);
  }
  return result;
}

EntryFile parse_entry(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || trim(text.substr(0, equals)).empty() ||
      equals + 1 == text.size())
    usage("--entry '", text, "': write it like encode=encoder.pt2");
  EntryFile result{std::string(trim(text.substr(0, equals))), std::string(text.substr(equals + 1))};
  if (result.path == "-")
    usage("--entry '", text, "': entries are files; only a single model comes from standard input");
  return result;
}

void use_entry_files(Job& job) {
  if (job.entry_files.empty()) return;
  if (!job.model.empty()) usage("give either the model ", job.model, " or files with --entry");
  if (!job.methods.empty())
    usage(
        "--method chooses methods of one module, and --entry takes whole files; give one of them");
  if (job.output.empty()) usage("--entry needs -o, the .hgm file to write");
  for (const EntryFile& each : job.entry_files)
    job.model += str_cat(job.model.empty() ? "" : ", ", each.path);
}

void refuse_overwriting(const Job& job, std::vector<tools::FileOption> read) {
  const tools::FileOption written[] = {{"the output", job.output}, {"--json", job.report}};
  for (const ConstantOption& each : job.constants)
    if (each.value.ends_with(".npy")) read.push_back({"--constant " + each.name, each.value});
  const auto add = [&](const std::string& option, const std::string& path) {
    for (const std::string& part : gguf::part_paths(path)) read.push_back({option, part});
  };
  if (job.entry_files.empty()) add("MODEL", job.model);
  for (const EntryFile& each : job.entry_files) add(str_cat("--entry ", each.name), each.path);
  if (const tools::Outcome o = tools::check_overwrites(written, read); !o.ok())
    throw Overwriting{{Exit::usage, o.message}};
}

}  // namespace hg::convert
