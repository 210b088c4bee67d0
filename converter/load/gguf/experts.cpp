// SPDX-License-Identifier: Apache-2.0
// Sorts rows by expert, so that each expert is one product. Shapes: n rows, e experts, k of them
// per row.
#include "converter/load/gguf/experts.h"

#include "hg/ops.h"

namespace hg::convert::gguf {

Value mixture_of_experts(Weights& weights, const std::string& at, const Value& x,
                         const Settings& settings) {
  Graph& graph = *x.graph();
  const int64_t width = settings.width, e = settings.experts, k = settings.experts_used;
  const int64_t inner = weights.size(at + "ffn_up_exps.weight", 1);
  const Dim n = x.dim(0) * x.dim(1);
  const Value rows = reshape(x, {n, width});
  const Value router = weights.take(at + "ffn_gate_inp.weight", {e, width});
  const Value shares = softmax(linear(rows, router), -1);
  const std::vector<Value> top = graph.calls("topk", {shares}, {{"k", k}, {"dim", -1}});
  if (top.size() != 2) return {};
  Value share = top[0];  // [n, k]
  if (settings.architecture->experts_normalized) share = share / sum(share, {-1}, true);
  const std::vector<Value> sorted = sort(reshape(top[1], {n * k}));
  if (sorted.size() != 2) return {};
  const Value to_row = floor_divide(sorted[1], graph.scalar(k, i64));
  const Value ends = searchsorted(sorted[0], arange(graph, e), true);
  const Value chosen = index_select(rows, to_row, 0);  // [n * k, width]
  const auto expert = [&](const char* name, const Value& in, int64_t from, int64_t to) {
    const Value weight = weights.take(at + name, {e, to, from});
    return grouped_mm(in, permute(weight, {0, 2, 1}), ends);
  };
  Value y = silu(expert("ffn_gate_exps.weight", chosen, width, inner)) *
            expert("ffn_up_exps.weight", chosen, width, inner);
  y = expert("ffn_down_exps.weight", y, inner, width);
  // Restores the order of the rows.
  const std::vector<Value> back = sort(sorted[1]);
  if (back.size() != 2) return {};
  y = reshape(index_select(y, back[1], 0), {n, k, width}) * reshape(share, {n, k, 1});
  y = sum(y, {1});
  if (weights.has(at + "ffn_up_shexp.weight")) {  // an expert that all rows use
    const int64_t shared = weights.size(at + "ffn_up_shexp.weight", 0);
    const auto product = [&](const char* name, const Value& in, int64_t from, int64_t to) {
      return linear(in, weights.take(at + name, {to, from}));
    };
    Value z = silu(product("ffn_gate_shexp.weight", rows, width, shared)) *
              product("ffn_up_shexp.weight", rows, width, shared);
    z = product("ffn_down_shexp.weight", z, shared, width);
    if (weights.has(at + "ffn_gate_inp_shexp.weight")) {
      const Value gate = weights.take(at + "ffn_gate_inp_shexp.weight", {width});
      z = z * sigmoid(linear(rows, reshape(gate, {1, width})));
    }
    y = y + z;
  }
  return reshape(y, x.shape());
}

}  // namespace hg::convert::gguf
