// SPDX-License-Identifier: Apache-2.0
// A call of a program: binds arrays by name, stores results, and calls hooks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "hg/create.h"
#include "lib/graph/element.h"
#include "lib/nn/named_program.h"

namespace hg::nn {

// -- Binding --------------------------------------------------------------------------------------

Status Program::Body::check_data(const NamedArrays& data) const {
  const std::vector<std::string>& known = prepared->lowered.data;
  for (const auto& [name, array] : data) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string all;
    for (const std::string& other : known) all += (all.empty() ? "" : ", ") + other;
    return not_found("data are given for '", name, "'; the inputs of the model are ", all);
  }
  return {};
}

Status Program::Body::bind(Running& run, const NamedArrays& parameters, const NamedArrays& data,
                           const NamedArrays& seeds, std::vector<Array>& held) {
  static constexpr const char* kWhat[] = {"data", "parameter", "state", "output gradient"};
  const NamedArrays* const from[] = {&data, &parameters, &states, &seeds};
  for (int i = 0; i < run.session.input_count(); ++i) {
    const auto origin = static_cast<size_t>(run.origins[i]);
    const std::string& name = run.names[i];
    const Array* const found = from[origin]->find(name);
    if (found == nullptr)
      return not_found("the ", kWhat[origin], " '", name, "' is not given; it is ",
                       run.session.input_type(i));
    HG_CHECK(*found, "the ", kWhat[origin], " '", name, "' is an array that is empty or freed");
    HG_TRY(found->to_host());
    Array array = *found;
    const DType wanted = run.session.input_type(i).dtype;
    if (array.dtype() != wanted && is_float(array.dtype()) && is_float(wanted)) {
      HG_TRY_ASSIGN(array, cast(array, wanted));
    }
    const Status fits = run.session.set_input(i, array);
    if (!fits.ok())
      return Status(fits.code(), str_cat("the ", kWhat[origin], " '", name, "': ", fits.message()));
    held.push_back(std::move(array));
  }
  return {};
}

namespace {

// The symbols that follow from the shapes of the bound arrays.
Bindings sizes_of(const Running& run, const std::vector<Array>& held) {
  Bindings sizes;
  for (size_t i = 0; i < held.size(); ++i) {
    const Shape& shape = run.session.input_type(static_cast<int>(i)).shape;
    for (size_t k = 0; k < shape.size(); ++k)
      if (const std::string_view symbol = shape[k].symbol(); !symbol.empty())
        (void)sizes.bind(symbol, held[i].shape()[static_cast<int>(k)]);
  }
  return sizes;
}

bool is_usable(const Array& array, DType dtype, const Sizes& shape) {
  return array && !array.is_read_only() && array.dtype() == dtype && array.shape() == shape &&
         array.is_contiguous() && array.is_on_host();
}

// Destination of output k of a session. Results follow one another.
struct ResultSlot {
  NamedArrays* list;
  size_t index;
};

Intermediate describe(std::string_view name, const Tensor& value) {
  Intermediate seen{name, value.dtype, value.shape, 0, 0, value};
  seen.min = seen.max = std::numeric_limits<double>::quiet_NaN();
  Tensor dense = value;
  TensorData copy;
  if (!value.is_contiguous()) {
    Result<TensorData> made = TensorData::copy_of(value);
    if (!made.ok()) return seen;
    copy = *std::move(made);
    dense = copy.tensor;
  }
  for (int64_t i = 0; i < dense.count(); ++i) {
    const double number = element(dense, i);
    if (std::isnan(number)) continue;
    if (std::isnan(seen.min) || number < seen.min) seen.min = number;
    if (std::isnan(seen.max) || number > seen.max) seen.max = number;
  }
  return seen;
}

std::vector<ResultSlot> slots_of(std::span<NamedArrays* const> results) {
  std::vector<ResultSlot> slots;
  for (NamedArrays* const list : results)
    for (size_t i = 0; i < list->size(); ++i) slots.push_back({list, i});
  return slots;
}

}  // namespace

Status Program::Body::run(Running& run, const NamedArrays& parameters, const NamedArrays& data,
                          const NamedArrays& seeds, std::span<NamedArrays* const> results) {
  stepping.reset();
  last = &run;
  std::vector<Array> held;
  Status status = check_data(data);
  if (status.ok()) status = bind(run, parameters, data, seeds, held);
  const std::vector<ResultSlot> slots = slots_of(results);
  std::vector<bool> is_lent(slots.size());
  if (status.ok()) {
    const Bindings sizes = sizes_of(run, held);
    for (size_t k = 0; k < slots.size() && status.ok(); ++k) {
      Array& array = (*slots[k].list)[slots[k].index].second;
      const TensorType& type = run.session.output_type(static_cast<int>(k));
      const Result<Sizes> shape = hg::evaluate(type.shape, sizes);
      if (!shape.ok() || shape->count() == 0) continue;
      if (!is_usable(array, type.dtype, *shape)) {
        Result<Array> made = Array::allocate(type.dtype, *shape);
        if (!made.ok()) return made.status();
        array = *std::move(made);
      }
      status = run.session.set_output(static_cast<int>(k), array.tensor());
      is_lent[k] = true;
    }
  }
  const auto first_extra = static_cast<int>(slots.size());
  const bool is_watched = options.debug || !run.variant->key.hooks.empty();
  if (status.ok()) status = is_watched ? run_by_steps(run, first_extra) : run.session.run();
  if (status.ok()) keep_plans(*prepared, *run.variant);
  for (size_t k = 0; k < slots.size() && status.ok(); ++k) {
    Array& array = (*slots[k].list)[slots[k].index].second;
    if (is_lent[k]) {
      array.touch();
      continue;
    }
    Result<Tensor> made = run.session.output(static_cast<int>(k));
    status = made.status();
    if (!status.ok()) break;
    Result<Array> copy = Array::copy_of(*made);
    status = copy.status();
    if (status.ok()) array = *std::move(copy);
  }
  if (status.ok()) status = after(run, first_extra);
  run.session.forget_tensors();
  return status;
}

Status Program::Body::after(Running& run, int first_extra) {
  int next = first_extra;
  for (const size_t i : run.variant->moved) {
    HG_TRY_ASSIGN(const Tensor moved, run.session.output(next++));
    Array own = states[std::string_view(prepared->lowered.states[i].name)];
    copy_elements(moved, own.tensor());
    own.touch();
  }
  for (const size_t i : prepared->states)
    if (const NamedState& state = prepared->lowered.states[i]; state.counts)
      ++*states[std::string_view(state.name)].write<int64_t>();
  return look_at_rest(run, next);
}

// -- Looking --------------------------------------------------------------------------------------

Result<std::optional<StepRow>> Program::Body::step(Running& run, int first_extra) {
  Result<std::optional<StepRow>> row = run.session.step();
  if (row.ok() && row->has_value())
    for (const auto& [name, value] : (*row)->outputs) look_at(run, first_extra, name, value);
  return row;
}

Status Program::Body::run_by_steps(Running& run, int first_extra) {
  forget_looks(run);
  while (true) {
    HG_TRY_ASSIGN(const std::optional<StepRow> row, step(run, first_extra));
    if (!row) return {};
  }
}

void Program::Body::forget_looks(const Running& run) {
  hooked.assign(run.variant->key.hooks.size(), false);
  looked.clear();
}

void Program::Body::look_at(const Running& run, int first_extra, const std::string& name,
                            const Tensor& value) {
  if (options.debug && looked.insert(name).second) options.debug(describe(name, value));
  const Graph& graph = run.session.compiled_graph();
  const size_t first_hook = static_cast<size_t>(first_extra) + run.variant->moved.size();
  for (size_t k = 0; k < hooked.size(); ++k) {
    const ValueId id = graph.outputs()[first_hook + k].second;
    if (hooked[k] || graph.value_info(id).name != name) continue;
    hooked[k] = true;
    call_hooks(run.variant->key.hooks[k], value);
  }
}

void Program::Body::call_hooks(const std::string& path, const Tensor& value) const {
  const Intermediate seen = describe(path, value);
  const std::vector<Hook> now = hooks;  // a hook may remove itself
  for (const Hook& hook : now)
    if (hook.path == path) hook.fn(seen);
}

Status Program::Body::look_at_rest(Running& run, int first_hook) {
  const Graph& graph = run.session.compiled_graph();
  if (options.debug)
    for (const Node& node : graph.nodes())
      for (const ValueId id : node.outputs) {
        const std::string& name = graph.value_info(id).name;
        if (looked.contains(name)) continue;
        const Result<Tensor> value = run.session.value(name);
        if (value.ok()) options.debug(describe(name, *value));
      }
  for (size_t k = 0; k < hooked.size(); ++k) {
    if (hooked[k]) continue;
    HG_TRY_ASSIGN(const Tensor value, run.session.output(first_hook + static_cast<int>(k)));
    call_hooks(run.variant->key.hooks[k], value);
  }
  return {};
}

}  // namespace hg::nn
