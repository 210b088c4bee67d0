// SPDX-License-Identifier: Apache-2.0
// The parsed command line of hg-convert and the small languages of its options.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "converter/cli/constants.h"
#include "converter/core/custom.h"
#include "converter/core/failure.h"
#include "converter/interpret/interpret.h"
#include "tools/words.h"

namespace hg::convert {

// "x:f32[n,3,h*2]=0..1" (tools/input_text.h). The range limits the values used for checking and
// includes both ends.
struct InputOption {
  InputSpec spec;
  std::optional<std::pair<double, double>> range;
  std::string new_name = {};  // in the file; empty: the model's own
};
InputOption parse_input(std::string_view text);  // throws Failure (usage)

// "n=1,4": the sizes at which a symbol is checked.
struct SizeOption {
  std::string symbol;
  std::vector<int64_t> sizes;
};
SizeOption parse_size(std::string_view option, std::string_view text);  // throws Failure (usage)

// One conversion.
struct Job {
  std::string model;  // "-" reads standard input
  // Of a TorchScript module: several become entries of the file. Empty: forward.
  std::vector<std::string> methods;
  std::string output;  // "-" writes standard output
  int result = -1;     // descriptor of an empty file that replaces `output`
  std::vector<InputOption> inputs;
  std::vector<SizeOption> check_sizes;
  std::vector<SizeOption> examples;       // sizes that the file says the model accepts
  std::vector<SizeOption> dims;           // --dim n=2: this number replaces the symbol
  std::vector<CustomOp> custom;           // --custom
  std::vector<ConstantOption> constants;  // --constant
  bool check = true;
  bool strict = false;  // rejects the model if the check did not exercise every branch
  // Compares with ONNX Runtime: the library, its folder, or "" to search for it.
  std::optional<std::string> onnxruntime;
  uint64_t seed = 1;
};

using tools::closest_name;

}  // namespace hg::convert
