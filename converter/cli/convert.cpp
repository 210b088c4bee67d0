// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/convert.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <set>

#include "converter/check/check_inputs.h"
#include "converter/check/in_turn.h"
#include "converter/check/loops.h"
#include "converter/check/precision.h"
#include "converter/check/written.h"
#include "converter/cli/entries.h"
#include "converter/cli/gguf_options.h"
#include "converter/cli/inputs.h"
#include "converter/cli/loop_options.h"
#include "converter/cli/programs.h"
#include "converter/cli/sizes.h"
#include "converter/cli/unsupported.h"
#include "converter/cli/weights.h"
#include "converter/interpret/interpret.h"
#include "converter/load/gguf/decoder.h"
#include "converter/load/gguf/tokenizer.h"
#include "hg/shared_states.h"
#include "hg/version.h"

namespace hg::convert {
namespace {

class Conversion {
 public:
  Conversion(const Job& job, const std::function<void(const std::string&)>& progress)
      : progress_(progress), custom_(job.custom) {
    report_.job = job;
  }

  Report run() {
    try {
      steps();
    } catch (const Overwriting& failure) {
      fail(failure.exit, failure.message);
      report_.may_be_written = false;
    } catch (const Failure& failure) {
      fail(failure.exit, failure.message);
    } catch (const Refusal& refusal) {
      fail(Exit::unsupported, refusal.reason);
    } catch (const std::bad_alloc&) {
      fail(Exit::unsupported, job().model + ": there is not enough memory for this model");
    } catch (const std::exception& error) {
      std::string what = error.what();
      fail(Exit::unsupported, job().model + ": " + what.substr(0, what.find('\n')));
    }
    if (hash_.valid()) report_.source_hash = hash_.get();
    if (!stage_.empty()) stage("");
    return std::move(report_);
  }

 private:
  const Job& job() const { return report_.job; }

  void fail(Exit exit, std::string message) {
    report_.exit = exit;
    report_.message = std::move(message);
  }

  void stage(const std::string& name) {
    auto now = std::chrono::steady_clock::now();
    if (!stage_.empty())
      report_.stage_ms.emplace_back(
          stage_, std::chrono::duration<double, std::milli>(now - stage_start_).count());
    stage_ = name;
    stage_start_ = now;
    if (!name.empty()) progress_(name);
  }

  // A program of the conversion, and its results.
  struct Part : EntryProgram {
    std::vector<InputSpec> specs = {};
    Imported imported = {};
    Model model = {};
    CheckResult check = {};
  };
  std::vector<Part> read(const std::vector<SourceFile>& files) {
    report_.libtorch = libtorch_version();
    if (job().onnxruntime) {
      runtime_ = std::make_unique<OnnxRuntime>(*job().onnxruntime);
      report_.onnxruntime = runtime_->version();
    }
    hash_ = std::async(std::launch::async, sha256_of_files, files);  // while the files are read
    std::vector<Part> parts;
    for (EntryProgram& program : read_programs(job(), files)) {
      for (const std::string& line : program.loaded.program.notes) report_.notes.push_back(line);
      parts.push_back({std::move(program)});
    }
    if (is_onnx(parts)) report_.libtorch.clear();  // not used
    return parts;
  }

  static bool is_onnx(const std::vector<Part>& parts) {
    return std::all_of(parts.begin(), parts.end(),
                       [](const Part& part) { return part.format == Format::onnx; });
  }

  // Methods of one module have the same weights.
  static std::string warnings_of_weights(const std::vector<Part>& parts, bool is_one_module) {
    std::string warnings;
    for (size_t k = 0; k < (is_one_module ? 1 : parts.size()); ++k)
      if (const std::string one = warning_of_weights(parts[k].loaded.program); !one.empty())
        warnings += str_cat(warnings.empty() ? "" : "; ", one);
    return warnings;
  }

  // Runs the part of the model as it will be written, and compares it with its source.
  CheckResult check(const Part& part, const std::function<const Model&()>& written) {
    const Graph& graph = part.model.graph();
    if (part.format == Format::onnx) {
      const auto runtime = onnx_reference(part, graph);
      return check_by_loops(
          graph, written(), job(), runtime.get(),
          str_cat("the import, which only the runtime of the file's own format could tell: compare "
                  "some answers",
                  job().onnxruntime ? "" : ", or let --onnxruntime do it"),
          progress_);
    }
    if (report_.libtorch.empty()) {
      CheckResult none;
      none.not_exercised = {"anything: hg-convert is built without libtorch"};
      none.warnings = {
          "nothing is checked: this hg-convert is built without libtorch; compare the file's "
          "answers with the model's"};
      return none;
    }
    return check_model(part.loaded, graph, written, part.imported.trace, job(), progress_);
  }

  void check_all(std::vector<Part>& parts, WrittenModel& written) {
    if (is_onnx(parts) || !report_.libtorch.empty()) stage("check");
    for (Part& part : parts) {
      report_.job = part.job;
      Model entry;
      part.check = check(part, [&]() -> const Model& {
        if (part.entry.empty()) return written.read_back();
        Result<Model> back = written.read_back().entry(part.entry);
        if (!back.ok()) throw Failure{Exit::unreadable, std::string(back.status().message())};
        return entry = *std::move(back);
      });
      if (part.entry.empty())
        report_.check = part.check;
      else
        add_check_of_entry(part.entry, part.check, report_.check);
      if (report_.check.exit != Exit::ok) break;
    }
    if (!report_.libtorch.empty() && can_share_) check_states(parts, written);
    for (const std::string& line : report_.check.warnings) report_.warnings.push_back(line);
  }

  // Compares the states after runs. Methods of one module run in sequence, and so do all exported
  // programs. Separate modules are compared separately.
  void check_states(const std::vector<Part>& parts, WrittenModel& written) {
    std::vector<std::vector<EntryInTurn>> modules;
    std::vector<EntryInTurn> programs;
    for (const Part& part : parts) {
      const EntryInTurn entry = {part.entry, &part.loaded, &part.model.graph(), &part.job,
                                 &part.check};
      if (part.format == Format::exported) programs.push_back(entry);
      if (part.loaded.module == nullptr) continue;
      if (modules.empty() || !job().entry_files.empty()) modules.emplace_back();
      modules.back().push_back(entry);
    }
    if (!programs.empty()) modules.push_back(std::move(programs));
    for (const std::vector<EntryInTurn>& module : modules) {
      const bool is_silent = module[0].graph->outputs().empty();
      if (report_.check.exit == Exit::ok && (parts.size() > 1 || is_silent))
        check_in_turn(module, written.read_back(), job().seed, report_.check);
    }
  }

  // States of several files may have the same name by chance, or because they belong to one model.
  void note_states(const Model& model) {
    if (job().entry_files.empty()) return;
    const Status shared = SharedStates::create(model).status();
    can_share_ = shared.ok();
    if (!shared.ok())
      report_.warnings.push_back(
          str_cat("sessions of several entries cannot share states: ", shared.message()));
  }

  // Reports a failure as that of the method.
  void in_entry(const Part& part, const std::function<void()>& step) {
    report_.job = part.job;
    try {
      step();
    } catch (Failure& failure) {
      if (!part.entry.empty()) failure.message = str_cat("`", part.entry, "`: ", failure.message);
      throw;
    }
  }

  void import(Part& part) {
    ScriptProgram& program = part.loaded.program;
    apply_constants(program, job().constants, part.format == Format::onnx);
    std::string note;
    report_.job.inputs = fit_inputs(program, report_.job.inputs, note);
    if (!note.empty()) report_.notes.push_back(note);
    if (!part.entry.empty()) keep_own_symbols(report_.job);
    apply_dims(report_.job);
    program.asked_sizes = asked_sizes(job());
    for (const SymbolRange& range : program.ranges)
      if (range.example > 0) report_.job.examples.push_back({range.symbol, {range.example}});
    import_with_solved_sizes(part);
    part.job = job();
  }

  // Imports an ONNX model again if its ops show that sizes of its inputs depend on each other.
  // Files name such sizes as if they did not.
  void import_with_solved_sizes(Part& part) {
    for (int rounds = 0;; ++rounds) {
      constexpr int kMostRounds = 16;
      part.specs.clear();
      for (const InputOption& option : job().inputs) part.specs.push_back(option.spec);
      part.imported = import_program(part.loaded.program, part.specs, custom_.registry());
      if (part.format != Format::onnx || rounds == kMostRounds ||
          !solve_sizes(report_.job, part.imported))
        break;
    }
    // Without padding, results do not depend on where a runtime keeps it.
    for (InputOption& option : report_.job.inputs)
      if (!option.range && part.imported.masks.contains(option.spec.name))
        option.range = std::pair(runtime_ ? 1.0 : 0.0, 1.0);
  }

  // A parameter that a method writes to becomes a buffer in all methods.
  void keep_written_parameters(std::vector<Part>& parts, std::future<std::string>& bad_weights) {
    std::set<std::string> written;
    std::string writer, names;
    for (const Part& part : parts) {
      if (!part.imported.unsupported.empty()) return;
      const auto own = written_parameters(part.imported.graph, part.loaded.program);
      if (!own.empty() && writer.empty())
        writer = part.entry.empty() ? method_name() : str_cat("`", part.entry, "`");
      written.insert(own.begin(), own.end());
    }
    if (written.empty()) return;
    bad_weights.wait();  // it reads the program
    for (const std::string& name : written)
      names += str_cat(names.empty() ? "'" : ", '", name, "'");
    report_.notes.push_back(str_cat(writer, " writes to ", names,
                                    ", which the file keeps as buffers instead of parameters: a "
                                    "trainer leaves them as they are"));
    for (Part& part : parts) {
      keep_as_buffers(written, part.loaded.program);
      part.imported = import_program(part.loaded.program, part.specs, custom_.registry());
    }
  }
  std::string method_name() const {
    return job().methods.empty() ? "forward" : str_cat("`", job().methods[0], "`");
  }

  // Returns whether all ops are supported; otherwise reports the unsupported ones.
  bool report_import(Part& part) {
    for (std::string& line : part.imported.notes) report_.notes.push_back(std::move(line));
    for (std::string& line : part.imported.warnings) report_.warnings.push_back(std::move(line));
    if (part.imported.unsupported.empty()) return true;
    report_.unsupported = std::move(part.imported.unsupported);
    const bool calls = std::all_of(report_.unsupported.begin(), report_.unsupported.end(),
                                   [](const Unsupported& each) { return is_call(each); });
    suggest(report_.unsupported, part.loaded.unknown_ops);
    explain_unsupported(part.loaded, part.specs, calls);
    if (!part.entry.empty()) report_.message = str_cat("`", part.entry, "`: ", report_.message);
    return false;
  }

  void refuse_changes_between(const std::vector<Part>& parts) const {
    if (parts.size() < 2 || !job().entry_files.empty()) return;
    std::vector<ImportedEntry> entries;
    for (const Part& part : parts)
      entries.push_back({part.entry, part.loaded.program, part.imported});
    refuse_changing_attributes(job().model, entries);
  }

  // Joins the parts to one model with named entries.
  Result<Model> joined(std::vector<Part>& parts) {
    Model whole;
    for (Part& part : parts) {
      report_.job = part.job;
      HG_TRY_ASSIGN(part.model, verified(std::move(part.imported.graph)));
      part.job = job();
      check_sizes(input_specs(part.model.graph()), job());  // rejects unknown names
      if (!part.entry.empty()) HG_TRY(whole.add_entry(part.entry, std::move(part.model.graph())));
    }
    if (parts[0].entry.empty()) {
      describe(parts[0].model.graph(), "");
      return Model(parts[0].model);
    }
    for (Part& part : parts) {
      HG_TRY_ASSIGN(part.model, whole.entry(part.entry));
      describe(part.model.graph(), part.entry + "/");
    }
    return whole;
  }

  void steps() {
    stage("load");
    const std::vector<SourceFile> files = recognise_files(job(), standard_input_);
    if (job().result < 0) require_writable(job().output);
    if (files[0].format == Format::gguf) return steps_of_gguf(files[0]);
    const Job whole_job = job();
    std::vector<Part> parts = read(files);
    note_custom(parts);
    std::future<std::string> bad_weights = std::async(
        std::launch::async, warnings_of_weights, std::cref(parts), whole_job.entry_files.empty());

    stage("import");
    for (Part& part : parts) in_entry(part, [&] { import(part); });
    const bool has_entries = !parts[0].entry.empty();
    if (has_entries) {
      std::vector<Job> jobs;
      for (const Part& part : parts) jobs.push_back(part.job);
      refuse_unknown_symbols(whole_job, jobs);
    }
    keep_written_parameters(parts, bad_weights);
    for (Part& part : parts) {
      report_.job = part.job;
      if (!report_import(part)) return;
    }
    refuse_changes_between(parts);

    Result<Model> model = joined(parts);
    if (!model.ok()) return fail(Exit::unsupported, std::string(model.status().message()));
    std::optional<Model> looped;
    if (!whole_job.loops.empty()) looped = with_loops(*model, whole_job);
    note_states(*model);
    WrittenModel written(*model, {job().output, job().result}, custom_.registry(),
                         [this, checked = job().check] { return info(checked); });
    if (job().check) check_all(parts, written);
    if (has_entries) report_.job = whole_job;
    if (std::string warning = bad_weights.get(); !warning.empty())
      report_.warnings.push_back(std::move(warning));
    if (!looped || report_.check.exit != Exit::ok) return write(written);
    write_with_loops(parts, *model, *looped);
  }

  void write_with_loops(const std::vector<Part>& parts, const Model& plain, Model& looped) {
    for (auto* lines : {&report_.inputs, &report_.outputs}) lines->clear();
    report_.computed_in.clear();
    report_.ops.clear();
    report_.parameters = report_.weight_bytes = 0;
    described_.clear();
    for (const Part& part : parts) {
      const Result<Model> entry = looped.entry(part.entry);
      if (!entry.ok()) return fail(Exit::unsupported, std::string(entry.status().message()));
      describe(entry->graph(), part.entry.empty() ? "" : part.entry + "/");
    }
    WrittenModel written(looped, {job().output, job().result}, custom_.registry(),
                         [this, checked = job().check] { return info(checked); });
    if (job().check) {
      const size_t warned = report_.check.warnings.size();
      check_loops_between_runs(
          plain, written.read_back(), job(),
          [&](std::string_view entry) -> const Job& {
            return std::find_if(parts.begin(), parts.end(),
                                [&](const Part& part) { return part.entry == entry; })
                ->job;
          },
          report_.check);
      for (size_t i = warned; i < report_.check.warnings.size(); ++i)
        report_.warnings.push_back(report_.check.warnings[i]);
    }
    write(written);
  }

  // A GGUF file contains no program: its architecture and settings determine the graph.
  void steps_of_gguf(const SourceFile& source) {
    refuse_options_of_programs(job(), source.label);
    const gguf::File file = gguf::File::open(source.path, source.label);
    std::vector<SourceFile> parts;
    for (const std::string& path : file.paths()) parts.push_back({path, path, Format::gguf});
    hash_ = std::async(std::launch::async, sha256_of_files, parts);
    stage("import");
    gguf::Decoder decoder = gguf::build_decoder(file);
    gguf::TextFiles texts = gguf::text_files(file, decoder.vocabulary);
    attachments_ = std::move(texts.files);
    if (!texts.note.empty())
      report_.warnings.push_back(str_cat("texts need `hg-generate --tokenizer`: ", texts.note));
    Result<Model> model = verified(std::move(decoder.graph));
    if (!model.ok()) return fail(Exit::unsupported, std::string(model.status().message()));
    describe(model->graph(), "");
    report_.job.inputs = inputs_of_decoder(model->graph(), decoder);
    check_sizes(input_specs(model->graph()), job());  // rejects unknown names
    WrittenModel written(*model, {job().output, job().result}, custom_.registry(),
                         [this, checked = job().check] { return info(checked); });
    if (job().check) {
      stage("check");
      report_.check = check_by_loops(
          model->graph(), written.read_back(), job(), nullptr,
          "the import, since a GGUF file has no program to compare with: compare some answers",
          progress_);
      for (const std::string& line : report_.check.warnings) report_.warnings.push_back(line);
    }
    write(written);
  }

  // Returns the graph as a model, and describes it in the report.
  Result<Model> verified(Graph graph) {
    stage("verify");
    Status status = graph.status();
    if (status.ok()) status = graph.verify();
    if (!status.ok())
      return unsupported(job().model, ": the imported graph is not valid: ", status.message());
    rename_inputs(graph, report_.job.inputs);
    return Model::from_graph(std::move(graph));
  }

  Model::Info info(bool is_checked) const {
    Model::Info made{str_cat("hg-convert ", HG_VERSION),
                     report_.libtorch.empty() ? "" : "libtorch " + report_.libtorch, hash_.get()};
    if (!is_checked) made.not_exercised = {"anything: it was converted without the check"};
    made.attachments = attachments_;
    return made;
  }

  void write(WrittenModel& written) {
    if (report_.check.exit != Exit::ok)
      return fail(report_.check.exit, str_cat(job().model, ": ", report_.check.message));
    if (job().strict && !report_.check.not_exercised.empty()) return refuse_gaps();
    stage("write");
    written.keep(report_.check.not_exercised);
  }

  // Returns ONNX Runtime with the model, if requested and if it accepts the model.
  std::unique_ptr<OnnxReference> onnx_reference(const Part& part, const Graph& graph) {
    if (!runtime_) return nullptr;
    if (const std::string& why = part.imported.difference; !why.empty()) {
      report_.warnings.push_back(
          str_cat("nothing is compared with ONNX Runtime ", runtime_->version(), ": ", why));
      return nullptr;
    }
    try {
      return std::make_unique<OnnxReference>(*runtime_, part.loaded, graph, part.imported.trace);
    } catch (const OnnxRefusal& refusal) {
      report_.warnings.push_back(str_cat("nothing is compared with ONNX Runtime ",
                                         runtime_->version(),
                                         ", which refuses the model: ", refusal.reason));
      return nullptr;
    }
  }

  void refuse_gaps() {
    constexpr size_t kMostNamed = 5;
    const std::vector<std::string>& all = report_.check.not_exercised;
    std::string gaps;
    for (size_t i = 0; i < std::min(all.size(), kMostNamed); ++i)
      gaps += str_cat(gaps.empty() ? "" : "; ", all[i]);
    if (all.size() > kMostNamed)
      gaps += str_cat(" and ", uint64_t{all.size() - kMostNamed}, " more places");
    fail(Exit::mismatch,
         str_cat(job().model, ": --strict: the check did not exercise ", gaps,
                 "; give ranges of values or sizes that take them, as in 'x:f32[n]=0..100'"));
  }

  // Notes what cannot be checked, because only the application has the op.
  void note_custom(const std::vector<Part>& parts) {
    std::vector<std::string> unknown;
    for (const Part& part : parts)
      unknown.insert(unknown.end(), part.loaded.unknown_ops.begin(), part.loaded.unknown_ops.end());
    for (const CustomOp& op : job().custom) {
      if (std::find(unknown.begin(), unknown.end(), op.kind()) == unknown.end()) {
        const std::string close = closest_name(op.kind(), unknown);
        throw Failure{Exit::usage,
                      str_cat("--custom ", op.name, ": the model calls no such op",
                              close.empty() ? "" : str_cat("; did you mean ", close, "?"))};
      }
      const std::string like = op.bare ? "its first tensor" : str_cat("'", op.likes[0].first, "'");
      if (op.bare)
        report_.warnings.push_back(str_cat(op.name, ": its result is taken to be like ", like,
                                           "; an op of the application that gives another shape "
                                           "refuses the file"));
      if (job().check)
        report_.warnings.push_back(
            str_cat(op.name, ": checked with a stand-in that gives back ", like,
                    "; what the op itself computes is up to the application"));
    }
  }

  // Finds out whether the cause is the op, inputs that do not fit, or a size that must be a number.
  void explain_unsupported(const Loaded& loaded, const std::vector<InputSpec>& specs, bool calls) {
    const std::vector<Unsupported>& all = report_.unsupported;
    if (calls) {
      stage("diagnose");
      std::string trouble = report_.libtorch.empty() ? "" : input_trouble(loaded, specs, job());
      std::string fitting = suggested_inputs(loaded.program);
      if (!fitting.empty()) fitting = "; its first layer takes " + fitting;
      if (!trouble.empty())
        return fail(
            Exit::mismatch,
            str_cat(job().model, ": inputs and model do not fit each other: ", trouble, fitting));
    }
    std::string hint =
        calls ? fixed_sizes_hint(loaded.program, specs, job(), custom_.registry()) : "";
    std::set<std::string> ops;
    for (const Unsupported& each : all) ops.insert(each.op);
    fail(Exit::unsupported,
         str_cat(job().model, ": ",
                 ops.size() == 1 ? std::string("one op is")
                                 : str_cat(static_cast<int64_t>(ops.size()), " ops are"),
                 " not supported: ", list_unsupported(all), hint));
  }

  // Adds the graph to the report, with a prefix for its inputs and outputs.
  void describe(const Graph& graph, const std::string& prefix) {
    for (ValueId id : graph.inputs())
      report_.inputs.push_back(
          str_cat(prefix, graph.value_info(id).name, ": ", graph.value_info(id).type));
    for (const auto& [name, id] : graph.outputs())
      report_.outputs.push_back(str_cat(prefix, name, ": ", graph.value_info(id).type));
    const std::vector<DType> precisions = precisions_of_outputs(graph);
    report_.computed_in.insert(report_.computed_in.end(), precisions.begin(), precisions.end());
    std::map<std::string, int> counts(report_.ops.begin(), report_.ops.end());
    for (const Node& node : graph.nodes()) ++counts[std::string(node.op->name())];
    report_.ops.assign(counts.begin(), counts.end());
    for (const State& state : graph.states()) {
      if (!prefix.empty() && !described_.insert(state.data.tensor.data).second) continue;
      report_.weight_bytes += state.data.tensor.bytes();
      if (state.kind == State::Kind::parameter) report_.parameters += state.data.tensor.count();
    }
  }

  const std::function<void(const std::string&)>& progress_;
  CustomRegistry custom_;
  std::unique_ptr<StandardInput> standard_input_;
  std::unique_ptr<OnnxRuntime> runtime_;
  std::shared_future<std::string> hash_;        // reads the file
  std::vector<Model::Attachment> attachments_;  // of a GGUF file
  Report report_;
  std::set<const void*> described_;  // states of entries
  bool can_share_ = true;            // entries can share states by name
  std::string stage_;
  std::chrono::steady_clock::time_point stage_start_;
};

}  // namespace

Report convert(const Job& job, const std::function<void(const std::string&)>& progress) {
  return Conversion(job, progress).run();
}

std::string_view status_name(Exit exit) {
  constexpr std::string_view kNames[] = {"ok", "usage", "unreadable", "unsupported", "mismatch"};
  return kNames[static_cast<int>(exit)];
}

std::string summary_line(const Report& report) {
  std::string line =
      str_cat("report: hg-convert ", HG_VERSION, ", libtorch ", report.libtorch, ", model ",
              report.source_hash.substr(0, 12), ", ", status_name(report.exit));
  for (size_t i = 0; i < report.unsupported.size(); ++i)
    line +=
        str_cat(i == 0 ? ": " : ", ", report.unsupported[i].op, " x", report.unsupported[i].count);
  for (const WrongNode& wrong : report.check.wrong_nodes)
    line += str_cat(": ", wrong.op, " error ", wrong.largest_error);
  return line;
}

}  // namespace hg::convert
