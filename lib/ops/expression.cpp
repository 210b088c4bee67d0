// SPDX-License-Identifier: Apache-2.0
// A kernel's text (hg/expression.h) as one node, for texts with their own backward text. `backward`
// has pairs of a parameter and the text of its gradient. `numbers` are the inputs that adapt to the
// dtypes of the others.
#include <algorithm>

#include "hg/op.h"
#include "hg/ops/pointwise.h"
#include "lib/expression/lower.h"
#include "lib/graph/internal_op.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

template <class Context>
std::vector<KernelInput> inputs_of(const Context& c, int count) {
  std::vector<KernelInput> inputs;
  for (int i = 0; i < count; ++i) inputs.push_back({.value = c.in(i)});
  for (const Dim& number : c.attrs().integers("numbers"))
    if (number.is_constant() && number.constant() >= 0 && number.constant() < count)
      inputs[number.constant()].is_number = true;
  return inputs;
}

template <class Context>
LowerOptions options_of(const Context& c) {
  const std::span<const Dim> shape = c.attrs().integers("shape");
  return {.strict = c.attrs().flag("strict"), .shape = Shape(shape.begin(), shape.end())};
}

Status expression_expand(ExpandContext& c) {
  HG_TRY_ASSIGN(const Syntax syntax,
                parse_kernel(c.attrs().string("name"), c.attrs().string("text")));
  const auto count = static_cast<int>(syntax.parameters.size());
  HG_CHECK(count == c.input_count(), "kernel '", syntax.kernel, "' has ", count,
           " parameters, there are ", c.input_count(), " inputs");
  HG_TRY_ASSIGN(const std::vector<Value> outputs,
                lower_kernel(c.graph(), syntax, inputs_of(c, count), options_of(c)));
  for (size_t i = 0; i < outputs.size(); ++i) c.set_out(static_cast<int>(i), outputs[i]);
  return {};
}

// Lowers the backward text, applied to inputs, outputs and output gradients.
Status expression_grad(GradContext& c) {
  const std::string& backward = c.attrs().string("backward");
  if (backward.empty()) return {};  // uses the gradient of the expansion
  HG_TRY_ASSIGN(const Syntax syntax,
                parse_kernel(c.attrs().string("name"), c.attrs().string("text")));
  const auto count = static_cast<int>(syntax.parameters.size());
  std::vector<Syntax::Parameter> parameters = backward_parameters(syntax);
  std::vector<KernelInput> inputs = inputs_of(c, count);
  size_t rank = c.attrs().integers("shape").size();  // of the call
  for (int i = 0; i < count; ++i)
    rank = std::max(rank, c.in(i).shape().size() - (syntax.parameters[i].components > 0));
  for (int k = 0; k < c.output_count(); ++k) inputs.push_back({.value = c.out(k)});
  for (int k = 0; k < c.output_count(); ++k) inputs.push_back({.value = c.dout(k)});
  for (size_t k = syntax.parameters.size(); k < inputs.size(); ++k)
    if (const Value& value = inputs[k].value; value.shape().size() > rank)
      parameters[k].components = static_cast<int>(value.dim(-1).constant());
  HG_TRY_ASSIGN(const Syntax text,
                parse_kernel("backward of " + syntax.kernel, backward, &parameters));
  HG_TRY_ASSIGN(const std::vector<Value> gradients, lower_kernel(c.graph(), text, inputs, {}));
  for (int i = 0; i < count; ++i) {
    if (!c.needs(i)) continue;
    const std::string& name = syntax.parameters[i].name;
    const auto found =
        std::find_if(text.outputs.begin(), text.outputs.end(),
                     [&](const Syntax::Output& output) { return output.name == "d" + name; });
    if (found == text.outputs.end())
      return unsupported("'", syntax.kernel, "' has no backward for '", name, "'");
    const Value dx = gradients[found - text.outputs.begin()];
    c.set_grad(i, dx.dtype() == c.in(i).dtype() ? dx : cast(dx, c.in(i).dtype()));
  }
  return {};
}

constexpr OpDef kOps[] = {
    {.signature = "expression(xs..., text: str, name: str = \"expression\", strict: bool = false, "
                  "shape: int[] = [], numbers: int[] = [], backward: str = \"\") -> ys...",
     .grad = expression_grad,
     .expand = expression_expand,
     .traits = kInternal},
};

}  // namespace

std::span<const OpDef> expression() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
