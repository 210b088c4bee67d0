// SPDX-License-Identifier: Apache-2.0
#include "converter/check/precision.h"

#include "hg/op.h"

namespace hg::convert {
namespace {

DType coarser(DType a, DType b) {
  const auto bits = [](DType dtype) {  // mantissa bits
    return dtype == bf16 ? 8 : dtype == f16 ? 11 : dtype == f32 ? 24 : 53;
  };
  return bits(a) <= bits(b) ? a : b;
}

// Returns the precision of each value from its inputs; treats a control flow body as a whole.
std::vector<DType> precisions(const Graph& graph) {
  std::vector<DType> of(graph.value_count(), f64);
  for (const Node& node : graph.nodes()) {
    DType made = f64;
    for (const ValueId id : node.inputs)
      if (id != kNoValue) made = coarser(made, of[id]);
    for (const auto& body : node.subgraphs)
      for (const DType inside : precisions(*body)) made = coarser(made, inside);
    for (const ValueId id : node.outputs) {
      const DType own = real_of(graph.value_info(id).type.dtype);
      const bool computes = node.op->def.view == nullptr && is_float(own);
      of[id] = computes ? coarser(made, own) : made;
    }
  }
  return of;
}

}  // namespace

std::vector<DType> precisions_of_outputs(const Graph& graph) {
  const std::vector<DType> of = precisions(graph);
  std::vector<DType> result;
  for (const auto& [name, id] : graph.outputs()) result.push_back(of[id]);
  return result;
}

}  // namespace hg::convert
