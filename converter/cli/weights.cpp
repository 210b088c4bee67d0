// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/weights.h"

#include <algorithm>
#include <cmath>

#include "converter/core/failure.h"

namespace hg::convert {
namespace {

template <class T>
bool any_nan(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.count(); ++i)
    if (std::isnan(static_cast<float>(tensor.as<const T>()[i]))) return true;
  return false;
}
bool has_nan(const Tensor& tensor) {
  switch (tensor.dtype) {
    case f32:
      return any_nan<float>(tensor);
    case f64:
      return any_nan<double>(tensor);
    case f16:
      return any_nan<Half>(tensor);
    case bf16:
      return any_nan<BFloat16>(tensor);
    default:
      return false;
  }
}

}  // namespace

std::string warning_of_weights(const ScriptProgram& program) {
  std::string bad;
  int64_t count = 0;
  for (const ScriptTensor& tensor : program.tensors) {
    if (tensor.names.empty() || !has_nan(tensor.data.tensor)) continue;
    if (count++ < 5) bad += str_cat(bad.empty() ? "'" : ", '", tensor.names[0], "'");
  }
  if (count == 0) return "";
  return str_cat("weights that hold NaN: ", bad,
                 count > 5 ? str_cat(" and ", count - 5, " more") : "",
                 "; the model was probably saved from a failed training");
}

std::set<std::string> written_parameters(const Graph& graph, const ScriptProgram& program) {
  std::set<std::string> written;
  for (const ScriptTensor& tensor : program.tensors)
    if (tensor.kind == State::Kind::parameter &&
        std::any_of(graph.assignments().begin(), graph.assignments().end(), [&](const auto& each) {
          return graph.value_info(each.first).name == tensor.names.at(0);
        }))
      written.insert(tensor.names.at(0));
  return written;
}

void keep_as_buffers(const std::set<std::string>& names, ScriptProgram& program) {
  for (ScriptTensor& tensor : program.tensors) {
    if (tensor.kind != State::Kind::parameter || !names.contains(tensor.names.at(0))) continue;
    Result<TensorData> copy = TensorData::copy_of(tensor.data.tensor);
    require_ok(copy.status());
    tensor.data = *std::move(copy);
    tensor.kind = State::Kind::buffer;
  }
}

}  // namespace hg::convert
