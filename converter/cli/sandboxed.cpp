// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/sandboxed.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "converter/check/written.h"
#include "converter/cli/standard_input.h"

namespace hg::convert {
namespace {

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
// files next to them, also returns the folders.
std::vector<std::string> files_of(const Job& job) {
  std::vector<fs::path> models;
  for (const EntryFile& each : job.entry_files) models.emplace_back(each.path);
  if (models.empty()) models.emplace_back(job.model);
  std::vector<std::string> files;
  for (const fs::path& model : models) {
    files.push_back(model.string());
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

}  // namespace hg::convert
