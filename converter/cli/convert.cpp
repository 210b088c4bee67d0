// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/convert.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <optional>
#include <set>

#include "converter/check/check_inputs.h"
#include "converter/check/loops.h"
#include "converter/check/precision.h"
#include "converter/check/written.h"
#include "converter/cli/inputs.h"
#include "converter/cli/known_types.h"
#include "converter/cli/standard_input.h"
#include "converter/load/exported/exported.h"
#include "converter/load/gguf/decoder.h"
#include "converter/load/onnx/onnx.h"
#include "converter/load/recognise.h"
#include "converter/load/sha256.h"
#include "hg/version.h"
#include "lib/graph/access.h"

namespace hg::convert {
namespace {

// Each op once: how often, where first, and why.
std::string list_unsupported(const std::vector<Unsupported>& all) {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (const Unsupported& each : all) counts[{each.op, each.reason}] += each.count;
  std::string out;
  for (const Unsupported& each : all) {
    auto entry = counts.find({each.op, each.reason});
    if (entry == counts.end()) continue;
    out += str_cat(out.empty() ? "" : "; ", each.op);
    if (entry->second > 1) out += str_cat(" (", entry->second, "x), first");
    out += str_cat(describe_origin(each.origin), ": ", each.reason);
    if (!each.suggestion.empty()) out += str_cat(" (", each.suggestion, ")");
    counts.erase(entry);
  }
  return out;
}

// The op exists here, so it is this call that does not fit.
bool is_call(const Unsupported& each) {
  const std::string& op = each.op;
  const size_t dot = op.find('.');
  return !each.suggestion.empty() ||
         find_row(op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1)) != nullptr;
}

void suggest(std::vector<Unsupported>& all, const std::vector<std::string>& unknown_ops) {
  for (Unsupported& each : all) {
    if (is_call(each)) continue;
    bool custom = std::find(unknown_ops.begin(), unknown_ops.end(), each.op) != unknown_ops.end();
    each.suggestion = custom
                          ? str_cat("a custom op: declare it with --custom '",
                                    each.op.substr(0, each.op.find("::")), ".",
                                    each.op.substr(each.op.find("::") + 2),
                                    "(x, ...) -> like x' and let the application register it, or "
                                    "write it with PyTorch's own ops")
                          : "compute it outside of the model, or from ops that "
                            "hg-convert --list-ops names";
  }
}

// The tensors of the program that are parameters and that its graph writes to.
std::vector<ScriptTensor*> written_parameters(const Graph& graph, ScriptProgram& program) {
  std::vector<ScriptTensor*> written;
  for (ScriptTensor& tensor : program.tensors)
    if (tensor.kind == State::Kind::parameter &&
        std::any_of(graph.assignments().begin(), graph.assignments().end(), [&](const auto& each) {
          return graph.value_info(each.first).name == tensor.names.at(0);
        }))
      written.push_back(&tensor);
  return written;
}

// Makes parameters that forward writes to buffers with memory of their own; their names.
std::string keep_as_buffers(const Graph& graph, ScriptProgram& program) {
  std::string names;
  for (ScriptTensor* tensor : written_parameters(graph, program)) {
    Result<TensorData> copy = TensorData::copy_of(tensor->data.tensor);
    if (!copy.ok()) throw Refusal{std::string(copy.status().message()), ""};
    tensor->data = *std::move(copy);
    tensor->kind = State::Kind::buffer;
    names += str_cat(names.empty() ? "'" : ", '", tensor->names.at(0), "'");
  }
  return names;
}

class Conversion {
 public:
  Conversion(const Job& job, const std::function<void(const std::string&)>& progress)
      : progress_(progress), custom_(job.custom) {
    report_.job = job;
  }

  Report run() {
    try {
      steps();
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

  std::set<std::string> named_inputs() const {
    std::set<std::string> names;
    for (const InputOption& input : job().inputs) names.insert(input.spec.name);
    for (const ConstantOption& constant : job().constants) names.insert(constant.name);
    return names;
  }

  struct Source {
    std::string path, label;
    Format format;
  };
  Source recognized() {
    stage("load");
    std::string path = job().model;
    if (path == "-") {
      standard_input_ = std::make_unique<StandardInput>();
      path = standard_input_->path();
    }
    const std::string label = job().model == "-" ? "standard input" : path;
    return {path, label, recognise(path, label)};
  }

  // The program of the file, whatever its format is.
  Loaded read(const Source& source) {
    const auto& [path, label, format] = source;
    report_.libtorch = libtorch_version();
    if (job().onnxruntime) {
      if (format != Format::onnx)
        throw Failure{Exit::usage, label + ": --onnxruntime checks ONNX models; this is none"};
      runtime_ = std::make_unique<OnnxRuntime>(*job().onnxruntime);
      report_.onnxruntime = runtime_->version();
    }
    hash_ = std::async(std::launch::async, sha256_of_file, path);  // beside the reading
    Loaded loaded = format == Format::exported ? load_exported(path, label, job().custom)
                    : format == Format::onnx   ? load_onnx(path, label, named_inputs())
                                               : load_script(path, job().custom);
    if (format == Format::onnx) report_.libtorch.clear();  // it has no part in this
    for (const std::string& line : loaded.program.notes) report_.notes.push_back(line);
    return loaded;
  }

  // Runs the model as it will be written beside what it was read from.
  void check(Format format, const Loaded& loaded, const Graph& graph,
             std::span<const Executed> trace, WrittenModel& written) {
    if (format == Format::onnx) {
      stage("check");
      const auto runtime = onnx_reference(loaded, graph, trace);
      report_.check = check_by_loops(
          graph, written.read_back(), job(), runtime.get(),
          str_cat("the import, which only the runtime of the file's own format could tell: compare "
                  "some answers",
                  job().onnxruntime ? "" : ", or let --onnxruntime do it"),
          progress_);
      for (const std::string& line : report_.check.warnings) report_.warnings.push_back(line);
    } else if (report_.libtorch.empty()) {
      report_.check.not_exercised = {"anything: hg-convert is built without libtorch"};
      report_.warnings.push_back(
          "nothing is checked: this hg-convert is built without libtorch; compare the file's "
          "answers with the model's");
    } else {
      stage("check");
      report_.check = check_model(
          loaded, graph, [&]() -> const Model& { return written.read_back(); }, trace, job(),
          progress_);
      for (const std::string& line : report_.check.warnings) report_.warnings.push_back(line);
    }
  }

  void steps() {
    const Source source = recognized();
    const Format format = source.format;
    if (format == Format::gguf) return steps_of_gguf(source);
    Loaded loaded = read(source);
    note_custom(loaded);
    apply_constants(loaded.program, job().constants, format == Format::onnx);
    std::future<std::string> bad_weights =
        std::async(std::launch::async, warning_of_weights, std::cref(loaded.program));

    stage("import");
    std::string note;
    report_.job.inputs = fit_inputs(loaded.program, report_.job.inputs, note);
    if (!note.empty()) report_.notes.push_back(note);
    apply_dims();
    loaded.program.asked_sizes = asked_sizes();
    for (const SymbolRange& range : loaded.program.ranges)
      if (range.example > 0) report_.job.examples.push_back({range.symbol, {range.example}});
    std::vector<InputSpec> specs;
    for (const InputOption& option : job().inputs) specs.push_back(option.spec);
    Imported imported = import_program(loaded.program, specs, custom_.registry());
    if (imported.unsupported.empty() &&
        !written_parameters(imported.graph, loaded.program).empty()) {
      bad_weights.wait();  // it reads the program
      const std::string names = keep_as_buffers(imported.graph, loaded.program);
      report_.notes.push_back(str_cat("forward writes to ", names,
                                      ", which the file keeps as buffers instead of parameters: a "
                                      "trainer leaves them as they are"));
      imported = import_program(loaded.program, specs, custom_.registry());
    }
    for (std::string& line : imported.notes) report_.notes.push_back(std::move(line));
    for (std::string& line : imported.warnings) report_.warnings.push_back(std::move(line));
    if (!imported.unsupported.empty()) {
      report_.unsupported = std::move(imported.unsupported);
      const bool calls = std::all_of(report_.unsupported.begin(), report_.unsupported.end(),
                                     [](const Unsupported& each) { return is_call(each); });
      suggest(report_.unsupported, loaded.unknown_ops);
      return explain_unsupported(loaded, specs, calls);
    }

    Result<Model> model = verified(std::move(imported.graph));
    if (!model.ok()) return fail(Exit::unsupported, std::string(model.status().message()));
    check_sizes(input_specs(model->graph()), job());  // names of --check-size
    WrittenModel written(*model, {job().output, job().result}, custom_.registry(),
                         [this] { return info(); });
    if (job().check) check(format, loaded, model->graph(), imported.trace, written);
    if (std::string warning = bad_weights.get(); !warning.empty())
      report_.warnings.push_back(std::move(warning));
    write(written);
  }

  // A GGUF file has no program: its architecture's name and settings decide the graph.
  void steps_of_gguf(const Source& source) {
    refuse_options_of_programs(source.label);
    hash_ = std::async(std::launch::async, sha256_of_file, source.path);
    const gguf::File file = gguf::File::open(source.path, source.label);
    stage("import");
    gguf::Decoder decoder = gguf::build_decoder(file);
    Result<Model> model = verified(std::move(decoder.graph));
    if (!model.ok()) return fail(Exit::unsupported, std::string(model.status().message()));
    report_.job.inputs = inputs_of_decoder(model->graph(), decoder);
    check_sizes(input_specs(model->graph()), job());  // names of --check-size
    WrittenModel written(*model, {job().output, job().result}, custom_.registry(),
                         [this] { return info(); });
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

  void refuse_options_of_programs(const std::string& label) const {
    const char* option = !job().inputs.empty()      ? "--input"
                         : !job().constants.empty() ? "--constant"
                         : !job().custom.empty()    ? "--custom"
                         : !job().dims.empty()      ? "--dim"
                         : job().onnxruntime        ? "--onnxruntime"
                                                    : nullptr;
    if (option != nullptr)
      throw Failure{Exit::usage, str_cat(label, ": ", option, " does not apply to GGUF files")};
  }

  // With the values that the check may give them.
  static std::vector<InputOption> inputs_of_decoder(const Graph& graph,
                                                    const gguf::Decoder& decoder) {
    std::vector<InputOption> options;
    for (const InputSpec& spec : input_specs(graph)) {
      InputOption option{.spec = spec, .range = std::nullopt};
      if (spec.name == "input_ids") option.range = {0, static_cast<double>(decoder.vocabulary - 1)};
      if (spec.name == "attention_mask") option.range = {1, 1};
      if (spec.name == "position_ids")
        option.range = {0, static_cast<double>(std::max<int64_t>(decoder.context, 1) - 1)};
      options.push_back(std::move(option));
    }
    return options;
  }

  // The graph as a model, which the report then describes.
  Result<Model> verified(Graph graph) {
    stage("verify");
    Status status = graph.status();
    if (status.ok()) status = graph.verify();
    if (!status.ok())
      return unsupported(job().model, ": the imported graph is not valid: ", status.message());
    rename_inputs(graph);
    HG_TRY_ASSIGN(Model model, Model::from_graph(std::move(graph)));
    describe(model.graph());
    return model;
  }

  Model::Info info() const {
    Model::Info made{str_cat("hg-convert ", HG_VERSION),
                     report_.libtorch.empty() ? "" : "libtorch " + report_.libtorch, hash_.get()};
    if (!job().check) made.not_exercised = {"anything: it was converted without the check"};
    return made;
  }

  void write(WrittenModel& written) {
    if (report_.check.exit != Exit::ok)
      return fail(report_.check.exit, str_cat(job().model, ": ", report_.check.message));
    if (job().strict && !report_.check.not_exercised.empty()) return refuse_gaps();
    stage("write");
    written.keep(report_.check.not_exercised);
  }

  // ONNX Runtime with the model, where it was asked for and takes the model.
  std::unique_ptr<OnnxReference> onnx_reference(const Loaded& loaded, const Graph& graph,
                                                std::span<const Executed> trace) {
    if (!runtime_) return nullptr;
    try {
      return std::make_unique<OnnxReference>(*runtime_, loaded, graph, trace);
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

  void apply_dims() {
    Bindings bindings;
    for (const SizeOption& option : job().dims) {
      bool used = false;
      for (const InputOption& input : job().inputs) {
        std::vector<std::string> symbols;
        for (const Dim& dim : input.spec.type.shape) dim.collect_symbols(symbols);
        used = used || std::count(symbols.begin(), symbols.end(), option.symbol) > 0;
      }
      if (!used)
        throw Failure{Exit::usage,
                      str_cat("--dim ", option.symbol, ": no --input has a size ", option.symbol)};
      if (Status status = bindings.bind(option.symbol, option.sizes.at(0)); !status.ok())
        throw Failure{Exit::usage, str_cat("--dim: ", status.message())};
    }
    for (InputOption& input : report_.job.inputs)
      for (Dim& dim : input.spec.type.shape) dim = dim.substitute(bindings);
  }

  // Of each symbol with --check-size one size: 1 where that is all, since it is special.
  std::vector<std::pair<std::string, int64_t>> asked_sizes() const {
    std::vector<std::pair<std::string, int64_t>> asked;
    for (const SizeOption& option : job().check_sizes) {
      const auto size = std::find_if(option.sizes.begin(), option.sizes.end(),
                                     [](int64_t each) { return each != 1; });
      if (!option.sizes.empty())
        asked.emplace_back(option.symbol, size == option.sizes.end() ? 1 : *size);
    }
    return asked;
  }

  // --input NEW=NAME:...; the program keeps its own names, which the options then hold.
  void rename_inputs(Graph& graph) {
    std::vector<std::pair<ValueId, std::string>> renamed;
    for (size_t i = 0; i < report_.job.inputs.size(); ++i) {
      InputOption& option = report_.job.inputs[i];
      if (option.new_name.empty()) continue;
      const ValueId id = graph.inputs()[i];
      option.spec.name = graph.value_info(id).name;
      GraphAccess::rename(graph, id, "renamed");  // two inputs may exchange their names
      renamed.emplace_back(id, option.new_name);
    }
    for (const auto& [id, name] : renamed) {
      GraphAccess::rename(graph, id, name);
      if (graph.value_info(id).name != name)
        throw Failure{
            Exit::usage,
            str_cat("--input '", name, "=...': the model has a value named '", name, "' already")};
    }
  }

  // What is not proven here, since only the application has the op.
  void note_custom(const Loaded& loaded) {
    const std::vector<std::string>& unknown = loaded.unknown_ops;
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

  static std::string warning_of_weights(const ScriptProgram& program) {
    std::string bad;
    int64_t count = 0;
    for (const ScriptTensor& tensor : program.tensors) {
      if (tensor.names.empty() || !has_nan(tensor.data.tensor)) continue;
      if (count++ < 5) bad += str_cat(bad.empty() ? "'" : ", '", tensor.names[0], "'");
    }
    if (count == 0) return "";
    return str_cat("weights that hold NaN: ", bad,
                   count > 5 ? str_cat(" and ", count - 5, " more") : "",
                   "; the model was probably saved from a failed training");
  }

  template <class T>
  static bool any_nan(const Tensor& tensor) {
    for (int64_t i = 0; i < tensor.count(); ++i)
      if (std::isnan(static_cast<float>(tensor.as<const T>()[i]))) return true;
    return false;
  }
  static bool has_nan(const Tensor& tensor) {
    switch (tensor.dtype) {
      case f32:
        return any_nan<float>(tensor);
      case f64:
        return any_nan<double>(tensor);
      case f16:
        return any_nan<Half>(tensor);
      case bf16:
        return any_nan<BFloat16>(tensor);
      default:
        return false;
    }
  }

  // Is it the op, the inputs that do not fit the model, or a size that cannot stay open?
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
    std::string hint = calls ? fixed_sizes_hint(loaded, specs) : "";
    std::set<std::string> ops;
    for (const Unsupported& each : all) ops.insert(each.op);
    fail(Exit::unsupported,
         str_cat(job().model, ": ",
                 ops.size() == 1 ? std::string("one op is")
                                 : str_cat(static_cast<int64_t>(ops.size()), " ops are"),
                 " not supported: ", list_unsupported(all), hint));
  }

  // Whether the model can be converted with numbers for its symbols: for one of them, or for all.
  std::string fixed_sizes_hint(const Loaded& loaded, const std::vector<InputSpec>& specs) const {
    const auto cases = check_sizes(specs, job());
    if (cases.empty() || cases[0].empty()) return "";
    std::vector<std::vector<std::pair<std::string, int64_t>>> trials;
    for (const auto& size : cases[0]) trials.push_back({size});
    if (cases[0].size() > 1) trials.push_back(cases[0]);
    for (const auto& sizes : trials) {
      Bindings bindings;
      std::string options;
      for (const auto& [symbol, size] : sizes) {
        if (!bindings.bind(symbol, size).ok()) return "";
        options += str_cat(" --dim ", symbol, "=", size);
      }
      std::vector<InputSpec> fixed = specs;
      for (InputSpec& spec : fixed)
        for (Dim& dim : spec.type.shape) dim = dim.substitute(bindings);
      if (import_program(loaded.program, fixed, custom_.registry()).unsupported.empty())
        return str_cat("; with a number for ", sizes.size() > 1 ? "each size" : "this size", " (",
                       options.substr(1),
                       ") it can be converted: what a trace has baked in is to be "
                       "computed from x.size()");
    }
    return "";
  }

  void describe(const Graph& graph) {
    for (ValueId id : graph.inputs())
      report_.inputs.push_back(str_cat(graph.value_info(id).name, ": ", graph.value_info(id).type));
    for (const auto& [name, id] : graph.outputs())
      report_.outputs.push_back(str_cat(name, ": ", graph.value_info(id).type));
    report_.computed_in = precisions_of_outputs(graph);
    std::map<std::string, int> counts;
    for (const Node& node : graph.nodes()) ++counts[std::string(node.op->name())];
    report_.ops.assign(counts.begin(), counts.end());
    for (const State& state : graph.states()) {
      report_.weight_bytes += state.data.tensor.bytes();
      if (state.kind == State::Kind::parameter) report_.parameters += state.data.tensor.count();
    }
  }

  const std::function<void(const std::string&)>& progress_;
  CustomRegistry custom_;
  std::unique_ptr<StandardInput> standard_input_;
  std::unique_ptr<OnnxRuntime> runtime_;
  std::shared_future<std::string> hash_;  // reads the file
  Report report_;
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
