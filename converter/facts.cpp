// SPDX-License-Identifier: Apache-2.0
// What a script asks of its tensors and of its surroundings: sizes, dtypes, devices, modes.
#include <algorithm>

#include "converter/complex.h"
#include "converter/interpreter.h"
#include "converter/type_names.h"

namespace hg::convert {
namespace {

TensorType type_of(NodeCall& call, int index = 0) {
  const auto* tensor = std::get_if<TensorRef>(&call.at(index).value);
  if (tensor == nullptr) call.refuse(text(index), "is not a tensor");
  TensorType type = call.memory().type(*tensor);
  if ((*tensor)->is_complex()) type.shape.pop_back();
  return type;
}

bool is_complex(NodeCall& call) {
  const auto* tensor = std::get_if<TensorRef>(&call.at(0).value);
  return tensor != nullptr && (*tensor)->is_complex();
}

bool is_tensor(NodeCall& call) { return call.argument_count() > 0 && call.at(0).is_tensor(); }

Item list_of(const Shape& shape) {
  auto list = std::make_shared<List>();
  for (const Dim& dim : shape) list->items.emplace_back(dim);
  return Item(std::move(list));
}

bool size(NodeCall& call) {
  const Shape shape = type_of(call).shape;
  if (call.argument_count() < 2) {
    call.give(list_of(shape));
    return true;
  }
  const Result<int> axis = normalize_axis(call.number_at(1), static_cast<int>(shape.size()));
  if (!axis.ok() || shape.empty())
    throw Refusal{text("size() of dimension ", call.number_at(1), " of a tensor of shape ", shape),
                  ""};
  call.give(Item(shape[static_cast<size_t>(*axis)]));
  return true;
}

bool shape_as_tensor(NodeCall& call) {
  Known known{i64, 1, {}};
  for (const Dim& dim : type_of(call).shape) known.elements.push_back(Scalar::of(dim));
  call.give(Item(call.memory().make_known(std::move(known))));
  return true;
}

Layout layout_of(NodeCall& call, const TensorRef& tensor) {
  const auto layout = call.memory().layout(tensor);
  if (!layout)
    throw Refusal{"the memory layout of a tensor is asked for that is not known",
                  "ask that of a clone()"};
  return *layout;
}

bool is_contiguous(NodeCall& call) {
  const auto& tensor = std::get<TensorRef>(call.at(0).value);
  if (call.argument_count() > 1 && call.number_at(1) != 0)
    throw Refusal{"whether a tensor has another memory format than the contiguous one", ""};
  const auto answer = is_row_major(layout_of(call, tensor), call.memory().type(tensor).shape);
  if (!answer) call.note("is_contiguous() is answered for sizes above 1");
  call.give(Item(answer.value_or(false)));
  return true;
}

Shape strides_of(NodeCall& call) {
  const auto& tensor = std::get<TensorRef>(call.at(0).value);
  return layout_of(call, tensor).strides;
}

bool stride(NodeCall& call) {
  const Shape strides = strides_of(call);
  if (call.argument_count() < 2) {
    call.give(list_of(strides));
    return true;
  }
  const Result<int> axis = normalize_axis(call.number_at(1), static_cast<int>(strides.size()));
  if (!axis.ok()) throw Refusal{std::string(axis.status().message()), ""};
  call.give(Item(strides[static_cast<size_t>(*axis)]));
  return true;
}

template <bool V>
bool always(NodeCall& call) {
  call.give(Item(V));
  return true;
}

template <int64_t V>
bool number(NodeCall& call) {
  call.give(Item(V));
  return true;
}

bool nothing(NodeCall& call) {
  call.returns(std::vector<Item>(call.node().outputs.size()));
  return true;
}

bool cpu(NodeCall& call) {
  call.give(Item(std::string("cpu")));
  return true;
}

// Whether the item is of a type as TorchScript names it.
bool is_of(const Item& item, std::string_view type) {
  if (type == "Any") return true;
  if (const auto inner = inside_of(type, "Optional")) return item.is_none() || is_of(item, *inner);
  if (const auto all = inside_of(type, "Union")) {
    const auto types = split_types(*all);
    return std::any_of(types.begin(), types.end(),
                       [&](const NamedType& each) { return is_of(item, each.type); });
  }
  if (item.is_none()) return type == "None" || type == "NoneType";
  if (const auto* tensor = std::get_if<TensorRef>(&item.value)) {
    if (!(*tensor)->is_number()) return type == "Tensor";
    const DType dtype = (*tensor)->number_dtype();
    return type == "number" || type == (is_float(dtype) ? "float" : dtype == i64 ? "int" : "bool");
  }
  if (item.is_bool()) return type == "bool";
  if (item.is_int()) return type == "int" || type == "number";
  if (item.is_real()) return type == "float" || type == "number";
  if (item.is_string()) return type == "str";
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    const auto inner = inside_of(type, "List");
    return type == "list" ||
           (inner && std::all_of((*list)->items.begin(), (*list)->items.end(),
                                 [&](const Item& each) { return is_of(each, *inner); }));
  }
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    const auto inner = inside_of(type, "Tuple");
    if (!inner) return type == "tuple";
    const auto types = split_types(*inner);
    return types.size() == (*tuple)->items.size() &&
           std::equal(types.begin(), types.end(), (*tuple)->items.begin(),
                      [](const NamedType& each, const Item& one) { return is_of(one, each.type); });
  }
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    const auto inner = inside_of(type, "Dict");
    if (!inner) return false;
    const auto types = split_types(*inner);
    return types.size() == 2 &&
           std::all_of((*dict)->items.begin(), (*dict)->items.end(), [&](const auto& entry) {
             return is_of(entry.first, types[0].type) && is_of(entry.second, types[1].type);
           });
  }
  if (const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value))
    return type == (*object)->type;
  return false;
}

bool isinstance_of(NodeCall& call) {
  const auto types = split_types(call.node().attribute);
  if (types.empty()) throw Refusal{"isinstance() without a type", ""};
  call.give(Item(std::any_of(types.begin(), types.end(),
                             [&](const NamedType& each) { return is_of(call.at(0), each.type); })));
  return true;
}

bool raise(NodeCall& call) {
  std::string message;
  for (int i = 0; i < call.argument_count() && message.empty(); ++i)
    if (call.at(i).is_string()) message = std::get<std::string>(call.at(i).value);
  throw Raised{message};
}

bool print(NodeCall& call) {
  call.note("print() is left out");
  return nothing(call);
}

bool warning(NodeCall& call) {
  call.note(text("warnings.warn() is left out: ", describe(call.at(0))));
  return nothing(call);
}

bool same_tensor(NodeCall& call) {
  if (!is_tensor(call)) return false;
  call.give(call.at(0));
  return true;
}

bool detached(NodeCall& call) {
  if (!is_tensor(call)) return false;
  call.give(call.interpreter().detached(call.at(0)));
  return true;
}

bool set_grad_enabled(NodeCall& call) {
  const auto scalar = scalar_of(call.at(0));
  if (!scalar || !scalar->top.is_constant())
    throw Refusal{"whether there are gradients depends on sizes or data", ""};
  call.interpreter().set_gradients(scalar->top != Dim(0));
  return nothing(call);
}

// `with`: of torch's own managers, no_grad and those that only measure.
bool enter(NodeCall& call) {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&call.at(0).value);
  const std::string_view type = object ? std::string_view((*object)->type) : "";
  const bool ends = type.ends_with("grad_mode.no_grad");
  if (!ends && type.find("profiler") == type.npos)
    throw Refusal{text("the context manager ", type, " is not supported"), ""};
  call.interpreter().begin_gradients(!ends);
  return nothing(call);
}
bool leave(NodeCall& call) {
  call.interpreter().end_gradients();
  return nothing(call);
}

// Tensors of the file, also inside of containers, become tensors of the import.
void resolve(Memory& memory, Item& item) {
  if (const auto* tensor = std::get_if<ScriptTensorIndex>(&item.value)) {
    item = Item(memory.of_script(tensor->index));
  } else if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    for (Item& element : (*list)->items) resolve(memory, element);
  } else if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    for (Item& element : (*tuple)->items) resolve(memory, element);
  } else if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    for (auto& [key, value] : (*dict)->items) resolve(memory, value);
  }
}

void give_resolved(NodeCall& call, Item item) {
  resolve(call.memory(), item);
  call.give(std::move(item));
}

bool get_attribute(NodeCall& call) {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&call.at(0).value);
  if (object == nullptr) {
    if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&call.at(0).value))
      for (size_t i = 0; i < (*tuple)->names.size(); ++i)
        if ((*tuple)->names[i] == call.node().attribute) {
          call.give((*tuple)->items[i]);
          return true;
        }
    throw Refusal{text("the attribute '", call.node().attribute, "' of ", describe(call.at(0))),
                  ""};
  }
  for (const auto& [name, item] : (*object)->attributes) {
    if (name != call.node().attribute) continue;
    give_resolved(call, item);
    return true;
  }
  throw Refusal{text("the module '", (*object)->path, "' (", (*object)->type,
                     ") has no attribute '", call.node().attribute, "'"),
                ""};
}

bool set_attribute(NodeCall& call) {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&call.at(0).value);
  if (object == nullptr) throw Refusal{"an attribute of something that is no object is set", ""};
  call.interpreter().check_change(call.at(0));
  auto& attributes = (*object)->attributes;
  const Item& value = call.at(1);
  for (auto& [name, item] : attributes) {
    if (name != call.node().attribute) continue;
    // A buffer that is bound to another tensor keeps that tensor's value for the next run.
    if (const auto* old = std::get_if<ScriptTensorIndex>(&item.value); old && value.is_tensor()) {
      const TensorRef state = call.memory().of_script(old->index);
      const TensorRef& tensor = std::get<TensorRef>(value.value);
      if (state == tensor) return nothing(call);
      if (call.memory().type(state) == call.memory().type(tensor)) {
        call.memory().write(state, call.memory().read(tensor));
        return nothing(call);
      }
      throw Refusal{text("the buffer '", name, "' changes its type from ",
                         call.memory().type(state), " to ", call.memory().type(tensor)),
                    ""};
    }
    if (!(*object)->path.empty() || (*object)->type.find("torch") != std::string::npos)
      call.note(text("the attribute '", name, "' that a run sets is not kept for the next run"));
    item = value;
    return nothing(call);
  }
  attributes.emplace_back(call.node().attribute, value);
  return nothing(call);
}

bool create_object(NodeCall& call) {
  auto object = std::make_shared<Object>();
  if (!call.node().output_types.empty()) object->type = call.node().output_types[0];
  call.give(Item(std::move(object)));
  return true;
}

bool constant(NodeCall& call) {
  Item value = call.node().constant;
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&value.value))
    value = Item(std::make_shared<List>(**list));  // the program's own stays as it is
  if (const auto* object = std::get_if<std::shared_ptr<Object>>(&value.value);
      object && (*object)->type == kComplexNumber) {
    call.give(complex_number(call, **object));
    return true;
  }
  give_resolved(call, value);
  return true;
}

constexpr Builtin kBuiltins[] = {
    {"prim::Constant", constant},
    {"prim::GetAttr", get_attribute},
    {"prim::SetAttr", set_attribute},
    {"prim::CreateObject", create_object},
    {"prim::isinstance", isinstance_of},
    {"prim::Uninitialized",
     [](NodeCall& call) {
       call.give(Item(std::make_shared<Object>(Object{std::string(kUndefined), "", {}})));
       return true;
     }},
    {"prim::RaiseException", raise},
    {"prim::Print", print},
    {"aten::warn", warning},
    {"prim::AutogradZero", nothing},
    {"prim::annotate", same_tensor},
    {"prim::data", detached},
    {"aten::data", detached},
    {"prim::shape", size},
    {"aten::size", size},
    {"aten::sym_size", size},
    {"aten::_shape_as_tensor", shape_as_tensor},
    {"aten::stride", stride},
    {"aten::sym_stride", stride},
    {"aten::storage_offset",
     [](NodeCall& call) {
       call.give(Item(layout_of(call, std::get<TensorRef>(call.at(0).value)).offset));
       return true;
     }},
    {"aten::dim",
     [](NodeCall& call) {
       call.give(Item(int64_t{type_of(call).rank()}));
       return true;
     }},
    {"aten::ndimension",
     [](NodeCall& call) {
       call.give(Item(int64_t{type_of(call).rank()}));
       return true;
     }},
    {"aten::numel",
     [](NodeCall& call) {
       call.give(Item(count(type_of(call).shape)));
       return true;
     }},
    {"aten::sym_numel",
     [](NodeCall& call) {
       call.give(Item(count(type_of(call).shape)));
       return true;
     }},
    {"aten::element_size",
     [](NodeCall& call) {
       call.give(Item(size_of(type_of(call).dtype) * (is_complex(call) ? 2 : 1)));
       return true;
     }},
    {"prim::dtype",
     [](NodeCall& call) {
       const DType dtype = type_of(call).dtype;
       call.give(Item(is_complex(call) ? torch_of_complex(dtype) : torch_of_dtype(dtype)));
       return true;
     }},
    {"aten::is_floating_point",
     [](NodeCall& call) {
       call.give(Item(is_float(type_of(call).dtype) && !is_complex(call)));
       return true;
     }},
    {"aten::is_complex",
     [](NodeCall& call) {
       call.give(Item(is_complex(call)));
       return true;
     }},
    {"aten::is_signed",
     [](NodeCall& call) {
       const DType dtype = type_of(call).dtype;
       call.give(Item(dtype != u8 && dtype != boolean));
       return true;
     }},
    {"aten::is_same_size",
     [](NodeCall& call) {
       const auto same = equal(list_of(type_of(call).shape), list_of(type_of(call, 1).shape));
       if (!same) throw Refusal{"whether two shapes are equal is not known for all sizes", ""};
       call.give(Item(*same));
       return true;
     }},
    {"aten::is_contiguous", is_contiguous},
    {"aten::is_neg", always<false>},
    {"aten::is_conj", always<false>},
    {"aten::is_inference", always<true>},
    {"prim::is_cuda", always<false>},
    {"prim::is_cpu", always<true>},
    {"prim::is_xpu", always<false>},
    {"prim::is_mps", always<false>},
    {"prim::is_mkldnn", always<false>},
    {"prim::is_quantized", always<false>},
    {"prim::is_sparse", always<false>},
    {"prim::is_meta", always<false>},
    {"prim::requires_grad", always<false>},
    {"aten::requires_grad", always<false>},
    {"prim::is_leaf", always<true>},
    {"prim::layout", number<0>},
    {"prim::device", cpu},
    {"aten::device",
     [](NodeCall& call) {
       call.give(call.at(0).is_string() ? call.at(0) : Item(std::string("cpu")));
       return true;
     }},
    {"prim::type",
     [](NodeCall& call) {
       const std::string& device = call.string_at(0);
       call.give(Item(device.substr(0, device.find(':'))));
       return true;
     }},
    {"prim::index",
     [](NodeCall& call) {
       call.give(Item());
       return true;
     }},
    {"aten::get_device", number<-1>},
    {"prim::grad", nothing},
    {"aten::is_grad_enabled", always<false>},
    {"aten::set_grad_enabled", set_grad_enabled},
    {"aten::is_autocast_enabled", always<false>},
    {"aten::is_autocast_cpu_enabled", always<false>},
    {"aten::get_autocast_dtype", number<15>},
    {"prim::is_tracing", always<false>},
    {"prim::is_scripting", always<true>},
    {"aten::is_scripting", always<true>},
    {"aten::_assert_async", nothing},
    {"aten::_assert_tensor_metadata", nothing},
    {"aten::sym_constrain_range_for_size", nothing},
    {"prim::TimePoint", number<0>},
    {"aten::manual_seed", nothing},
    {"profiler::_record_function_enter", nothing},
    {"profiler::_record_function_enter_new", nothing},
    {"profiler::_record_function_exit", nothing},
    {"prim::Enter", enter},
    {"prim::Exit", leave},
    {"aten::requires_grad_", same_tensor},
    {"aten::wait",
     [](NodeCall& call) {
       call.give(call.at(0));  // fork ran to its end
       return true;
     }},
};

}  // namespace

std::span<const Builtin> fact_builtins() { return kBuiltins; }

}  // namespace hg::convert
