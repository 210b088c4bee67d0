// SPDX-License-Identifier: Apache-2.0
// einsum as products of pairs, left to right. A label that neither the result nor a later operand
// needs is summed as early as possible. A label shared by two operands is a batch dim if it is
// needed later; otherwise matmul contracts it.
#include <algorithm>
#include <string>

#include "converter/rows/view.h"
#include "hg/op.h"

namespace hg::convert::rows {
namespace {

using Labels = std::vector<int>;  // letters by code; dims of "..." as -1, -2 from the end

struct Operand {
  Value x;
  Labels labels;  // one per dim, all different
};

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
int place_of(const Labels& labels, int label) {
  return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

bool is_one(const Dim& dim) { return dim == Dim(1); }

Labels parse(Call& call, std::string_view text, int ellipsis_dims) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    const char ch = text[i];
    if (ch == ' ') continue;
    if (ch == '.') {
      if (text.substr(i, 3) != "...")
        call.refuse("equation", "has a '.' that is not part of '...'");
      for (int d = ellipsis_dims; d > 0; --d) labels.push_back(-d);
      i += 2;
    } else if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')) {
      labels.push_back(ch);
    } else {
      call.refuse("equation", "has characters that are not letters");
    }
  }
  return labels;
}

// A label that occurs twice in one operand selects the diagonal of both dims.
Operand without_repeats(Operand o) {
  for (size_t i = 0; i < o.labels.size(); ++i)
    for (size_t j = i + 1; j < o.labels.size();) {
      if (o.labels[i] != o.labels[j]) {
        ++j;
        continue;
      }
      o.x = o.x.graph()->call(
          "diagonal", {o.x},
          {{"offset", 0}, {"dim1", static_cast<int>(i)}, {"dim2", static_cast<int>(j)}});
      const int label = o.labels[i];  // diagonal() appends the dim
      o.labels.erase(o.labels.begin() + static_cast<std::ptrdiff_t>(j));
      o.labels.erase(o.labels.begin() + static_cast<std::ptrdiff_t>(i));
      o.labels.push_back(label);
      j = i + 1;
    }
  return o;
}

// Sums the dims for which drop(axis) is true.
template <class F>
Operand summed(Operand o, F drop) {
  std::vector<Dim> dims;
  Labels kept;
  for (int i = 0; i < o.x.rank(); ++i) {
    if (drop(i))
      dims.emplace_back(i);
    else
      kept.push_back(o.labels[i]);
  }
  if (!dims.empty()) o.x = o.x.graph()->call("sum", {o.x}, {{"dim", dims}, {"keepdim", false}});
  return {o.x, std::move(kept)};
}

// Removes dims of size 1 whose label is wider in `other`, because they only broadcast.
Operand without_broadcast(Operand o, const Operand& other) {
  Shape shape;
  Labels kept;
  for (int i = 0; i < o.x.rank(); ++i) {
    const int label = o.labels[i];
    if (is_one(o.x.dim(i)) && contains(other.labels, label) &&
        !is_one(other.x.dim(place_of(other.labels, label))))
      continue;
    shape.push_back(o.x.dim(i));
    kept.push_back(label);
  }
  return {reshaped(o.x, shape), std::move(kept)};
}

Value permuted(const Operand& o, const Labels& order) {
  std::vector<Dim> dims;
  bool moved = false;
  for (int label : order) {
    dims.emplace_back(place_of(o.labels, label));
    moved = moved || !(dims.back() == Dim(static_cast<int>(dims.size()) - 1));
  }
  return moved ? o.x.graph()->call("permute", {o.x}, {{"dims", dims}}) : o.x;
}

void append(Labels& to, const Labels& labels) { to.insert(to.end(), labels.begin(), labels.end()); }

Operand product(Operand a, Operand b, const Labels& needed) {
  a = without_broadcast(std::move(a), b);
  b = without_broadcast(std::move(b), a);
  a = summed(a, [&](int i) {
    const int label = a.labels[i];
    return !contains(needed, label) && !contains(b.labels, label);
  });
  b = summed(b, [&](int i) {
    const int label = b.labels[i];
    return !contains(needed, label) && !contains(a.labels, label);
  });
  Labels batch, inner, only_a, only_b;
  for (int label : a.labels) {
    if (!contains(b.labels, label))
      only_a.push_back(label);
    else if (contains(needed, label))
      batch.push_back(label);
    else
      inner.push_back(label);
  }
  for (int label : b.labels)
    if (!contains(a.labels, label)) only_b.push_back(label);

  Labels order_a = batch, order_b = batch, order = batch;
  append(order_a, only_a);
  append(order_a, inner);
  append(order_b, inner);
  append(order_b, only_b);
  append(order, only_a);
  append(order, only_b);
  const Value left = permuted(a, order_a), right = permuted(b, order_b);
  const size_t nb = batch.size(), na = only_a.size(), ni = inner.size();
  const Shape &sa = left.shape(), &sb = right.shape();
  const Shape batch_shape(sa.begin(), sa.begin() + static_cast<std::ptrdiff_t>(nb));
  const Shape shape_a(sa.begin() + static_cast<std::ptrdiff_t>(nb),
                      sa.begin() + static_cast<std::ptrdiff_t>(nb + na));
  const Shape inner_shape(sa.begin() + static_cast<std::ptrdiff_t>(nb + na), sa.end());
  const Shape shape_b(sb.begin() + static_cast<std::ptrdiff_t>(nb + ni), sb.end());
  Shape full = batch_shape;
  full.insert(full.end(), shape_a.begin(), shape_a.end());
  full.insert(full.end(), shape_b.begin(), shape_b.end());
  Graph& g = *left.graph();
  if (inner.empty()) {  // no sum: broadcast
    Shape wide = batch_shape;
    wide.insert(wide.end(), shape_a.begin(), shape_a.end());
    wide.insert(wide.end(), shape_b.size(), Dim(1));
    Shape other = batch_shape;
    other.insert(other.end(), shape_a.size(), Dim(1));
    other.insert(other.end(), shape_b.begin(), shape_b.end());
    const DType dtype = promote(left.dtype(), right.dtype());  // a sum of products does not promote
    return {g.call("mul", {convert::cast(reshaped(left, wide), dtype),
                           convert::cast(reshaped(right, other), dtype)}),
            order};
  }
  Shape matrix_a = batch_shape, matrix_b = batch_shape;
  matrix_a.push_back(count(shape_a));
  matrix_a.push_back(count(inner_shape));
  matrix_b.push_back(count(inner_shape));
  matrix_b.push_back(count(shape_b));
  const Value y = g.call("matmul", {reshaped(left, matrix_a), reshaped(right, matrix_b)});
  return {reshaped(y, full), order};
}

// Returns the operand of a list with one tensor.
TensorRef one_operand(Call& call) {
  const auto& list = std::get<std::shared_ptr<List>>(call.find("tensors")->value);
  return std::get<TensorRef>(list->items.at(0).value);
}

void run(Call& call) {
  std::string equation = call.string("equation");
  const std::vector<Value> tensors = call.tensors("tensors");
  const size_t arrow = equation.find("->");
  const std::string_view all(equation);
  const std::string_view left = all.substr(0, arrow);
  std::vector<std::string_view> parts;
  for (size_t start = 0;;) {
    const size_t comma = left.find(',', start);
    parts.push_back(left.substr(start, comma == left.npos ? left.npos : comma - start));
    if (comma == left.npos) break;
    start = comma + 1;
  }
  if (parts.size() != tensors.size() || tensors.empty())
    call.refuse("equation", "names another number of operands than there are");

  std::vector<Operand> operands;
  int ellipsis_dims = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int letters = static_cast<int>(parse(call, parts[i], 0).size());
    const bool ellipsis = parts[i].find("...") != parts[i].npos;
    const int hidden = tensors[i].rank() - letters;
    if (hidden < 0 || (hidden > 0 && !ellipsis))
      call.refuse("equation", "does not fit the dims of an operand");
    ellipsis_dims = std::max(ellipsis_dims, hidden);
    operands.push_back(without_repeats({tensors[i], parse(call, parts[i], hidden)}));
  }

  Labels output;
  if (arrow != equation.npos) {
    output = parse(call, all.substr(arrow + 2), ellipsis_dims);
  } else {  // "...", then the letters that occur once, in alphabetical order
    for (int d = ellipsis_dims; d > 0; --d) output.push_back(-d);
    for (int letter = 'A'; letter <= 'z'; ++letter) {
      int uses = 0;
      for (std::string_view part : parts)
        uses += static_cast<int>(std::count(part.begin(), part.end(), static_cast<char>(letter)));
      if (uses == 1) output.push_back(letter);
    }
  }
  for (size_t i = 0; i < output.size(); ++i) {
    bool known = false;
    for (const Operand& o : operands) known = known || contains(o.labels, output[i]);
    if (!known) call.refuse("equation", "has an output label that no operand has");
    if (std::count(output.begin(), output.end(), output[i]) > 1)
      call.refuse("equation", "has an output label twice");
  }

  Operand result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    Labels needed = output;
    for (size_t j = i + 1; j < operands.size(); ++j) append(needed, operands[j].labels);
    result = product(std::move(result), operands[i], needed);
  }
  const bool sums = result.labels.size() != output.size();
  result = summed(result, [&](int i) { return !contains(output, result.labels[i]); });
  const TensorRef y = call.make_tensor(permuted(result, output));
  if (operands.size() == 1 && !sums) call.may_share(y, one_operand(call));
  call.returns(std::vector<Item>{Item(y)});
}

constexpr Row kRows[] = {{"aten::einsum", run, OnComplex::product}};

}  // namespace

std::span<const Row> einsum() { return kRows; }

}  // namespace hg::convert::rows
