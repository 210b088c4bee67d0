// SPDX-License-Identifier: Apache-2.0
// Dropout and its relatives.
#include "converter/rows.h"

namespace hg::convert::rows {
namespace {

// Outside of training it gives its argument, and shares the argument's memory.
void dropout(Call& call) {
  const TensorRef self = call.ref(call.find("input") ? "input" : "self");
  const bool training = call.flag("train", false);
  const NamedAttrs attrs = {{"p", call.real("p", 0.5)}, {"training", training}};
  const auto forward = [attrs](Value base) { return base.graph()->call("dropout", {base}, attrs); };
  if (training) {
    call.note("dropout runs in training mode, as traced");
    return call.returns(forward(call.read(self)));
  }
  call.returns(std::vector<Item>{
      Item(call.make_view(self, forward, [](Value, Value value) { return value; }))});
}

// Whole channels, or alpha dropout: outside of training only, where they do nothing.
void other_dropout(Call& call) {
  const TensorRef self = call.ref(call.find("input") ? "input" : "self");
  if (call.flag("train", false) && call.real("p", 0.5) > 0)
    call.refuse("train", "is true; trace the model after model.eval()");
  call.returns(std::vector<Item>{Item(self)});
}

void native_dropout(Call& call) {
  if (call.flag("train", true) && call.real("p", 0.5) > 0)
    call.refuse("train", "is true; trace the model after model.eval()");
  const Value x = call.tensor("input");
  call.returns(std::vector<Value>{
      x,
      call.graph().call("full", {}, {{"shape", x.shape()}, {"value", 1.0}, {"dtype", boolean}})});
}

constexpr Row kRows[] = {
    {"aten::dropout", dropout},
    {"aten::feature_dropout", other_dropout},
    {"aten::alpha_dropout", other_dropout},
    {"aten::feature_alpha_dropout", other_dropout},
    {"aten::native_dropout", native_dropout},
};

}  // namespace

std::span<const Row> dropout() { return kRows; }

}  // namespace hg::convert::rows
