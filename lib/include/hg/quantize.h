// SPDX-License-Identifier: Apache-2.0
// Weights in 8 or 4 bits, so that files shrink; and, where samples of the inputs are at hand,
// products and convolutions of 8-bit integers, so that runs need less memory. docs/low_bits.md has
// what is rounded, by how much, and what runs take.
//
//   HG_TRY_ASSIGN(hg::Quantized small, hg::quantize(model, {.bits = 4, .group = 32}));
//   HG_TRY(small.model.save("small.hgm"));
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hg/library.h"
#include "hg/model.h"
#include "hg/options.h"
#include "hg/tensor.h"

namespace hg {

struct QuantizeOptions {
  int bits = 8;  // of a weight: 8 or 4; calibrated products and convolutions take 8 alone
  // How many channels of the input, of those that are summed over, share a scale; 0: all. A weight
  // has scales of its own for each output channel, row or table entry in any case.
  int64_t group = 0;
  // Names of parameters and constants, or module paths, that stay as they are, with all that lies
  // below them: "encoder.0" keeps "encoder.0.attention.weight". One that names nothing is an error.
  std::vector<std::string> keep = {};
  int64_t least = 1024;     // weights of fewer elements stay
  double percentile = 100;  // of calibration: how much of the observed values ranges hold
  // Told how many weights, or samples, of all are done, by the thread that calls.
  std::function<void(int64_t done, int64_t all)> progress = {};
};

// One weight that was quantised: a parameter or constant, tied ones together.
struct QuantizedWeight {
  std::string name;         // the state's, in the old and in the new model
  std::string module_path;  // of the first node that reads it; may be empty
  int64_t elements = 0;
  int bits = 8;
  int64_t bytes_before = 0, bytes = 0;  // scales included
  // sqrt(sum (q - w)^2 / sum w^2), of the numbers that the new model computes with; 0 of zeros.
  double error = 0;
};

// A product or convolution with constant weights of f32, as calibration leaves it.
struct CalibratedLayer {
  std::string name;         // of its node's result
  std::string module_path;  // may be empty
  float low = 0, high = 0;  // what its input is cut off at
  // The value that comes of it in 8 bits, and what that is cut off at: its result, that of
  // batch_norm, or that of a clamp. Empty where its result is a float.
  std::string rounded;
  float rounded_low = 0, rounded_high = 0;
  std::string stays;  // why its input stays in floats; empty where it does not
};

struct Quantized {
  Model model;
  std::vector<QuantizedWeight> weights = {};  // in the order of the old model's states
  std::vector<CalibratedLayer> layers = {};   // of samples, in the order of the nodes
};

struct QuantizedLibrary {
  Library library;
  std::vector<QuantizedWeight> weights = {};
};

// A model that computes the same of rounded weights: those of products, convolutions, recurrent
// layers and embeddings, of floats, that no run changes. Such a weight becomes a buffer of 8-bit
// integers (of 4 bits: two in a byte) of its name, and one of scales, "<name>_scale", from which
// nodes make the numbers again for all that read it. A weight that would not shrink stays. A level
// is the nearest one to the weight, of -127 to 127 or -7 to 7 times the scale; the largest weight
// that shares the scale decides it. The error of each stands in the new model's info(), and in its
// file. The state that an optimizer left in the model goes: what it belongs to is not trained any
// more. The old model stays as it is, and shares what is not quantised.
//
// Fails with invalid_argument for options that do not fit, and where a weight holds a NaN or an
// infinity; and out_of_memory. Any thread may quantise a model that nobody changes.
Result<Quantized> quantize(const Model& model, const QuantizeOptions& options = {});
// Weights that functions share stay shared.
Result<QuantizedLibrary> quantize(const Library& library, const QuantizeOptions& options = {});

// The same, and products and convolutions with constant weights of f32 take their inputs in 8 bits
// as well, as matmul_integer and conv_integer: also those of fewer weights than `least`. Their
// weights keep no scales of their own, but have those of the results; a batch_norm behind them is a
// part of them. What such a layer gives to another one, perhaps behind a pool or moved, is never a
// float: all else that reads it gets what the 8 bits stand for.
// Ranges are those that the values have in runs of the model with the samples: samples[i] are the
// inputs of one run, in order, which are read alone. What lies beyond a range is cut off, so that
// samples must be like what the model will see. `session` says how they run, on the CPU. A layer
// whose input is nothing but 0 in all samples, or has a NaN or an infinity, stays; so do those in
// bodies of control flow, and all other ops. Fails as above, where there is no sample, and as
// Session::create, set_input and run do.
Result<Quantized> quantize(const Model& model, std::span<const std::vector<ConstTensor>> samples,
                           const QuantizeOptions& options = {}, const SessionOptions& session = {});

}  // namespace hg
