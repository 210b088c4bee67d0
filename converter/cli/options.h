// SPDX-License-Identifier: Apache-2.0
// What the command line of hg-convert says, and the small languages in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "converter/cli/constants.h"
#include "converter/interpret/interpret.h"
#include "converter/script/custom.h"
#include "converter/script/failure.h"

namespace hg::convert {

// "x:f32[n,3,h*2]=0..1": name and range may be missing. The range is that of the values used for
// checking, both ends included.
struct InputOption {
  InputSpec spec;
  std::optional<std::pair<double, double>> range;
};
InputOption parse_input(std::string_view text);  // throws Failure (usage)

// "n=1,4": the sizes with which a symbol is checked.
struct SizeOption {
  std::string symbol;
  std::vector<int64_t> sizes;
};
SizeOption parse_size(std::string_view option, std::string_view text);  // throws Failure (usage)

// One conversion.
struct Job {
  std::string model;   // "-" reads standard input
  std::string output;  // "-" writes standard output
  int result = -1;     // the descriptor of an empty file that takes the bytes in place of `output`
  std::vector<InputOption> inputs;
  std::vector<SizeOption> check_sizes;
  std::vector<SizeOption> examples;       // sizes that the model is known to take, by its file
  std::vector<SizeOption> dims;           // --dim n=2: the symbol becomes this number in the file
  std::vector<CustomOp> custom;           // --custom
  std::vector<ConstantOption> constants;  // --constant
  bool check = true;
  bool strict = false;  // what the check did not exercise refuses the model
  // Compares with ONNX Runtime: the library, a folder that holds it, or "" to look for it.
  std::optional<std::string> onnxruntime;
  uint64_t seed = 1;
};

// The names closest in spelling to `name`; empty when none is close.
std::string closest_name(std::string_view name, const std::vector<std::string>& names);

}  // namespace hg::convert
