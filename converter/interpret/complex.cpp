// SPDX-License-Identifier: Apache-2.0
// Calls of ops with complex tensors, numbers or dtypes.
#include "converter/aten/complex.h"

#include <algorithm>
#include <bit>
#include <set>

#include "converter/aten/table.h"
#include "converter/interpret/interpreter.h"
#include "converter/rows/complex_pairs.h"

namespace hg::convert {
namespace {

// Whether the argument is numeric data; others are indices, masks and similar.
bool is_operand(std::string_view name) {
  static const std::set<std::string_view> kNames = {
      "self",       "other",    "tensors", "tensor",  "src",   "source",  "value",
      "values",     "input",    "mat2",    "vec",     "vec2",  "tensor1", "operands",
      "fill_value", "matrices", "end",     "prepend", "append"};
  return kNames.contains(name);
}

bool holds_complex(const Item& item) {
  if (const auto* tensor = std::get_if<TensorRef>(&item.value)) return (*tensor)->is_complex();
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value))
    return std::any_of((*list)->items.begin(), (*list)->items.end(), holds_complex);
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value))
    return std::any_of((*tuple)->items.begin(), (*tuple)->items.end(), holds_complex);
  return false;
}

std::string_view name_of(const NodeCall& call, int i) {
  const auto& names = call.node().argument_names;
  return static_cast<size_t>(i) < names.size() ? std::string_view(names[i]) : "";
}

// Returns the requested complex dtype, as torch's number of the dtype of its parts.
int64_t asked_part(const NodeCall& call) {
  for (int i = 0; i < call.argument_count(); ++i)
    if (name_of(call, i) == "dtype" && call.argument(i).is_int())
      return part_of_torch(std::get<Dim>(call.argument(i).value).constant());
  return 0;
}

bool asks_real(const NodeCall& call) {
  for (int i = 0; i < call.argument_count(); ++i)
    if (name_of(call, i) == "dtype" && call.argument(i).is_int())
      return part_of_torch(std::get<Dim>(call.argument(i).value).constant()) == 0;
  return false;
}

// Replaces complex arguments by their k-th part. The second part of real arguments is zero.
class PartMaker {
 public:
  explicit PartMaker(NodeCall& call) : call_(call) {}

  NodeCall::Part make(int k) {
    NodeCall::Part part;
    for (int i = 0; i < call_.argument_count(); ++i) {
      const std::string_view name = name_of(call_, i);
      if (name == "dtype" && asked_part(call_) != 0)
        part.arguments.emplace_back(asked_part(call_));
      else
        part.arguments.push_back(replaced(call_.argument(i), is_operand(name), k, part));
    }
    return part;
  }

  // Returns how many complex tensors the arguments contain.
  int count() {
    int total = 0;
    for (int i = 0; i < call_.argument_count(); ++i) count(call_.argument(i), total);
    return total;
  }
  // Replaces the n-th complex tensor by the part that bit n selects.
  NodeCall::Part choose(uint32_t bits) {
    NodeCall::Part part;
    int n = 0;
    for (int i = 0; i < call_.argument_count(); ++i)
      part.arguments.push_back(chosen(call_.argument(i), bits, n));
    return part;
  }

 private:
  Item stand_in(const TensorRef& tensor, int k, NodeCall::Part* part) {
    Memory& memory = call_.memory();
    if (tensor->is_number()) return Item(memory.make_number(part_of(memory.read(tensor), k)));
    const TensorRef real = memory.make_view(
        tensor, [k](Value base) { return part_of(base, k); },
        [k](Value base, Value value) { return with_part(base, k, value); }, {});
    if (part != nullptr) part->stand_ins.emplace_back(real, tensor);
    return Item(real);
  }

  Item replaced(const Item& item, bool operand, int k, NodeCall::Part& part) {
    if (const auto* tensor = std::get_if<TensorRef>(&item.value)) {
      if ((*tensor)->is_complex()) return stand_in(*tensor, k, &part);
      if (!operand || k == 0) return item;
      Memory& memory = call_.memory();
      const Value zero = imaginary({memory.read(*tensor), Value()});
      return Item((*tensor)->is_number() ? memory.make_number(zero) : memory.make(zero));
    }
    if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
      auto copy = std::make_shared<List>();
      const bool tensors = std::any_of((*list)->items.begin(), (*list)->items.end(),
                                       [](const Item& each) { return each.is_tensor(); });
      for (const Item& each : (*list)->items)
        copy->items.push_back(replaced(each, operand && tensors, k, part));
      return Item(std::move(copy));
    }
    if (operand && k == 1) {
      if (item.is_real()) return Item(0.0);
      if (item.is_int()) return Item(0);
      if (item.is_bool()) return Item(false);
    }
    return item;
  }

  static void count(const Item& item, int& total) {
    if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value))
      for (const Item& each : (*list)->items) count(each, total);
    else if (holds_complex(item))
      ++total;
  }

  Item chosen(const Item& item, uint32_t bits, int& n) {
    if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
      auto copy = std::make_shared<List>();
      for (const Item& each : (*list)->items) copy->items.push_back(chosen(each, bits, n));
      return Item(std::move(copy));
    }
    if (!holds_complex(item)) return item;
    return stand_in(std::get<TensorRef>(item.value), static_cast<int>(bits >> n++ & 1), nullptr);
  }

  NodeCall& call_;
};

std::vector<Item> results_of(NodeCall& call, const Row& row, const NodeCall::Part& part) {
  call.set_part(&part);
  try {
    row.run(call);
    require_ok(call.graph().take_status());
  } catch (...) {
    call.set_part(nullptr);
    throw;
  }
  call.set_part(nullptr);
  return std::move(call.results());
}

bool is_done(const Item& item, const NodeCall::Part& part) {
  if (const auto* tensor = std::get_if<TensorRef>(&item.value))
    return (*tensor)->is_complex() ||
           std::any_of(part.stand_ins.begin(), part.stand_ins.end(),
                       [&](const auto& each) { return each.first == *tensor; });
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value))
    return std::all_of((*list)->items.begin(), (*list)->items.end(),
                       [&](const Item& each) { return is_done(each, part); });
  return true;
}

// Combines the results for both parts.
Item joined(NodeCall& call, const Item& re, const Item& im, const NodeCall::Part& part) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&re.value)) {
    const auto* other = std::get_if<std::shared_ptr<List>>(&im.value);
    auto copy = std::make_shared<List>();
    for (size_t i = 0; i < (*list)->items.size(); ++i)
      copy->items.push_back(
          joined(call, (*list)->items[i], other ? (*other)->items.at(i) : (*list)->items[i], part));
    return Item(std::move(copy));
  }
  const auto* tensor = std::get_if<TensorRef>(&re.value);
  if (tensor == nullptr || (*tensor)->is_complex()) return re;
  for (const auto& [stand_in, complex] : part.stand_ins)
    if (stand_in == *tensor) return Item(complex);
  const Value a = call.read(*tensor);
  const Value b =
      im.is_tensor() ? cast(call.read(std::get<TensorRef>(im.value)), a.dtype()) : Value();
  if (!is_float(a.dtype()) || (a.dtype() != f32 && a.dtype() != f64))
    throw Refusal{str_cat("complex numbers of two ", a.dtype(), " are not supported"), ""};
  const TensorRef result = call.as_complex(call.make_tensor(pairs_of({a, b})));
  if ((*tensor)->may_share())
    for (const auto& [stand_in, complex] : part.stand_ins) call.may_share(result, complex);
  return Item(result);
}

// Runs the op on the real parts, and on the imaginary parts if the result has them.
void run_parts(NodeCall& call, const Row& row) {
  if (call.kind() == "aten::view" && call.overload() == "dtype")
    call.refuse("dtype", "asks for the bits of complex numbers as another dtype");
  if (call.has("alpha") && holds_complex(*call.find("alpha")))
    call.refuse("alpha", "is complex, which is not supported");
  PartMaker maker(call);
  const NodeCall::Part first = maker.make(0);
  const std::vector<Item> re = results_of(call, row, first);
  bool real = asks_real(call);
  const OnComplex::Rule rule = row.complex.rule;
  if (rule == OnComplex::parts_like_other) real = !holds_complex(*call.find("other"));
  if (rule == OnComplex::parts_like_self) real = !holds_complex(*call.find("self"));
  if (real) return call.returns(re);
  std::vector<Item> im = re;
  const bool done =
      std::all_of(re.begin(), re.end(), [&](const Item& item) { return is_done(item, first); });
  if (rule == OnComplex::real_part)
    im.assign(re.size(), Item());
  else if (!done)
    im = results_of(call, row, maker.make(1));
  std::vector<Item> results;
  for (size_t i = 0; i < re.size(); ++i) results.push_back(joined(call, re[i], im.at(i), first));
  call.returns(std::move(results));
}

// (a + bi)(c + di) = ac - bd + (ad + bc)i, generalized to all complex factors.
void run_product(NodeCall& call, const Row& row) {
  PartMaker maker(call);
  const int factors = maker.count();
  if (factors > 4) throw Refusal{"a product of more than four complex tensors", ""};
  Value sums[2];
  for (uint32_t bits = 0; bits < 1u << factors; ++bits) {
    const std::vector<Item> results = results_of(call, row, maker.choose(bits));
    Value value = call.read(std::get<TensorRef>(results.at(0).value));
    const int power = std::popcount(bits);  // of i
    if (power % 4 >= 2) value = value.graph()->call("neg", {value});
    Value& sum = sums[power % 2];
    sum = sum ? value.graph()->call("add", {sum, value}) : value;
  }
  return_complex(call, {sums[0], sums[1]});
}

// Runs the op on the absolute values of the first argument.
void run_magnitudes(NodeCall& call, const Row& row) {
  NodeCall::Part part = PartMaker(call).make(0);
  rows::of_complex::abs(call);
  part.arguments.at(0) = call.results().at(0);
  call.returns(results_of(call, row, part));
}

}  // namespace

bool is_complex_call(const NodeCall& call) {
  for (int i = 0; i < call.argument_count(); ++i)
    if (holds_complex(call.argument(i))) return true;
  return asked_part(call) != 0;
}

bool passes_complex(std::string_view kind) {
  const Row* row = row_named(kind);
  if (kind.starts_with("prim::")) return row == nullptr || row->complex.rule != OnComplex::refused;
  return row != nullptr && row->script_takes_complex;
}

void run_complex(NodeCall& call, const Row* row) {
  if (row == nullptr) row = call.row();
  if (row != nullptr && row->complex.rule == OnComplex::function) {
    row->complex.compute(call);
    require_ok(call.graph().take_status());
    return;
  }
  if (row == nullptr || row->run == nullptr) throw Refusal{"the op is not supported", ""};
  switch (row->complex.rule) {
    case OnComplex::itself:
      return row->run(call);
    case OnComplex::parts:
    case OnComplex::parts_like_self:
    case OnComplex::parts_like_other:
    case OnComplex::real_part:
      return run_parts(call, *row);
    case OnComplex::product:
      return run_product(call, *row);
    case OnComplex::magnitudes:
      return run_magnitudes(call, *row);
    case OnComplex::unsaid:
    case OnComplex::refused:
    case OnComplex::function:
      break;
  }
  throw Refusal{"the op is not supported for complex numbers",
                "compute with torch.view_as_real(x), or with x.real and x.imag"};
}

}  // namespace hg::convert
