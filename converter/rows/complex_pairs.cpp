// SPDX-License-Identifier: Apache-2.0
#include "converter/rows/complex_pairs.h"

#include "hg/promotion.h"

namespace hg::convert {

namespace {

Value zeros_like(const Value& x) {
  return x.graph()->call("expand", {x.graph()->scalar(int64_t{0}, x.dtype())},
                         {{"shape", x.shape()}});
}

}  // namespace

Value part_of(const Value& pairs, int k) {
  Graph& g = *pairs.graph();
  const int last = pairs.rank() - 1;
  Shape shape = pairs.shape();
  shape.pop_back();
  return g.call("reshape",
                {g.call("slice", {pairs}, {{"dim", last}, {"start", k}, {"end", k + 1}})},
                {{"shape", shape}});
}

Complex parts_of(const Value& pairs) { return {part_of(pairs, 0), part_of(pairs, 1)}; }

Value with_part(const Value& pairs, int k, const Value& part) {
  Complex x = parts_of(pairs);
  (k == 0 ? x.re : x.im) = part;
  return pairs_of(x);
}

Value imaginary(const Complex& x) { return x.im ? x.im : zeros_like(x.re); }

Value pairs_of(const Complex& x) {
  Shape shape = x.re.shape();
  shape.push_back(1);
  Graph& g = *x.re.graph();
  const Value re = g.call("reshape", {x.re}, {{"shape", shape}});
  const Value im = g.call("reshape", {imaginary(x)}, {{"shape", shape}});
  return g.call("concat", {re, im}, {{"dim", static_cast<int64_t>(shape.size()) - 1}});
}

Item complex_number(NodeCall& call, const Object& number) {
  Graph& g = call.graph();
  Value parts[2];
  for (size_t k = 0; k < 2; ++k)
    parts[k] = g.scalar(std::get<double>(number.attributes.at(k).second.value), f64);
  const TensorRef tensor = call.memory().make_number(pairs_of({parts[0], parts[1]}));
  call.memory().set_complex(tensor);
  return Item(tensor);
}

int64_t torch_of_complex(DType part) { return part == f64 ? 10 : 9; }
int64_t part_of_torch(int64_t type) {
  return type == 9 ? torch_of_dtype(f32) : type == 10 ? torch_of_dtype(f64) : 0;
}

std::vector<Complex> complex_operands(Call& call, std::vector<std::string_view> names) {
  // Real integers do not affect the dtype; for the others, torch's rule is that of floats.
  Promotion promotion;
  for (const std::string_view name : names) {
    const Item* item = call.find(name);
    const auto* tensor = item ? std::get_if<TensorRef>(&item->value) : nullptr;
    if (tensor == nullptr) continue;
    const Value value = call.read(*tensor);
    if (!is_float(value.dtype())) continue;
    if ((*tensor)->is_number())
      promotion.add_number(value.dtype());
    else
      promotion.add_tensor(value.dtype() == f64 ? f64 : f32,
                           value.rank() - ((*tensor)->is_complex() ? 1 : 0));
  }
  const DType dtype = promotion.result();
  std::vector<Complex> operands;
  for (const std::string_view name : names) {
    const Item* item = call.find(name);
    const auto* tensor = item ? std::get_if<TensorRef>(&item->value) : nullptr;
    if (tensor != nullptr && (*tensor)->is_complex()) {
      const Complex x = parts_of(call.read(*tensor));
      operands.push_back({cast(x.re, dtype), cast(x.im, dtype)});
    } else if (item != nullptr && item->is_real()) {
      operands.push_back({call.graph().scalar(std::get<double>(item->value), dtype), Value()});
    } else {
      operands.push_back({call.tensor_or_number(name, dtype), Value()});
    }
  }
  return operands;
}

void return_complex(Call& call, const Complex& x) {
  call.returns(std::vector<Item>{Item(call.as_complex(call.make_tensor(pairs_of(x))))});
}

TensorRef NodeCall::make_complex_view(const TensorRef& base, Forward forward, Inverse inverse) {
  Inverse both;
  if (inverse)
    both = [inverse = std::move(inverse)](Value whole, Value value) {
      const Complex x = parts_of(whole), y = parts_of(value);
      return pairs_of({inverse(x.re, y.re), inverse(x.im, y.im)});
    };
  const TensorRef view = memory().make_view(base,
                                            [forward = std::move(forward)](Value whole) {
                                              const Complex x = parts_of(whole);
                                              return pairs_of({forward(x.re), forward(x.im)});
                                            },
                                            std::move(both), {});
  require_ok(graph().take_status());
  return as_complex(view);
}

}  // namespace hg::convert
