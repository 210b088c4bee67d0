// SPDX-License-Identifier: Apache-2.0
// The command line of hg-convert. Results go to standard output; errors go to standard error as one
// sentence. run_command() does not throw.
#include "converter/cli/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "converter/aten/table.h"
#include "converter/cli/loop_options.h"
#include "converter/cli/report.h"
#include "converter/cli/sandboxed.h"
#include "converter/load/load.h"
#include "hg/kernel.h"
#include "hg/op.h"
#include "hg_op_texts.h"
#include "tools/command_line/command_line.h"

namespace hg::convert {
namespace {

// Returns how a device runs an op: names of kernels, as a view, by its expansion, or not at all.
std::string support(const Op& op, Device device) {
  std::string names;
  for (const KernelDef* kernel : Registry::built_in().kernels(op.name(), device))
    names += str_cat(names.empty() ? "" : ", ", kernel->name);
  if (!names.empty()) return names;
  if ((op.def.traits & kControl) != 0) return device == Device::cpu ? "subgraphs" : "";
  if (op.def.view != nullptr) return "view";
  return op.def.expand != nullptr ? "expansion" : "";
}

std::string_view text_of(std::string_view op) {
  for (const OpText& row : kOpTexts)
    if (row.op == op) return row.text;
  return {};
}

// The text as one line of a table's cell.
std::string cell(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '|') line += '\\';
    if (c != '\n' && c != ' ')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  if (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string gradient(const Op& op) {
  if ((op.def.traits & kNoGradient) != 0) return "none";
  if (op.def.grad != nullptr) return "rule";
  return op.def.expand != nullptr ? "expansion" : "";
}

// Returns a page of Markdown: the ops of the library by family, with their texts, kernels and
// gradients, then the TorchScript ops that become nodes.
std::string op_table_text() {
  std::string out =
      "# Ops\n\n"
      "A device column names the kernels of the op, or says that the op runs as a view of its "
      "input or as an expansion into other ops. If it is empty, the device does not run the op. "
      "The gradient is a rule, the gradient of the expansion, or none if the result is not a "
      "smooth function of the inputs. If it is empty, gradients are rejected. Builds without "
      "OpenBLAS lack the kernels `lapack` and `openblas`.\n";
  for (const OpText& row : kOpTexts) {
    const Op* const op = Registry::built_in().find(row.op);
    if (row.op.empty()) {
      out += str_cat("\n## ", row.family, "\n\n", row.text, row.text.empty() ? "" : "\n\n",
                     "| op | result | CPU | Vulkan | gradient |\n|---|---|---|---|---|\n");
    } else if (op != nullptr) {
      out += str_cat("| `", op->def.signature, "` | ", cell(row.text), " | ",
                     support(*op, Device::cpu), " | ", support(*op, Device::vulkan), " | ",
                     gradient(*op), " |\n");
    }
  }
  out +=
      "\n## TorchScript\n\nThese TorchScript ops become nodes of the ops above. In-place and "
      "`out` forms are listed under the op that they are named after. A name without an overload "
      "covers all overloads. `complex::x` is `aten::x` of complex tensors.\n\n";
  for (std::string_view row : all_rows()) out += str_cat("- `", row, "`\n");
  return out;
}

// Returns {"ops": [{"op", "signature", "text", "cpu", "vulkan", "gradient"}, ...], "torchscript":
// ["aten::abs", ...]}.
std::string op_table_json() {
  // The only JSON type in hg_convert_command: each one costs seconds to compile.
  using Json = nlohmann::ordered_json;
  Json ops = Json::array();
  for (const Op* op : Registry::built_in().ops())
    ops.push_back({{"cpu", support(*op, Device::cpu)},
                   {"gradient", gradient(*op)},
                   {"op", op->name()},
                   {"signature", op->def.signature},
                   {"text", text_of(op->name())},
                   {"vulkan", support(*op, Device::vulkan)}});
  return Json{{"ops", ops}, {"torchscript", all_rows()}}.dump(1);
}

using tools::CommandLine;

constexpr const char* kExamples = R"(
Write inputs as NAME:DTYPE[SIZES]=LOW..HIGH. Options without a NAME describe the inputs
that no option names, in order. A size given as a name stays open in the file. The optional range
limits the values used for checking. NEW=NAME:DTYPE[SIZES] and NEW=DTYPE[SIZES] rename the input in
the file. With several entries, ENTRY/NAME is an input of one entry, and NAME is an input of every
entry that has it. Each --method, and each file of --entry, becomes an entry of the output.

Examples:
  hg-convert resnet18.pt --input 'x:f32[n,3,224,224]'
  hg-convert bert.pt --input 'ids:i64[n,s]=0..30521' --input 'mask:i64[n,s]' --check-size n=1,4
  hg-convert decoder.pt --input 'ids=input.1:i64[n,s]=0..49151' --input 'mask=i64[n,s]=0..1'
  hg-convert unet.pt -o unet_512.hgm --input 'f32[1,3,h,w]' --dim h=512 --dim w=512
  hg-convert net.pt --input 'f32[n,16]' --custom 'acme.wave(x, gain: float = 1) -> like x'
  hg-convert voice.pt --input 'x:f32[n,t]' --constant sr=16000 --constant mode=mean
  hg-convert codec.pt --method encode --method decode --input 'x:f32[n,64]' --input 'z:f32[n,8]'
  hg-convert --entry encode=encoder.pt2 --entry decode=decoder.onnx -o codec.hgm
  hg-convert exported.pt2
  hg-convert model.onnx --dim batch=1 --constant shape=shape.npy
  hg-convert model.onnx --onnxruntime
  hg-convert unknown.pt --input 'f32[n,16]' --sandbox --sandbox-memory 2048
  cat model.pt | hg-convert - -o - --input 'f32[n,16]' > model.hgm
  hg-convert --list-ops

Exit codes: 0 ok, 1 usage, 2 unreadable, 3 unsupported, 4 mismatch. Nothing is written unless 0.)";

// One line that is overwritten; on a terminal only.
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

Answer answer_to(const Command& command, const Job& job, bool with_json, const Tell& progress) {
  if (command.sandbox)
    return convert_in_sandbox(job, command.sandbox_memory_mib, with_json, progress);
  return answer_of(convert(job, progress), with_json);
}

bool is_written(const std::string& text, const std::string& path) {
  if (path == "-") return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  return file.good();
}

int run_one(const Command& command) {
  const std::string& json = command.json;
  Progress progress;
  const Answer answer = answer_to(command, command.job, !json.empty(),
                                  [&](const std::string& what) { progress.say(what); });
  progress.clear();
  std::fputs(answer.remarks.c_str(), stderr);
  if (answer.exit != Exit::ok) std::fprintf(stderr, "hg-convert: %s\n", answer.message.c_str());
  if (!answer.report.empty() && !is_written(answer.report, json)) {
    std::fprintf(stderr, "hg-convert: %s: the report cannot be written\n", json.c_str());
    if (answer.exit == Exit::ok) return static_cast<int>(Exit::unreadable);
  }
  if (json != "-") std::fputs(answer.summary.c_str(), command.job.output == "-" ? stderr : stdout);
  return static_cast<int>(answer.exit);
}

int run_batch(const Command& command) {
  bool all_ok = true;
  for (const BatchJob& each : read_batch(command.batch)) {
    Answer answer{.exit = Exit::usage, .message = each.trouble};
    if (each.trouble.empty())
      answer = answer_to(command, each.job, false, [](const std::string&) {});
    all_ok = all_ok && answer.exit == Exit::ok;
    std::printf("%s\n", answer_json(answer.exit, answer.message).c_str());
    std::fflush(stdout);
  }
  return all_ok ? 0 : 1;
}

std::string default_output(const std::string& model) {
  if (model == "-") return "-";
  return std::filesystem::path(model).replace_extension(".hgm").string();
}

void refuse_contradictions(const Command& command) {
  const Job& job = command.job;
  if (job.onnxruntime && !job.check)
    throw Failure{Exit::usage, "--onnxruntime is a check, which --no-check leaves out"};
  if (job.onnxruntime && command.sandbox)
    throw Failure{Exit::usage, "--onnxruntime loads a library, which --sandbox does not allow"};
  if (job.strict && !job.check)
    throw Failure{Exit::usage, "--strict needs the check that --no-check leaves out"};
  if (job.output == "-" && command.json == "-")
    throw Failure{Exit::usage, "-o - and --json - cannot both write standard output"};
  refuse_overwriting(job);
}

std::string version_with_libtorch() {
  const std::string version = tools::version_text("hg-convert");
  if (libtorch_version().empty()) return version + ", without libtorch";
  return str_cat(version, ", libtorch ", libtorch_version(), " (", libtorch_file(), ")");
}

}  // namespace

Command parse_command(int argc, const char* const* argv) {
  Command command;
  CommandLine line(
      "hg-convert",
      "Converts a TorchScript file, an exported program (.pt2), an ONNX model or a GGUF "
      "decoder to a .hgm file and checks its outputs against the original.",
      kExamples, version_with_libtorch);
  Job& job = command.job;
  std::string& json = command.json;
  std::vector<std::string> inputs, constants, check_sizes, dims, custom, entries, loops;
  bool no_check = false;
  line.add("model", job.model, "the TorchScript, .pt2, ONNX or GGUF file, or - for standard input");
  line.add("-o,--output", job.output,
           "the .hgm file, or - for standard output; default: the "
           "model's name with .hgm");
  line.add("--input", inputs, "an input of the model, such as 'x:f32[n,3,224,224]'");
  line.add("--method", job.methods,
           "a method of a TorchScript module to convert; several become entries of the file; "
           "default: forward");
  line.add(
      "--entry", entries,
      "NAME=FILE, instead of MODEL: a file that becomes an entry of the output; equal weights are "
      "stored once");
  line.add("--constant", constants, "a constant non-tensor argument of forward, such as sr=16000");
  line.add("--check-size", check_sizes, "sizes of a symbol to check, such as n=1,4");
  line.add("--dim", dims, "replace a symbol by a number, such as n=2");
  line.add("--loop", loops,
           "an output that is the next run's input, such as cache_out=cache_in or "
           "'present.{i}.key=past.{i}.key': both become a state, which sessions keep; auto: finds "
           "them by name");
  const CommandLine::Option capacity =
      line.add("--capacity", job.capacity, "largest size of states of --loop that grow")
          .is_at_least(1);
  line.add("--custom", custom,
           "an op that the application registers, such as 'acme.wave(x, gain: float) -> like x'");
  line.add("--seed", job.seed, "seed of the inputs used for checking");
  line.add("--json", json, "write a report to this file, or - for standard output");
  line.add("--batch", command.batch,
           "convert the jobs of a JSON file; print one JSON line per job");
  line.add_flag("--no-check", no_check, "do not compare the model with the original");
  line.add_flag("--strict", job.strict,
                "reject a model unless the check exercised every branch (exit code 4)");
  line.add_flag(
      "--sandbox", command.sandbox,
      "read and run the model in a process that cannot use the network or write files (Linux)");
  const CommandLine::Option memory =
      line.add("--sandbox-memory", command.sandbox_memory_mib,
               "address space limit of that process in MiB; default: 4096")
          .is_at_least(1);
  std::string onnxruntime;
  const CommandLine::Option with_onnxruntime = line.add_flag_with_value(
      "--onnxruntime", onnxruntime,
      "compare an ONNX model with ONNX Runtime, found automatically or given as "
      "--onnxruntime=PATH (libonnxruntime.so or its folder)");
  line.add_flag("--list-ops", command.list_ops, "print the table of ops; as JSON with --json -");
  if (const tools::Outcome read = line.read(argc, argv, command.said); !read.ok())
    throw Failure{Exit::usage, read.message};
  if (!command.said.empty()) return command;
  if (memory.is_given() && !command.sandbox)
    throw Failure{Exit::usage, "--sandbox-memory needs --sandbox"};
  if (command.list_ops || !command.batch.empty()) return command;
  for (const std::string& entry : entries) job.entry_files.push_back(parse_entry(entry));
  use_entry_files(job);
  if (job.model.empty())
    throw Failure{Exit::usage, "no model is given; see hg-convert --help for examples"};
  for (const std::string& input : inputs) job.inputs.push_back(parse_input(input));
  for (const std::string& constant : constants) job.constants.push_back(parse_constant(constant));
  for (const std::string& op : custom) job.custom.push_back(parse_custom(op));
  for (const std::string& loop : loops) job.loops.push_back(parse_loop(loop));
  if (capacity.is_given() && loops.empty()) throw Failure{Exit::usage, "--capacity needs --loop"};
  for (const std::string& size : check_sizes)
    job.check_sizes.push_back(parse_size("--check-size", size));
  for (const std::string& dim : dims) {
    job.dims.push_back(parse_size("--dim", dim));
    if (job.dims.back().sizes.size() != 1)
      throw Failure{Exit::usage, "--dim '" + dim + "': a symbol becomes one number, as in n=2"};
  }
  job.check = !no_check;
  if (with_onnxruntime.is_given()) job.onnxruntime = onnxruntime;
  if (job.output.empty()) job.output = default_output(job.model);
  job.report = json;
  refuse_contradictions(command);
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
  if (!command.batch.empty()) return run_batch(command);
  return run_one(command);
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
