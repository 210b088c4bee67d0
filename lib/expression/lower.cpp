// SPDX-License-Identifier: Apache-2.0
// Visits the parsed expressions in order, each after its operands, and adds their ops.
#include "lib/expression/lower.h"

#include <algorithm>

#include "hg/op.h"
#include "hg/ops/copy.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"
#include "hg/promotion.h"
#include "lib/expression/functions.h"
#include "lib/expression/item.h"
#include "lib/graph/split_mix.h"

namespace hg {
namespace {

using Expression = Syntax::Expression;
using Kind = Expression::Kind;

class Lowering;
using Special = Result<Item> (Lowering::*)(const Expression&);

class Lowering {
 public:
  Lowering(Graph& graph, const Syntax& syntax, const LowerOptions& options)
      : graph_(graph), syntax_(syntax), options_(options) {}

  Result<std::vector<Value>> run(std::span<const KernelInput> inputs) {
    HG_TRY(take_inputs(inputs));
    for (const Expression& expression : syntax_.expressions) {
      Result<Item> item = lower(expression);
      if (item.ok() && !graph_.status().ok()) item = graph_.take_status();
      if (!item.ok())
        return Status(item.status().code(),
                      str_cat(syntax_.place(expression.at), item.status().message()));
      items_.push_back(*std::move(item));
    }
    std::vector<Value> outputs;
    for (const Syntax::Output& output : syntax_.outputs) outputs.push_back(result(output));
    HG_TRY(graph_.take_status());
    return outputs;
  }

  static Special special(std::string_view name);

 private:
  Status fail_argument(const Syntax::Parameter& parameter, std::string_view what) const {
    return invalid_argument("kernel '", syntax_.kernel, "': '", parameter.name, "' ", what);
  }

  // Checks the arguments, splits vectors into components and determines the shape of the call.
  Status take_inputs(std::span<const KernelInput> inputs) {
    shape_ = options_.shape;
    std::string first_name = "the call", strict_name;
    Shape strict_shape;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Syntax::Parameter& parameter = syntax_.parameters[i];
      const Value& value = inputs[i].value;
      Item item{.parts = {value}, .is_number = inputs[i].is_number};
      if (is_complex(value.dtype()))
        return fail_argument(parameter, str_cat("is ", value.dtype(), ", which no kernel takes"));
      if (parameter.dtype && *parameter.dtype != value.dtype()) {
        if (!item.is_number)
          return fail_argument(
              parameter, str_cat("is ", value.dtype(), ", but is declared ", *parameter.dtype));
        HG_TRY_ASSIGN(item.parts[0], convert(value, true, *parameter.dtype));
        item.is_number = false;
      }
      if (parameter.components > 0) HG_TRY(cut(parameter, item));
      const Shape& own = item.parts[0].shape();
      if (options_.strict && !own.empty()) {
        if (!strict_name.empty() && !(own == strict_shape))
          return invalid_argument("kernel '", syntax_.kernel, "': strict shapes differ: '",
                                  strict_name, "' is ", strict_shape, ", '", parameter.name,
                                  "' is ", own);
        strict_name = parameter.name;
        strict_shape = own;
      }
      Result<Shape> wider = broadcast(shape_, own);
      if (!wider.ok())
        return fail_argument(parameter, str_cat("is ", own, ", which does not broadcast to ",
                                                shape_, " of ", first_name));
      first_name = "the arguments before it";
      shape_ = *std::move(wider);
      inputs_.push_back(std::move(item));
    }
    return {};
  }

  Status cut(const Syntax::Parameter& parameter, Item& item) {
    const Value whole = item.parts[0];
    if (item.is_number || whole.rank() == 0 || !(whole.dim(-1) == Dim(parameter.components)))
      return fail_argument(parameter,
                           str_cat("is ", whole.shape(), ", but has ", parameter.components,
                                   " components along its last dim"));
    const Shape shape(whole.shape().begin(), whole.shape().end() - 1);
    item.parts.clear();
    item.is_vector = true;
    for (int i = 0; i < parameter.components; ++i)
      item.parts.push_back(reshape(slice(whole, whole.rank() - 1, i, i + 1), shape));
    return graph_.take_status();
  }

  // Expands to the shape of the call; components form a new last dim.
  Value result(const Syntax::Output& output) {
    const Item& item = items_[output.expression];
    std::vector<Value> parts;
    for (Value part : item.parts) {
      if (item.is_number && part.dtype() == f64) part = cast(part, f32);
      if (!(part.shape() == shape_)) part = expand(part, shape_);
      parts.push_back(part);
    }
    if (!item.is_vector) return parts[0];
    Shape column = shape_;
    column.emplace_back(1);
    for (Value& part : parts) part = reshape(part, column);
    return concat(parts, static_cast<int>(shape_.size()));
  }

  Result<Item> lower(const Expression& expression) {
    switch (expression.kind) {
      case Kind::integer:
        return Item{.parts = {graph_.scalar(expression.integer, i64)}, .is_number = true};
      case Kind::real:
        return Item{.parts = {graph_.scalar(expression.real, f64)}, .is_number = true};
      case Kind::boolean:
        return Item{.parts = {graph_.scalar(expression.integer, boolean)}, .is_number = true};
      case Kind::word:
        return Item{.parts = {Value()}};
      case Kind::parameter:
        return inputs_[expression.integer];
      case Kind::call:
        break;
    }
    if (const Special special_one = special(expression.name))
      return (this->*special_one)(expression);
    if (const Result<DType> dtype = parse_dtype(expression.name); dtype.ok())
      return convert_to(expression, *dtype);
    return call(expression);
  }

  const Item& argument(const Expression& call, size_t i) const { return items_[call.arguments[i]]; }
  Status check_count(const Expression& call, size_t least, size_t most) const {
    const size_t count = call.arguments.size();
    HG_CHECK(
        count >= least && count <= most && call.named.empty(), "'", call.name, "' takes ",
        least == most ? str_cat(int64_t(least)) : str_cat(int64_t(least), " to ", int64_t(most)),
        " arguments without names, there are ", int64_t(count), " and ", int64_t(call.named.size()),
        " with names");
    return {};
  }

  // -- Ops ----------------------------------------------------------------------------------------

  // The expressions for each input of the op, and its attributes.
  struct Given {
    std::vector<int> inputs;  // -1: not given
    NamedAttrs attrs;
  };

  Result<Attr> attribute(const Signature::Attribute& wanted, int index) const {
    const Expression& given = syntax_.expressions[index];
    if (given.kind == Kind::integer) return Attr(given.integer);
    if (given.kind == Kind::real) return Attr(given.real);
    if (given.kind == Kind::boolean) return Attr(given.integer != 0);
    HG_CHECK(given.kind == Kind::word, "'", wanted.name,
             "' must be a number or a word of the text");
    if (wanted.type != AttrType::dtype) return Attr(given.name);
    HG_TRY_ASSIGN(const DType dtype, parse_dtype(given.name));
    return Attr(dtype);
  }

  Result<Given> given_to(const Op& op, const Expression& call) const {
    const Signature& signature = op.signature;
    Given given;
    given.inputs.assign(signature.inputs.size(), -1);
    const auto give_attribute = [&](size_t k, int expression) -> Status {
      HG_TRY_ASSIGN(Attr attr, attribute(signature.attributes[k], expression));
      given.attrs.push_back({signature.attributes[k].name, std::move(attr)});
      return {};
    };
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const size_t k = i - std::min(i, signature.inputs.size());
      HG_CHECK(i < signature.inputs.size() || k < signature.attributes.size(), "'", call.name,
               "' takes at most ", int64_t(signature.inputs.size() + signature.attributes.size()),
               " arguments, there are ", int64_t(call.arguments.size()));
      if (i < signature.inputs.size())
        given.inputs[i] = call.arguments[i];
      else
        HG_TRY(give_attribute(k, call.arguments[i]));
    }
    for (const auto& [name, expression] : call.named) {
      const int input = signature.find_input(name), attr = signature.find_attribute(name);
      HG_CHECK(input >= 0 || attr >= 0, "'", call.name, "' has no argument '", name, "'");
      if (attr >= 0) {
        HG_TRY(give_attribute(static_cast<size_t>(attr), expression));
        continue;
      }
      int& place = given.inputs[input];
      HG_CHECK(place < 0, "'", name, "' of '", call.name, "' is given twice");
      place = expression;
    }
    for (size_t i = 0; i < given.inputs.size(); ++i)
      HG_CHECK(given.inputs[i] >= 0 || signature.inputs[i].optional, "'", call.name,
               "' lacks its argument '", signature.inputs[i].name, "'");
    return given;
  }

  Result<Item> call(const Expression& call) {
    const Registry& registry = graph_.registry();
    const Op& op = *function_op(registry, call.name);
    if (op.name() != call.name && op.signature.inputs.size() == 2) return fold(op, call);
    HG_TRY_ASSIGN(const Given given, given_to(op, call));
    HG_CHECK(is_function_of_elements(registry, op, given.attrs), "'", call.name,
             "' is no function of one element");
    std::vector<const Item*> inputs;
    for (const int index : given.inputs) inputs.push_back(index < 0 ? nullptr : &items_[index]);
    if (op.name() == "pow") HG_TRY(check_power(*inputs[0], *inputs[1]));
    return apply(op, inputs, given.attrs);
  }

  // As in torch, which rejects negative powers of integers.
  Status check_power(const Item& base, const Item& exponent) const {
    const TensorData* number =
        exponent.is_number ? graph_.constant_of(exponent.parts[0].id()) : nullptr;
    HG_CHECK(number == nullptr || number->tensor.dtype != i64 || is_float(base.dtype()) ||
                 *number->tensor.as<int64_t>() >= 0,
             "integers have no power of ", number ? *number->tensor.as<int64_t>() : 0);
    return {};
  }

  // min(a, b, c) is min(min(a, b), c).
  Result<Item> fold(const Op& op, const Expression& call) {
    HG_TRY(check_count(call, 2, 64));
    Item result = argument(call, 0);
    for (size_t i = 1; i < call.arguments.size(); ++i) {
      const Item* pair[] = {&result, &argument(call, i)};
      HG_TRY_ASSIGN(Item next, apply(op, pair, {}));
      result = std::move(next);
    }
    return result;
  }

  // Applies the op to items of one dtype, component by component.
  Result<Item> apply(const Op& op, std::span<const Item* const> inputs, const NamedAttrs& attrs) {
    std::vector<const Item*> same;  // all inputs except conditions
    size_t components = 0;
    bool are_numbers = true;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == nullptr) continue;
      HG_CHECK(inputs[i]->parts[0], "a word cannot be an argument of '", op.name(), "'");
      if (op.signature.inputs[i].name != "condition") same.push_back(inputs[i]);
      are_numbers &= inputs[i]->is_number;
      if (!inputs[i]->is_vector) continue;
      const size_t count = inputs[i]->parts.size();
      HG_CHECK(components == 0 || components == count, "vectors of ", int64_t(components),
               " and of ", int64_t(count), " components meet");
      components = count;
    }
    DType dtype = result_dtype(same);
    if (dtype == f64 && !are_numbers &&
        std::all_of(same.begin(), same.end(), [](const Item* item) { return item->is_number; }))
      dtype = f32;  // only the condition is a tensor
    const Registry& registry = graph_.registry();
    if (!is_float(dtype) && !takes(registry, op, attrs, dtype)) {
      if (keeps_integers(op.name()) && dtype != boolean) return *inputs[0];
      const bool floats_only = !takes(registry, op, attrs, i64) && takes(registry, op, attrs, f32);
      if (floats_only) dtype = are_numbers ? f64 : f32;
    }
    Item result{.parts = {}, .is_number = are_numbers, .is_vector = components > 0};
    for (size_t k = 0; k < std::max(components, size_t{1}); ++k) {
      std::vector<Value> values(inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == nullptr) continue;
        values[i] = inputs[i]->part(k);
        if (op.signature.inputs[i].name == "condition") continue;
        HG_TRY_ASSIGN(values[i], convert(values[i], inputs[i]->is_number, dtype));
      }
      result.parts.push_back(graph_.call(op.name(), values, attrs));
      HG_TRY(graph_.take_status());
    }
    return result;
  }
  Result<Item> apply(std::string_view op, const Item& a, const Item& b) {
    const Item* pair[] = {&a, &b};
    return apply(*graph_.registry().find(op), pair, {});
  }

  Result<Item> convert_to(const Expression& call, DType dtype) {
    HG_TRY(check_count(call, 1, 1));
    Item result = argument(call, 0);
    for (Value& part : result.parts) part = cast(part, dtype);
    result.is_number = false;
    return result;
  }

  // -- Vectors ------------------------------------------------------------------------------------

  Result<Item> vec(const Expression& call) {
    HG_TRY(check_count(call, 1, 16));
    std::vector<const Item*> items;
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      items.push_back(&argument(call, i));
      HG_CHECK(!items.back()->is_vector, "a vector cannot be a component of a vector");
    }
    const DType dtype = result_dtype(items);
    Item result{.parts = {}, .is_number = true, .is_vector = true};
    for (const Item* item : items) {
      HG_TRY_ASSIGN(const Value part, convert(item->parts[0], item->is_number, dtype));
      result.parts.push_back(part);
      result.is_number &= item->is_number;
    }
    return result;
  }

  Result<Item> component(const Expression& call) {
    const Item& vector = argument(call, 0);
    HG_CHECK(vector.is_vector, "only a vector has components");
    const auto count = static_cast<int64_t>(vector.parts.size());
    HG_CHECK(call.integer < count, "component ", call.integer, " of a vector of ", count);
    return Item{.parts = {vector.parts[call.integer]}, .is_number = vector.is_number};
  }

  Result<Item> sum_of_products(const Item& a, const Item& b) {
    HG_CHECK(a.is_vector && b.is_vector, "only vectors have such a product");
    HG_TRY_ASSIGN(const Item products, apply("mul", a, b));
    Item sum{.parts = {products.parts[0]}, .is_number = products.is_number};
    for (size_t i = 1; i < products.parts.size(); ++i) {
      const Item next{.parts = {products.parts[i]}, .is_number = products.is_number};
      HG_TRY_ASSIGN(sum, apply("add", sum, next));
    }
    return sum;
  }
  Result<Item> dot(const Expression& call) {
    HG_TRY(check_count(call, 2, 2));
    return sum_of_products(argument(call, 0), argument(call, 1));
  }
  Result<Item> length(const Expression& call) {
    HG_TRY(check_count(call, 1, 1));
    HG_TRY_ASSIGN(const Item square, sum_of_products(argument(call, 0), argument(call, 0)));
    const Item* one[] = {&square};
    return apply(*graph_.registry().find("sqrt"), one, {});
  }
  // (a.y b.z - a.z b.y, ...)
  Result<Item> cross(const Expression& call) {
    HG_TRY(check_count(call, 2, 2));
    const Item &a = argument(call, 0), &b = argument(call, 1);
    HG_CHECK(a.is_vector && b.is_vector && a.parts.size() == 3 && b.parts.size() == 3,
             "'cross' takes vectors of 3 components");
    const auto turned = [](const Item& v, size_t first) {
      Item result = v;
      for (size_t i = 0; i < 3; ++i) result.parts[i] = v.parts[(first + i) % 3];
      return result;
    };
    HG_TRY_ASSIGN(const Item left, apply("mul", turned(a, 1), turned(b, 2)));
    HG_TRY_ASSIGN(const Item right, apply("mul", turned(a, 2), turned(b, 1)));
    return apply("sub", left, right);
  }

  // -- Generators ---------------------------------------------------------------------------------

  // Counts along dim d of the call.
  Value along(size_t d) {
    Shape shape(shape_.size(), Dim(1));
    shape[d] = shape_[d];
    return reshape(graph_.call("arange", {}, {{"end", shape_[d]}}), shape);
  }

  Value flat_index() {
    return reshape(graph_.call("arange", {}, {{"end", count(shape_)}}), shape_);
  }

  // id() is the number of the element in row-major order, id(d) its index along dim d: i64.
  Result<Item> id(const Expression& call) {
    HG_TRY(check_count(call, 0, 1));
    if (call.arguments.empty()) return Item{.parts = {flat_index()}};
    const Expression& given = syntax_.expressions[call.arguments[0]];
    HG_CHECK(given.kind == Kind::integer, "the dim of id must be an integer of the text");
    const Result<int> axis = normalize_axis(given.integer, static_cast<int>(shape_.size()));
    HG_CHECK(axis.ok(), "id(", given.integer, ") of a call over ", shape_);
    return Item{.parts = {along(static_cast<size_t>(*axis))}};
  }

  // Uniform in [0, 1), f32. Depends only on the seed and the element's number k: the upper 24 bits
  // of mix(mix(seed) + (k + 1) step), with SplitMix64's step and mix.
  Result<Item> rand(const Expression& call) {
    HG_TRY(check_count(call, 1, 1));
    const Item& seed = argument(call, 0);
    HG_CHECK(!seed.is_vector && is_integer(seed.dtype()), "the seed of rand must be an integer");
    const auto number = [&](uint64_t bits) {
      return graph_.scalar(static_cast<int64_t>(bits), i64);
    };
    const auto shift = [&](const Value& x, int bits) {  // unsigned
      const Value moved = graph_.call("bitwise_right_shift", {x, number(uint64_t(bits))});
      return graph_.call("bitwise_and", {moved, number(~uint64_t{0} >> bits)});
    };
    const auto fold = [&](const Value& x, int bits) {
      return graph_.call("bitwise_xor", {x, shift(x, bits)});
    };
    const auto mix = [&](const Value& x) {
      return fold(fold(fold(x, 30) * number(kSplitMixFirst), 27) * number(kSplitMixSecond), 31);
    };
    const Value place = (flat_index() + number(1)) * number(kSplitMixStep);
    const Value bits = mix(mix(cast(seed.parts[0], i64)) + place);
    return Item{.parts = {cast(shift(bits, 40), f32) * graph_.scalar(0x1p-24, f32)}};
  }

  Graph& graph_;
  const Syntax& syntax_;
  const LowerOptions& options_;
  Shape shape_;  // of the call
  std::vector<Item> inputs_, items_;
};

// Functions that consist of several ops.
Special Lowering::special(std::string_view name) {
  struct Row {
    std::string_view name;
    Special function;
  };
  constexpr Row kRows[] = {
      {"component", &Lowering::component}, {"vec", &Lowering::vec},     {"dot", &Lowering::dot},
      {"length", &Lowering::length},       {"cross", &Lowering::cross}, {"id", &Lowering::id},
      {"rand", &Lowering::rand},
  };
  for (const Row& row : kRows)
    if (row.name == name) return row.function;
  return nullptr;
}

}  // namespace

Status check_functions(const Syntax& syntax, const Registry& registry) {
  for (const Expression& call : syntax.expressions) {
    if (call.kind != Kind::call || Lowering::special(call.name) || parse_dtype(call.name).ok())
      continue;
    const Op* op = function_op(registry, call.name);
    if (op == nullptr) {
      const std::string_view near = registry.closest(call.name);
      return invalid_argument(syntax.place(call.at), "unknown function '", call.name, "'",
                              near.empty() ? "" : str_cat("; did you mean '", near, "'?"));
    }
    bool is_variadic = false;
    for (const Signature::Input& input : op->signature.inputs) is_variadic |= input.variadic;
    HG_CHECK(!is_variadic && !op->signature.inputs.empty(), syntax.place(call.at), "'", call.name,
             "' is no function of one element");
    HG_CHECK((op->def.traits & kElementwise) || op->def.expand != nullptr, syntax.place(call.at),
             "'", call.name, "' is no function of one element");
  }
  return {};
}

Result<std::vector<Value>> lower_kernel(Graph& graph, const Syntax& syntax,
                                        std::span<const KernelInput> inputs,
                                        const LowerOptions& options) {
  HG_TRY(check_functions(syntax, graph.registry()));
  return Lowering(graph, syntax, options).run(inputs);
}

}  // namespace hg
