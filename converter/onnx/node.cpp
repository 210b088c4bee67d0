// SPDX-License-Identifier: Apache-2.0
#include "converter/onnx/node.h"

#include <algorithm>
#include <cmath>

#include "lib/graph/element.h"

namespace hg::convert::onnx {
namespace {

std::string ordinal(int i) { return str_cat("input ", int64_t{i}); }

}  // namespace

Node::Node(NodeCall& call) : call_(call) {
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&call.node().constant.value)) {
    attributes_ = dict->get();
    opset_ = integer(kOpset, 1);
  }
}

std::string_view Node::name() const {
  const std::string_view kind = call_.kind();
  return kind.substr(kind.rfind(':') + 1);
}

void Node::refuse(std::string why, std::string suggestion) const {
  throw Refusal{std::move(why), std::move(suggestion)};
}

bool Node::has(int i) const { return i < input_count() && !call_.argument(i).is_none(); }

const Item& Node::item(int i) const {
  if (!has(i)) refuse(str_cat(ordinal(i), " is missing"));
  if (const auto moved = moved_.find(i); moved != moved_.end()) return moved->second;
  const Item& item = call_.argument(i);
  if (const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value))
    refuse(str_cat(ordinal(i), " is ", (*object)->type, ", which Hologram does not have"));
  return item;
}

Value Node::in(int i) const {
  const Item& given = item(i);
  if (given.is_list()) refuse(str_cat(ordinal(i), " is a sequence, not a tensor"));
  if (!given.is_tensor()) return number_value(call_.memory(), given);
  return call_.read(std::get<TensorRef>(given.value));
}

Value Node::in_or_none(int i) const { return has(i) ? in(i) : Value(); }

TensorType Node::type(int i) const {
  const Item& given = item(i);
  if (const auto* tensor = std::get_if<TensorRef>(&given.value))
    return call_.memory().type(*tensor);
  const Value value = in(i);
  return {value.dtype(), value.shape()};
}

std::vector<Item> Node::list(int i) const {
  const auto* given = std::get_if<std::shared_ptr<List>>(&item(i).value);
  if (given == nullptr) refuse(str_cat(ordinal(i), " is not a sequence"));
  if ((*given)->grown) refuse(str_cat(ordinal(i), " is a sequence whose length is open"));
  return (*given)->items;
}

std::optional<Known> Node::known(int i) const {
  if (!has(i) || (small_object(i) != nullptr && !moved_.contains(i))) return std::nullopt;
  const auto* tensor = std::get_if<TensorRef>(&item(i).value);
  if (tensor == nullptr) return std::nullopt;
  if ((*tensor)->is_poisoned()) throw Poisoned();
  return (*tensor)->known();
}

// `read` turns a data-dependent number into a term.
template <class Read>
Dims Node::terms(int i, const Read& read) const {
  Dims result;
  const TensorType given = type(i);
  if (!is_integer(given.dtype) || given.rank() > 1)
    refuse(str_cat(ordinal(i), " is ", given, ", not a list of integers"));
  if (const auto numbers = known(i)) {
    for (const Scalar& each : numbers->elements) {
      if (!each.is_integral()) refuse(str_cat(ordinal(i), " is not a list of integers"));
      result.push_back(each.top);
    }
    return result;
  }
  const Value value = in(i);
  if (const TensorData* data = graph().constant_of(value.id())) {
    for (int64_t k = 0; k < data->tensor.count(); ++k)
      result.emplace_back(whole_part<int64_t>(element(data->tensor, k)));
    return result;
  }
  if (given.rank() == 0) return {read(cast(value, i64))};
  const Dim count = given.shape[0];
  if (!count.is_constant())
    refuse(str_cat(ordinal(i), " has ", count, " elements, whose values depend on data"),
           "give it with --constant NAME=FILE.npy");
  for (int64_t k = 0; k < count.constant(); ++k)
    result.push_back(read(cast(reshape(slice(value, 0, k, k + 1), {}), i64)));
  return result;
}

Dims Node::dims(int i) const {
  return terms(i, [&](const Value& number) { return call_.size_of(number); });
}
Dim Node::dim(int i) const { return only(i, dims(i)); }

Dims Node::terms(int i) const {
  return terms(i, [&](const Value& number) { return call_.integer_of(number); });
}
Dim Node::term(int i) const { return only(i, terms(i)); }

Dim Node::only(int i, const Dims& all) const {
  if (all.size() != 1)
    refuse(str_cat(ordinal(i), " has ", int64_t(all.size()), " elements, not one"));
  return all[0];
}

std::vector<int64_t> Node::integers(int i) const {
  std::vector<int64_t> result;
  for (const double value : reals(i)) result.push_back(whole_part<int64_t>(value));
  return result;
}

int64_t Node::integer(int i) const { return whole_part<int64_t>(real(i)); }

bool Node::is_constant(int i) const {
  if (const auto numbers = known(i))
    return std::all_of(numbers->elements.begin(), numbers->elements.end(),
                       [](const Scalar& each) { return each.is_constant(); });
  return has(i) && graph().constant_of(in(i).id()) != nullptr;
}

std::vector<double> Node::reals(int i) const {
  std::vector<double> result;
  if (const auto numbers = known(i)) {
    for (const Scalar& each : numbers->elements) {
      if (!each.is_constant())
        refuse(str_cat(ordinal(i), " depends on the size ", each.top, ", but must be a constant"),
               "give a number for the size with --dim");
      result.push_back(each.as_double());
    }
    return result;
  }
  const TensorData* data = graph().constant_of(in(i).id());
  if (data == nullptr)
    refuse(str_cat(ordinal(i), " is computed by the model, but must be a constant"),
           "where it is an input of the model, give it with --constant NAME=FILE.npy");
  for (int64_t k = 0; k < data->tensor.count(); ++k) result.push_back(element(data->tensor, k));
  return result;
}

double Node::real(int i) const {
  const std::vector<double> all = reals(i);
  if (all.size() != 1)
    refuse(str_cat(ordinal(i), " has ", int64_t(all.size()), " elements, not one"));
  return all[0];
}

const Item* Node::find(std::string_view attribute) const {
  if (attributes_ == nullptr) return nullptr;
  for (const auto& [key, value] : attributes_->items)
    if (std::get<std::string>(key.value) == attribute) return &value;
  return nullptr;
}

bool Node::has(std::string_view attribute) const { return find(attribute) != nullptr; }

int64_t Node::integer(std::string_view attribute, std::optional<int64_t> fallback) const {
  const Item* item = find(attribute);
  if (item == nullptr && fallback) return *fallback;
  if (item == nullptr || !item->is_int())
    refuse(str_cat("attribute '", attribute, "' is no integer"));
  return std::get<Dim>(item->value).constant();
}

bool Node::flag(std::string_view attribute, bool fallback) const {
  const int64_t value = integer(attribute, fallback ? 1 : 0);
  if (value != 0 && value != 1)
    refuse(str_cat("attribute '", attribute, "' is ", value, ", neither 0 nor 1"));
  return value == 1;
}

double Node::real(std::string_view attribute, std::optional<double> fallback) const {
  const Item* item = find(attribute);
  if (item == nullptr && fallback) return *fallback;
  if (item == nullptr || !item->is_real())
    refuse(str_cat("attribute '", attribute, "' is no float"));
  return std::get<double>(item->value);
}

std::string Node::string(std::string_view attribute, std::optional<std::string> fallback) const {
  const Item* item = find(attribute);
  if (item == nullptr && fallback) return *fallback;
  if (item == nullptr || !item->is_string())
    refuse(str_cat("attribute '", attribute, "' is no text"));
  return std::get<std::string>(item->value);
}

namespace {
const std::vector<Item>* items_of(const Item* item) {
  if (item == nullptr) return nullptr;
  const auto* list = std::get_if<std::shared_ptr<List>>(&item->value);
  return list == nullptr ? nullptr : &(*list)->items;
}
}  // namespace

std::vector<int64_t> Node::integers(std::string_view attribute) const {
  std::vector<int64_t> result;
  if (const auto* items = items_of(find(attribute)))
    for (const Item& each : *items) {
      if (!each.is_int()) refuse(str_cat("attribute '", attribute, "' is no list of integers"));
      result.push_back(std::get<Dim>(each.value).constant());
    }
  return result;
}

std::vector<double> Node::reals(std::string_view attribute) const {
  std::vector<double> result;
  if (const auto* items = items_of(find(attribute)))
    for (const Item& each : *items) {
      if (!each.is_real()) refuse(str_cat("attribute '", attribute, "' is no list of floats"));
      result.push_back(std::get<double>(each.value));
    }
  return result;
}

std::vector<std::string> Node::strings(std::string_view attribute) const {
  std::vector<std::string> result;
  if (const auto* items = items_of(find(attribute)))
    for (const Item& each : *items) {
      if (!each.is_string()) refuse(str_cat("attribute '", attribute, "' is no list of texts"));
      result.push_back(std::get<std::string>(each.value));
    }
  return result;
}

const TensorData& Node::tensor(std::string_view attribute) const {
  const Item* item = find(attribute);
  const auto* index = item ? std::get_if<ScriptTensorIndex>(&item->value) : nullptr;
  if (index == nullptr)
    refuse(str_cat("attribute '", attribute, "' is missing, or of a dtype that Hologram lacks"));
  return call_.environment().program().tensors[index->index].data;
}

DType Node::dtype(std::string_view attribute, std::optional<DType> fallback) const {
  if (fallback && !has(attribute)) return *fallback;
  switch (const int64_t number = integer(attribute); number) {
    case 1:
      return f32;
    case 2:
      return u8;
    case 3:
      return i8;
    case 5:
      return i16;
    case 6:
      return i32;
    case 7:
      return i64;
    case 9:
      return boolean;
    case 10:
      return f16;
    case 11:
      return f64;
    case 16:
      return bf16;
    default:
      refuse(str_cat("attribute '", attribute, "' is type ", number,
                     " of ONNX, which Hologram does not have"));
  }
}

int Node::axis(int64_t given, int rank) const {
  const int64_t all = std::max(rank, 1);
  if (given < -all || given >= all)
    refuse(str_cat("axis ", given, " is out of range for rank ", int64_t{rank}));
  return static_cast<int>(given < 0 ? given + all : given);
}

bool Node::only_data_decides(int i) const {
  return !known(i) && graph().constant_of(in(i).id()) == nullptr;
}

std::optional<std::vector<int>> Node::axes(int64_t since, int i, int rank) const {
  const bool attribute = opset() < since;
  if (attribute ? !has("axes") : !has(i)) return std::nullopt;
  std::vector<int> result;
  for (const int64_t each : attribute ? integers("axes") : integers(i))
    result.push_back(axis(each, rank));
  return result;
}

namespace {
const Item* attribute_of(const Object& object, std::string_view name) {
  for (const auto& [key, item] : object.attributes)
    if (key == name) return &item;
  return nullptr;
}

Item small_integers(int64_t type, Item numbers) {
  auto object = std::make_shared<Object>();
  object->type = str_cat("a tensor of ", describe_onnx_dtype(type));
  object->attributes = {{kSmallType, Item(type)}, {kSmallNumbers, std::move(numbers)}};
  return Item(std::move(object));
}
}  // namespace

const Object* Node::small_object(int i) const {
  if (!has(i)) return nullptr;
  const auto* object = std::get_if<std::shared_ptr<Object>>(&call_.argument(i).value);
  return object != nullptr && attribute_of(**object, kSmallNumbers) ? object->get() : nullptr;
}

Item Node::numbers_item(const Object& object) const {
  const Item& numbers = *attribute_of(object, kSmallNumbers);
  if (const auto* index = std::get_if<ScriptTensorIndex>(&numbers.value))
    return Item(call_.memory().of_script(index->index));
  return numbers;
}

int64_t Node::small_type(int i) const {
  const Object* const object = small_object(i);
  return object == nullptr ? 0 : std::get<Dim>(attribute_of(*object, kSmallType)->value).constant();
}

Value Node::numbers(int i) const {
  const Object* const object = small_object(i);
  if (object == nullptr) return in(i);
  return call_.read(std::get<TensorRef>(numbers_item(*object).value));
}

void Node::give_small_integers(int64_t type, const Value& numbers) const {
  call_.give(small_integers(type, item_of(numbers)));
}

bool Node::move_small_integers() {
  const Object* const first = small_object(0);
  if (first == nullptr) return false;
  for (int i = 0; i < input_count(); ++i)
    if (const Object* const object = small_object(i); object && object->type == first->type)
      moved_.emplace(i, numbers_item(*object));
  return true;
}

void Node::give(const Values& values) const {
  std::vector<Item> items;
  for (const Value& value : values) {
    if (!value && items.size() >= static_cast<size_t>(output_count())) break;
    items.push_back(Item(call_.make_tensor(value)));
    if (!moved_.empty()) items.back() = small_integers(small_type(0), std::move(items.back()));
  }
  call_.returns(std::move(items));
}

void Node::give_item(Item item) const {
  call_.give(moved_.empty() ? std::move(item) : small_integers(small_type(0), std::move(item)));
}

void Node::give(Known known) const {
  call_.give(Item(call_.memory().make_known(std::move(known))));
}

Dims Node::sizes_from(const Value& x, int dim) const {
  if (x.rank() < dim)
    refuse(str_cat("an input is ", x.shape(), ", of less than ", int64_t{dim}, " dims"));
  return {x.shape().begin() + dim, x.shape().end()};
}

Values Node::ops(std::string_view name, const Values& inputs, const NamedAttrs& attrs) const {
  Values results = graph().calls(name, inputs, attrs);
  if (results.empty() || !results[0]) refuse(std::string(graph().take_status().message()));
  return results;
}

Value Node::op(std::string_view name, std::initializer_list<Value> inputs,
               const NamedAttrs& attrs) const {
  const Value result = graph().call(name, inputs, attrs);
  if (!result) refuse(std::string(graph().take_status().message()));
  return result;
}

std::vector<Item> Node::aten(std::string_view kind,
                             std::vector<std::pair<std::string, Item>> arguments,
                             int results) const {
  return call_.environment().run_op(kind, std::move(arguments), results, call_.node().origin);
}

Value Node::aten_value(std::string_view kind,
                       std::vector<std::pair<std::string, Item>> arguments) const {
  const Item item = aten(kind, std::move(arguments)).at(0);
  if (!item.is_tensor()) return number_value(call_.memory(), item);
  return call_.read(std::get<TensorRef>(item.value));
}

Value constant_of(Graph& g, DType dtype, double value) {
  if (is_float(dtype)) return g.scalar(value, dtype);
  return g.scalar(whole_part<int64_t>(value), dtype);
}

Value constant_like(const Value& x, double value) {
  return constant_of(*x.graph(), x.dtype(), value);
}

Value constant_list(Graph& g, const std::vector<int64_t>& values) {
  return g.constant(*TensorData::copy_of(view(values, {static_cast<int64_t>(values.size())})));
}

Value constant_list(Graph& g, const std::vector<double>& values, DType dtype) {
  return cast(g.constant(*TensorData::copy_of(view(values, {static_cast<int64_t>(values.size())}))),
              dtype);
}

Dims range(int count) {
  Dims dims;
  for (int i = 0; i < count; ++i) dims.emplace_back(i);
  return dims;
}

Dims one_each(int count, const Dim& value) { return Dims(count, value); }

Dims dims_of(const std::vector<int64_t>& values) { return Dims(values.begin(), values.end()); }

Item list_item(const Dims& values) {
  auto list = std::make_shared<List>();
  for (const Dim& value : values) list->items.emplace_back(value);
  return Item(std::move(list));
}

}  // namespace hg::convert::onnx
