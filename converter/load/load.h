// SPDX-License-Identifier: Apache-2.0
// Reads a TorchScript file with libtorch into a ScriptProgram. The program's tensors share memory
// with libtorch's, so weights are held once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "converter/core/custom.h"
#include "converter/core/failure.h"
#include "converter/core/script.h"

namespace hg::convert {

struct TorchModule;  // torch_module.h: the same program inside libtorch, for reference.h
struct OnnxSource;   // onnx/onnx.h

struct Loaded {
  ScriptProgram program;
  std::shared_ptr<TorchModule> module;     // null unless the file is TorchScript's
  std::shared_ptr<const OnnxSource> onnx;  // null unless the file is ONNX's
  // Ops that this libtorch does not know, such as "acme::wave". Their calls are nodes of the
  // program, but libtorch cannot run them.
  std::vector<std::string> unknown_ops;
  std::vector<CustomOp> custom;  // that the reference plays by their stand-ins
};

// Throws Failure. `path` names a file that starts like a TorchScript archive (see recognise.h).
// libtorch runs the custom ops by their stand-ins. Returns the methods as programs of one module in
// libtorch, whose memory they share. A name that the module does not have is a usage error that
// lists its methods.
std::vector<Loaded> load_script(const std::string& path, const std::vector<CustomOp>& custom,
                                const std::vector<std::string>& methods);

// "1.13.1": of the libtorch that this program runs with; empty where it is built without one, and
// then nothing can be checked.
std::string libtorch_version();
// The shared library that is linked to this process; empty when that is not known.
std::string libtorch_file();

}  // namespace hg::convert
