// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/sandboxed.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "converter/check/check_inputs.h"
#include "converter/check/written.h"
#include "converter/check/wrong_node.h"
#include "converter/cli/report.h"
#include "converter/cli/standard_input.h"
#include "converter/load/gguf/file.h"
#include "converter/sandbox/printable.h"
#include "tools/command_line/words.h"

namespace hg::convert {
namespace {

using Json = nlohmann::ordered_json;

// Lists every place. A single one is already in the closing sentence.
std::string unsupported_lines(const Report& report) {
  if (report.unsupported.size() < 2 || report.exit != Exit::unsupported) return "";
  std::string lines;
  for (const Unsupported& each : report.unsupported) {
    lines += str_cat("  ", each.op, "  ", each.count, "x", describe_origin(each.origin), ": ",
                     each.reason);
    if (!each.suggestion.empty()) lines += "; " + each.suggestion;
    lines += "\n";
  }
  return lines;
}

std::string case_line(const CheckedCase& checked) {
  using Verdict = CheckedOutput::Verdict;
  int equal = 0, rounded = 0, unchecked = 0, empty = 0;
  double error = 0;
  for (const CheckedOutput& output : checked.outputs) {
    equal += output.verdict == Verdict::equal;
    rounded += output.verdict == Verdict::ill_conditioned;
    const bool is_empty = output.reason == CheckedOutput::kNoElement;
    empty += is_empty;
    unchecked += output.verdict == Verdict::unchecked && !is_empty;
    if (output.verdict == Verdict::equal) error = std::max(error, output.largest_error);
  }
  const int all = static_cast<int>(checked.outputs.size());
  const std::string sizes = describe_sizes(checked.sizes);
  std::string line =
      str_cat("  checked ", checked.entry, checked.entry.empty() ? "with " : " with ", sizes,
              checked.values.empty() ? "" : " and ", checked.values, ": ");
  if (all == 0) return line + str_cat("it has no outputs, as ", checked.beside, "\n");
  if (empty == all)
    return line + str_cat("the ", all == 1 ? "output has" : "outputs have", " no elements, as ",
                          checked.beside, "\n");
  line += str_cat(equal, " of ", all - empty, " outputs equal ", checked.beside, ", largest error ",
                  error);
  if (rounded > 0) line += str_cat("; ", rounded, " but for rounding");
  if (unchecked > 0) line += str_cat("; ", unchecked, " unchecked");
  if (empty > 0) line += str_cat("; ", empty, " without elements");
  return line + "\n";
}

constexpr size_t kMostLines = 5;  // about what was not exercised

std::string summary_of(const Report& report) {
  int nodes = 0;
  for (const auto& [op, count] : report.ops) nodes += count;
  std::string lines =
      str_cat("wrote ", report.job.output == "-" ? "standard output" : report.job.output, ": ",
              nodes, " nodes of ", static_cast<int64_t>(report.ops.size()), " ops, ",
              report.parameters, " parameters, ", report.weight_bytes, " bytes of weights\n");
  for (const std::string& input : tools::join_numbered(report.inputs))
    lines += str_cat("  input ", input, "\n");
  for (const std::string& output : tools::join_numbered(report.outputs))
    lines += str_cat("  output ", output, "\n");
  for (const CheckedCase& checked : report.check.cases) lines += case_line(checked);
  for (const std::string& line : report.check.drawn)
    lines += str_cat("  integers drawn: ", line, "\n");
  const std::vector<std::string>& gaps = report.check.not_exercised;
  const size_t shown = gaps.size() > kMostLines ? kMostLines - 1 : gaps.size();
  for (size_t i = 0; i < shown; ++i) lines += str_cat("  not exercised: ", gaps[i], "\n");
  if (shown < gaps.size())
    lines += str_cat("  not exercised: ", uint64_t{gaps.size() - shown},
                     " more places, which --json lists\n");
  return lines;
}

std::string remarks_of(const Report& report) {
  std::string lines;
  for (const std::string& line : report.notes) lines += str_cat("hg-convert: note: ", line, "\n");
  for (const std::string& line : report.warnings)
    lines += str_cat("hg-convert: warning: ", line, "\n");
  lines += unsupported_lines(report);
  // Adds the line for a bug report, which is not needed for an error on the command line.
  if (report.exit == Exit::unsupported || report.exit == Exit::mismatch)
    lines += summary_line(report) + "\n";
  return lines;
}

namespace fs = std::filesystem;

// An unnamed file, if possible on the disk of the output.
class NamelessFile {
 public:
  explicit NamelessFile([[maybe_unused]] const std::string& output) {
#if defined(O_TMPFILE)
    const fs::path folder = fs::path(output).parent_path();
    fd_ = open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd_ >= 0) return;
#endif
    std::FILE* file = std::tmpfile();
    if (!file)
      throw Failure{Exit::unreadable, str_cat("no temporary file: ", std::strerror(errno))};
    fd_ = fcntl(fileno(file), F_DUPFD_CLOEXEC, 0);
    std::fclose(file);
  }
  ~NamelessFile() { close(fd_); }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;
  int descriptor() const { return fd_; }
  std::string path() const { return str_cat("/dev/fd/", fd_); }

 private:
  int fd_ = -1;
};

// Returns the models and the files that constants name. For ONNX models, whose weights may be in
// files next to them, also returns the folders. Of a split GGUF model, returns all files.
std::vector<std::string> files_of(const Job& job) {
  std::vector<fs::path> models;
  for (const EntryFile& each : job.entry_files) models.emplace_back(each.path);
  if (models.empty()) models.emplace_back(job.model);
  std::vector<std::string> files;
  for (const fs::path& model : models) {
    files.push_back(model.string());
    std::error_code error;
    for (const std::string& part : gguf::part_paths(model.string()))
      if (part != files.back() && fs::exists(part, error)) files.push_back(part);
    if (model.extension() == ".onnx")
      files.push_back(model.has_parent_path() ? model.parent_path().string() : ".");
  }
  for (const ConstantOption& constant : job.constants)
    if (constant.value.ends_with(".npy")) files.push_back(constant.value);
  return files;
}

// libtorch also allocates memory without operator new.
bool lacked_memory(const SandboxEnd& end, const Answer& answer) {
  return end.memory_refused || answer.message.find("enough memory") != std::string::npos ||
         answer.message.find("allocate memory") != std::string::npos;
}

std::string how_it_ended(const Job& job, const SandboxEnd& end, int64_t memory_mib) {
  if (end.memory_refused)
    return str_cat(job.model, ": the conversion takes more memory than the ", memory_mib,
                   " MiB of --sandbox-memory; allow more");
  if (end.signal != 0)
    return str_cat(job.model, ": the sandboxed process was ended by signal ", end.signal, " (",
                   strsignal(end.signal), ")");
  return job.model + ": the sandboxed process ended without an answer";
}

// Reads the file written by the process as an untrusted file, and writes it to the output.
void deliver(const Job& job, const NamelessFile& result) {
  const CustomRegistry custom(job.custom);
  Result<Model> model = Model::load(result.path(), custom.registry());
  if (!model.ok())
    throw Failure{
        Exit::unreadable,
        str_cat(job.model, ": the sandboxed process wrote no model: ", model.status().message())};
  const Model::Info info = model->info();
  WrittenModel written(*model, {job.output}, custom.registry(), [&] { return info; });
  written.keep({});
}

}  // namespace

Answer convert_in_sandbox(const Job& job, int64_t memory_mib, bool with_json,
                          const Tell& progress) {
  Report report;
  report.job = job;
  Answer answer = answer_of(report, with_json);
  try {
    require_writable(job.output);
    const NamelessFile result(job.output);
    std::unique_ptr<StandardInput> input;
    if (job.model == "-") input = std::make_unique<StandardInput>();
    Job inner = job;
    inner.result = result.descriptor();
    const SandboxEnd end = run_in_sandbox(
        {memory_mib << 20, files_of(job), input ? input->descriptor() : -1, result.descriptor()},
        [&](const Tell& tell) { return packed(answer_of(convert(inner, tell), with_json)); },
        progress);
    if (!end.has_answer)
      return failed(std::move(answer), end.memory_refused ? Exit::unsupported : Exit::unreadable,
                    how_it_ended(job, end, memory_mib));
    answer = unpacked(end.answer);
    if (answer.exit == Exit::ok)
      deliver(job, result);
    else if (lacked_memory(end, answer))
      answer = failed(std::move(answer), answer.exit,
                      str_cat(answer.message, "; it asked for more than the ", memory_mib,
                              " MiB of --sandbox-memory"));
  } catch (const Failure& failure) {
    return failed(std::move(answer), failure.exit, failure.message);
  }
  return answer;
}

Answer answer_of(const Report& report, bool with_json) {
  return {report.exit, report.message, remarks_of(report),
          report.exit == Exit::ok ? summary_of(report) : "",
          with_json && report.may_be_written ? report_json(report) : ""};
}

std::string packed(const Answer& answer) {
  const Json json = {static_cast<int>(answer.exit), answer.message, answer.remarks, answer.summary,
                     answer.report};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Answer unpacked(const std::string& text) {
  const Failure no_answer{Exit::unreadable,
                          "the sandboxed process gave no answer that makes sense"};
  try {
    const Json json = Json::parse(text);
    const int exit = json.at(0).get<int>();
    const auto line = [&](size_t i) { return printable(json.at(i).get<std::string>()); };
    const Answer answer{static_cast<Exit>(exit), line(1), line(2), line(3), line(4)};
    const bool is_report = answer.report.empty() || Json::accept(answer.report);
    if (exit < static_cast<int>(Exit::ok) || exit > static_cast<int>(Exit::mismatch) || !is_report)
      throw no_answer;
    return answer;
  } catch (const nlohmann::json::exception&) {
    throw no_answer;
  }
}

Answer failed(Answer answer, Exit exit, const std::string& message) {
  answer.exit = exit;
  answer.message = message;
  answer.summary.clear();
  if (!answer.report.empty()) {
    Json report = Json::parse(answer.report);
    report["status"] = status_name(exit);
    report["exit_code"] = static_cast<int>(exit);
    report["message"] = message;
    answer.report = report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return answer;
}

}  // namespace hg::convert
