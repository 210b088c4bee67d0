// SPDX-License-Identifier: Apache-2.0
// Quantizes weights to 8 or 4 bits, which makes files smaller. With sample inputs, it also converts
// products and convolutions to 8-bit integers, which makes runs use less memory. docs/low_bits.md
// lists what is rounded and the error.
//
//     HG_TRY_ASSIGN(hg::Quantized small, hg::quantize(model, {.bits = 4, .group = 32}));
//     HG_TRY(small.model.save("small.hgm"));
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hg/metric.h"
#include "hg/model.h"
#include "hg/options.h"
#include "hg/tensor.h"

namespace hg {

// How the levels of a weight are selected.
enum class Rounding : uint8_t {
  nearest,        // the nearest level; the largest weight of a scale has the largest level
  least_squares,  // scales that minimize the squared error of the weights, then the nearest level
  // Requires samples. Minimizes the squared error of the layer's results in runs of the float model
  // with the samples: each rounding compensates the earlier ones (Frantar et al. 2022, GPTQ). A
  // row of weights for which that does not help has the nearest levels. Weights that are not read
  // by linear, matmul or conv alone are rounded by least_squares. Inputs stay float.
  second_order,
};
std::string_view to_string(Rounding rounding);
Result<Rounding> parse_rounding(std::string_view name);

struct QuantizeOptions {
  int bits = 8;  // per weight, 8 or 4; calibration requires 8; ignored with `max_error`
  // Number of input channels (summed over) that share a scale; 0: all. Each output channel, row or
  // table entry always has its own scales.
  int64_t group = 0;
  // Names of parameters and constants, or module paths, to leave unquantized with everything below
  // them: "encoder.0" includes "encoder.0.attention.weight". A name that matches nothing is an
  // error.
  std::vector<std::string> keep = {};
  int64_t least = 1024;     // weights with fewer elements are not quantized
  double percentile = 100;  // calibration: percentage of observed values inside the range
  // Calibration: measures runs of the first sample, and leaves a layer and its weight in floats
  // unless the model is faster with the layer in 8 bits. The model is then at least as fast as the
  // float model, on this machine and with these sizes.
  bool fastest = false;
  Rounding rounding = Rounding::nearest;
  // Largest error of the new model on the samples; requires them. Each weight gets 4, 8, 16 (f16)
  // or all bits. Inputs stay float. The error is the largest over all outputs of
  // sqrt(sum (y - f)^2 / sum f^2), where f are the outputs of the float model for all samples.
  // Outputs of integers and bool, such as the index of a class, do not count.
  std::optional<double> max_error = {};
  // Instead, the error is how much worse this metric is than with the float model. Metric::target
  // is ignored. The classes of accuracy are the last dim of the output, or dim 1 of one with 4 or
  // more dims, unless the targets fit only the other.
  std::optional<Metric> metric = {};
  // Of the metric, for each sample. Empty: the outputs of the float model.
  std::vector<ConstTensor> targets = {};
  // Called on the calling thread with the number of finished weights, samples or, with `max_error`,
  // measurements, and the total. With `fastest`, layers are counted after the samples.
  std::function<void(int64_t done, int64_t all)> progress = {};
};

// A quantized weight: a parameter or constant; tied weights count once.
struct QuantizedWeight {
  std::string name;         // of the state in the new model; usually unchanged
  std::string module_path;  // of the first node that reads it; may be empty
  int64_t elements = 0;
  int bits = 8;
  int64_t bytes_before = 0, bytes = 0;  // including scales
  // sqrt(sum (q - w)^2 / sum w^2), where q are the values that the new model uses; 0 if all weights
  // are 0.
  double error = 0;
  // Rounding::second_order: sqrt(sum (x q - x w)^2 / sum (x w)^2) over the inputs x of the layer in
  // all samples, for the nearest levels and for the selected ones.
  std::optional<double> nearest_output_error = {}, output_error = {};
  // QuantizeOptions::max_error: the error of the model if only this weight is quantized.
  std::optional<double> model_error = {};
};

// A model that was measured for QuantizeOptions::max_error.
struct MeasuredMix {
  int64_t bytes = 0;  // of the weights that can be quantized
  double error = 0;
};

// A product or convolution with constant f32 weights, after calibration.
struct CalibratedLayer {
  std::string name;         // of the node's result
  std::string module_path;  // may be empty
  float low = 0, high = 0;  // clipping range of its input
  // The value that becomes 8-bit, and its clipping range: the result, or that of a following
  // batch_norm or clamp. Empty if the result stays float.
  std::string rounded;
  float rounded_low = 0, rounded_high = 0;
  std::string stays;  // reason why its input stays float; empty if quantized
  // QuantizeOptions::fastest: milliseconds of a run of the model with this layer in 8 bits and in
  // floats.
  std::optional<double> ms = {}, float_ms = {};
};

struct Quantized {
  Model model;
  // In the order of the old model's states. With `max_error` also those that stay as they are, with
  // the bits of their dtype.
  std::vector<QuantizedWeight> weights = {};
  std::vector<CalibratedLayer> layers = {};  // from calibration, in node order
  std::optional<double> error = {};          // with `max_error`: of this model, measured
  std::vector<MeasuredMix> mixes = {};       // with `max_error`: ascending by bytes
  // With `fastest`: milliseconds of a run of the calibrated layers' model and of the float model.
  std::optional<double> ms = {}, float_ms = {};
};

// Returns a model with quantized weights. It quantizes float weights of products, convolutions,
// recurrent layers and embeddings that no run changes. Such a weight becomes two buffers. The
// buffer with its name has 8-bit integers, or pairs of 4-bit integers in a byte; the buffer
// NAME_scale has the scales. Nodes dequantize them for all readers. A weight that would not become
// smaller is kept.
//
// A weight is rounded to a level: an integer in [-127, 127] or [-8, 7], times the scale; -8 only if
// `rounding` is not nearest. The errors are stored in the new model's info() and in its file.
// Optimizer state is dropped. The old model is unchanged and shares the data that is not quantized.
//
// All entries of the model are quantized. Weights that they share stay shared.
//
// Fails with invalid_argument if the options are invalid or a weight contains NaN or infinity, and
// with out_of_memory. Thread-safe if no thread changes the model.
// Fails with invalid_argument if `rounding` is second_order, or `max_error` or `fastest` is set,
// which require samples.
Result<Quantized> quantize(const Model& model, const QuantizeOptions& options = {});

// With Rounding::second_order or `max_error`, quantizes weights alone, as above. Fails if a sample
// contains NaN, and with `max_error` if an output of the float model is not finite, if no output
// counts and there is no metric, or if an integer target of accuracy is no class of the output.
//
// With `max_error`, it measures the error with each weight quantized alone, in each number of bits.
// Then it quantizes weights in the order of the squared error of the outputs per saved byte, as far
// as the measured error of the whole model is at most `max_error`. That takes some hundred runs
// with all samples.
//
// Otherwise it also quantizes the inputs of products and convolutions with constant f32 weights to
// 8 bits, as matmul_integer and conv_integer, even for weights with fewer elements than `least`.
// Their scales are part of the result's scale, and a following batch_norm is folded in. A value
// passed from one such layer to another, also through pooling or movement ops, stays 8-bit; other
// readers dequantize it.
//
// Ranges are those observed in runs with the samples: samples[i] holds the inputs of one run, in
// order; they are only read. Values outside a range are clipped, so samples must be representative.
// `session` sets how samples run, on the CPU.
//
// A layer stays float if its input is 0 in all samples or contains NaN or infinity. So do layers in
// control-flow bodies and all other ops. With `fastest`, each layer needs at least six runs of the
// first sample. Fails as above, without samples, and as Session::create, set_input and run do.
Result<Quantized> quantize(const Model& model, std::span<const std::vector<ConstTensor>> samples,
                           const QuantizeOptions& options = {}, const SessionOptions& session = {});

}  // namespace hg
