// SPDX-License-Identifier: Apache-2.0
// Choices: tensors that are one of two others, as data decides. Nested choices lead to few tensors
// on many paths. So one walk finds all places, visiting later choices before earlier ones.
#include <algorithm>
#include <span>

#include "converter/memory/alias.h"
#include "hg/ops/control.h"
#include "hg/ops/control_flow.h"
#include "hg/ops/movement.h"

namespace hg::convert {
namespace {

// The only result of an op; an invalid Value after a failure of the graph.
Value only(const std::vector<Value>& results) { return results.size() == 1 ? results[0] : Value(); }

}  // namespace

TensorRef Memory::make_choice(Value condition, TensorRef yes, TensorRef no, Value value) {
  auto cell = std::make_shared<TensorCell>();
  cell->complex_ = (yes ? yes : no)->complex_;
  cell->condition_ = condition;
  for (const TensorRef& side : {yes, no})
    for (const TensorRef& root : side ? roots_of(side) : std::vector<TensorRef>())
      if (std::find(cell->roots_.begin(), cell->roots_.end(), root) == cell->roots_.end())
        cell->roots_.push_back(root);
  const auto layout_of = [this](const TensorRef& side) {
    return side ? layout(side) : std::nullopt;
  };
  if (const auto a = layout_of(yes ? yes : no), b = layout_of(no ? no : yes);
      a && b && a->strides == b->strides && a->offset == b->offset)
    cell->layout_ = a;
  cell->yes_ = std::move(yes);
  cell->no_ = std::move(no);
  cell->region_ = depth();
  cell->value_ = value;
  cell->version_ = version(cell);
  cell->serial_ = ++choice_count_;
  choices_.push_back(cell);
  return cell;
}

Value Memory::both(const Value& a, const Value& b) {
  if (!a || !b) return a ? a : b;
  const Value x = here(a), y = here(b);
  Value& known = conditions_[{&graph(), '&', x.id(), y.id()}];
  if (!known) known = x == y ? x : graph().call("logical_and", {x, y});
  return known;
}

Value Memory::either(const Value& a, const Value& b) {
  if (!a || !b) return Value();
  const Value x = here(a), y = here(b);
  Value& known = conditions_[{&graph(), '|', x.id(), y.id()}];
  if (!known) known = x == y ? x : graph().call("logical_or", {x, y});
  return known;
}

Value Memory::negated(const Value& a) {
  const Value x = here(a);
  Value& known = conditions_[{&graph(), '!', x.id(), x.id()}];
  if (!known) known = graph().call("logical_not", {x});
  return known;
}

std::optional<std::vector<Memory::Step>> Memory::steps_of(const TensorRef& view) {
  const Value base = read(view->base_);
  const auto first = static_cast<std::ptrdiff_t>(graph().nodes().size());
  const Value result = view->forward_(base);
  std::vector<ValueId> known = {base.id()};
  std::vector<Step> steps;
  const std::span<const Node> nodes(graph().nodes().begin() + first, graph().nodes().end());
  for (const Node& node : nodes) {
    if (!node.subgraphs.empty()) return std::nullopt;
    Step& step = steps.emplace_back(Step{node.op, node.attrs, {}});
    for (const ValueId id : node.inputs) {
      const auto at = std::find(known.begin(), known.end(), id);
      if (at == known.end()) return std::nullopt;
      step.inputs.push_back(static_cast<int>(at - known.begin()));
    }
    known.insert(known.end(), node.outputs.begin(), node.outputs.end());
    std::vector<std::string> symbols;
    for (const Attr& attr : node.attrs) {
      if (const Dim* dim = std::get_if<Dim>(&attr.value)) dim->collect_symbols(symbols);
      if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value))
        for (const Dim& dim : *dims) dim.collect_symbols(symbols);
    }
    for (const std::string& symbol : symbols)
      if (!symbols_outside().contains(symbol)) return std::nullopt;
  }
  if (result.id() != known.back()) return std::nullopt;
  return steps;
}

TensorRef Memory::again(const TensorRef& view, const TensorRef& base) {
  TensorRef result;
  try {
    result = make_view(base, view->forward_, view->inverse_, {});
    result->complex_ = view->complex_;
  } catch (const Refusal&) {
    // The view uses values of a body.
  }
  return graph().take_status().ok() ? result : nullptr;
}

std::vector<Memory::Place> Memory::places_of(const TensorRef& tensor, int region) {
  std::vector<Place> places;
  std::map<int64_t, Place> choices;  // not yet visited
  const auto arrive = [&](const TensorRef& at, const Value& condition) {
    if (!at) return;
    Place* known = nullptr;
    if (at->is_choice() && at->region_ >= region) {
      const auto [entry, fresh] = choices.try_emplace(at->serial_, Place{condition, at});
      if (!fresh) known = &entry->second;
    } else {
      const auto found = std::find_if(places.begin(), places.end(),
                                      [&](const Place& place) { return place.tensor == at; });
      if (found == places.end())
        places.push_back({condition, at});
      else
        known = &*found;
    }
    if (known != nullptr) known->condition = either(known->condition, condition);
  };
  arrive(tensor, Value());
  while (!choices.empty()) {
    const Place last = choices.rbegin()->second;
    choices.erase(std::prev(choices.end()));
    const Value condition = here(last.tensor->condition_);
    arrive(last.tensor->yes_, both(last.condition, condition));
    if (last.tensor->no_) arrive(last.tensor->no_, both(last.condition, negated(condition)));
  }
  return places;
}

std::vector<Memory::Place> Memory::places_of(const TensorRef& tensor) {
  return places_of(tensor, depth());
}

Value Memory::choose(const Value& condition, const Value& yes, const Value& no) {
  if (!condition || yes == no) return yes;
  if (yes.shape() == no.shape()) return graph().call("where", {here(condition), yes, no});
  if (yes.rank() != no.rank())
    throw Refusal{
        "data decides between tensors of several ranks, and one that may be any of them "
        "is written in place",
        "write to a copy: x = x.clone()"};
  const auto side = [](size_t index) {
    return [index](Graph&, std::span<const Value> xs) { return std::vector{xs[index]}; };
  };
  return only(cond(here(condition), {yes, no}, side(0), side(1)));
}

// Returns `value` where the condition is true, in the sizes of `place`, which it then has.
Value Memory::written(const Value& condition, const Value& value, const Value& place) {
  if (!condition || value.shape() == place.shape() || value.rank() != place.rank())
    return choose(condition, value, place);
  return only(cond(
      here(condition), {value, place},
      [shape = place.shape()](Graph&, std::span<const Value> xs) {
        return std::vector{reshape(xs[0], shape)};
      },
      [](Graph&, std::span<const Value> xs) { return std::vector{xs[1]}; }));
}

void Memory::write_choice(const TensorRef& tensor, const Value& value) {
  for (const Place& place : places_of(tensor, 0))
    write(place.tensor, written(place.condition, value, read(place.tensor)));
  tensor->value_ = value;
  tensor->version_ = version(tensor);
}

}  // namespace hg::convert
