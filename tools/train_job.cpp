// SPDX-License-Identifier: Apache-2.0
// Creates a Trainer from files and options, trains, and writes files.
#include "tools/train_job.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "hg/stateful.h"
#include "lib/platform/memory.h"
#include "tools/command_line/overwrites.h"
#include "tools/entry.h"
#include "tools/export_weights.h"
#include "tools/inputs.h"
#include "tools/process.h"
#include "tools/train_log.h"

namespace hg::tools {
namespace {

Result<double> parse_number(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value))
    return invalid_argument("'", word, "' is not a number");
  return value;
}

// "PATTERN=NUMBER"
Outcome parse_pair(std::string_view option, const std::string& given, std::string& pattern,
                   double& number) {
  const size_t equals = given.rfind('=');
  if (equals == std::string::npos || equals == 0)
    return usage(option, " ", given, ": expected PATTERN=NUMBER");
  pattern = given.substr(0, equals);
  const Result<double> value = parse_number(std::string_view(given).substr(equals + 1));
  if (!value.ok()) return usage(option, " ", given, ": ", value.status().message());
  number = *value;
  return {};
}

// "[OUTPUT=]KIND[*WEIGHT]"
Outcome parse_loss(const std::string& given, Loss& loss) {
  std::string_view rest = given;
  if (const size_t star = rest.rfind('*'); star != std::string_view::npos) {
    const Result<double> weight = parse_number(rest.substr(star + 1));
    if (!weight.ok()) return usage("--loss ", given, ": ", weight.status().message());
    loss.weight = *weight;
    rest = rest.substr(0, star);
  }
  if (const size_t equals = rest.rfind('='); equals != std::string_view::npos) {
    loss.output = rest.substr(0, equals);
    rest = rest.substr(equals + 1);
  }
  const Result<Loss::Kind> kind = hg::parse_loss(rest);
  if (!kind.ok()) return usage("--loss ", given, ": ", kind.status().message());
  loss.kind = *kind;
  return {};
}

Result<Value> find_output(Graph& graph, const Loss& loss) {
  for (const auto& [name, id] : graph.outputs())
    if (loss.output.empty() || name == loss.output) return graph.value(id);
  return not_found("--loss: the model has no output '", loss.output, "'");
}

class Job {
 public:
  Job(const TrainJob& job, const OnStart& on_start, const OnProgress& on_progress,
      TrainSummary& summary)
      : job_(job),
        options_(job.options),
        on_start_(on_start),
        on_progress_(on_progress),
        summary_(summary) {}

  Outcome run() {
    if (Outcome o = check_files(); !o.ok()) return o;
    for (const std::string* path : {&job_.out, &job_.best, &job_.log, &job_.svg, &job_.weights})
      if (Outcome o = check_place(*path); !o.ok()) return o;
    if (!job_.weights.empty())
      if (Outcome o = check_weights_path(job_.weights); !o.ok()) return o;
    Result<Model> model = adapted();
    if (!model.ok()) return outcome(model.status());
    if (!model->entries().empty()) file_ = *model;
    model = entry_of(*std::move(model), job_.model, job_.entry);
    if (!model.ok()) return outcome(model.status());
    if (!file_.entries().empty() && trains_adapter())
      if (Outcome o = check_entry(*model); !o.ok()) return o;
    if (Outcome o = open_data(*model); !o.ok()) return o;
    if (Outcome o = parse_rules(); !o.ok()) return o;
    if (Outcome o = parse_metrics(); !o.ok()) return o;
    Result<Trainer> trainer = Trainer::create(*model, options_);
    if (!trainer.ok()) return outcome(trainer.status());
    *model = Model();  // the trainer has copied what it needs of the model and its file
    if (Outcome o = plan(*trainer); !o.ok()) return o;
    trim_heap();  // memory used while the step was built
    log_.metric_names = job_.metrics;
    log_.trained = trainer->trained();
    log_.notes = notes_;
    log_.notes.insert(log_.notes.end(), trainer->notes().begin(), trainer->notes().end());
    if (on_start_) on_start_(log_.notes, log_.memory);
    const Outcome trained = fit(*trainer);
    summary_.profile = trainer->session().profile();
    Outcome saved;
    // After a failure, the weights are those before the failed step.
    if (trained.ok() || summary_.steps > 0) saved = save(*trainer, job_.out);
    if (!trained.ok()) log_.stopped = "failed";
    if (saved.ok() && !job_.weights.empty()) saved = export_weights(*trainer);
    if (saved.ok() && !job_.log.empty()) saved = write_json(log_, job_.log);
    if (saved.ok() && !job_.svg.empty()) saved = write_svg(log_, job_.out, job_.svg);
    return trained.ok() ? saved : trained;
  }

 private:
  bool trains_adapter() const { return !job_.lora.empty() || !job_.adapters.empty(); }

  // The model with its adapter. A decoder starts anew with each sample, unless a past is given; the
  // adapter fits the decoder with its past as well.
  Result<Model> adapted() const {
    HG_TRY_ASSIGN(Model model, Model::load(job_.model));
    if (trains_adapter() && model.entries().empty()) {
      std::vector<std::string> given;
      for (const std::string& input : job_.inputs)
        if (const size_t equals = input.find('='); equals != std::string::npos)
          given.push_back(input.substr(0, equals));
      const std::vector<CarriedValue> carried = carried_values(model.graph());
      const bool has_past = std::any_of(carried.begin(), carried.end(), [&](const auto& each) {
        return std::find(given.begin(), given.end(), each.input) != given.end();
      });
      if (!carried.empty() && !has_past) {
        HG_TRY_ASSIGN(model, make_stateless(model, given));
      }
    }
    if (job_.lora.empty()) return with_adapters(std::move(model), job_.adapters);
    AdapterOptions options{job_.lora, job_.rank};
    options.alpha = job_.alpha.value_or(static_cast<double>(job_.rank));
    options.seed = options_.session.seed;
    return add_adapter(model, options);
  }

  // --out has the adapter of the trained entry alone.
  Outcome check_entry(const Model& entry) const {
    const Result<Model> all = take_adapter(file_), own = take_adapter(entry);
    const size_t states = own.ok() ? own->graph().states().size() : 0;
    if (all.ok() && states < all->graph().states().size())
      return mismatch("the adapter has layers that entry '", job_.entry,
                      "' does not read, which --out would lose; adapt layers of the entry alone");
    return {};
  }

  // The trained model may replace the model.
  Outcome check_files() const {
    std::vector<FileOption> read;
    for (const auto& [option, words] : {std::pair("--input", &job_.inputs),
                                        {"--target", &job_.targets},
                                        {"--validation-input", &job_.validation_inputs},
                                        {"--validation-target", &job_.validation_targets}}) {
      const std::vector<FileOption> files = files_in(option, *words);
      read.insert(read.end(), files.begin(), files.end());
    }
    const FileOption written[] = {{"--out", job_.out},
                                  {"--best", job_.best},
                                  {"--export", job_.weights},
                                  {"--json", job_.log},
                                  {"--svg", job_.svg}};
    if (Outcome o = check_overwrites(written, read); !o.ok()) return o;
    // The adapter that it trains may replace the one that it started with.
    const std::span<const FileOption> others(written + (job_.adapters.size() > 1 ? 0 : 1),
                                             std::end(written));
    if (Outcome o = check_overwrites(others, files_in("--adapter", job_.adapters)); !o.ok())
      return o;
    const FileOption model{"MODEL", job_.model};
    // An adapter does not replace the model that it needs.
    return check_overwrites(std::span(written).subspan(trains_adapter() ? 0 : 1), {&model, 1});
  }

  // -- Data --------------------------------------------------------------------------------------

  Outcome open_data(Model& model) {
    InputArrays& inputs = arrays_[0];
    if (Outcome o = open_inputs(model.graph(), job_.inputs, nullptr, inputs); !o.ok()) return o;
    if (Outcome o = match_types(model.graph(), inputs, &notes_); !o.ok()) return o;
    if (Outcome o = open_targets(model.graph(), job_.targets, true, arrays_[1]); !o.ok()) return o;
    fill(arrays_[0], arrays_[1], data_);
    if (Outcome o = check_samples(data_); !o.ok()) return o;
    if (!job_.validation_inputs.empty() || !job_.validation_targets.empty()) {
      if (job_.validation_split > 0)
        return usage("--validation-split and --validation-input exclude each other");
      if (Outcome o = open_inputs(model.graph(), job_.validation_inputs, nullptr, arrays_[2]);
          !o.ok())
        return o;
      if (Outcome o = match_types(model.graph(), arrays_[2], &notes_); !o.ok()) return o;
      if (Outcome o = open_targets(model.graph(), job_.validation_targets, false, arrays_[3]);
          !o.ok())
        return o;
      fill(arrays_[2], arrays_[3], validation_);
      return check_samples(validation_);
    }
    if (job_.validation_split > 0) return split();
    if (!job_.metrics.empty())
      return usage("--metric ", job_.metrics[0],
                   " needs validation data; give --validation-split or --validation-input");
    return {};
  }

  static void fill(const InputArrays& inputs, const InputArrays& targets, Dataset& data) {
    for (const Array& array : inputs) data.inputs.push_back(array.tensor());
    for (const Array& array : targets) data.targets.push_back(array.tensor());
  }

  Outcome check_samples(const Dataset& data) {
    if (job_.fit.batch == 0) return {};
    int64_t samples = -1;
    for (const auto* list : {&data.inputs, &data.targets})
      for (const ConstTensor& tensor : *list) {
        if (tensor.rank() == 0) return mismatch("a file has no first dimension to count samples");
        if (samples >= 0 && tensor.shape[0] != samples)
          return mismatch("one file has ", samples, " samples, another ", tensor.shape[0],
                          "; if they are not samples, such as nodes and edges, give --batch all");
        samples = tensor.shape[0];
      }
    if (samples == 0) return mismatch("the files have no samples");
    return {};
  }

  // Opens the targets. With `define`, creates a loss for each target without one.
  Outcome open_targets(Graph& graph, const std::vector<std::string>& files, bool define,
                       InputArrays& arrays) {
    if (define) options_.losses.clear();
    size_t next = 0;
    for (const std::string& given : job_.losses) {
      Loss loss = job_.loss;
      if (Outcome o = parse_loss(given, loss); !o.ok()) return o;
      if (loss.kind == Loss::Kind::output) {
        if (define) options_.losses.push_back(loss);
        continue;
      }
      if (next >= files.size())
        return usage("--loss ", given, " has no --target FILE.npy: ", int64_t(files.size()),
                     " are given");
      Result<Array> array = read_npy(files[next]);
      if (!array.ok()) return outcome(array.status());
      const Result<Value> y = find_output(graph, loss);
      if (!y.ok()) return outcome(y.status());
      // One number per sample, if the output has the shape [n, 1].
      const bool of_classes =
          loss.kind == Loss::Kind::cross_entropy || loss.kind == Loss::Kind::nll;
      if (!of_classes && array->rank() > 0 && array->rank() + 1 == y->rank() &&
          y->dim(-1) == Dim(1)) {
        Sizes column = array->shape();
        column.push_back(1);
        array = array->reshape(column);
        if (!array.ok()) return outcome(array.status());
      }
      if (define) {
        TensorType type{array->dtype(), to_shape(array->shape())};
        if (!type.shape.empty() && y->rank() > 0) type.shape[0] = y->dim(0);
        loss.target_type = type;
        loss.target = free_name(graph, next);
        options_.losses.push_back(loss);
      }
      arrays.push_back(*std::move(array));
      ++next;
    }
    if (next < files.size())
      return usage(int64_t(files.size()), " --target files are given, the losses take ",
                   int64_t(next));
    return {};
  }

  static std::string free_name(const Graph& graph, size_t index) {
    std::string name = index == 0 ? "target" : str_cat("target_", int64_t(index));
    for (bool taken = true; taken;) {
      taken = false;
      for (ValueId id = 0; id < graph.value_count(); ++id)
        taken |= graph.value_info(id).name == name;
      if (taken) name.push_back('_');
    }
    return name;
  }

  Outcome split() {
    if (job_.fit.batch == 0)
      return usage("--validation-split needs samples, which --batch all does not count");
    const int64_t samples = data_.inputs.empty() ? 0 : data_.inputs[0].shape[0];
    const auto kept = static_cast<int64_t>(
        std::llround(static_cast<double>(samples) * (1 - job_.validation_split)));
    if (kept <= 0 || kept >= samples)
      return usage("--validation-split ", job_.validation_split, " leaves ", kept, " of ", samples,
                   " samples to train on");
    validation_ = data_;
    for (auto* list : {&data_.inputs, &data_.targets})
      for (ConstTensor& tensor : *list) tensor.shape[0] = kept;
    for (auto* list : {&validation_.inputs, &validation_.targets})
      for (ConstTensor& tensor : *list) {
        tensor.data = tensor.as<std::byte>() + kept * tensor.strides[0] * size_of(tensor.dtype);
        tensor.shape[0] = samples - kept;
      }
    return {};
  }

  // -- Options -----------------------------------------------------------------------------------

  Outcome parse_rules() {
    std::string pattern;
    double number = 0;
    for (const std::string& given : job_.lr_for) {
      if (Outcome o = parse_pair("--lr-for", given, pattern, number); !o.ok()) return o;
      options_.rules.push_back({.pattern = pattern, .lr = number});
    }
    for (const std::string& given : job_.weight_decay_for) {
      if (Outcome o = parse_pair("--weight-decay-for", given, pattern, number); !o.ok()) return o;
      options_.rules.push_back({.pattern = pattern, .weight_decay = number});
    }
    for (const std::string& given : job_.l1) {
      if (Outcome o = parse_pair("--l1", given, pattern, number); !o.ok()) return o;
      options_.penalties.push_back({pattern, number, 0});
    }
    for (const std::string& given : job_.l2) {
      if (Outcome o = parse_pair("--l2", given, pattern, number); !o.ok()) return o;
      options_.penalties.push_back({pattern, 0, number});
    }
    return {};
  }

  // A metric compares an output with the target of that output's first loss.
  Outcome parse_metrics() {
    for (const std::string& given : job_.metrics) {
      const size_t equals = given.rfind('=');
      const bool has_output = equals != std::string::npos;
      const Result<Metric::Kind> kind = parse_metric(has_output ? given.substr(equals + 1) : given);
      if (!kind.ok()) return usage("--metric ", given, ": ", kind.status().message());
      Metric metric{.kind = *kind};
      if (has_output) metric.output = given.substr(0, equals);
      const auto loss =
          std::find_if(options_.losses.begin(), options_.losses.end(), [&](const Loss& l) {
            return l.kind != Loss::Kind::output && (!has_output || l.output == metric.output);
          });
      if (loss == options_.losses.end())
        return usage("--metric ", given, ": no --loss compares that output with a target");
      metric.output = loss->output;
      metric.target = loss->target;
      options_.metrics.push_back(metric);
    }
    return {};
  }

  // -- Training ----------------------------------------------------------------------------------

  // Plans for the first batch, so that its memory is known, or rejected, before the first step.
  Outcome plan(Trainer& trainer) {
    SymbolSizes dims;
    for (size_t i = 0; i < data_.inputs.size(); ++i) {
      const ConstTensor& tensor = data_.inputs[i];
      const TensorType& type = trainer.session().input_type(static_cast<int>(i));
      for (int d = 0; d < std::min(type.rank(), tensor.rank()); ++d) {
        const std::string symbol(type.shape[d].symbol());
        const int64_t size = d == 0 && job_.fit.batch > 0
                                 ? std::min(job_.fit.batch, tensor.shape[0])
                                 : tensor.shape[d];
        const auto known = std::find_if(dims.begin(), dims.end(),
                                        [&](const auto& pair) { return pair.first == symbol; });
        if (!symbol.empty() && known == dims.end()) dims.emplace_back(symbol, size);
      }
    }
    if (const Status planned = trainer.plan(dims); !planned.ok()) return outcome(planned);
    if (const Result<Memory> memory = trainer.session().memory(); memory.ok())
      log_.memory = *memory;
    log_.flops = trainer.session().flops();
    return {};
  }

  Outcome fit(Trainer& trainer) {
    FitOptions fit = job_.fit;
    if (!validation_.targets.empty() || !validation_.inputs.empty()) fit.validation = &validation_;
    if (file_.entries().empty() && !trains_adapter()) fit.best_path = job_.best;
    Outcome checkpoint;
    double ms = 0;
    bool was_last = false;
    fit.on_progress = [&](const Progress& p) {
      log_.add(p);
      was_last = p.is_epoch && p.epoch == p.epochs;
      if (!p.is_epoch) {
        if (summary_.steps++ == 0) summary_.first_loss = p.loss;
        if (summary_.epochs == 0) summary_.last_loss = p.loss;
        ms += p.ms;
      } else {
        ++summary_.epochs;
        summary_.last_loss = p.loss;
        if (p.is_best) {
          summary_.best_epoch = p.epoch;
          summary_.best_loss = p.validation != nullptr ? p.validation->loss : p.loss;
          if (!job_.best.empty() && fit.best_path.empty()) checkpoint = save(trainer, job_.best);
        }
        if (p.validation != nullptr) summary_.validation = describe(*p.validation);
        if (checkpoint.ok() && job_.save_every > 0 && p.epoch % job_.save_every == 0)
          checkpoint = save(trainer, job_.out);
      }
      if (!checkpoint.ok()) return false;
      if (on_progress_ && !on_progress_(p)) summary_.was_stopped = true;
      return !summary_.was_stopped;
    };
    const Status status = trainer.fit(data_, fit);
    summary_.ms_per_step = summary_.steps > 0 ? ms / static_cast<double>(summary_.steps) : 0;
    if (summary_.was_stopped)
      log_.stopped = "interrupted";
    else if (!was_last && summary_.steps > 0)
      log_.stopped = "early", summary_.was_early = status.ok();
    if (!checkpoint.ok()) return checkpoint;
    return outcome(status);
  }

  std::string describe(const Evaluation& evaluation) const {
    const auto named = [](std::string_view name, double value) {
      char digits[32];
      std::snprintf(digits, sizeof digits, " %.6g", value);
      return str_cat(name, digits);
    };
    std::string out = named("loss", evaluation.loss);
    for (size_t i = 0; i < evaluation.metrics.size(); ++i)
      out += str_cat(", ", named(job_.metrics[i], evaluation.metrics[i]));
    return out;
  }

  Outcome save(const Trainer& trainer, const std::string& path) const {
    const Status saved = written(trainer, path);
    if (saved.ok()) return {};
    return {Exit::unreadable, std::string(saved.message())};
  }

  Status written(const Trainer& trainer, const std::string& path) const {
    if (trains_adapter()) {
      HG_TRY_ASSIGN(const Model adapter, trainer.adapter());
      return adapter.save(path);
    }
    const std::vector<std::string> entries = file_.entries();
    if (entries.empty()) return trainer.save(path);
    HG_TRY_ASSIGN(const Model trained, trainer.model());
    const std::string& name = job_.entry.empty() ? entries[0] : job_.entry;
    HG_TRY_ASSIGN(const Model all, with_trained_entry(file_, name, trained));
    return all.save(path);
  }

  Outcome export_weights(const Trainer& trainer) const {
    const Result<Model> model = trains_adapter() ? trainer.adapter() : trainer.model();
    if (!model.ok()) return outcome(model.status());
    return write_weights(*model, job_.weights);
  }

  const TrainJob& job_;
  TrainOptions options_;
  Model file_;  // of several entries; empty for a file of one graph
  const OnStart& on_start_;
  const OnProgress& on_progress_;
  TrainSummary& summary_;
  InputArrays arrays_[4];  // inputs and targets, for training and validation
  Dataset data_, validation_;
  TrainLog log_;
  std::vector<std::string> notes_;
};

}  // namespace

Outcome train(const TrainJob& job, const OnStart& on_start, const OnProgress& on_progress,
              TrainSummary& summary) {
  return Job(job, on_start, on_progress, summary).run();
}

}  // namespace hg::tools
