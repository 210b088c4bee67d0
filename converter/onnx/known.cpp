// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic: ops on tensors of rank 0 and 1 whose numbers, possibly sizes, are known at
// import. Whatever is not exact is left to the graph.
#include <algorithm>
#include <limits>

#include "converter/onnx/node.h"
#include "hg/op.h"

namespace hg::convert::onnx {
namespace {

constexpr size_t kMostElements = 256;

using Numbers = std::optional<Known>;

// Returns a number as an element of this dtype; nothing if the result is uncertain.
std::optional<Scalar> stored(const Scalar& s, DType dtype) {
  if (dtype == boolean) return to_boolean(s);
  if (is_float(dtype)) {
    auto real = to_real(s);
    if (!real || (dtype != f32 && dtype != f64)) return std::nullopt;
    if (real->kind == Scalar::Kind::real && dtype == f32)
      real->number = static_cast<double>(static_cast<float>(real->number));
    return real;
  }
  const auto whole = to_integer(s);
  if (!whole || dtype == i64) return whole;
  if (!whole->is_constant()) return dtype == i32 ? whole : std::nullopt;
  const int64_t value = whole->top.constant();
  if (dtype != i32 || value < std::numeric_limits<int32_t>::min() ||
      value > std::numeric_limits<int32_t>::max())
    return std::nullopt;
  return whole;
}

int64_t length(const Known& k) { return static_cast<int64_t>(k.elements.size()); }

Numbers elementwise(Node& n, std::string_view op, bool compares) {
  const Numbers a = n.known(0), b = n.known(1);
  if (!a || !b || a->dtype != b->dtype || n.opset() < 7) return std::nullopt;
  const size_t count = a->elements.size() == 1 ? b->elements.size() : a->elements.size();
  if (b->elements.size() != 1 && b->elements.size() != count) return std::nullopt;
  if (!compares && a->dtype == boolean) return std::nullopt;
  Known result{compares ? boolean : a->dtype, std::max(a->rank, b->rank), {}};
  for (size_t i = 0; i < count; ++i) {
    const Scalar& x = a->elements[a->elements.size() == 1 ? 0 : i];
    const Scalar& y = b->elements[b->elements.size() == 1 ? 0 : i];
    std::optional<Scalar> z = compares ? relate(op, x, y) : apply(op, x, y);
    if (z && !compares) z = stored(*z, a->dtype);
    if (!z) return std::nullopt;
    result.elements.push_back(*z);
  }
  return result;
}

Numbers divided(Node& n) {
  const Numbers a = n.known(0), b = n.known(1);
  if (!a || !b || b->dtype == boolean) return std::nullopt;
  if (is_float(b->dtype)) return elementwise(n, "div", false);
  bool are_sizes = true;  // nonnegative integers, so the quotient is also a size
  for (const Known* k : {&*a, &*b})
    for (const Scalar& each : k->elements)
      are_sizes = are_sizes && each.kind == Scalar::Kind::integer && each.top.lower_bound() >= 0;
  for (const Scalar& each : b->elements)
    if ((!each.is_constant() && !are_sizes) || each.top == Dim(0)) return std::nullopt;
  return elementwise(n, are_sizes ? "floor_divide" : "trunc_divide", false);
}

Numbers known_modulo(Node& n) {
  const Numbers b = n.known(1);
  if (!b || is_float(b->dtype) || n.flag("fmod")) return std::nullopt;
  for (const Scalar& each : b->elements)
    if (!each.is_constant() || each.top == Dim(0)) return std::nullopt;
  return elementwise(n, "remainder", false);
}

Numbers known_fold(Node& n, std::string_view op) {
  return n.input_count() == 2 ? elementwise(n, op, false) : std::nullopt;
}

Numbers unary(Node& n, std::string_view op) {
  const Numbers a = n.known(0);
  if (!a || a->dtype == boolean) return std::nullopt;
  Known result{a->dtype, a->rank, {}};
  for (const Scalar& each : a->elements) {
    auto y = apply(op, each);
    if (y) y = stored(*y, a->dtype);
    if (!y) return std::nullopt;
    result.elements.push_back(*y);
  }
  return result;
}

Numbers negation_of(Node& n) {
  const Numbers a = n.known(0);
  if (!a || a->dtype != boolean) return std::nullopt;
  Known result{boolean, a->rank, {}};
  for (const Scalar& each : a->elements) result.elements.push_back(negation(each));
  return result;
}

Numbers known_logic(Node& n, Scalar (*op)(const Scalar&, const Scalar&)) {
  const Numbers a = n.known(0), b = n.known(1);
  if (!a || !b || a->dtype != boolean || b->dtype != boolean || a->elements.size() != 1 ||
      b->elements.size() != 1)
    return std::nullopt;
  return Known{boolean, std::max(a->rank, b->rank), {op(a->elements[0], b->elements[0])}};
}

Numbers cast_known(Node& n) {
  const Numbers a = n.known(0);
  if (!a) return std::nullopt;
  DType dtype = f32;
  if (n.name() == "CastLike") {
    dtype = n.type(1).dtype;
  } else {
    switch (n.integer("to")) {
      case 1:
        break;
      case 6:
        dtype = i32;
        break;
      case 7:
        dtype = i64;
        break;
      case 9:
        dtype = boolean;
        break;
      case 11:
        dtype = f64;
        break;
      default:
        return std::nullopt;
    }
  }
  Known result{dtype, a->rank, {}};
  for (const Scalar& each : a->elements) {
    const auto y = stored(each, dtype);
    if (!y) return std::nullopt;
    result.elements.push_back(*y);
  }
  return result;
}

Numbers known_shape(Node& n) {
  const Shape shape = n.type(0).shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const auto bound = [&](std::string_view name, int64_t fallback) {
    int64_t at = n.integer(name, fallback);
    if (at < 0) at += rank;
    return std::clamp<int64_t>(at, 0, rank);
  };
  Known result{i64, 1, {}};
  for (int64_t d = bound("start", 0); d < bound("end", rank); ++d)
    result.elements.push_back(Scalar::of(shape[d]));
  return result;
}

Numbers size_known(Node& n) { return Known{i64, 0, {Scalar::of(count(n.type(0).shape))}}; }

Numbers known_gather(Node& n) {
  const Numbers a = n.known(0), at = n.known(1);
  if (!a || !at || a->rank != 1) return std::nullopt;
  Known result{a->dtype, at->rank, {}};
  for (const Scalar& each : at->elements) {
    if (!each.is_integral() || !each.is_constant()) return std::nullopt;
    int64_t i = each.top.constant();
    if (i < 0) i += length(*a);
    if (i < 0 || i >= length(*a))
      n.refuse(str_cat("index ", i, " is out of range for ", length(*a)));
    result.elements.push_back(a->elements[i]);
  }
  return result;
}

Numbers known_concat(Node& n) {
  Known result{i64, 1, {}};
  for (int i = 0; i < n.input_count(); ++i) {
    const Numbers each = n.known(i);
    if (!each || each->rank != 1 || (i > 0 && each->dtype != result.dtype)) return std::nullopt;
    result.dtype = each->dtype;
    result.elements.insert(result.elements.end(), each->elements.begin(), each->elements.end());
  }
  return result;
}

// Returns integers that nodes of the graph only move, in memory order.
std::optional<std::vector<Scalar>> moved(const Graph& g, ValueId id, int moves = 0) {
  constexpr int kMostMoves = 8;
  const TensorType& type = g.value_info(id).type;
  if (moves > kMostMoves || type.dtype != i64 || !is_constant(type.shape)) return std::nullopt;
  const int64_t total = count(type.shape).constant();
  if (total > static_cast<int64_t>(kMostElements)) return std::nullopt;
  std::vector<Scalar> result;
  if (const TensorData* data = g.constant_of(id)) {
    if (!data->tensor.is_contiguous()) return std::nullopt;
    for (int64_t i = 0; i < total; ++i)
      result.push_back(Scalar::of(Dim(data->tensor.as<const int64_t>()[i])));
    return result;
  }
  const int32_t index = g.value_info(id).node;
  if (index < 0) return std::nullopt;
  const hg::Node& node = g.nodes()[static_cast<size_t>(index)];
  const AttrReader attrs(node.op, node.attrs);
  const std::string_view op = node.op->name();
  if (op == "dims") {
    for (const Dim& size : attrs.integers("values")) result.push_back(Scalar::of(size));
    return result;
  }
  if (op != "reshape" && op != "permute" && op != "flip" && op != "slice") return std::nullopt;
  const auto given = moved(g, node.inputs[0], moves + 1);
  if (!given || op == "reshape") return given;
  const Shape& from = g.value_info(node.inputs[0]).type.shape;
  const int rank = static_cast<int>(from.size());
  const auto place = [&](const Dim& dim) {
    return static_cast<size_t>(dim.constant() < 0 ? dim.constant() + rank : dim.constant());
  };
  std::vector<int64_t> strides(from.size(), 1);
  for (size_t d = from.size(); d-- > 1;) strides[d - 1] = strides[d] * from[d].constant();
  std::vector<int64_t> steps = strides;
  int64_t first = 0;
  if (op == "permute") {
    const std::span<const Dim> dims = attrs.integers("dims");
    for (size_t d = 0; d < dims.size(); ++d) steps[d] = strides[place(dims[d])];
  } else if (op == "flip") {
    for (const Dim& dim : attrs.integers("dims")) {
      first += (from[place(dim)].constant() - 1) * strides[place(dim)];
      steps[place(dim)] = -strides[place(dim)];
    }
  } else {
    const Dim start = attrs.integer("start"), step = attrs.integer("step");
    if (!start.is_constant() || !step.is_constant() || step.constant() < 1) return std::nullopt;
    const size_t d = place(attrs.integer("dim"));
    const int64_t size = from[d].constant();
    const int64_t begin = start.constant() < 0 ? start.constant() + size : start.constant();
    first = std::clamp<int64_t>(begin, 0, size) * strides[d];
    steps[d] *= step.constant();
  }
  for (int64_t i = 0; i < total; ++i) {
    int64_t at = first, rest = i;
    for (size_t d = type.shape.size(); d-- > 0; rest /= type.shape[d].constant())
      at += rest % type.shape[d].constant() * steps[d];
    result.push_back((*given)[static_cast<size_t>(at)]);
  }
  return result;
}

// Matches rows of numbers that become a list again: torch.onnx.export reverses the padding of F.pad
// in this way.
Numbers rows_of(const Node& n) {
  if (n.name() != "Reshape" || n.type(0).rank() != 2) return std::nullopt;
  auto elements = moved(n.graph(), n.in(0).id());
  return elements ? Numbers(Known{i64, 1, std::move(*elements)}) : std::nullopt;
}

// Reshape, Squeeze, Unsqueeze, Flatten and Expand between ranks 0 and 1.
Numbers known_reshape(Node& n) {
  Numbers a = n.known(0);
  if (!a) a = rows_of(n);
  if (!a) return std::nullopt;
  const std::string_view op = n.name();
  int64_t axes = 0;
  if (op == "Unsqueeze" || op == "Squeeze") {
    const bool given = n.opset() < 13 ? n.has("axes") : n.has(1);
    axes = !given ? -1
                  : static_cast<int64_t>(n.opset() < 13 ? n.integers("axes").size()
                                                        : n.integers(1).size());
  }
  if (op == "Unsqueeze") {
    if (a->rank != 0 || axes != 1) return std::nullopt;
    a->rank = 1;
  } else if (op == "Squeeze") {
    if (axes != 0 && a->rank == 1) {
      if (a->elements.size() != 1) return std::nullopt;
      a->rank = 0;
    }
  } else {  // Reshape
    if (n.opset() < 5) return std::nullopt;
    const Numbers shape = n.known(1);
    if (!shape || shape->elements.size() > 1) return std::nullopt;
    if (shape->elements.size() == 1) {
      const Scalar& size = shape->elements[0];
      if (!size.is_constant()) return std::nullopt;
      if (size.top != Dim(-1) && size.top != Dim(length(*a))) return std::nullopt;
    } else if (a->elements.size() != 1) {
      return std::nullopt;
    }
    a->rank = static_cast<int>(shape->elements.size());
  }
  return a;
}

Numbers known_slice(Node& n) {
  const Numbers a = n.known(0);
  if (!a || a->rank != 1) return std::nullopt;
  int64_t start = 0, end = 0, step = 1;
  if (n.opset() < 10) {
    const auto starts = n.integers("starts"), ends = n.integers("ends");
    if (starts.size() != 1 || ends.size() != 1) return std::nullopt;
    start = starts[0];
    end = ends[0];
  } else {
    const auto one = [&](int i, int64_t& into) {
      if (!n.has(i)) return true;
      const Numbers given = n.known(i);
      if (!given || given->elements.size() != 1 || !given->elements[0].is_constant()) return false;
      into = given->elements[0].top.constant();
      return true;
    };
    if (!one(1, start) || !one(2, end) || !one(4, step) || step == 0) return std::nullopt;
  }
  const int64_t size = length(*a);
  step = std::clamp(step, -size - 1, size + 1);  // larger steps also reach only the first element
  if (start < 0) start += size;
  if (end < 0) end += end < -size ? 0 : size;
  Known result{a->dtype, 1, {}};
  if (step > 0) {
    for (int64_t i = std::clamp<int64_t>(start, 0, size); i < std::min(end, size); i += step)
      result.elements.push_back(a->elements[i]);
  } else {
    for (int64_t i = std::clamp<int64_t>(start, -1, size - 1); i > std::max<int64_t>(end, -1);
         i += step)
      result.elements.push_back(a->elements[i]);
  }
  return result;
}

Numbers filled(Node& n) {
  const Numbers shape = n.known(0);
  if (!shape || shape->elements.size() > 1) return std::nullopt;
  int64_t count = 1;
  if (shape->elements.size() == 1) {
    if (!shape->elements[0].is_constant()) return std::nullopt;
    count = shape->elements[0].top.constant();
  }
  if (count < 0 || count > static_cast<int64_t>(kMostElements)) return std::nullopt;
  Scalar value = Scalar::of(0.0);
  DType dtype = f32;
  if (n.has("value")) {
    const Tensor& given = n.tensor("value").tensor;
    dtype = given.dtype;
    if (given.count() != 1) return std::nullopt;
    if (dtype == f32)
      value = Scalar::of(double{*given.as<const float>()});
    else if (dtype == i64)
      value = Scalar::of(Dim(*given.as<const int64_t>()));
    else if (dtype == i32)
      value = Scalar::of(Dim(*given.as<const int32_t>()));
    else if (dtype == boolean)
      value = Scalar::of(*given.as<const bool>());
    else
      return std::nullopt;
  }
  return Known{dtype, static_cast<int>(shape->elements.size()), std::vector<Scalar>(count, value)};
}

Numbers range_of(Node& n) {
  const Numbers from = n.known(0), to = n.known(1), by = n.known(2);
  if (!from || !to || !by || from->dtype != i64) return std::nullopt;
  for (const Numbers* each : {&from, &to, &by})
    if ((*each)->elements.size() != 1 || !(*each)->elements[0].is_constant()) return std::nullopt;
  const int64_t start = from->elements[0].top.constant(), end = to->elements[0].top.constant(),
                step = by->elements[0].top.constant();
  if (step == 0) return std::nullopt;
  Known result{i64, 1, {}};
  for (int64_t i = start; step > 0 ? i < end : i > end;) {
    if (result.elements.size() >= kMostElements) return std::nullopt;
    result.elements.push_back(Scalar::of(Dim(i)));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return result;
}

Numbers known_choice(Node& n) {
  const Numbers condition = n.known(0), yes = n.known(1), no = n.known(2);
  if (!condition || !yes || !no || yes->dtype != no->dtype) return std::nullopt;
  size_t count = 1;
  for (const Numbers* each : {&condition, &yes, &no})
    if ((*each)->elements.size() != 1) count = (*each)->elements.size();
  Known result{yes->dtype, std::max({condition->rank, yes->rank, no->rank}), {}};
  const auto at = [](const Known& k, size_t i) {
    return k.elements[k.elements.size() == 1 ? 0 : i];
  };
  for (const Numbers* each : {&condition, &yes, &no})
    if ((*each)->elements.size() != 1 && (*each)->elements.size() != count) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    const Scalar which = at(*condition, i);
    if (!which.is_constant()) {
      if (at(*yes, i).is_integral() && at(*no, i).is_integral() &&
          at(*yes, i).top == at(*no, i).top) {
        result.elements.push_back(at(*yes, i));
        continue;
      }
      return std::nullopt;
    }
    result.elements.push_back(at(which.as_double() != 0 ? *yes : *no, i));
  }
  return result;
}

Numbers known_reduction(Node& n, std::string_view op) {
  const Numbers a = n.known(0);
  if (!a || a->elements.empty() || a->dtype == boolean) return std::nullopt;
  if (n.has("axes") || n.has(1)) return std::nullopt;
  if (n.flag("noop_with_empty_axes")) return std::nullopt;
  Scalar total = a->elements[0];
  for (size_t i = 1; i < a->elements.size(); ++i) {
    auto next = apply(op, total, a->elements[i]);
    if (next) next = stored(*next, a->dtype);
    if (!next) return std::nullopt;
    total = *next;
  }
  return Known{a->dtype, n.flag("keepdims", true) ? a->rank : 0, {total}};
}

struct KnownOp {
  std::string_view op;
  Numbers (*run)(Node&);
};

constexpr KnownOp kOps[] = {
    {"Shape", known_shape},
    {"Size", size_known},
    {"Gather", known_gather},
    {"Concat", known_concat},
    {"Slice", known_slice},
    {"Reshape", known_reshape},
    {"Squeeze", known_reshape},
    {"Unsqueeze", known_reshape},
    {"Cast", cast_known},
    {"CastLike", cast_known},
    {"ConstantOfShape", filled},
    {"Range", range_of},
    {"Where", known_choice},
    {"Not", negation_of},
    {"And", [](Node& n) { return known_logic(n, both); }},
    {"Or", [](Node& n) { return known_logic(n, either); }},
    {"Add", [](Node& n) { return elementwise(n, "add", false); }},
    {"Sub", [](Node& n) { return elementwise(n, "sub", false); }},
    {"Mul", [](Node& n) { return elementwise(n, "mul", false); }},
    {"Div", divided},
    {"Mod", known_modulo},
    {"Min", [](Node& n) { return known_fold(n, "min"); }},
    {"Max", [](Node& n) { return known_fold(n, "max"); }},
    {"Sum", [](Node& n) { return known_fold(n, "add"); }},
    {"Equal", [](Node& n) { return elementwise(n, "eq", true); }},
    {"Less", [](Node& n) { return elementwise(n, "lt", true); }},
    {"LessOrEqual", [](Node& n) { return elementwise(n, "le", true); }},
    {"Greater", [](Node& n) { return elementwise(n, "gt", true); }},
    {"GreaterOrEqual", [](Node& n) { return elementwise(n, "ge", true); }},
    {"Neg", [](Node& n) { return unary(n, "neg"); }},
    {"Abs", [](Node& n) { return unary(n, "abs"); }},
    {"Floor", [](Node& n) { return unary(n, "floor"); }},
    {"Ceil", [](Node& n) { return unary(n, "ceil"); }},
    {"ReduceProd", [](Node& n) { return known_reduction(n, "mul"); }},
    {"ReduceSum", [](Node& n) { return known_reduction(n, "add"); }},
    {"ReduceMax", [](Node& n) { return known_reduction(n, "max"); }},
    {"ReduceMin", [](Node& n) { return known_reduction(n, "min"); }},
};

}  // namespace

bool run_known(Node& node) {
  if (!node.call().kind().starts_with("onnx::")) return false;
  for (const KnownOp& op : kOps) {
    if (op.op != node.name()) continue;
    std::optional<Known> result = op.run(node);
    if (!result || result->elements.size() > kMostElements) return false;
    node.give(std::move(*result));
    return true;
  }
  return false;
}

}  // namespace hg::convert::onnx
