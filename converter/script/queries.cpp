// SPDX-License-Identifier: Apache-2.0
// Queries about tensors and the environment: sizes, dtypes, devices, modes.
#include "converter/rows/complex_pairs.h"
#include "converter/script/script_ops.h"
#include "hg/promotion.h"

namespace hg::convert {
namespace {

TensorType type_of(NodeCall& call, int index = 0) {
  const auto* tensor = std::get_if<TensorRef>(&call.at(index).value);
  if (tensor == nullptr) call.refuse(str_cat(index), "is not a tensor");
  TensorType type = call.memory().type(*tensor);
  if ((*tensor)->is_complex()) type.shape.pop_back();
  return type;
}

bool self_is_complex(NodeCall& call) {
  const auto* tensor = std::get_if<TensorRef>(&call.at(0).value);
  return tensor != nullptr && (*tensor)->is_complex();
}

bool is_tensor(NodeCall& call) { return call.argument_count() > 0 && call.at(0).is_tensor(); }

Item list_of_sizes(const Shape& shape) {
  auto list = std::make_shared<List>();
  for (const Dim& dim : shape) list->items.emplace_back(dim);
  return Item(std::move(list));
}

bool size(NodeCall& call) {
  const Shape shape = type_of(call).shape;
  if (call.argument_count() < 2) {
    call.give(list_of_sizes(shape));
    return true;
  }
  const Result<int> axis = normalize_axis(call.number_at(1), static_cast<int>(shape.size()));
  if (!axis.ok() || shape.empty())
    throw Refusal{
        str_cat("size() of dimension ", call.number_at(1), " of a tensor of shape ", shape), ""};
  call.give(Item(shape[*axis]));
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
  const Scalar answer = is_row_major_at(layout_of(call, tensor), call.memory().type(tensor).shape);
  call.give(item_of(call.memory(), answer));
  return true;
}

Shape strides_of(NodeCall& call) {
  const auto& tensor = std::get<TensorRef>(call.at(0).value);
  Layout layout = layout_of(call, tensor);
  if (!layout.ones_known)
    throw Refusal{"reads strides that are not all known", "read those of a contiguous clone()"};
  return layout.strides;
}

bool stride(NodeCall& call) {
  const Shape strides = strides_of(call);
  if (call.argument_count() < 2) {
    call.give(list_of_sizes(strides));
    return true;
  }
  const Result<int> axis = normalize_axis(call.number_at(1), static_cast<int>(strides.size()));
  require_ok(axis.status());
  call.give(Item(strides[*axis]));
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

bool raise(NodeCall& call) {
  std::string message;
  for (int i = 0; i < call.argument_count() && message.empty(); ++i)
    if (call.at(i).is_string()) message = std::get<std::string>(call.at(i).value);
  throw Raised{message};
}

bool assert_holds(NodeCall& call) {
  const bool has_message = call.argument_count() > 1 && call.at(1).is_string();
  call.environment().require(call.at(0), true,
                             has_message ? std::get<std::string>(call.at(1).value) : "");
  return nothing(call);
}

bool print(NodeCall& call) {
  call.note("print() is left out");
  return nothing(call);
}

bool warning(NodeCall& call) {
  call.note(str_cat("warnings.warn() is left out: ", describe(call.at(0))));
  return nothing(call);
}

bool same_tensor(NodeCall& call) {
  if (!is_tensor(call)) return false;
  call.give(call.at(0));
  return true;
}

bool detached(NodeCall& call) {
  if (!is_tensor(call)) return false;
  call.give(call.environment().detached(call.at(0)));
  return true;
}

bool set_grad_enabled(NodeCall& call) {
  const auto scalar = scalar_of(call.at(0));
  if (!scalar || !scalar->top.is_constant())
    throw Refusal{"whether there are gradients depends on sizes or data", ""};
  call.environment().set_gradients(scalar->top != Dim(0));
  return nothing(call);
}

// Returns the promoted dtype of two tensors or numbers.
bool result_type(NodeCall& call) {
  Promotion promotion;
  for (const int i : {0, 1}) {
    const Item& item = call.at(i);
    const auto* tensor = std::get_if<TensorRef>(&item.value);
    if (tensor != nullptr && (*tensor)->is_complex()) return false;
    if (tensor != nullptr && !(*tensor)->is_number())
      promotion.add_tensor(type_of(call, i).dtype, type_of(call, i).rank());
    else if (tensor != nullptr)
      promotion.add_number((*tensor)->number_dtype());
    else if (item.is_number())
      promotion.add_number(item.is_bool() ? boolean : item.is_int() ? i64 : f64);
    else
      return false;
  }
  call.give(Item(torch_of_dtype(promotion.result())));
  return true;
}

// `with` blocks of torch's no_grad, and of profilers, which only measure.
bool enter(NodeCall& call) {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&call.at(0).value);
  const std::string_view type = object ? std::string_view((*object)->type) : "";
  const bool ends = type.ends_with("grad_mode.no_grad");
  if (!ends && type.find("profiler") == type.npos)
    throw Refusal{str_cat("the context manager ", type, " is not supported"), ""};
  call.environment().begin_gradients(!ends);
  return nothing(call);
}
bool leave(NodeCall& call) {
  call.environment().end_gradients();
  return nothing(call);
}

bool storage_offset(NodeCall& call) {
  call.give(Item(layout_of(call, std::get<TensorRef>(call.at(0).value)).offset));
  return true;
}

bool rank(NodeCall& call) {
  call.give(Item(int64_t{type_of(call).rank()}));
  return true;
}

bool element_count(NodeCall& call) {
  call.give(Item(count(type_of(call).shape)));
  return true;
}

bool element_size(NodeCall& call) {
  call.give(Item(size_of(type_of(call).dtype) * (self_is_complex(call) ? 2 : 1)));
  return true;
}

bool dtype_of_tensor(NodeCall& call) {
  const DType dtype = type_of(call).dtype;
  call.give(Item(self_is_complex(call) ? torch_of_complex(dtype) : torch_of_dtype(dtype)));
  return true;
}

bool is_floating_point(NodeCall& call) {
  call.give(Item(is_float(type_of(call).dtype) && !self_is_complex(call)));
  return true;
}

bool is_complex_tensor(NodeCall& call) {
  call.give(Item(self_is_complex(call)));
  return true;
}

bool is_signed(NodeCall& call) {
  const DType dtype = type_of(call).dtype;
  call.give(Item(dtype != u8 && dtype != boolean));
  return true;
}

bool is_same_size(NodeCall& call) {
  const Shape a = type_of(call).shape, b = type_of(call, 1).shape;
  Scalar same = Scalar::of(a.size() == b.size());
  for (size_t d = 0; d < a.size() && a.size() == b.size(); ++d)
    same = both(same, equal(a[d], b[d]));
  call.give(item_of(call.memory(), same));
  return true;
}

bool device(NodeCall& call) {
  call.give(call.at(0).is_string() ? call.at(0) : Item(std::string("cpu")));
  return true;
}

bool device_type(NodeCall& call) {
  const std::string& device = call.string_at(0);
  call.give(Item(device.substr(0, device.find(':'))));
  return true;
}

bool device_index(NodeCall& call) {
  call.give(Item());
  return true;
}

bool wait(NodeCall& call) {
  call.give(call.at(0));  // the forked call has already run
  return true;
}

constexpr Row kRows[] = {
    {.op = "prim::RaiseException", .script = {raise}},
    {.op = "prim::Print", .complex = OnComplex::refused, .script = {print}, .passes_grown = true},
    {.op = "aten::warn", .script = {warning}},
    {.op = "prim::AutogradZero", .script = {nothing}},
    {.op = "prim::annotate", .script = {same_tensor}},
    {.op = "prim::data", .script = {detached}},
    {.op = "aten::data", .script = {detached}},
    {.op = "prim::shape", .script = {size}},
    {.op = "aten::size", .script = {size}, .script_takes_complex = true, .takes_nested = true},
    {.op = "aten::sym_size", .script = {size}, .script_takes_complex = true},
    {.op = "aten::_shape_as_tensor", .script = {shape_as_tensor}},
    {.op = "aten::stride", .script = {stride}},
    {.op = "aten::sym_stride", .script = {stride}},
    {.op = "aten::storage_offset", .script = {storage_offset}},
    {.op = "aten::dim", .script = {rank}, .script_takes_complex = true, .takes_nested = true},
    {.op = "aten::ndimension", .script = {rank}, .script_takes_complex = true},
    {.op = "aten::numel", .script = {element_count}, .script_takes_complex = true},
    {.op = "aten::sym_numel", .script = {element_count}, .script_takes_complex = true},
    {.op = "aten::result_type", .script = {result_type}},
    {.op = "aten::element_size", .script = {element_size}, .script_takes_complex = true},
    {.op = "prim::dtype", .script = {dtype_of_tensor}},
    {.op = "aten::is_floating_point", .script = {is_floating_point}, .script_takes_complex = true},
    {.op = "aten::is_complex", .script = {is_complex_tensor}, .script_takes_complex = true},
    {.op = "aten::is_signed", .script = {is_signed}},
    {.op = "aten::is_same_size", .script = {is_same_size}},
    {.op = "aten::is_contiguous", .script = {is_contiguous}},
    {.op = "aten::is_neg", .script = {always<false>}},
    {.op = "aten::is_conj", .script = {always<false>}},
    {.op = "aten::is_inference", .script = {always<true>}},
    {.op = "prim::is_cuda", .script = {always<false>}},
    {.op = "prim::is_cpu", .script = {always<true>}},
    {.op = "prim::is_xpu", .script = {always<false>}},
    {.op = "prim::is_mps", .script = {always<false>}},
    {.op = "prim::is_mkldnn", .script = {always<false>}},
    {.op = "prim::is_quantized", .script = {always<false>}},
    {.op = "prim::is_sparse", .script = {always<false>}},
    {.op = "prim::is_meta", .script = {always<false>}},
    {.op = "prim::requires_grad", .script = {always<false>}},
    {.op = "aten::requires_grad", .script = {always<false>}},
    {.op = "prim::is_leaf", .script = {always<true>}},
    {.op = "prim::layout", .script = {number<0>}},
    {.op = "prim::device", .script = {cpu}},
    {.op = "aten::device", .script = {device}},
    {.op = "prim::type", .script = {device_type}},
    {.op = "prim::index", .script = {device_index}},
    {.op = "aten::get_device", .script = {number<-1>}, .script_takes_complex = true},
    {.op = "prim::grad", .script = {nothing}},
    {.op = "aten::is_grad_enabled", .script = {always<false>}},
    {.op = "aten::set_grad_enabled", .script = {set_grad_enabled}},
    {.op = "aten::is_autocast_enabled", .script = {always<false>}},
    {.op = "aten::is_autocast_cpu_enabled", .script = {always<false>}},
    {.op = "aten::get_autocast_dtype", .script = {number<15>}},
    {.op = "prim::is_tracing", .script = {always<false>}},
    {.op = "prim::is_scripting", .script = {always<true>}},
    {.op = "aten::is_scripting", .script = {always<true>}},
    {.op = "aten::_assert_async", .script = {assert_holds}},
    {.op = "aten::_assert_tensor_metadata", .script = {nothing}},
    {.op = "aten::sym_constrain_range_for_size", .script = {nothing}},
    {.op = "prim::TimePoint", .script = {number<0>}},
    {.op = "aten::manual_seed", .script = {nothing}},
    {.op = "profiler::_record_function_enter", .script = {nothing}},
    {.op = "profiler::_record_function_enter_new", .script = {nothing}},
    {.op = "profiler::_record_function_exit", .script = {nothing}},
    {.op = "prim::Enter", .script = {enter}},
    {.op = "prim::Exit", .script = {leave}},
    {.op = "aten::requires_grad_", .script = {same_tensor}, .script_takes_complex = true},
    {.op = "aten::wait", .script = {wait}},
};

}  // namespace

std::span<const Row> query_rows() { return kRows; }

}  // namespace hg::convert
