// SPDX-License-Identifier: Apache-2.0
// Composites from several families: gates, similarities and distances.
#include "converter/rows/rows.h"
#include "converter/rows/scalar.h"

namespace hg::convert::rows {
namespace {

void glu(Call& call) {
  call.returns(call.graph().call("glu", {call.tensor("self")}, {{"dim", call.integer("dim", -1)}}));
}

void prelu(Call& call) {
  call.returns(call.graph().call("prelu", {call.tensor("self"), call.tensor("weight")}));
}

// _prelu_kernel(self, weight): weight already has the rank of self.
void prelu_kernel(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self");
  call.returns(g.call("where", {g.call("gt", {x, g.scalar(0.0, x.dtype())}), x,
                                g.call("mul", {call.tensor("weight"), x})}));
}

void cosine_similarity(Call& call) {
  const std::vector<Value> x = call.promoted({"x1", "x2"});
  if (!is_float(x[0].dtype())) call.refuse("x1", "must be a float tensor");
  call.returns(call_with(call.graph(), "cosine_similarity", {x[0], x[1]},
                         {{"eps", scalar(call, "eps", 1e-8)}}, {{"dim", call.integer("dim", 1)}}));
}

void pairwise_distance(Call& call) {
  const std::vector<Value> x = call.promoted({"x1", "x2"}, true);
  call.returns(call_with(call.graph(), "pairwise_distance", {x[0], x[1]},
                         {{"p", scalar(call, "p", 2.0)}, {"eps", scalar(call, "eps", 1e-6)}},
                         {{"keepdim", call.flag("keepdim", false)}}));
}

constexpr Row kRows[] = {
    {"aten::glu", glu},
    {"aten::prelu", prelu},
    {"aten::_prelu_kernel", prelu_kernel},
    {"aten::cosine_similarity", cosine_similarity},
    {"aten::pairwise_distance", pairwise_distance},
};

}  // namespace

std::span<const Row> composite() { return kRows; }

}  // namespace hg::convert::rows
