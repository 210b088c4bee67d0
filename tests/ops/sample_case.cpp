// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/sample_case.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"
#include "kernels/reference/rounded.h"
#include "lib/graph/split_mix.h"
#include "tests/support/elements.h"

namespace hg::test {

namespace {

std::vector<double> values_of(const SampleInput& input, size_t index) {
  if (!input.values.empty()) return input.values;
  uint64_t state = 1000 + index;
  std::vector<double> values;
  for (int64_t i = 0; i < input.shape.count(); ++i) {
    const double unit = static_cast<double>(split_mix(state) >> 11) * 0x1p-53;
    values.push_back(is_float(input.dtype)
                         ? input.low + unit * (input.high - input.low)
                         : std::floor(input.low + unit * (input.high - input.low + 1)));
  }
  return values;
}

DType variant(DType dtype, DType floats) { return dtype == f32 ? floats : dtype; }

// A layout with gaps: every stride is doubled, and the last dim starts at 1.
Tensor spread(const Tensor& from, std::vector<char>& memory) {
  memory.assign(2 * from.bytes() + 2 * size_of(from.dtype), 0);
  Tensor to = from;
  to.data = memory.data() + size_of(from.dtype);
  for (int64_t& stride : to.strides) stride *= 2;
  copy_elements(from, to);
  return to;
}

}  // namespace

double tolerance_of(const Sample& sample, DType dtype) {
  const double wide = sample.tolerance;
  switch (dtype) {
    case DType::f64:
      return std::max(1e-12, wide * 1e-7);
    case DType::f32:
      return std::max(2e-6, wide);
    case DType::f16:
      return std::max(2e-3, wide);
    case DType::bf16:
      return std::max(1.6e-2, wide);
    default:
      return 0;
  }
}

Result<std::unique_ptr<Case>> build(const Sample& sample, DType floats, Wiring wiring) {
  auto made_case = std::make_unique<Case>();
  Case& c = *made_case;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& input = sample.inputs[i];
    if (!input.given) {
      c.arguments.emplace_back();
      c.input_of.push_back(-1);
      continue;
    }
    const DType dtype = variant(input.dtype, floats);
    const auto is_same = [&](int k) {
      const Tensor& other = c.inputs[k].data.tensor;
      return other.dtype == dtype && other.shape == input.shape;
    };
    int same = 0;
    while (same < static_cast<int>(c.inputs.size()) && !is_same(same)) ++same;
    if (wiring == Wiring::shared && same < static_cast<int>(c.inputs.size())) {
      const auto at = std::find(c.input_of.begin(), c.input_of.end(), same) - c.input_of.begin();
      c.arguments.push_back(c.arguments[at]);
      c.input_of.push_back(same);
      continue;
    }
    Input made{
        str_cat("x", static_cast<int64_t>(i)), reference::rounded(values_of(input, i), dtype), {}};
    if (static_cast<int64_t>(made.values.size()) != input.shape.count())
      return invalid_argument("the sample gives ", static_cast<int64_t>(made.values.size()),
                              " values for ", input.shape);
    HG_TRY_ASSIGN(made.data, TensorData::allocate(dtype, input.shape));
    for (size_t k = 0; k < made.values.size(); ++k)
      write_element(made.data.tensor, static_cast<int64_t>(k), made.values[k]);
    Shape shape = to_shape(input.shape);
    if (wiring == Wiring::symbolic)
      for (size_t d = 0; d < shape.size(); ++d)
        shape[d] = Dim(std::string_view(str_cat(made.name, "_", static_cast<int64_t>(d))));
    Value value = input.constant ? c.graph.constant(made.data, made.name)
                                 : c.graph.input(made.name, dtype, shape);
    if ((wiring == Wiring::copied || wiring == Wiring::shared) && !input.constant)
      value = c.graph.call("maximum", {value, value});
    c.arguments.push_back(value);
    c.input_of.push_back(static_cast<int>(c.inputs.size()));
    c.inputs.push_back(std::move(made));
  }
  NamedAttrs attrs = sample.attrs;
  for (NamedAttr& attr : attrs)
    if (DType* dtype = std::get_if<DType>(&attr.value.value)) *dtype = variant(*dtype, floats);
  c.node = static_cast<int>(c.graph.nodes().size());
  c.outputs = c.graph.calls(sample.op, c.arguments, attrs);
  HG_TRY(c.graph.status());
  for (const Value& output : c.outputs) c.graph.output("", output);
  return made_case;
}

Status CaseRun::create(const Model& model, SessionOptions options) {
  forced_ = options.kernels;
  HG_TRY_ASSIGN(Session session, Session::create(model, std::move(options)));
  memory_.resize(case_->inputs.size());
  for (size_t i = 0; i < case_->inputs.size(); ++i) {
    const Input& input = case_->inputs[i];
    bool is_input = false;
    for (int k = 0; k < session.input_count(); ++k)
      is_input = is_input || session.input_name(k) == input.name;
    if (!is_input) continue;
    const Tensor& tensor = input.data.tensor;
    HG_TRY(session.set_input(input.name, strided_ ? spread(tensor, memory_[i]) : tensor));
  }
  session_.emplace(std::move(session));
  return {};
}

// If the forced kernel rejects the op, it may have been expanded, which is an error here.
Status CaseRun::run() {
  HG_TRY(session_->run());
  for (const std::string& kernel : forced_)
    if (!uses(kernel)) return unsupported(kernel, ": refused");
  return {};
}

bool CaseRun::uses(std::string_view kernel) const {
  const size_t equals = kernel.find('=');
  return session_->report().find(str_cat(kernel.substr(0, equals), " by ",
                                         kernel.substr(equals + 1), "\n")) != std::string::npos;
}

Result<std::vector<Answer>> CaseRun::answers() const {
  std::vector<Answer> answers;
  for (int k = 0; k < session_->output_count(); ++k) {
    HG_TRY_ASSIGN(const Tensor y, session_->output(k));
    Answer answer{y.dtype, y.shape, read_all(y), {}};
    if (y.is_contiguous() && y.bytes() > 0)
      answer.bytes.assign(static_cast<char*>(y.data), static_cast<char*>(y.data) + y.bytes());
    answers.push_back(std::move(answer));
  }
  return answers;
}

Result<std::vector<Answer>> run(const Case& c, SessionOptions options, bool strided) {
  HG_TRY_ASSIGN(const Model model, Model::from_graph(c.graph));
  CaseRun once(c, strided);
  HG_TRY(once.create(model, std::move(options)));
  HG_TRY(once.run());
  return once.answers();
}

std::vector<std::vector<double>> expected_of(const Case& c, const std::vector<Answer>& shapes) {
  const Node& node = c.graph.nodes()[c.node];
  std::vector<reference::Array> in, out;
  for (const int k : c.input_of) {
    reference::Array array;
    array.given = k >= 0;
    if (array.given) {
      const Input& input = c.inputs[k];
      array.dtype = input.data.tensor.dtype;
      array.shape = input.data.tensor.shape;
      array.values = input.values;
    }
    in.push_back(std::move(array));
  }
  in.resize(node.inputs.size(), {f32, {}, {}, false});
  for (const Answer& answer : shapes) {
    reference::Array array{answer.dtype, answer.shape, {}, true};
    array.values.assign(answer.shape.count(), 0.0);
    out.push_back(std::move(array));
  }
  const KernelAttrs attrs{AttrReader(node.op, node.attrs)};
  reference::find(node.op->name())->run({in, out, attrs});
  std::vector<std::vector<double>> values;
  for (reference::Array& array : out)
    values.push_back(reference::rounded(std::move(array.values), array.dtype));
  return values;
}

}  // namespace hg::test
