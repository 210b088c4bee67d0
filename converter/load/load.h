// SPDX-License-Identifier: Apache-2.0
// Reads a TorchScript file with libtorch into a ScriptProgram. The program's tensors share memory
// with libtorch's, so that weights are in memory only once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "converter/core/custom.h"
#include "converter/core/failure.h"
#include "converter/core/script.h"

namespace hg::convert {

struct TorchModule;  // torch_module.h: the same program in libtorch, for reference.h
struct OnnxSource;   // onnx/onnx.h

struct Loaded {
  ScriptProgram program;
  // The program before quantized tensors became integers; null if it has none. Their values keep
  // their ids.
  std::shared_ptr<const ScriptProgram> original;
  // What the reference runs.
  const ScriptProgram& reference() const { return original ? *original : program; }
  std::shared_ptr<TorchModule> module;     // null unless the file is TorchScript
  std::shared_ptr<const OnnxSource> onnx;  // null unless the file is ONNX
  // Ops that this libtorch does not know, such as "acme::wave". Their calls are nodes of the
  // program, but libtorch cannot run them.
  std::vector<std::string> unknown_ops;
  std::vector<CustomOp> custom;  // run by their stand-ins in the reference
};

// Throws Failure. `path` must start like a TorchScript archive (see recognise.h). libtorch runs
// custom ops by their stand-ins. Returns the methods as programs that share one libtorch module and
// its memory. A name that is not a method of the module is a usage error that lists the methods.
std::vector<Loaded> load_script(const std::string& path, const std::vector<CustomOp>& custom,
                                const std::vector<std::string>& methods);

// Returns the version of libtorch, such as "1.13.1"; empty in a build without libtorch, in which
// nothing can be checked.
std::string libtorch_version();
// Returns the path of the libtorch library in this process; empty if unknown.
std::string libtorch_file();

}  // namespace hg::convert
