// SPDX-License-Identifier: Apache-2.0
// The command line of hg-convert. Results go to standard output, failures as one sentence to
// standard error; no exception leaves run_command().
#include "converter/cli/command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "converter/check/check_inputs.h"
#include "converter/cli/convert.h"
#include "converter/cli/op_table.h"
#include "converter/cli/report.h"
#include "converter/load/load.h"
#include "converter/rows/rows.h"
#include "hg/version.h"

namespace hg::convert {
namespace {

constexpr const char* kExamples = R"(
Inputs are written NAME:DTYPE[SIZES]=LOW..HIGH. The name may be left out; a size may have a name,
which stays open in the file; the range is that of the values used for checking.

Examples:
  hg-convert resnet18.pt --input 'x:f32[n,3,224,224]'
  hg-convert bert.pt --input 'ids:i64[n,s]=0..30521' --input 'mask:i64[n,s]' --check-size n=1,4
  hg-convert unet.pt -o unet_512.hgm --input 'f32[1,3,h,w]' --dim h=512 --dim w=512
  hg-convert net.pt --input 'f32[n,16]' --custom 'acme.wave(x, gain: float = 1) -> like x'
  hg-convert voice.pt --input 'x:f32[n,t]' --constant sr=16000 --constant mode=mean
  hg-convert exported.pt2
  hg-convert model.onnx --dim batch=1 --constant shape=shape.npy
  cat model.pt | hg-convert - -o - --input 'f32[n,16]' > model.hgm
  hg-convert --list-ops

Exit codes: 0 ok, 1 usage, 2 unreadable, 3 unsupported, 4 mismatch. Nothing is written unless 0.)";

// One line that is overwritten, on a terminal only.
class Progress {
 public:
  Progress() : shown_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() { clear(); }
  void say(const std::string& what) {
    if (shown_) std::fprintf(stderr, "\r\033[Khg-convert: %s ...", what.c_str());
  }
  void clear() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  bool shown_;
};

// Every place; a single one is in the closing sentence already.
void print_unsupported(const Report& report) {
  if (report.unsupported.size() < 2 || report.exit != Exit::unsupported) return;
  for (const Unsupported& each : report.unsupported) {
    std::string line = str_cat("  ", each.op, "  ", each.count, "x", describe_origin(each.origin),
                               ": ", each.reason);
    if (!each.suggestion.empty()) line += "; " + each.suggestion;
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

void print_success(const Report& report) {
  std::FILE* out = report.job.output == "-" ? stderr : stdout;
  int nodes = 0;
  for (const auto& [op, count] : report.ops) nodes += count;
  std::string line =
      str_cat("wrote ", report.job.output == "-" ? "standard output" : report.job.output, ": ",
              nodes, " nodes of ", static_cast<int64_t>(report.ops.size()), " ops, ",
              report.parameters, " parameters, ", report.weight_bytes, " bytes of weights");
  std::fprintf(out, "%s\n", line.c_str());
  for (const std::string& input : report.inputs) std::fprintf(out, "  input %s\n", input.c_str());
  for (const std::string& output : report.outputs)
    std::fprintf(out, "  output %s\n", output.c_str());
  for (const CheckedCase& checked : report.check.cases) {
    double error = 0;
    int equal = 0, rounded = 0;
    for (const CheckedOutput& output : checked.outputs) {
      equal += output.verdict == CheckedOutput::Verdict::equal;
      rounded += output.verdict == CheckedOutput::Verdict::ill_conditioned;
      error = std::max(error,
                       output.verdict == CheckedOutput::Verdict::equal ? output.largest_error : 0);
    }
    line = str_cat("  checked with ", describe_sizes(checked.sizes),
                   checked.values.empty() ? "" : " and ", checked.values, ": ", equal, " of ",
                   static_cast<int64_t>(checked.outputs.size()), " outputs equal ",
                   report.libtorch.empty() ? "the plain run's" : "libtorch's", ", largest error ",
                   error, rounded > 0 ? str_cat("; ", rounded, " but for rounding") : "");
    std::fprintf(out, "%s\n", line.c_str());
  }
  for (const std::string& way : report.check.not_exercised)
    std::fprintf(out, "  not exercised: %s\n", way.c_str());
}

int run_one(const Job& job, const std::string& json) {
  Progress progress;
  Report report = convert(job, [&](const std::string& what) { progress.say(what); });
  progress.clear();
  for (const std::string& line : report.notes)
    std::fprintf(stderr, "hg-convert: note: %s\n", line.c_str());
  for (const std::string& line : report.warnings)
    std::fprintf(stderr, "hg-convert: warning: %s\n", line.c_str());
  if (!json.empty()) {
    std::string text = report_json(report);
    if (json == "-") {
      std::fwrite(text.data(), 1, text.size(), stdout);
    } else {
      std::ofstream file(json, std::ios::binary);
      file << text << std::flush;
      if (!file) {
        std::fprintf(stderr, "hg-convert: %s: the report cannot be written\n", json.c_str());
        if (report.exit == Exit::ok) return static_cast<int>(Exit::unreadable);
      }
    }
  }
  if (report.exit != Exit::ok) {
    print_unsupported(report);
    // Worth a report, unlike a slip on the command line.
    if (report.exit == Exit::unsupported || report.exit == Exit::mismatch)
      std::fprintf(stderr, "%s\n", summary_line(report).c_str());
    std::fprintf(stderr, "hg-convert: %s\n", report.message.c_str());
  } else if (json != "-") {
    print_success(report);
  }
  return static_cast<int>(report.exit);
}

int run_batch(const std::string& path) {
  bool all_ok = true;
  for (const BatchJob& each : read_batch(path)) {
    Exit exit = Exit::usage;
    std::string message = each.trouble;
    if (message.empty()) {
      Report report = convert(each.job, [](const std::string&) {});
      exit = report.exit;
      message = report.message;
    }
    all_ok = all_ok && exit == Exit::ok;
    std::printf("%s\n", answer_json(exit, message).c_str());
    std::fflush(stdout);
  }
  return all_ok ? 0 : 1;
}

std::string default_output(const std::string& model) {
  if (model == "-") return "-";
  return std::filesystem::path(model).replace_extension(".hgm").string();
}

}  // namespace

Command parse_command(int argc, const char* const* argv) {
  Command command;
  CLI::App app{
      "Converts a TorchScript file or an exported program (.pt2) to a .hgm file and proves that "
      "both "
      "compute the same."};
  app.footer(kExamples);
  app.set_version_flag("--version", [] {
    const std::string version = str_cat("hg-convert ", HG_VERSION);
    if (libtorch_version().empty()) return version + ", without libtorch";
    return str_cat(version, ", libtorch ", libtorch_version(), " (", libtorch_file(), ")");
  });
  Job& job = command.job;
  std::string& json = command.json;
  std::vector<std::string> inputs, constants, check_sizes, dims, custom;
  bool no_check = false;
  app.add_option("model", job.model, "the TorchScript, .pt2 or ONNX file, or - for standard input");
  app.add_option("-o,--output", job.output,
                 "the .hgm file, or - for standard output; by default "
                 "the model's name with .hgm");
  app.add_option("--input", inputs, "an input of the model, such as 'x:f32[n,3,224,224]'")
      ->allow_extra_args(false);
  app.add_option("--constant", constants,
                 "an argument of forward that is no tensor and never changes, such as sr=16000")
      ->allow_extra_args(false);
  app.add_option("--check-size", check_sizes, "sizes to check a symbol with, such as n=1,4")
      ->allow_extra_args(false);
  app.add_option("--dim", dims, "makes a symbol a number in the file, such as n=2")
      ->allow_extra_args(false);
  app.add_option(
         "--custom", custom,
         "an op that the application registers, such as 'acme.wave(x, gain: float) -> like x'")
      ->allow_extra_args(false);
  app.add_option("--seed", job.seed, "of the inputs used for checking");
  app.add_option("--json", json, "writes a report to this file, or - for standard output");
  app.add_option("--batch", command.batch, "converts the jobs of a JSON file, one answer a line");
  app.add_flag("--no-check", no_check, "does not run the model to compare it with libtorch");
  app.add_flag("--strict", job.strict,
               "refuses a model of which the check did not exercise all ways (exit code 4)");
  app.add_flag("--list-ops", command.list_ops, "prints the table of ops, as JSON with --json -");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      std::ostringstream said;
      app.exit(error, said, said);
      command.said = said.str();
      return command;
    }
    throw Failure{Exit::usage, std::string(error.what()) + "; see hg-convert --help"};
  }
  if (command.list_ops || !command.batch.empty()) return command;
  if (job.model.empty())
    throw Failure{Exit::usage, "no model is given; see hg-convert --help for examples"};
  for (const std::string& input : inputs) job.inputs.push_back(parse_input(input));
  for (const std::string& constant : constants) job.constants.push_back(parse_constant(constant));
  for (const std::string& op : custom) job.custom.push_back(parse_custom(op));
  for (const std::string& size : check_sizes)
    job.check_sizes.push_back(parse_size("--check-size", size));
  for (const std::string& dim : dims) {
    job.dims.push_back(parse_size("--dim", dim));
    if (job.dims.back().sizes.size() != 1)
      throw Failure{Exit::usage, "--dim '" + dim + "': a symbol becomes one number, as in n=2"};
  }
  job.check = !no_check;
  if (job.strict && no_check)
    throw Failure{Exit::usage, "--strict needs the check that --no-check leaves out"};
  if (job.output.empty()) job.output = default_output(job.model);
  if (job.output == "-" && json == "-")
    throw Failure{Exit::usage, "-o - and --json - cannot both write standard output"};
  if (job.output == job.model && job.model != "-")
    throw Failure{Exit::usage, "the output " + job.output + " would replace the model; give -o"};
  return command;
}

namespace {

int run(int argc, const char* const* argv) {
  const Command command = parse_command(argc, argv);
  if (!command.said.empty()) {
    std::fputs(command.said.c_str(), stdout);
    return 0;
  }
  if (command.list_ops) {
    std::fputs(command.json.empty() ? op_table_text().c_str() : (op_table_json() + "\n").c_str(),
               stdout);
    return 0;
  }
  if (!command.batch.empty()) return run_batch(command.batch);
  return run_one(command.job, command.json);
}

}  // namespace

int run_command(int argc, const char* const* argv) {
  try {
    return run(argc, argv);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "hg-convert: %s\n", failure.message.c_str());
    return static_cast<int>(failure.exit);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hg-convert: %s\n", error.what());
    return static_cast<int>(Exit::unsupported);
  }
}

}  // namespace hg::convert
