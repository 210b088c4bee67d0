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
#include <span>
#include <string>
#include <vector>

#include "hg/model.h"
#include "hg/options.h"
#include "hg/tensor.h"

namespace hg {

struct QuantizeOptions {
  int bits = 8;  // per weight, 8 or 4; calibration requires 8
  // Number of input channels (summed over) that share a scale; 0: all. Each output channel, row or
  // table entry always has its own scales.
  int64_t group = 0;
  // Names of parameters and constants, or module paths, to leave unquantized with everything below
  // them: "encoder.0" includes "encoder.0.attention.weight". A name that matches nothing is an
  // error.
  std::vector<std::string> keep = {};
  int64_t least = 1024;     // weights with fewer elements are not quantized
  double percentile = 100;  // calibration: percentage of observed values inside the range
  // Called on the calling thread with the number of finished weights, or samples, and the total.
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
};

struct Quantized {
  Model model;
  std::vector<QuantizedWeight> weights = {};  // in the order of the old model's states
  std::vector<CalibratedLayer> layers = {};   // from calibration, in node order
};

// Returns a model with quantized weights. It quantizes float weights of products, convolutions,
// recurrent layers and embeddings that no run changes. Such a weight becomes two buffers. The
// buffer with its name has 8-bit integers, or pairs of 4-bit integers in a byte; the buffer
// NAME_scale has the scales. Nodes dequantize them for all readers. A weight that would not become
// smaller is kept.
//
// A weight is rounded to the nearest level: an integer in [-127, 127] or [-7, 7], times the scale.
// The largest weight that shares the scale has the largest level. The errors are stored in the new
// model's info() and in its file. Optimizer state is dropped. The old model is unchanged and shares
// the data that is not quantized.
//
// All entries of the model are quantized. Weights that they share stay shared.
//
// Fails with invalid_argument if the options are invalid or a weight contains NaN or infinity, and
// with out_of_memory. Thread-safe if no thread changes the model.
Result<Quantized> quantize(const Model& model, const QuantizeOptions& options = {});

// Also quantizes the inputs of products and convolutions with constant f32 weights to 8 bits, as
// matmul_integer and conv_integer, even for weights with fewer elements than `least`. Their scales
// are part of the result's scale, and a following batch_norm is folded in. A value passed from one
// such layer to another, also through pooling or movement ops, stays 8-bit; other readers
// dequantize it.
//
// Ranges are those observed in runs with the samples: samples[i] holds the inputs of one run, in
// order; they are only read. Values outside a range are clipped, so samples must be representative.
// `session` sets how samples run, on the CPU.
//
// A layer stays float if its input is 0 in all samples or contains NaN or infinity. So do layers in
// control-flow bodies and all other ops. Fails as above, without samples, and as
// Session::create, set_input and run do.
Result<Quantized> quantize(const Model& model, std::span<const std::vector<ConstTensor>> samples,
                           const QuantizeOptions& options = {}, const SessionOptions& session = {});

}  // namespace hg
