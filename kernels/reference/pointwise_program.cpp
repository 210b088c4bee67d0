// SPDX-License-Identifier: Apache-2.0
// Programs of elementwise ops: the reference of each step in order, rounded to its dtype.
#include "hg/pointwise_program.h"

#include "kernels/reference/pointwise.h"
#include "kernels/reference/rounded.h"

namespace hg::reference::rows {
namespace {

// The values of inputs and steps, without the last `left` steps.
std::vector<Array> values_of(const Call& c, const PointwiseProgram& program, size_t left) {
  Sizes shape;
  for (const Array& in : c.in) shape = common_shape({shape, in.shape});
  std::vector<Array> values(c.in.begin(), c.in.end());
  for (size_t k = 0; k + left < program.steps.size(); ++k) {
    const PointwiseProgram::Step& step = program.steps[k];
    std::vector<Array> in, out(1);
    for (const int arg : step.args) {
      in.emplace_back();
      if (arg == PointwiseProgram::kAbsent)
        in.back().given = false;
      else
        in.back() = values[arg];
    }
    out[0].dtype = step.dtype;
    out[0].shape = shape;
    out[0].values.assign(shape.count(), 0.0);
    const KernelAttrs attrs{AttrReader(step.op, step.attrs)};
    find(step.op->name())->run({in, out, attrs});
    out[0].values = rounded(std::move(out[0].values), step.dtype);
    values.push_back(std::move(out[0]));
  }
  return values;
}

PointwiseProgram parsed(const Call& c, size_t elementwise_but) {
  PointwiseProgram program = *PointwiseProgram::parse(
      c.attrs.string("program"), static_cast<int>(c.in.size()), Registry::built_in());
  std::vector<PointwiseProgram::Step> last;
  for (; elementwise_but > 0; --elementwise_but) {
    last.push_back(std::move(program.steps.back()));
    program.steps.pop_back();
  }
  std::vector<DType> dtypes;
  for (const Array& in : c.in) dtypes.push_back(in.dtype);
  (void)program.infer_dtypes(dtypes);
  for (PointwiseProgram::Step& step : last) program.steps.push_back(std::move(step));
  return program;
}

void pointwise_program(const Call& c) {
  c.out[0].values = values_of(c, parsed(c, 0), 0).back().values;
}

void pointwise_reduction(const Call& c) {
  const PointwiseProgram program = parsed(c, 1);
  const PointwiseProgram::Step& last = program.steps.back();
  const std::vector<Array> values = values_of(c, program, 1);
  const KernelAttrs attrs{AttrReader(last.op, last.attrs)};
  find(last.op->name())->run({std::span(values).last(1), c.out, attrs});
}

constexpr Row kRows[] = {
    {"pointwise_program", pointwise_program},
    {"pointwise_reduction", pointwise_reduction},
};

}  // namespace

std::span<const Row> pointwise_program() { return kRows; }

}  // namespace hg::reference::rows
