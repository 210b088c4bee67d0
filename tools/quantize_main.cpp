// SPDX-License-Identifier: Apache-2.0
// hg-quantize: makes a model with low-bit weights.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "hg/quantize.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/overwrites.h"
#include "tools/process.h"
#include "tools/samples.h"

namespace hg::tools {
namespace {

constexpr char kExamples[] = R"(Examples:
  hg-quantize resnet18.hgm -o small.hgm
  hg-quantize gpt.hgm -o gpt4.hgm --bits 4 --group 32 --keep lm_head
  hg-quantize net.hgm -o net8.hgm --input images.npy --batch 8 --percentile 99.99
  hg-quantize net.hgm -o net.hgm --json

Weights of products, convolutions, recurrent layers and embeddings become integers with one scale
per output channel, or per --group of input channels. The model computes the same with the rounded
weights: hg-diff and hg-run show the difference, hg-info --html the error of each weight.

With --input, files of representative samples, convolutions and products also take their inputs in 8
bits. Runs on the samples determine the range of each input.

Exit codes: 0 ok, 1 usage, 2 file cannot be read or written, 3 unsupported, 4 model and options do
not fit. Nothing is written unless 0.)";

struct QuantizeJob {
  std::string model, out;
  QuantizeOptions options;
  std::vector<std::string> inputs;  // files of samples
  int64_t batch = 1;                // 0: all
  bool as_json = false;
};

std::string padded(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string weights_text(const std::vector<QuantizedWeight>& weights) {
  size_t widest = 0;
  for (const QuantizedWeight& weight : weights) widest = std::max(widest, weight.name.size());
  std::string out;
  int64_t before = 0, bytes = 0;
  for (const QuantizedWeight& weight : weights) {
    out +=
        str_cat("  ", weight.name, std::string(widest - weight.name.size(), ' '), "  ",
                padded(bytes_text(weight.bytes_before), 10), " -> ",
                padded(bytes_text(weight.bytes), 10), "  error ", percent_text(weight.error), "\n");
    before += weight.bytes_before;
    bytes += weight.bytes;
  }
  if (weights.empty()) return "no layer has a weight that is large enough to quantize\n";
  return out + str_cat(uint64_t{weights.size()},
                       weights.size() == 1 ? " weight: " : " weights: ", bytes_text(before), " -> ",
                       bytes_text(bytes), "\n");
}

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
    out += str_cat("input ", layer.low, " to ", layer.high);
    if (!layer.rounded.empty())
      out += str_cat(", result in 8 bits, ", layer.rounded_low, " to ", layer.rounded_high);
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
    list.push_back(std::move(row));
  }
  return list;
}

nlohmann::ordered_json weights_json(const std::vector<QuantizedWeight>& weights) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const QuantizedWeight& weight : weights)
    list.push_back({{"name", weight.name},
                    {"module", weight.module_path},
                    {"elements", weight.elements},
                    {"bits", weight.bits},
                    {"bytes_before", weight.bytes_before},
                    {"bytes", weight.bytes},
                    {"error", weight.error}});
  return list;
}

// Prints the results: weights and, with samples, layers.
struct Done {
  std::vector<QuantizedWeight> weights;
  std::vector<CalibratedLayer> layers;
};

std::string text_of(const QuantizeJob& job, const Done& done) {
  if (!job.as_json)
    return (job.inputs.empty() ? "" : layers_text(done.layers)) + weights_text(done.weights);
  nlohmann::ordered_json all = {{"weights", weights_json(done.weights)}};
  if (!job.inputs.empty()) all["layers"] = layers_json(done.layers);
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Outcome written(const Status& saved) {
  if (saved.ok()) return {};
  return {Exit::unreadable, std::string(saved.message())};
}

Result<Quantized> quantized_model(const QuantizeJob& job, const Model& model,
                                  const Samples& samples) {
  if (job.inputs.empty()) return hg::quantize(model, job.options);
  return hg::quantize(model, samples.runs, job.options);
}

// What was quantized, once the file is written.
Outcome quantize(const QuantizeJob& job, Done& done) {
  const FileOption output{"-o", job.out};
  if (Outcome o = check_overwrites({&output, 1}, files_in("--input", job.inputs)); !o.ok())
    return o;
  const Result<Model> model = Model::load(job.model);
  if (!model.ok()) return outcome(model.status());
  if (!job.inputs.empty() && !model->entries().empty())
    return usage("--input: the file has several functions; only their weights can be quantized");
  Samples samples;
  if (!job.inputs.empty())
    if (Outcome o = open_samples(model->graph(), job.inputs, job.batch, samples); !o.ok()) return o;
  Result<Quantized> quantized = quantized_model(job, *model, samples);
  if (!quantized.ok()) return outcome(quantized.status());
  done = {std::move(quantized->weights), std::move(quantized->layers)};
  return written(quantized->model.save(job.out));
}

Outcome run(QuantizeJob& job) {
  bool is_open = false;
  if (is_terminal(stderr))
    job.options.progress = [&](int64_t done, int64_t all) {
      is_open = true;
      std::fprintf(stderr, "\r%lld of %lld\033[K", static_cast<long long>(done),
                   static_cast<long long>(all));
    };
  Done done;
  Outcome ended = quantize(job, done);
  if (is_open) std::fputs("\r\033[K", stderr);
  if (!ended.ok()) return ended;
  std::fputs(text_of(job, done).c_str(), stdout);
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
  line.add("--bits", job.options.bits, "bits per weight: 8 or 4")
      .is_one_of({"8", "4"})
      .shows_default();
  line.add("--group", job.options.group, "input channels that share a scale; 0: all")
      .is_at_least(0)
      .shows_default();
  line.add("--keep", job.options.keep,
           "a weight, or a module with all its weights, to leave unchanged");
  line.add("--least", job.options.least, "leave weights with fewer elements unchanged")
      .is_at_least(0)
      .shows_default();
  line.add("--input,-i", job.inputs,
           "[NAME=]FILE.npy of samples, once per input; the first dim counts samples");
  line.add_samples_or_all("--batch", job.batch, "samples per run; all: one run on the whole files");
  line.add("--percentile", job.options.percentile,
           "percentage of an input's values that its range covers")
      .is_between(0.0, 100.0)
      .shows_default();
  line.add_flag("--json", job.as_json, "print one JSON object");
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  if (job.model.empty())
    return finish("hg-quantize", usage("no MODEL is given; see hg-quantize --help"));
  if (job.out.empty())
    return finish("hg-quantize", usage("-o names no file to write; see hg-quantize --help"));
  return finish("hg-quantize", run(job));
}
