// SPDX-License-Identifier: Apache-2.0
// One conversion as the user requested it. cli/ fills it from the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "converter/core/custom.h"
#include "converter/core/imported.h"

namespace hg::convert {

// "x:f32[n,3,h*2]=0..1". The range includes both ends and limits the values used for checking.
struct InputOption {
  InputSpec spec;
  std::optional<std::pair<double, double>> range;
  std::string new_name = {};  // name in the output file; empty: the model's own
};

// "n=1,4": the sizes at which a symbol is checked.
struct SizeOption {
  std::string symbol;
  std::vector<int64_t> sizes;
};

// "sr=16000": the argument's name, and its value as text. The type of the argument decides how the
// text is parsed.
struct ConstantOption {
  std::string name, value;
};

// "cache_out=cache_in": the output is the input of the next run.
struct LoopOption {
  std::string output, input;  // empty: --loop auto
  bool is_automatic() const { return output.empty(); }
};

// A model file, and the name of its entry in the output.
struct EntryFile {
  std::string name, path;
};

// One conversion.
struct Job {
  std::string model;  // "-" reads standard input
  // Methods of a TorchScript module; several become entries of the file. Empty: forward.
  std::vector<std::string> methods;
  // Files that become entries of the output. `model` then names all of them, for messages.
  std::vector<EntryFile> entry_files;
  std::string output;  // "-" writes standard output
  int result = -1;     // descriptor of an empty file that replaces `output`
  std::string report;  // the file of --json, which the caller writes
  std::vector<InputOption> inputs;
  std::vector<SizeOption> check_sizes;
  std::vector<SizeOption> examples;       // sizes that the model accepts according to its file
  std::vector<SizeOption> dims;           // --dim n=2: this number replaces the symbol
  std::vector<CustomOp> custom;           // --custom
  std::vector<ConstantOption> constants;  // --constant
  std::vector<LoopOption> loops;          // --loop
  int64_t capacity = 0;                   // --capacity: of states that grow; 0: not given
  bool check = true;
  bool strict = false;  // rejects the model if the check did not exercise every branch
  // Compares with ONNX Runtime: the library, its folder, or "" to search for it.
  std::optional<std::string> onnxruntime;
  uint64_t seed = 1;
};

}  // namespace hg::convert
