// SPDX-License-Identifier: Apache-2.0
// Choices: tensors that are one of two others, as data decides. Choices of choices have many ways to
// few tensors, so their places are found in one walk, later choices before those that they lead to.
#include <algorithm>

#include "converter/alias.h"

namespace hg::convert {

TensorRef Memory::make_choice(Value condition, TensorRef yes, TensorRef no, Value value) {
  auto cell = std::make_shared<TensorCell>();
  cell->complex_ = (yes ? yes : no)->complex_;
  cell->condition_ = condition;
  for (const TensorRef& side : {yes, no})
    for (const TensorRef& root : side ? roots_of(side) : std::vector<TensorRef>())
      if (std::find(cell->roots_.begin(), cell->roots_.end(), root) == cell->roots_.end())
        cell->roots_.push_back(root);
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
  return graph().call("logical_and", {here(a), here(b)});
}

Value Memory::either(const Value& a, const Value& b) {
  if (!a || !b) return Value();
  return graph().call("logical_or", {here(a), here(b)});
}

std::vector<Memory::Place> Memory::places_of(const TensorRef& tensor, int region) {
  std::vector<Place> places;
  std::map<int64_t, Place> choices;  // still to be looked at
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
    if (last.tensor->no_)
      arrive(last.tensor->no_,
             both(last.condition, graph().call("logical_not", {condition})));
  }
  return places;
}

std::vector<Memory::Place> Memory::places_of(const TensorRef& tensor) {
  return places_of(tensor, depth());
}

Value Memory::choose(const Value& condition, const Value& yes, const Value& no) {
  if (!condition || yes == no) return yes;
  if (yes.shape() != no.shape())
    throw Refusal{text("data decides between a tensor of shape ", yes.shape(), " and one of shape ",
                       no.shape(), ", and one that may be either is written in place"),
                  "write to a copy: x = x.clone()"};
  return graph().call("where", {here(condition), yes, no});
}

void Memory::write_choice(const TensorRef& tensor, const Value& value) {
  for (const Place& place : places_of(tensor, 0))
    write(place.tensor, choose(place.condition, value, read(place.tensor)));
  tensor->value_ = value;
  tensor->version_ = version(tensor);
}

}  // namespace hg::convert
