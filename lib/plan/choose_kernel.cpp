// SPDX-License-Identifier: Apache-2.0
// Selects the first kernel that accepts a node, device kernels before the CPU's. Prepares it once
// per set of sizes.
#include <algorithm>

#include "lib/graph/later_data.h"
#include "lib/graph/registry_watch.h"
#include "lib/graph/symbols.h"
#include "lib/plan/pack_cache.h"
#include "lib/plan/planner.h"

namespace hg {
namespace {

std::string label_of_types(const Node& node, const std::vector<TensorType>& all) {
  std::string types;
  for (size_t i = 0; i < all.size(); ++i) {
    types += i > 0 ? ", " : "";
    types += node.inputs[i] == kNoValue ? "absent" : str_cat(all[i]);
  }
  return types;
}

// Whether the library's kernel of a layer reads its weight, the input 1, only in functions that it
// gives to pack(), and in runs: the weight may be computed later.
bool packs_weight(const KernelDef& kernel) {
  constexpr std::string_view kLayers[] = {"linear", "conv", "conv_channels_last",
                                          "conv_to_channels_last", "conv_dense_channels_last"};
  const auto is_one_of = [](const auto& all, const auto& one) {
    return std::find(std::begin(all), std::end(all), one) != std::end(all);
  };
  return is_one_of(kLayers, kernel.op) &&
         is_one_of(Registry::built_in().kernels(kernel.op, kernel.device), &kernel);
}

}  // namespace

// Most runs of a session that changes states, such as the past of a language model, have few rows.
// Their products read matrices of weights in place, and packed copies for the others would take as
// much memory again.
bool Planner::reads_in_place(const Node& node) const {
  const SessionOptions& options = *request_.options;
  if (options.low_memory) return true;
  if (!is_stateful_ || options.precision == Precision::bf16 ||
      (node.op->def.traits & kProduct) == 0)
    return false;
  const TensorType& weights = graph_.value_info(node.inputs[1]).type;
  return weights.dtype == f32 && weights.rank() == 2;
}

PrepareContext::Call Planner::call_of(const Node& node, const PreparedNode& concrete,
                                      Side side) const {
  const auto index = static_cast<size_t>(graph_.value_info(node.outputs[0]).node);
  const bool is_alone = request_.alone != nullptr && (*request_.alone)[index];
  const bool on_device = side == Side::device;
  PrepareContext::Call call{
      .attrs = AttrReader(node.op, concrete.attrs),
      .ids = node.inputs,
      .label = label(graph_, node),
      .threads = is_alone ? 1 : request_.threads,
      .precision = request_.options->precision,
      .low_memory = !on_device && reads_in_place(node),
      .packs = request_.packs,
      .device = on_device ? request_.device : nullptr,
  };
  for (const ValueId id : node.inputs) call.given.push_back(id != kNoValue);
  call.inputs.resize(node.inputs.size());
  return call;
}

void Planner::set_tensors(const Node& node, const PreparedNode& concrete, const KernelDef& kernel,
                          PrepareContext::Call& call) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (id == kNoValue) continue;
    Tensor& tensor = call.inputs[i];
    const void* data = nullptr;
    if (const PlacedTensor* const here = plan_.find(id, side_of(kernel));
        here != nullptr && constant_data(*here) == nullptr) {
      tensor = here->tensor;
    } else {
      const PlacedTensor value = input_for(kernel, node, i);
      tensor =
          value.place.kind == Place::Kind::fixed ? value.tensor : expected(id, side_of(kernel));
      data = constant_data(value);
      if (value.place.kind == Place::Kind::state && !(i == 1 && packs_weight(kernel)))
        compute_now(graph_, body_.states[static_cast<size_t>(value.place.index)].data);
    }
    if (!wants_any_strides(kernel, i) && !tensor.is_contiguous())
      tensor = unplaced(tensor.dtype, tensor.shape);
    else if (data != nullptr && !varies(id))
      tensor.data = const_cast<void*>(data);
  }
  call.outputs.clear();
  for (const TensorType& type : concrete.output_types)
    call.outputs.push_back(unplaced(type.dtype, concrete.known ? sizes_of(type) : Sizes()));
}

PlacedTensor Planner::input_for(const KernelDef& kernel, const Node& node, size_t i) {
  const PlacedTensor* const here = plan_.find(node.inputs[i], side_of(kernel));
  PlacedTensor value = here != nullptr ? *here : placed(node.inputs[i]);
  const void* data = constant_data(value);
  if (data == nullptr || wants_any_strides(kernel, i) || value.tensor.is_contiguous()) return value;
  Tensor from = value.tensor;
  from.data = const_cast<void*>(data);
  // A view of a constant may have other sizes in the next plan, so each layout has its own copy.
  const void* packed = request_.packs->pack(
      str_cat("contiguous ", from.shape, from.strides, value.place.offset), node.inputs[i],
      from.bytes(), [&from](void* to) { copy_elements(from, view(to, from.dtype, from.shape)); },
      true);
  if (packed == nullptr) return value;
  value.tensor = unplaced(from.dtype, from.shape);
  value.place = {Place::Kind::fixed, side_of(kernel), 0, 0, -1, packed};
  return value;
}

bool Planner::allowed(const KernelDef& kernel) const {
  if (request_.distrusted != nullptr && side_of(kernel) == Side::device &&
      request_.distrusted->count(str_cat(kernel.op, "=", kernel.name)) > 0)
    return false;
  for (const std::string& choice : request_.options->kernels) {
    const size_t equals = choice.find('=');
    if (choice.substr(0, equals) == kernel.op)
      return equals != std::string::npos && choice.substr(equals + 1) == kernel.name;
  }
  return true;
}

Result<Step> Planner::choose_kernel(int32_t index, const Node& node, PreparedNode& prepared,
                                    Side most) {
  if (node.op->def.traits & kControl) return control_step(index, node);
  if (!is_prepared(node, prepared)) HG_TRY(prepare_kernel(index, node, prepared, most));
  if (!prepared.remark.empty()) plan_.remarks.push_back(prepared.remark);
  Step step = *prepared.step;
  const Side side = side_of(*step.kernel);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) {
      step.inputs.emplace_back();
      continue;
    }
    PlacedTensor in = input_for(*step.kernel, node, i);
    if (in.place.kind != Place::Kind::fixed) {
      HG_TRY_ASSIGN(in, at(node.inputs[i], side));
    }
    if (!wants_any_strides(*step.kernel, i) && !in.tensor.is_contiguous()) {
      HG_TRY_ASSIGN(in, contiguous(in, node.inputs[i]));
      if (request_.ranged) copies_read_[i] = copy_steps_[node.inputs[i]];
    }
    step.inputs.push_back(in);
  }
  if (prepared.workspace > 0) step.workspace = blocks_.add("workspace", prepared.workspace, side);
  return step;
}

bool Planner::is_prepared(const Node& node, const PreparedNode& prepared) const {
  if (!prepared.step) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const PlacedTensor& before = prepared.inputs[i];
    const Tensor now = expected(node.inputs[i], side_of(*prepared.step->kernel));
    if (!(before.tensor.strides == now.strides) ||
        before.place.kind != placed(node.inputs[i]).place.kind)
      return false;
  }
  return true;
}

Status Planner::prepare_kernel(int32_t index, const Node& node, PreparedNode& prepared, Side most) {
  std::vector<const KernelDef*> kernels;
  const auto add = [&](std::span<const KernelDef* const> rows) {
    kernels.insert(kernels.end(), rows.begin(), rows.end());
  };
  const bool has_device = request_.device != nullptr && most == Side::device;
  if (has_device) add(device_kernels(*node.op));
  const size_t of_device = kernels.size();
  add(request_.registry->kernels(node.op->name(), Device::cpu));
  if (request_.preferred != nullptr) {
    const auto preferred = request_.preferred->find(index);
    if (preferred != request_.preferred->end())
      std::stable_partition(
          kernels.begin() + static_cast<std::ptrdiff_t>(of_device), kernels.end(),
          [&](const KernelDef* kernel) { return kernel->name == preferred->second; });
  }
  prepared.remark.clear();
  for (size_t k = 0; k < kernels.size(); ++k) {
    const KernelDef* const kernel = kernels[k];
    const bool on_device = k < of_device;
    if (k == of_device && has_device) prepared.remark = remark(node, prepared, of_device > 0);
    if (!allowed(*kernel)) continue;
    PrepareContext::Call call = call_of(node, prepared, side_of(*kernel));
    set_tensors(node, prepared, *kernel, call);
    PrepareContext context(std::move(call));
    if (on_device && !fits_device(context)) continue;
    if (kernel->accepts != nullptr && !kernel->accepts(context)) continue;
    if (kernel->prepare != nullptr) {
      const Status made = kernel->prepare(context);
      if (on_device && made.code() == Code::unsupported) continue;
      HG_TRY(made);
    }
    RegistryWatch::note_kernel(*request_.registry, kernel->op, kernel->name);
    Step& step = prepared.step.emplace();
    step.kernel = kernel;
    step.node = index;
    step.label = context.label();
    step.state = context.shared_state();
    count_work(node, prepared, context, step);
    prepared.workspace = context.workspace();
    prepared.inputs.clear();
    for (const ValueId id : node.inputs) {
      prepared.inputs.emplace_back();
      if (id == kNoValue) continue;
      prepared.inputs.back() = {expected(id, side_of(*kernel)), placed(id).place};
    }
    return {};
  }
  return no_kernel(index, prepared);
}

Status Planner::no_kernel(int32_t index, const PreparedNode& prepared) {
  const Node& node = body_.nodes[index];
  if (node.op->def.expand != nullptr) *expand_node_ = index;
  return unsupported(label(graph_, node), ": no CPU kernel takes ",
                     label_of_types(node, prepared.input_types));
}

Status Planner::check_later_nodes() {
  for (size_t index = plan_.next_node; index < body_.nodes.size(); ++index) {
    const Node& node = body_.nodes[index];
    if (node.op->def.expand == nullptr) continue;
    PreparedNode prepared;
    bool known = true;
    for (const Attr& attr : node.attrs) {
      prepared.attrs.push_back(with_numbers(attr, plan_.bindings));
      known &= !has_symbol(prepared.attrs.back());
    }
    const auto type_of = [&](ValueId id) {
      TensorType type = graph_.value_info(id).type;
      for (Dim& dim : type.shape) {
        dim = dim.substitute(plan_.bindings);
        known &= dim.is_constant();
      }
      return type;
    };
    PrepareContext::Call call{.attrs = AttrReader(node.op, prepared.attrs),
                              .ids = node.inputs,
                              .label = label(graph_, node),
                              .threads = request_.threads,
                              .precision = request_.options->precision,
                              .low_memory = reads_in_place(node)};
    for (const ValueId id : node.inputs) {
      const bool given = id != kNoValue;
      const TensorType type = given ? type_of(id) : TensorType();
      prepared.input_types.push_back(type);
      call.given.push_back(given);
      call.inputs.push_back(known && given ? unplaced(type.dtype, sizes_of(type)) : Tensor());
    }
    for (const ValueId id : node.outputs) {
      const TensorType type = type_of(id);
      call.outputs.push_back(known ? unplaced(type.dtype, sizes_of(type)) : Tensor());
    }
    if (!known) continue;
    const PrepareContext on_host(call);
    call.device = request_.device;
    const PrepareContext on_device(std::move(call));
    const auto takes = [&](const KernelDef* kernel) {
      return allowed(*kernel) &&
             (kernel->accepts == nullptr ||
              kernel->accepts(side_of(*kernel) == Side::device ? on_device : on_host));
    };
    const auto host = request_.registry->kernels(node.op->name(), Device::cpu),
               device = device_kernels(*node.op);
    if (std::none_of(host.begin(), host.end(), takes) &&
        std::none_of(device.begin(), device.end(), takes))
      return no_kernel(static_cast<int32_t>(index), prepared);
  }
  return {};
}

std::span<const KernelDef* const> Planner::device_kernels(const Op& op) const {
  if (request_.device == nullptr) return {};
  return kernels_of(request_.options->gpu, *request_.registry, op);
}

bool Planner::fits_device(const PrepareContext& context) const {
  const auto fits = [&](const Tensor& tensor) {
    int64_t last = 0;
    for (int d = 0; d < tensor.rank(); ++d)
      last += (tensor.shape[d] - 1) * std::abs(tensor.strides[d]);
    return tensor.count() == 0 ||
           ((last + 1) * size_of(tensor.dtype) + 256 <= request_.device->max_binding_bytes &&
            std::max(last, tensor.count()) < (int64_t{1} << 31) - 1024);
  };
  return std::all_of(context.inputs().begin(), context.inputs().end(), fits) &&
         std::all_of(context.outputs().begin(), context.outputs().end(), fits);
}

std::string Planner::remark(const Node& node, const PreparedNode& prepared,
                            bool has_kernels) const {
  return str_cat(
      label(graph_, node), " runs on the CPU: ",
      has_kernels ? "no kernel of the device takes " : "the device has no kernel for it: ",
      label_of_types(node, prepared.input_types));
}

void Planner::count_work(const Node& node, const PreparedNode& concrete,
                         const PrepareContext& context, Step& step) {
  std::vector<Sizes>& sizes = sizes_;
  sizes.clear();
  for (const Tensor& tensor : context.inputs()) sizes.push_back(tensor.shape);
  for (const Tensor& tensor : context.outputs()) sizes.push_back(tensor.shape);
  const std::span<const Sizes> in(sizes.data(), context.inputs().size());
  const std::span<const Sizes> out = std::span<const Sizes>(sizes).subspan(in.size());
  step.flops = 0;
  step.bytes = 0;
  if (node.op->def.flops != nullptr) {
    step.flops = node.op->def.flops(in, out, AttrReader(node.op, concrete.attrs));
  } else {
    for (const Sizes& each : out) step.flops += static_cast<double>(each.count());
  }
  for (size_t i = 0; i < context.inputs().size(); ++i)
    if (context.has(static_cast<int>(i))) step.bytes += context.inputs()[i].bytes();
  for (const Tensor& tensor : context.outputs()) step.bytes += tensor.bytes();
}

}  // namespace hg
