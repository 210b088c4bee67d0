// SPDX-License-Identifier: Apache-2.0
// Several elementwise ops in one node (hg/pointwise_program.h), made by the compile pass.
#include "hg/pointwise_program.h"

namespace hg::ops {
namespace {

Status expand(ExpandContext& c) {
  HG_TRY_ASSIGN(
      const PointwiseProgram program,
      PointwiseProgram::parse(c.attrs().string("program"), c.input_count(), c.graph().registry()));
  std::vector<Value> values;
  for (int i = 0; i < c.input_count(); ++i) values.push_back(c.in(i));
  for (const PointwiseProgram::Step& step : program.steps) {
    std::vector<Value> inputs;
    for (const int arg : step.args)
      inputs.push_back(arg == PointwiseProgram::kAbsent ? Value()
                                                        : values[static_cast<size_t>(arg)]);
    NamedAttrs attrs;
    for (size_t i = 0; i < step.attrs.size(); ++i)
      attrs.push_back({step.op->signature.attributes[i].name, step.attrs[i]});
    values.push_back(c.graph().call(step.op->name(), inputs, attrs));
  }
  c.set_out(0, values.back());
  return {};
}

constexpr OpDef kOps[] = {
    {.name = "pointwise_program",
     .signature = "pointwise_program(xs..., program: str) -> y",
     .expand = expand,
     .alias = 0xff},
};

}  // namespace

std::span<const OpDef> pointwise_program() { return kOps; }

}  // namespace hg::ops
