// SPDX-License-Identifier: Apache-2.0
// hg-quantize: makes a model with low-bit weights.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hg/npy.h"
#include "hg/quantize.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/overwrites.h"
#include "tools/draw/draw_curve.h"
#include "tools/inputs.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

// Files whose first dim counts samples, split into inputs of single runs.
struct Samples {
  InputArrays files;                           // which the runs refer to
  std::vector<std::vector<ConstTensor>> runs;  // per run, the inputs of the graph in order
};

// `arguments` are those of open_inputs(). A run uses `batch` samples; the last one uses the rest.
// For an input with a fixed first size, a run uses that many. 0: one run uses the files as they
// are.
Outcome open_samples(const Graph& graph, std::span<const std::string> arguments, int64_t batch,
                     Samples& samples) {
  if (Outcome o = open_inputs(graph, arguments, nullptr, samples.files); !o.ok()) return o;
  if (Outcome o = match_types(graph, samples.files, nullptr); !o.ok()) return o;
  samples.runs.clear();
  if (batch == 0) {
    samples.runs.emplace_back(samples.files.begin(), samples.files.end());
    return {};
  }
  for (size_t i = 0; i < samples.files.size(); ++i) {
    const Array& file = samples.files[i];
    const ValueInfo& input = graph.value_info(graph.inputs()[i]);
    if (file.rank() == 0 || input.type.rank() == 0)
      return mismatch("input '", input.name, "' is ", input.type, ", its file has the shape ",
                      file.shape(), ": it has no first dim that counts samples; --batch all takes ",
                      "files as they are");
    const Dim& first = input.type.shape[0];
    const int64_t rows = file.shape()[0], each = first.is_constant() ? first.constant() : batch;
    if (each < 1 || (first.is_constant() && rows % each != 0))
      return mismatch("the file of input '", input.name, "' has ", rows, " samples, a run takes ",
                      each);
    const auto count = static_cast<size_t>((rows + each - 1) / each);
    if (i > 0 && count != samples.runs.size())
      return mismatch("the file of input '", input.name, "' is enough for ", uint64_t{count},
                      " runs, those before it for ", uint64_t{samples.runs.size()});
    samples.runs.resize(count);
    for (size_t run = 0; run < count; ++run) {
      const int64_t begin = static_cast<int64_t>(run) * each;
      const Result<Array> part = file.narrow(0, begin, std::min(each, rows - begin));
      if (!part.ok()) return outcome(part.status());
      samples.runs[run].push_back(*part);
    }
  }
  return {};
}

constexpr char kExamples[] = R"(Examples:
  hg-quantize resnet18.hgm -o small.hgm
  hg-quantize gpt.hgm -o gpt4.hgm --bits 4 --group 32 --keep lm_head
  hg-quantize net.hgm -o net8.hgm --input images.npy --batch 8 --percentile 99.99
  hg-quantize net.hgm -o net8.hgm --input images.npy --fastest --threads 4
  hg-quantize net.hgm -o net.hgm --json
  hg-quantize gpt.hgm -o gpt4.hgm --input ids.npy --bits 4 --group 32 --rounding second_order
  hg-quantize net.hgm -o small.hgm --input images.npy --max-error 0.01 --svg errors.svg
  hg-quantize net.hgm -o small.hgm --input images.npy --max-error 0.002 --metric accuracy \
              --target labels.npy

Weights of products, convolutions, recurrent layers and embeddings become integers with one scale
per output channel, or per --group of input channels. The model computes the same with the rounded
weights: hg-diff and hg-run show the difference, hg-info --html the error of each weight.

With --input, files of representative samples, convolutions and products also take their inputs in 8
bits. Runs on the samples determine the range of each input. --fastest also measures runs of the
first --batch samples, and leaves layers in floats that 8 bits do not make faster on this machine.

With --max-error or --rounding second_order, inputs stay floats. The samples determine levels, and
with --max-error the bits of each weight: the error printed is that of the written model, measured on
the samples.

Exit codes: 0 ok, 1 usage, 2 file cannot be read or written, 3 unsupported, 4 model and options do
not fit. Nothing is written unless 0.)";

struct QuantizeJob {
  std::string model, out;
  QuantizeOptions options;
  std::vector<std::string> inputs;  // files of samples
  int64_t batch = 1;                // 0: all
  SessionOptions session;
  std::string rounding = "nearest", metric, target, svg;
  bool as_json = false;
};

std::string padded(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string weights_text(const std::vector<QuantizedWeight>& weights, bool is_mixed) {
  size_t widest = 0;
  for (const QuantizedWeight& weight : weights) widest = std::max(widest, weight.name.size());
  std::string out;
  int64_t before = 0, bytes = 0;
  double nearest = 0, selected = 0;
  for (const QuantizedWeight& weight : weights) {
    out += str_cat("  ", weight.name, std::string(widest - weight.name.size(), ' '), "  ");
    if (is_mixed) out += padded(str_cat(weight.bits, " bits  "), 9);
    out += str_cat(padded(bytes_text(weight.bytes_before), 10), " -> ",
                   padded(bytes_text(weight.bytes), 10), "  error ", percent_text(weight.error));
    if (weight.output_error) {
      out += str_cat("; of results ", percent_text(*weight.output_error), ", with nearest levels ",
                     percent_text(*weight.nearest_output_error));
      nearest += *weight.nearest_output_error * *weight.nearest_output_error;
      selected += *weight.output_error * *weight.output_error;
    }
    if (weight.model_error) out += str_cat("; of the model ", percent_text(*weight.model_error));
    out += "\n";
    before += weight.bytes_before;
    bytes += weight.bytes;
  }
  if (weights.empty())
    return "no weight is quantized: each is kept, has few bits already, or has fewer elements "
           "than --least\n";
  if (nearest > 0)
    out += str_cat("second order: squared errors of results are ", percent_text(selected / nearest),
                   " of those with nearest levels\n");
  return out + str_cat(uint64_t{weights.size()},
                       weights.size() == 1 ? " weight: " : " weights: ", bytes_text(before), " -> ",
                       bytes_text(bytes), "\n");
}

std::string range_text(float low, float high) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g to %.4g", low, high);
  return text;
}

std::string ms_text(double ms) { return str_cat(std::round(ms * 1000) / 1000, " ms"); }

std::string layers_text(const std::vector<CalibratedLayer>& layers) {
  std::string out;
  int64_t taken = 0;
  for (const CalibratedLayer& layer : layers) {
    taken += layer.stays.empty();
    out +=
        str_cat("  ", layer.name, layer.module_path.empty() ? "" : " of ", layer.module_path, ": ");
    if (!layer.stays.empty()) {
      out += str_cat("floats, ", layer.stays, "\n");
      continue;
    }
    out += str_cat("input ", range_text(layer.low, layer.high));
    if (!layer.rounded.empty())
      out += str_cat(", result in 8 bits, ", range_text(layer.rounded_low, layer.rounded_high));
    if (layer.ms)
      out += str_cat("; a run takes ", ms_text(*layer.ms), ", with this layer in floats ",
                     ms_text(*layer.float_ms));
    out += "\n";
  }
  return out + str_cat(taken, " of ", uint64_t{layers.size()},
                       layers.size() == 1 ? " layer takes 8 bits\n" : " layers take 8 bits\n");
}

nlohmann::ordered_json layers_json(const std::vector<CalibratedLayer>& layers) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CalibratedLayer& layer : layers) {
    nlohmann::ordered_json row = {{"name", layer.name}, {"module", layer.module_path}};
    if (layer.stays.empty()) {
      row["input"] = {layer.low, layer.high};
      if (!layer.rounded.empty()) {
        row["rounded"] = layer.rounded;
        row["result"] = {layer.rounded_low, layer.rounded_high};
      }
    } else {
      row["stays"] = layer.stays;
    }
    if (layer.ms) {
      row["ms"] = *layer.ms;
      row["float_ms"] = *layer.float_ms;
    }
    list.push_back(std::move(row));
  }
  return list;
}

nlohmann::ordered_json weights_json(const std::vector<QuantizedWeight>& weights) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const QuantizedWeight& weight : weights) {
    list.push_back({{"name", weight.name},
                    {"module", weight.module_path},
                    {"elements", weight.elements},
                    {"bits", weight.bits},
                    {"bytes_before", weight.bytes_before},
                    {"bytes", weight.bytes},
                    {"error", weight.error}});
    if (weight.output_error) {
      list.back()["nearest_output_error"] = *weight.nearest_output_error;
      list.back()["output_error"] = *weight.output_error;
    }
    if (weight.model_error) list.back()["model_error"] = *weight.model_error;
  }
  return list;
}

// Whether samples determine the ranges of inputs.
bool quantizes_inputs(const QuantizeJob& job) {
  return !job.inputs.empty() && !job.options.max_error &&
         job.options.rounding != Rounding::second_order;
}

std::string limit_text(const QuantizeJob& job, double error) {
  const double limit = *job.options.max_error;
  // A mean error has the unit of the output.
  if (!job.metric.empty() && job.options.metric->kind == Metric::Kind::mean_error)
    return str_cat(job.metric, " is ", error, " worse, at most ", limit, "\n");
  const std::string end = str_cat(", at most ", percent_text(limit), "\n");
  return job.metric.empty() ? str_cat("error of the outputs: ", percent_text(error), end)
                            : str_cat(job.metric, " is ", percent_text(error), " worse", end);
}

std::string text_of(const QuantizeJob& job, const Quantized& done) {
  if (!job.as_json)
    return (quantizes_inputs(job) ? layers_text(done.layers) : "") +
           (done.ms ? str_cat("a run takes ", ms_text(*done.ms), ", in floats ",
                              ms_text(*done.float_ms), "\n")
                    : "") +
           weights_text(done.weights, done.error.has_value()) +
           (done.error ? limit_text(job, *done.error) : "");
  nlohmann::ordered_json all = {{"weights", weights_json(done.weights)}};
  if (quantizes_inputs(job)) all["layers"] = layers_json(done.layers);
  if (done.ms) {
    all["ms"] = *done.ms;
    all["float_ms"] = *done.float_ms;
  }
  if (done.error) {
    all["error"] = *done.error;
    all["mixes"] = nlohmann::ordered_json::array();
    for (const MeasuredMix& mix : done.mixes)
      all["mixes"].push_back({{"bytes", mix.bytes}, {"error", mix.error}});
  }
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Outcome written(const Status& saved) {
  if (saved.ok()) return {};
  return {Exit::unreadable, std::string(saved.message())};
}

Result<Quantized> quantized_model(const QuantizeJob& job, const Model& model,
                                  const Samples& samples) {
  if (job.inputs.empty()) return hg::quantize(model, job.options);
  return hg::quantize(model, samples.runs, job.options, job.session);
}

// The errors of the measured models, by size.
Outcome draw(const QuantizeJob& job, const Quantized& done) {
  constexpr double kBytes = 1024;  // per unit of the axis
  Curve all{"each measured model", {}}, limit{"the limit", {}}, written{"the written model", {}};
  int64_t bytes = 0;
  for (const QuantizedWeight& weight : done.weights) bytes += weight.bytes;
  for (const MeasuredMix& mix : done.mixes)
    if (mix.error > 0 && std::isfinite(mix.error))
      all.points.push_back({static_cast<double>(mix.bytes) / kBytes, mix.error});
  if (*job.options.max_error > 0 && !all.points.empty())
    limit.points = {{all.points.front().x, *job.options.max_error},
                    {all.points.back().x, *job.options.max_error}};
  if (*done.error > 0) written.points = {{static_cast<double>(bytes) / kBytes, *done.error}};
  const Curve curves[] = {std::move(all), std::move(limit), std::move(written)};
  return write_text(draw_curves(curves, "Error by size of " + job.model, "KiB of weights", "error"),
                    job.svg);
}

// Reads the targets, one per run of the samples.
Outcome open_targets(const QuantizeJob& job, const Samples& samples, std::vector<Array>& targets) {
  const Result<Array> file = read_npy(job.target);
  if (!file.ok()) return outcome(file.status());
  if (file->rank() == 0) return mismatch("--target ", job.target, " has no first dim of samples");
  int64_t first = 0;
  for (const std::vector<ConstTensor>& run : samples.runs) {
    const bool is_whole = samples.runs.size() == 1 || run.empty() || run[0].rank() == 0;
    const int64_t rows = is_whole ? file->shape()[0] : run[0].shape[0];
    if (first + rows > file->shape()[0]) break;
    const Result<Array> part = file->narrow(0, first, rows);
    if (!part.ok()) return outcome(part.status());
    targets.push_back(*part);
    first += rows;
  }
  if (targets.size() != samples.runs.size() || first != file->shape()[0])
    return mismatch("--target ", job.target, " has ", file->shape()[0],
                    " samples, which is not the number of samples in --input");
  return {};
}

// What was quantized, once the files are written.
Outcome quantize(QuantizeJob& job, Quantized& done) {
  const FileOption outputs[] = {{"-o", job.out}, {"--svg", job.svg}};
  std::vector<FileOption> read = files_in("--input", job.inputs);
  if (!job.target.empty()) read.push_back({"--target", job.target});
  if (Outcome o = check_overwrites({outputs, job.svg.empty() ? size_t{1} : 2}, read); !o.ok())
    return o;
  const FileOption svg{"--svg", job.svg}, old{"MODEL", job.model};
  if (!job.svg.empty())
    if (Outcome o = check_overwrites({&svg, 1}, {&old, 1}); !o.ok()) return o;
  for (const FileOption& each : outputs)
    if (Outcome o = check_place(each.path); !o.ok()) return o;
  const Result<Model> model = Model::load(job.model);
  if (!model.ok()) return outcome(model.status());
  if (!job.inputs.empty() && !model->entries().empty())
    return usage("--input: the file has several functions; only their weights can be quantized");
  Samples samples;
  if (!job.inputs.empty())
    if (Outcome o = open_samples(model->graph(), job.inputs, job.batch, samples); !o.ok()) return o;
  std::vector<Array> targets;
  if (!job.target.empty())
    if (Outcome o = open_targets(job, samples, targets); !o.ok()) return o;
  job.options.targets.assign(targets.begin(), targets.end());
  Result<Quantized> quantized = quantized_model(job, *model, samples);
  if (!quantized.ok()) return outcome(quantized.status());
  done = *std::move(quantized);
  if (Outcome o = written(done.model.save(job.out)); !o.ok()) return o;
  return job.svg.empty() ? Outcome{} : draw(job, done);
}

Outcome run(QuantizeJob& job) {
  bool is_open = false;
  if (is_terminal(stderr))
    job.options.progress = [&](int64_t done, int64_t all) {
      is_open = true;
      std::fprintf(stderr, "\r%lld of %lld\033[K", static_cast<long long>(done),
                   static_cast<long long>(all));
    };
  Quantized done;
  Outcome ended = quantize(job, done);
  if (is_open) std::fputs("\r\033[K", stderr);
  if (!ended.ok()) return ended;
  std::fputs(text_of(job, done).c_str(), stdout);
  return {};
}

// Parses the words of options.
Outcome parse_words(QuantizeJob& job) {
  const Result<Rounding> rounding = parse_rounding(job.rounding);
  if (!rounding.ok()) return usage("--rounding: ", rounding.status().message());
  job.options.rounding = *rounding;
  if (job.inputs.empty() && (job.options.max_error || *rounding == Rounding::second_order))
    return usage(job.options.max_error ? "--max-error" : "--rounding second_order",
                 " needs samples: --input FILE.npy");
  if (job.inputs.empty() && job.options.fastest)
    return usage("--fastest needs samples: --input FILE.npy");
  if (job.metric.empty()) return {};
  const size_t equals = job.metric.rfind('=');
  const bool has_output = equals != std::string::npos;
  const Result<Metric::Kind> kind =
      parse_metric(has_output ? job.metric.substr(equals + 1) : job.metric);
  if (!kind.ok()) return usage("--metric ", job.metric, ": ", kind.status().message());
  job.options.metric = Metric{.kind = *kind};
  if (has_output) job.options.metric->output = job.metric.substr(0, equals);
  return {};
}

}  // namespace
}  // namespace hg::tools

int main(int argc, char** argv) {
  using namespace hg::tools;
  use_utf8(argc, argv);
  CommandLine line("hg-quantize", "Quantizes the weights of a Hologram model to 8 or 4 bits.",
                   kExamples);
  QuantizeJob job;
  line.add("MODEL", job.model, "the model, an .hgm file");
  line.add("-o,--output", job.out, "the file to write; may be MODEL");
  CommandLine::Option bits = line.add("--bits", job.options.bits, "bits per weight: 8 or 4");
  bits.is_one_of({"8", "4"}).shows_default();
  line.add("--group", job.options.group, "input channels that share a scale; 0: all")
      .is_at_least(0)
      .shows_default();
  line.add("--keep", job.options.keep,
           "a weight, or a module with all its weights, to leave unchanged; once per name");
  line.add("--least", job.options.least, "leave weights with fewer elements unchanged")
      .is_at_least(0)
      .shows_default();
  CommandLine::Option samples =
      line.add("--input,-i", job.inputs,
               "[NAME=]FILE.npy of samples, once per input; the first dim counts samples");
  line.add_samples_or_all("--batch", job.batch, "samples per run; all: one run on the whole files")
      .needs(samples);
  line.add("--percentile", job.options.percentile,
           "percentage of an input's values that its range covers")
      .is_between(0.0, 100.0)
      .shows_default()
      .needs(samples);
  CommandLine::Option fastest =
      line.add_flag("--fastest", job.options.fastest,
                    "measure each layer; leave it in floats if that is as fast");
  line.add("--threads", job.session.threads, "number of threads of runs with samples; 0: all")
      .is_at_least(0)
      .shows_default()
      .needs(samples);
  line.add("--rounding", job.rounding, "levels: nearest, least_squares or second_order")
      .is_one_of({"nearest", "least_squares", "second_order"})
      .shows_default();
  CommandLine::Option limit = line.add(
      "--max-error", job.options.max_error,
      "select bits per weight: 4, 8, 16 or all, so that the outputs' error is at most this");
  limit.excludes(bits);
  limit.excludes(fastest);
  CommandLine::Option metric =
      line.add("--metric", job.metric,
               "[OUTPUT=]accuracy or mean_error: limit how much worse it is than in floats");
  metric.needs(limit);
  line.add("--target", job.target,
           "FILE.npy of the metric's targets; default: the float model's outputs")
      .needs(metric);
  line.add("--svg", job.svg, "draw errors by size to this file").needs(limit);
  line.add_flag("--json", job.as_json, "print one JSON object");
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  if (job.model.empty())
    return finish("hg-quantize", usage("no MODEL is given; see hg-quantize --help"));
  if (job.out.empty())
    return finish("hg-quantize", usage("-o names no file to write; see hg-quantize --help"));
  if (Outcome o = parse_words(job); !o.ok()) return finish("hg-quantize", o);
  return finish("hg-quantize", run(job));
}
