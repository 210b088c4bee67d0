// SPDX-License-Identifier: Apache-2.0
// Several elementwise ops in one node, optionally with a reduction of their result
// (hg/pointwise_program.h). Created by the pass `programs`.
#include "hg/pointwise_program.h"

#include <algorithm>

#include "lib/graph/access.h"
#include "lib/graph/internal_op.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

Result<PointwiseProgram> parsed(const ExpandContext& c) {
  return PointwiseProgram::parse(c.attrs().string("program"), c.input_count(),
                                 c.graph().registry());
}

void set_result(ExpandContext& c, const PointwiseProgram& program) {
  std::vector<Value> values;
  for (int i = 0; i < c.input_count(); ++i) values.push_back(c.in(i));
  for (const PointwiseProgram::Step& step : program.steps) {
    std::vector<Value> inputs;
    for (const int arg : step.args)
      inputs.push_back(arg == PointwiseProgram::kAbsent ? Value() : values[arg]);
    values.push_back(c.graph().call(step.op->name(), inputs, named_attrs(*step.op, step.attrs)));
  }
  c.set_out(0, values.back());
}

Status pointwise_program_expand(ExpandContext& c) {
  HG_TRY_ASSIGN(const PointwiseProgram program, parsed(c));
  set_result(c, program);
  return {};
}

Status expand_reduction(ExpandContext& c) {
  HG_TRY_ASSIGN(const PointwiseProgram program, parsed(c));
  const PointwiseProgram::Step& last = program.steps.back();
  const int before = program.input_count + static_cast<int>(program.steps.size()) - 2;
  HG_CHECK(last.args == std::vector<int>{before} && before >= program.input_count &&
               last.op->signature.outputs.size() == 1,
           "pointwise_reduction: ", last.op->name(),
           " must reduce the step before it to one result");
  set_result(c, program);
  return {};
}

// One per step and element.
double reduction_flops(std::span<const Sizes> in, std::span<const Sizes>, const AttrReader& attrs) {
  const std::string_view program = attrs.string("program");
  double flops = 1 + static_cast<double>(std::count(program.begin(), program.end(), ';'));
  int rank = 0;
  for (const Sizes& shape : in) rank = std::max(rank, shape.rank());
  for (int d = 1; d <= rank; ++d) {  // from the last dim
    int64_t size = 1;
    for (const Sizes& shape : in)
      if (d <= shape.rank() && shape[shape.rank() - d] != 1) size = shape[shape.rank() - d];
    flops *= static_cast<double>(size);
  }
  return flops;
}

constexpr OpDef kOps[] = {
    {.signature = "pointwise_program(xs..., program: str) -> y",
     .expand = pointwise_program_expand,
     .alias = 0xff,
     .traits = kInternal},
    {.signature = "pointwise_reduction(xs..., program: str) -> y",
     .expand = expand_reduction,
     .traits = kInternal,
     .flops = reduction_flops},
};

}  // namespace

std::span<const OpDef> pointwise_program() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
