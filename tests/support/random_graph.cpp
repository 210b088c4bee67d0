// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_graph.h"

#include "kernels/reference/rounded.h"
#include "tests/support/elements.h"
#include "tests/support/random_generator.h"

namespace hg::test {

using reference::Array;

RandomGraph Generator::make() {
  const DType main = one_of<DType>({f32, f32, f32, f64, f64, f16, bf16});
  for (int i = 0, n = 2 + below(3); i < n; ++i)
    add_input(chance(0.75) ? main : one_of<DType>({f32, f64, i64, i32, i16, i8, u8, boolean}));
  for (int i = 0, n = 3 + below(14); i < n; ++i) add_node();
  finish();
  return std::move(made_);
}

const Item* Generator::pick(const std::function<bool(const Item&)>& fits) {
  for (int tries = 0; tries < 12; ++tries) {
    const int last = static_cast<int>(pool_.size()) - 1;
    const Item& item = pool_[std::max(below(last + 1), below(last + 1))];
    if (!fits || fits(item)) return &item;
  }
  return nullptr;
}

// ---- What a graph begins with ----

TensorData Generator::fill(DType dtype, const Sizes& sizes, double low, double high) {
  TensorData data = *TensorData::allocate(dtype, sizes);
  for (int64_t i = 0; i < sizes.count(); ++i) {
    const double x = real(low, high);
    write_element(data.tensor, i, is_float(dtype) ? x : std::floor(x));
  }
  return data;
}

void Generator::add_input(DType dtype) {
  const double high = dtype == boolean ? 2 : dtype == u8 ? 9 : 3;
  const double low = dtype == boolean || dtype == u8 ? 0 : -3;
  add_data(fill(dtype, shape(), low, high));
}

const Item& Generator::add_data(TensorData data) {
  const std::string name = str_cat("x", data_count_++);
  Item item;
  item.data = {data.tensor.dtype, data.tensor.shape, read_all(data.tensor), true};
  Graph& g = made_.graph;
  if (chance(0.25)) {
    item.value = g.constant(data, name + "_constant");
  } else if (chance(0.1)) {
    item.value = g.parameter(name + "_weight", data);
  } else {
    item.value = g.input(name, data.tensor.dtype, to_shape(data.tensor.shape));
    made_.inputs.push_back({name, data});
  }
  if (chance(0.2) && g.constant_of(item.value.id()) == nullptr && item.is_float()) {
    const Value state = g.buffer(name + "_state", *TensorData::copy_of(data.tensor));
    states_.push_back(state);
    item.value = g.call("add", {item.value, state});
    for (double& x : item.data.values) x += x;
    item.data.values = reference::rounded(item.data.values, item.data.dtype);
  }
  pool_.push_back(std::move(item));
  return pool_.back();
}

Item Generator::weight(const Item& x, const Sizes& sizes, double low, double high) {
  const Item* found = pick([&](const Item& item) {
    return item.data.dtype == x.data.dtype && item.data.shape == sizes;
  });
  if (found != nullptr && chance(0.3)) return *found;
  return add_data(fill(x.data.dtype, sizes, low, high));
}

// ---- Nodes ----

void Generator::add(std::string_view op, std::vector<Item> inputs, NamedAttrs attrs, bool jumps) {
  Graph& g = made_.graph;
  const reference::Row* row = reference::find(op);
  std::vector<Value> values;
  std::vector<Array> in;
  bool rounded = false, unsteady = false;
  for (Item& input : inputs) {
    values.push_back(input.value);
    input.data.given = static_cast<bool>(input.value);
    in.push_back(input.data);
    rounded = rounded || input.is_rounded;
    unsteady = unsteady || input.is_unsteady;
  }
  const size_t before = g.nodes().size();
  const std::vector<Value> results = g.calls(op, values, attrs);
  if (!g.take_status().ok() || row == nullptr || g.nodes().size() == before) return;
  std::vector<Array> out;
  for (const Value& y : results) {
    const Result<Sizes> sizes = evaluate(y.shape(), Bindings());
    if (!sizes.ok() || sizes->count() > kMostElements) return;
    out.push_back({y.dtype(), *sizes, {}, true});
    out.back().values.assign(sizes->count(), 0.0);
  }
  const Node& node = g.nodes()[before];
  in.resize(node.inputs.size(), {f32, {}, {}, false});
  const KernelAttrs reader{AttrReader(node.op, node.attrs)};
  row->run({in, out, reader});
  for (size_t k = 0; k < out.size(); ++k) {
    Item item;
    item.value = results[k];
    item.data = std::move(out[k]);
    item.data.values = reference::rounded(std::move(item.data.values), item.data.dtype);
    item.is_rounded = item.is_float() && (rounded || node.op->def.view == nullptr);
    item.is_unsteady = unsteady || ((jumps || !item.is_float()) && rounded);
    if (item.most() < 1e3) pool_.push_back(std::move(item));
  }
}

// ---- What a graph ends with ----
void Generator::finish() {
  Graph& g = made_.graph;
  std::shuffle(pool_.begin(), pool_.end(), random_);
  const size_t count = std::min<size_t>(pool_.size(), static_cast<size_t>(1 + below(4)));
  for (size_t i = 0; i < count; ++i) {
    const std::string name = str_cat("y", static_cast<int64_t>(i));
    g.output(name, pool_[i].value);
    if (pool_[i].is_unsteady) made_.unsteady.insert(name);
  }
  for (const Value& state : states_)
    for (const Item& item : pool_)
      if (item.data.dtype == state.dtype() && item.value.shape() == state.shape() &&
          !item.is_unsteady) {
        g.assign(state, item.value);
        break;
      }
}

RandomGraph random_graph(uint64_t seed) { return Generator(seed).make(); }

}  // namespace hg::test
