// SPDX-License-Identifier: Apache-2.0
// Roots, views and writes.
#include "converter/memory/alias.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "converter/core/cast.h"

namespace hg::convert {
namespace {

std::optional<Known> known_of(const ScriptTensor& tensor) {
  const Tensor& t = tensor.data.tensor;
  if (tensor.kind != State::Kind::constant || t.rank() > 1 || t.count() > 16) return std::nullopt;
  Known known{t.dtype, t.rank(), {}};
  for (int64_t i = 0; i < t.count(); ++i) {
    switch (t.dtype) {
      case f32:
        known.elements.push_back(Scalar::of(double{t.as<float>()[i]}));
        break;
      case f64:
        known.elements.push_back(Scalar::of(t.as<double>()[i]));
        break;
      case i64:
        known.elements.push_back(Scalar::of(Dim(t.as<int64_t>()[i])));
        break;
      case i32:
        known.elements.push_back(Scalar::of(Dim(t.as<int32_t>()[i])));
        break;
      case boolean:
        known.elements.push_back(Scalar::of(t.as<bool>()[i]));
        break;
      default:
        return std::nullopt;
    }
  }
  return known;
}

TensorData data_of(const Known& known) {
  Sizes shape;
  if (known.rank == 1) shape.push_back(static_cast<int64_t>(known.elements.size()));
  Result<TensorData> data = TensorData::allocate(known.dtype, shape);
  require_ok(data.status());
  for (size_t i = 0; i < known.elements.size(); ++i) {
    const Scalar& s = known.elements[i];
    const double real = s.as_double();
    const auto whole = [&]() -> int64_t {
      if (s.is_integral()) return s.top.constant();
      if (!(std::fabs(real) < 0x1p63))
        throw Refusal{
            str_cat("the number ", real, " is to be of ", known.dtype, ", which has none such"),
            ""};
      return static_cast<int64_t>(real);
    };
    void* at =
        static_cast<char*>(data->tensor.data) + i * static_cast<size_t>(size_of(known.dtype));
    const auto put = [at](auto value) { std::memcpy(at, &value, sizeof value); };
    switch (known.dtype) {
      case f32:
        put(static_cast<float>(real));
        break;
      case f64:
        put(real);
        break;
      case f16:
        put(Half(static_cast<float>(real)));
        break;
      case bf16:
        put(BFloat16(static_cast<float>(real)));
        break;
      case i64:
        put(whole());
        break;
      case i32:
        put(static_cast<int32_t>(whole()));
        break;
      case i16:
        put(static_cast<int16_t>(whole()));
        break;
      case i8:
        put(static_cast<int8_t>(whole()));
        break;
      case u8:
        put(static_cast<uint8_t>(whole()));
        break;
      case boolean:
        put(static_cast<uint8_t>(real != 0));
        break;
      case c64:
      case c128:
        break;  // known elements are real
    }
  }
  return *std::move(data);
}

}  // namespace

bool TensorCell::is_poisoned() const {
  const TensorCell* cell = this;
  while (!cell->poisoned_ && cell->base_) cell = cell->base_.get();
  return cell->poisoned_ || std::any_of(cell->roots_.begin(), cell->roots_.end(),
                                        [](const TensorRef& root) { return root->poisoned_; });
}

const std::optional<Known>& TensorCell::known() const {
  static const std::optional<Known> kNothing;
  if (!base_ || !known_) return known_;
  const TensorCell* root = this;
  while (root->base_) root = root->base_.get();
  return root->version_ == version_ ? known_ : kNothing;
}

Memory::Memory(Graph& graph, const ScriptProgram& program)
    : program_(program),
      script_tensors_(program.tensors.size()),
      state_values_(program.tensors.size()) {
  regions_.push_back({nullptr, &graph, {}, {}, {}, {}});
}

TensorRef Memory::make(Value value) {
  auto cell = std::make_shared<TensorCell>();
  cell->value_ = value;
  cell->region_ = depth();
  return cell;
}

TensorRef Memory::make_number(Value value) {
  TensorRef cell = make(value);
  cell->number_ = true;
  return cell;
}

TensorRef Memory::make_known(Known known, bool number) {
  TensorRef cell = make(Value());
  cell->known_ = std::move(known);
  cell->number_ = number;
  return cell;
}

TensorRef Memory::make_view(const TensorRef& base, Forward forward, Inverse inverse,
                            const Relayout& relayout) {
  auto cell = std::make_shared<TensorCell>();
  cell->base_ = base;
  cell->forward_ = std::move(forward);
  cell->inverse_ = std::move(inverse);
  cell->version_ = -1;
  cell->region_ = depth();
  read(cell);
  if (const auto from = layout(base); from && relayout) {
    cell->layout_ = relayout(*from, type(base).shape);
    if (cell->layout_) cell->layout_->ones_known = from->ones_known;
  }
  views_.push_back(cell);
  return cell;
}

TensorRef Memory::make_known_view(const TensorRef& base, Known known, Forward forward,
                                  Inverse inverse) {
  auto cell = std::make_shared<TensorCell>();
  cell->base_ = base;
  cell->forward_ = std::move(forward);
  cell->inverse_ = std::move(inverse);
  cell->version_ = version(base);
  cell->region_ = depth();
  cell->known_ = std::move(known);
  views_.push_back(cell);
  return cell;
}

std::optional<Layout> Memory::layout(const TensorRef& tensor) {
  if (tensor->layout_ || !tensor->is_root()) return tensor->layout_;
  const bool known = tensor->known() || (tensor->script_tensor_ >= 0 &&
                                         program_.tensors[tensor->script_tensor_].row_major);
  return known ? std::optional(row_major(type(tensor).shape)) : std::nullopt;
}

MemoryOrder Memory::order(const TensorRef& tensor) {
  if (!tensor || tensor->is_poisoned()) return MemoryOrder::unknown;
  if (const auto known = layout(tensor)) {
    const Shape& shape = type(tensor).shape;
    if (is_row_major(*known, shape) == true) return MemoryOrder::row_major;
    const Operand operand{*known, shape};
    const auto computed = elementwise_layout({&operand, 1}, shape, false);
    return computed && is_row_major(*computed, shape) == true ? MemoryOrder::gapped
                                                              : MemoryOrder::scattered;
  }
  if (tensor->is_choice()) return joined(order(tensor->yes_), order(tensor->no_));
  if (tensor->is_root()) return tensor->order_;
  const MemoryOrder base = order(tensor->base_);
  return base == MemoryOrder::gapped || base == MemoryOrder::scattered ? MemoryOrder::scattered
                                                                       : MemoryOrder::unknown;
}

void Memory::set_order(const TensorRef& root, MemoryOrder order) {
  if (order == MemoryOrder::row_major)
    set_row_major(root);
  else
    root->order_ = order;
}

void Memory::set_row_major(const TensorRef& root) { root->layout_ = row_major(type(root).shape); }

void Memory::become(const TensorRef& tensor, const TensorRef& view) {
  if (view->base_ != tensor) throw Refusal{"the shape of a tensor is changed in place", ""};
  if (tensor->script_tensor_ >= 0)
    throw Refusal{"the shape of a parameter or buffer is changed in place",
                  "use the op without underscore"};
  if (tensor->region_ < depth())
    throw Refusal{"the shape of a tensor is changed in place where data decides whether it happens",
                  "use the op without underscore"};
  for (const std::weak_ptr<TensorCell>& weak : choices_)
    if (const TensorRef choice = weak.lock();
        choice && (choice == tensor || choice->yes_ == tensor || choice->no_ == tensor))
      throw Refusal{"the shape of a tensor is changed in place, and data decides which one it is",
                    "use the op without underscore"};
  const TensorRef before = std::make_shared<TensorCell>(*tensor);
  for (const std::weak_ptr<TensorCell>& weak : views_)
    if (const TensorRef other = weak.lock(); other && other->base_ == tensor) other->base_ = before;
  for (const std::weak_ptr<TensorCell>& weak : before->twins_)
    if (const TensorRef twin = weak.lock()) twin->twins_.push_back(before);
  *tensor = *view;
  tensor->region_ = before->region_;
  views_.push_back(tensor);
}

TensorRef Memory::make_like(const TensorRef& like, Value value) {
  TensorRef cell = like->is_number() ? make_number(value) : make(value);
  cell->complex_ = like->complex_;
  cell->column_ = like->column_;
  return cell;
}

void Memory::set_packed(const TensorRef& tensor, Packed packed) {
  tensor->packed_ = std::move(packed);
  tensor->packed_version_ = tensor->version_;
}

void Memory::set_nested(const TensorRef& tensor, Nested nested) {
  tensor->nested_ = std::move(nested);
  tensor->nested_version_ = tensor->version_;
}

TensorRef Memory::make_poison() {
  TensorRef cell = make(Value());
  cell->poisoned_ = true;
  return cell;
}

TensorRef Memory::of_script(int32_t index) {
  TensorRef& cell = script_tensors_.at(index);
  if (!cell) {
    cell = std::make_shared<TensorCell>();
    cell->script_tensor_ = index;
    const ScriptTensor& tensor = program_.tensors[index];
    cell->complex_ = tensor.complex;
    if (!tensor.complex) cell->known_ = known_of(tensor);
  }
  return cell;
}

void Memory::rebind(int32_t index, const TensorRef& tensor) {
  const ScriptTensor& known = program_.tensors[index];
  if (known.names.size() > 1)
    throw Refusal{str_cat("'", known.names[0], "' becomes another tensor, but '", known.names[1],
                          "' is the same one and does not"),
                  "use copy_()"};
  script_tensors_[index] = tensor;
  rebound_.insert(index);
}

std::vector<TensorRef> Memory::roots_of(const TensorRef& tensor) const {
  TensorRef root = tensor;
  while (root->base_) root = root->base_;
  return root->is_choice() ? root->roots_ : std::vector<TensorRef>{root};
}

int64_t Memory::version(const TensorRef& tensor) const {
  const TensorCell* cell = tensor.get();
  while (cell->base_) cell = cell->base_.get();
  if (!cell->is_choice()) return cell->version_;
  int64_t writes = 0;
  for (const TensorRef& root : cell->roots_) writes += root->version_;
  return writes;
}

Value Memory::create_state(int32_t script_tensor) {
  const auto index = static_cast<size_t>(script_tensor);
  if (!state_values_[index]) {
    Graph& top = *regions_.front().graph;
    const ScriptTensor& tensor = program_.tensors[index];
    const std::string name = tensor.names.empty() ? "" : tensor.names[0];
    Value& value = state_values_[index];
    switch (tensor.kind) {
      case State::Kind::parameter:
        value = top.parameter(name, tensor.data);
        if (!tensor.requires_grad) top.set_requires_grad(value, false);
        break;
      case State::Kind::buffer:
        value = top.buffer(name, tensor.data);
        break;
      case State::Kind::constant:
        value = top.constant(tensor.data, name);
        break;
    }
    for (size_t i = 1; i < tensor.names.size(); ++i) top.add_alias(value, tensor.names[i]);
    require_ok(top.take_status());
  }
  return state_values_[index];
}

Value Memory::materialize(const Known& known) {
  bool constant = true;
  for (const Scalar& s : known.elements) constant &= s.is_constant();
  if (constant) return graph().constant(data_of(known));
  std::vector<Dim> tops, bottoms;
  Known reals{f64, 1, {}}, are_real{boolean, 1, {}};  // elements that do not depend on sizes
  bool fraction = false, mixed = false;
  for (const Scalar& s : known.elements) {
    const bool real = s.kind == Scalar::Kind::real;
    tops.push_back(s.top);
    bottoms.push_back(s.bottom);
    reals.elements.push_back(Scalar::of(real ? s.number : 0.0));
    are_real.elements.push_back(Scalar::of(real));
    fraction |= s.bottom != Dim(1);
    mixed |= real;
  }
  Graph& g = graph();
  Value value = g.call("dims", {}, {{"values", tops}});
  if (fraction) {
    const Value bottom = g.call("dims", {}, {{"values", bottoms}});
    value = g.call("div", {cast(value, f64), cast(bottom, f64)});
  }
  if (mixed) value = g.call("where", {materialize(are_real), materialize(reals), cast(value, f64)});
  if (known.rank == 0) value = g.call("reshape", {value}, {{"shape", std::vector<Dim>()}});
  return cast(value, known.dtype);
}

Value Memory::read(const TensorRef& tensor) {
  if (tensor->is_poisoned()) throw Poisoned();
  if (const std::string& why = why_invalid(tensor); !why.empty())
    throw Refusal{why, "write to a copy: x = x.clone()"};
  if (!tensor->is_root()) {
    const int64_t present = version(tensor);
    if (tensor->version_ != present || !is_open(tensor->value_.graph())) {
      if (tensor->version_ != present) tensor->known_.reset();
      if (tensor->base_)
        tensor->value_ = tensor->forward_(read(tensor->base_));
      else if (tensor->yes_ && tensor->no_)
        tensor->value_ = choose(tensor->condition_, read(tensor->yes_), read(tensor->no_));
      else
        tensor->value_ = read(tensor->yes_ ? tensor->yes_ : tensor->no_);
      tensor->version_ = present;
    }
    return here(tensor->value_);
  }
  if (tensor->value_ && is_open(tensor->value_.graph())) return here(tensor->value_);
  if (tensor->known_) {
    // Not stored in the cell of a script tensor, because the value ends with its body.
    const Value value = materialize(*tensor->known_);
    tensor->value_ = value;
    return value;
  }
  if (tensor->script_tensor_ < 0)
    throw Refusal{"a tensor made inside a branch or loop is needed outside of it",
                  "compute it before the branch or loop"};
  tensor->value_ = create_state(tensor->script_tensor_);
  return here(tensor->value_);
}

TensorType Memory::type(const TensorRef& tensor) {
  if (tensor->is_poisoned()) throw Poisoned();
  if (const auto& known = tensor->known()) {
    TensorType type{known->dtype, {}};
    if (known->rank == 1) type.shape.push_back(static_cast<int64_t>(known->elements.size()));
    return type;
  }
  if (tensor->is_root() && !tensor->value_ && tensor->script_tensor_ >= 0) {
    const Tensor& t = program_.tensors[tensor->script_tensor_].data.tensor;
    return {t.dtype, to_shape(t.shape)};
  }
  if (tensor->is_root() && tensor->value_) return {tensor->value_.dtype(), tensor->value_.shape()};
  const Value value = read(tensor);
  return {value.dtype(), value.shape()};
}

void Memory::write(const TensorRef& tensor, Value value) {
  if (tensor->is_poisoned()) throw Poisoned();
  if (tensor->is_choice()) return write_choice(tensor, value);
  if (tensor->is_root()) {
    save(tensor);
    tensor->value_ = value;
    tensor->known_.reset();
    ++tensor->version_;
    invalidate_aliases(tensor);
    return;
  }
  if (!tensor->inverse_)
    throw Refusal{"a tensor whose elements overlap in memory is written in place",
                  "write to a copy: x = x.clone()"};
  const Value base = read(tensor->base_);
  write(tensor->base_, tensor->inverse_(base, value));
  // The written value is the view's value.
  tensor->value_ = value;
  tensor->known_.reset();
  tensor->version_ = version(tensor);
}

void Memory::write(const TensorRef& tensor, Known known) {
  if (!tensor->is_root()) {
    write(tensor, materialize(known));
    return;
  }
  save(tensor);
  tensor->value_ = Value();
  tensor->known_ = std::move(known);
  ++tensor->version_;
  invalidate_aliases(tensor);
}

void Memory::poison(const TensorRef& tensor) {
  for (const TensorRef& root : roots_of(tensor)) {
    save(root);
    if (!root->poisoned_) poisoned_.push_back(root);
    root->poisoned_ = true;
  }
}

void Memory::undo_poison(size_t mark) {
  for (size_t i = mark; i < poisoned_.size(); ++i) poisoned_[i]->poisoned_ = false;
  poisoned_.resize(mark);
}

void Memory::finish() {
  Graph& top = *regions_.front().graph;
  std::map<TensorRef, size_t> holders;  // by root: the state that has it after the run
  for (size_t i = 0; i < script_tensors_.size(); ++i) {
    const TensorRef& cell = script_tensors_[i];
    const auto index = static_cast<int32_t>(i);
    if (!cell || program_.tensors[i].kind == State::Kind::constant) continue;
    for (const TensorRef& root : rebound_.empty() ? std::vector<TensorRef>() : roots_of(cell))
      if (const auto [holder, fresh] = holders.emplace(root, i); !fresh)
        throw Refusal{
            str_cat("the buffers '", program_.tensors[holder->second].names.at(0), "' and '",
                    program_.tensors[i].names.at(0), "' may be one tensor after a run"),
            "bind one of them to a copy"};
    const bool is_written =
        rebound_.contains(index) || cell->version_ > 0 || !cell->invalid_because_.empty();
    if (!is_written || cell->is_poisoned()) continue;
    const Value state = create_state(index), value = read(cell);
    if (value != state) top.assign(state, value);
  }
}

}  // namespace hg::convert
