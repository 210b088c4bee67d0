// SPDX-License-Identifier: Apache-2.0
// Replaces onnx/, load/onnx/, load/exported/, load/gguf/ and the checks of ONNX and GGUF files in a
// build with HG_TORCHSCRIPT_ONLY.
#include "converter/check/loops.h"
#include "converter/load/exported/exported.h"
#include "converter/load/gguf/decoder.h"
#include "converter/load/gguf/tokenizer.h"
#include "converter/load/onnx/onnx.h"
#include "converter/onnx/rows.h"

namespace hg::convert {
namespace {

[[noreturn]] void refuse(const std::string& file, const char* format) {
  throw Failure{Exit::unsupported,
                str_cat(file, " is ", format,
                        ", and this hg-convert reads TorchScript alone (HG_TORCHSCRIPT_ONLY)")};
}

}  // namespace

Loaded load_exported(const std::string&, const std::string& label, const std::vector<CustomOp>&) {
  refuse(label, "an exported program");
}

Loaded load_onnx(const std::string&, const std::string& label, const std::set<std::string>&,
                 const ReadsFile&) {
  refuse(label, "an ONNX model");
}

std::vector<std::string> gguf::part_paths(const std::string& path) { return {path}; }
gguf::File gguf::File::open(const std::string&, const std::string& label) {
  refuse(label, "a GGUF file");
}
gguf::Decoder gguf::build_decoder(const File& file) { refuse(file.label(), "a GGUF file"); }
gguf::TextFiles gguf::text_files(const File& file, int64_t) { refuse(file.label(), "a GGUF file"); }

std::span<const std::span<const Builtin>> onnx_builtins() { return {}; }
bool onnx_takes_parts(std::string_view) { return false; }

// Never used: no ONNX model is read.
struct OnnxRuntime::Api {};
OnnxRuntime::OnnxRuntime(const std::string&) { refuse("--onnxruntime", "a check of ONNX models"); }
OnnxRuntime::~OnnxRuntime() = default;
std::string OnnxRuntime::version() const { return ""; }

struct OnnxReference::State {};
OnnxReference::OnnxReference(const OnnxRuntime&, const Loaded&, const Graph&,
                             std::span<const Executed>) {}
OnnxReference::~OnnxReference() = default;

CheckResult check_by_loops(const Graph&, const Model&, const Job&, const OnnxReference*,
                           const std::string&, const std::function<void(const std::string&)>&) {
  return {};
}

}  // namespace hg::convert
