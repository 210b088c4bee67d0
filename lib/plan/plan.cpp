// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/run/backend.h"

namespace hg {
namespace {

Attr with_numbers(const Attr& attr, const Bindings& bindings) {
  if (const Dim* dim = std::get_if<Dim>(&attr.value)) return dim->substitute(bindings);
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value)) {
    std::vector<Dim> numbers;
    for (const Dim& dim : *dims) numbers.push_back(dim.substitute(bindings));
    return numbers;
  }
  return attr;
}

bool has_symbols(const Attr& attr) {
  if (const Dim* dim = std::get_if<Dim>(&attr.value)) return !dim->is_constant();
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value)) return !is_constant(*dims);
  return false;
}

TensorType type_of(const Tensor& tensor) { return {tensor.dtype, to_shape(tensor.shape)}; }

// A contiguous tensor that has no memory yet.
Tensor unplaced(DType dtype, const Sizes& shape) {
  return view(static_cast<void*>(nullptr), dtype, shape);
}

bool wants_any_strides(const KernelDef& kernel, size_t input) {
  return (kernel.strided >> std::min<size_t>(input, 31)) & 1u;
}

class Planner {
 public:
  Planner(const PlanRequest& request, int32_t* expand_node)
      : request_(request), graph_(*request.graph), body_(GraphAccess::body(graph_)),
        expand_node_(expand_node) {
    if (request.device != nullptr) device_packs_.emplace(*request.device, request.packs);
  }

  Result<Plan> make() {
    plan_.bindings = request_.bindings;
    if (request_.previous != nullptr) {
      plan_.part = request_.previous->part + 1;
      plan_.first_node = request_.previous->next_node;
      for (const Side side : kSides) values(side) = request_.previous->values[size_t(side)];
    } else {
      HG_TRY(place_inputs_and_states());
    }
    if (request_.schedule != nullptr) {
      plan_.schedule = *request_.schedule;
    } else {
      for (size_t i = plan_.first_node; i < body_.nodes.size(); ++i)
        plan_.schedule.push_back(static_cast<int32_t>(i));
    }
    find_last_uses();
    plan_.next_node = body_.nodes.size();
    for (position_ = 0; position_ < static_cast<int>(plan_.schedule.size()); ++position_) {
      const int32_t index = plan_.schedule[static_cast<size_t>(position_)];
      bool known = true;
      HG_TRY(plan_node(index, known));
      if (known) continue;
      plan_.next_node = static_cast<size_t>(index);
      plan_.schedule.resize(static_cast<size_t>(position_));
    }
    HG_TRY(separate_assignments());
    count_repeated();
    end_lifetimes();
    place_blocks();
    return std::move(plan_);
  }

 private:
  using Types = std::vector<TensorType>;

  // -- Values -------------------------------------------------------------------------------------

  Status place_inputs_and_states() {
    for (size_t i = 0; i < body_.inputs.size(); ++i) {
      const ValueInfo& info = graph_.value_info(body_.inputs[i]);
      HG_TRY_ASSIGN(const Sizes shape, evaluate(info.type.shape, plan_.bindings));
      values(Side::host)[body_.inputs[i]] = {unplaced(info.type.dtype, shape),
                                             Place::of_input(static_cast<int32_t>(i))};
    }
    // A state that runs change lives on the device when there is one; the others on both sides.
    for (size_t i = 0; i < body_.states.size(); ++i) {
      const Tensor& tensor = body_.states[i].data.tensor;
      for (const Side side : kSides) {
        const bool here = side == Side::device ? request_.device != nullptr
                                               : request_.device == nullptr ||
                                                     !(*request_.mutable_states)[i];
        if (here)
          values(side)[body_.states[i].value] = {unplaced(tensor.dtype, tensor.shape),
                                                 Place::of_state(static_cast<int32_t>(i), side)};
      }
    }
    return {};
  }

  // Positions of the schedule; a result that is computed again has last uses of its own, which
  // stand in next_last_uses_ until then.
  void find_last_uses() {
    constexpr int kForever = std::numeric_limits<int>::max();
    last_use_.assign(body_.values.size(), -1);
    for (const auto& [name, id] : body_.outputs) last_use_[static_cast<size_t>(id)] = kForever;
    for (const auto& [target, source] : body_.assignments)
      last_use_[static_cast<size_t>(source)] = kForever;
    next_last_uses_.resize(plan_.schedule.size());
    for (size_t position = plan_.schedule.size(); position-- > 0;) {
      const Node& node = body_.nodes[static_cast<size_t>(plan_.schedule[position])];
      for (const ValueId id : node.outputs)
        next_last_uses_[position].push_back(std::exchange(last_use_[static_cast<size_t>(id)], -1));
      for (const ValueId id : node.inputs) {
        if (id == kNoValue) continue;
        int& last = last_use_[static_cast<size_t>(id)];
        last = std::max(last, static_cast<int>(position));
      }
    }
    state_last_use_.assign(body_.states.size(), -1);
    for (const Side side : kSides)
      for (const auto& [id, value] : values(side)) note_use_of_state(id, value);
  }

  // From here on the node's results are those of this position.
  void begin_results(const Node& node) {
    const std::vector<int>& last = next_last_uses_[static_cast<size_t>(position_)];
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      last_use_[static_cast<size_t>(node.outputs[i])] =
          request_.options->keep_all_values ? std::numeric_limits<int>::max() : last[i];
      for (const Side side : kSides) {
        copies_[static_cast<size_t>(side)].erase(node.outputs[i]);
        values(side).erase(node.outputs[i]);
      }
    }
  }

  void note_use_of_state(ValueId id, const PlacedTensor& value) {
    if (value.place.kind != Place::Kind::state) return;
    int& last = state_last_use_[static_cast<size_t>(value.place.index)];
    last = std::max(last, last_use_[static_cast<size_t>(id)]);
  }

  std::unordered_map<ValueId, PlacedTensor>& values(Side side) {
    return plan_.values[static_cast<size_t>(side)];
  }

  // The value where it lies; on the host when it lies on both sides.
  const PlacedTensor& placed(ValueId id) const {
    const PlacedTensor* const host = plan_.find(id, Side::host);
    return host != nullptr ? *host : *plan_.find(id, Side::device);
  }

  // The node that makes the value by looking at an input or a constant in another way, or null.
  // These keep their memory, so that they can be looked at again.
  const Node* view_node(ValueId id) const {
    const int32_t index = graph_.value_info(id).node;
    if (index < 0) return nullptr;
    const Node& node = body_.nodes[static_cast<size_t>(index)];
    if (node.op->def.view == nullptr) return nullptr;
    const ValueInfo& base = graph_.value_info(node.inputs[0]);
    if (base.node >= 0) return view_node(node.inputs[0]) != nullptr ? &node : nullptr;
    const bool moves = base.state >= 0 && (*request_.mutable_states)[size_t(base.state)];
    return moves ? nullptr : &node;
  }

  // What `view` makes of a tensor; nothing when it needs a contiguous one.
  std::optional<PlacedTensor> viewed(const Node& node, const PlacedTensor& in, const Sizes& shape,
                                     DType dtype) const {
    std::vector<Attr> attrs;
    for (const Attr& attr : node.attrs) attrs.push_back(with_numbers(attr, plan_.bindings));
    ViewContext context(AttrReader(node.op, attrs), in.tensor.shape, in.tensor.strides, shape);
    if (!node.op->def.view(context)) return std::nullopt;
    PlacedTensor out = in;
    out.tensor = {nullptr, dtype, shape, context.out_strides()};
    out.place.offset += context.offset() * size_of(in.tensor.dtype);
    return out;
  }

  // The tensor that at() would give, without planning a transfer.
  Tensor expected(ValueId id, Side side) const {
    if (const PlacedTensor* here = plan_.find(id, side)) return here->tensor;
    const Tensor& there = placed(id).tensor;
    const Tensor copied = unplaced(there.dtype, there.shape);
    const Node* const view = view_node(id);
    if (view == nullptr) return copied;
    const PlacedTensor in{expected(view->inputs[0], side), {}};
    const std::optional<PlacedTensor> out = viewed(*view, in, there.shape, there.dtype);
    return out ? out->tensor : copied;
  }

  // The value on this side; where it is not there yet, a transfer is planned. A view is made again
  // from its input instead.
  Result<PlacedTensor> at(ValueId id, Side side) {
    if (const PlacedTensor* here = plan_.find(id, side)) return *here;
    const PlacedTensor there = *plan_.find(id, other(side));
    if (const Node* const view = view_node(id)) {
      const PlacedTensor in{expected(view->inputs[0], side), {}};
      if (viewed(*view, in, there.tensor.shape, there.tensor.dtype)) {
        HG_TRY_ASSIGN(const PlacedTensor base, at(view->inputs[0], side));
        const PlacedTensor out = *viewed(*view, base, there.tensor.shape, there.tensor.dtype);
        record(id, out);
        return out;
      }
    }
    PlacedTensor from = there;
    if (!from.tensor.is_contiguous()) {
      HG_TRY_ASSIGN(from, contiguous(there, id));
    }
    PlacedTensor to{unplaced(from.tensor.dtype, from.tensor.shape), {}};
    if (side == Side::device && from.place.kind == Place::Kind::input && from.place.offset == 0 &&
        graph_.value_info(id).node < 0)
      to.place = Place::of_input(from.place.index, side);
    else
      to.place = new_block(graph_.value_info(id).name, to.tensor.bytes(), side);
    add_transfer(side == Side::device ? StepKind::upload : StepKind::download, id, from, to);
    record(id, to);
    return to;
  }

  void add_transfer(StepKind kind, ValueId id, const PlacedTensor& from, const PlacedTensor& to) {
    constexpr std::string_view kWords[] = {"", "", "upload", "download", "copy"};
    Step step;
    step.kind = kind;
    step.label = text(kWords[static_cast<size_t>(kind)], " '", graph_.value_info(id).name, "'");
    step.inputs = {from};
    step.outputs = {to};
    step.bytes = 2 * to.tensor.bytes();
    extend(from, step_count());
    extend(to, step_count());
    plan_.steps.push_back(std::move(step));
  }

  // The bytes of a constant tensor, or null.
  const void* constant_data(const PlacedTensor& value) const {
    if (value.place.kind == Place::Kind::fixed) return value.place.address;
    if (value.place.kind != Place::Kind::state) return nullptr;
    const auto index = static_cast<size_t>(value.place.index);
    if ((*request_.mutable_states)[index]) return nullptr;
    return body_.states[index].data.tensor.as<std::byte>() + value.place.offset;
  }

  // -- Nodes --------------------------------------------------------------------------------------

  Status concretize(const Node& node, PreparedNode& c) {
    for (const Attr& attr : node.attrs) {
      c.attrs.push_back(with_numbers(attr, plan_.bindings));
      HG_CHECK(!has_symbols(c.attrs.back()), label(graph_, node), ": the size ", c.attrs.back(),
               " is not known");
    }
    c.input_types.resize(node.inputs.size());
    GraphAccess::InferCall call = GraphAccess::infer_call(graph_, node);
    call.attrs = c.attrs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      c.input_types[i] = type_of(placed(node.inputs[i]).tensor);
      call.inputs[i] = &c.input_types[i];
    }
    for (const Dim& dim : GraphAccess::fresh_symbols(graph_, node)) {
      call.fresh.push_back(dim.substitute(plan_.bindings));
      c.known &= call.fresh.back().is_constant();
    }
    Result<Types> types = GraphAccess::infer(call);
    if (!types.ok())
      return Status(types.status().code(),
                    text("with ", bound_sizes(), ": ", types.status().message()));
    c.output_types = *std::move(types);
    if (!c.known) return {};
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueInfo& info = graph_.value_info(node.outputs[i]);
      HG_TRY_ASSIGN(const Sizes expected, evaluate(info.type.shape, plan_.bindings));
      HG_CHECK(c.output_types[i].shape == to_shape(expected), label(graph_, node), ": with ",
               bound_sizes(), " the result '", info.name, "' is ", c.output_types[i].shape,
               ", but the model was built for ", info.type.shape, " = ", expected);
    }
    return {};
  }

  std::string bound_sizes() const {
    std::string out;
    for (const auto& [symbol, value] : plan_.bindings.all())
      out += text(out.empty() ? "" : ", ", symbol, "=", value);
    return out.empty() ? "these sizes" : out;
  }

  Status plan_node(int32_t index, bool& known) {
    const Node& node = body_.nodes[static_cast<size_t>(index)];
    PreparedNodes& all = request_.prepared != nullptr ? *request_.prepared : prepared_;
    const auto [entry, is_new] = all.try_emplace(index);
    PreparedNode& prepared = entry->second;
    if (is_new) {
      const Status status = concretize(node, prepared);
      if (!status.ok()) all.erase(index);
      HG_TRY(status);
    }
    known = prepared.known;
    if (!known) return plan_measure(index, node, prepared);
    begin_results(node);
    if (node.op->def.view != nullptr) return plan_view(node, prepared);
    HG_TRY_ASSIGN(Step step, choose_kernel(index, node, prepared));
    return add_outputs(node, prepared, std::move(step));
  }

  Status plan_view(const Node& node, const PreparedNode& concrete) {
    const Sizes shape = sizes_of(concrete.output_types[0]);
    const DType dtype = concrete.output_types[0].dtype;
    const PlacedTensor in = placed(node.inputs[0]);
    std::optional<PlacedTensor> out = viewed(node, in, shape, dtype);
    if (!out) {
      HG_TRY_ASSIGN(const PlacedTensor copy, contiguous(in, node.inputs[0]));
      out = viewed(node, copy, shape, dtype);
    }
    if (!out) return internal(label(graph_, node), ": no view of a contiguous ", in.tensor.shape);
    record(node.outputs[0], *out);
    // Where the input lies on both sides, so does the view.
    if (const PlacedTensor* twin = plan_.find(node.inputs[0], other(out->place.side))) {
      const std::optional<PlacedTensor> view = viewed(node, *twin, shape, dtype);
      if (view) record(node.outputs[0], *view);
    }
    return {};
  }

  static Sizes sizes_of(const TensorType& type) {
    Sizes sizes;
    for (const Dim& dim : type.shape) sizes.push_back(dim.constant());
    return sizes;
  }

  Status plan_measure(int32_t index, const Node& node, PreparedNode& concrete) {
    if (!(node.op->def.traits & kControl)) {
      HG_TRY_ASSIGN(Step step, choose_kernel(index, node, concrete, Side::host));
      if (step.kernel->measure == nullptr)
        return internal(label(graph_, node), ": its kernel '", step.kernel->name,
                        "' does not measure");
      plan_.measure = std::move(step);
    } else {
      HG_TRY_ASSIGN(plan_.measure, control_step(index, node));
    }
    for (const PlacedTensor& in : plan_.measure->inputs) extend(in, step_count());
    return {};
  }

  Result<Step> control_step(int32_t index, const Node& node) {
    Step step;
    step.kind = StepKind::control;
    step.node = index;
    step.label = label(graph_, node);
    for (const ValueId id : node.inputs) {
      step.inputs.emplace_back();
      if (id == kNoValue) continue;
      HG_TRY_ASSIGN(step.inputs.back(), at(id, Side::host));
    }
    return step;
  }

  // -- Kernels ------------------------------------------------------------------------------------

  PrepareContext prepare_context(const Node& node, const PreparedNode& concrete,
                                 const KernelDef& kernel) {
    PrepareContext context(AttrReader(node.op, concrete.attrs));
    context.label_ = label(graph_, node);
    context.threads_ = request_.threads;
    context.packs_ = request_.packs;
    if (side_of(kernel) == Side::device) context.packs_ = &*device_packs_;
    context.ids_ = node.inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool given = node.inputs[i] != kNoValue;
      context.has_.push_back(given);
      if (!given) {
        context.inputs_.emplace_back();
        continue;
      }
      const PlacedTensor value = input_for(kernel, node, i);
      Tensor tensor = value.place.kind == Place::Kind::fixed
                          ? value.tensor
                          : expected(node.inputs[i], side_of(kernel));
      if (wants_any_strides(kernel, i) || tensor.is_contiguous())
        tensor.data = const_cast<void*>(constant_data(value));
      else
        tensor = unplaced(tensor.dtype, tensor.shape);
      context.inputs_.push_back(tensor);
    }
    for (const TensorType& type : concrete.output_types)
      context.outputs_.push_back(
          unplaced(type.dtype, concrete.known ? sizes_of(type) : Sizes()));
    return context;
  }

  static Side side_of(const KernelDef& kernel) {
    return kernel.device == Device::cpu ? Side::host : Side::device;
  }

  // The input as it is; a constant that this kernel needs contiguous is copied once for the session.
  PlacedTensor input_for(const KernelDef& kernel, const Node& node, size_t i) {
    const PlacedTensor* const here = plan_.find(node.inputs[i], side_of(kernel));
    PlacedTensor value = here != nullptr ? *here : placed(node.inputs[i]);
    const void* data = constant_data(value);
    if (data == nullptr || wants_any_strides(kernel, i) || value.tensor.is_contiguous())
      return value;
    Tensor from = value.tensor;
    from.data = const_cast<void*>(data);
    // A view of a constant may have other sizes in the next plan: each layout has its own copy.
    const void* packed = request_.packs->pack(
        text("contiguous ", from.shape, from.strides), node.inputs[i], from.bytes(),
        [](void* arg, void* to) {
          const Tensor& source = *static_cast<const Tensor*>(arg);
          copy(source, view(to, source.dtype, source.shape));
        },
        &from);
    if (packed == nullptr) return value;
    value.tensor = unplaced(from.dtype, from.shape);
    value.place = {Place::Kind::fixed, side_of(kernel), 0, 0, -1, packed};
    return value;
  }

  bool allowed(const KernelDef& kernel) const {
    for (const std::string& choice : request_.options->kernels) {
      const size_t equals = choice.find('=');
      if (choice.substr(0, equals) == kernel.op)
        return equals != std::string::npos && choice.substr(equals + 1) == kernel.name;
    }
    return true;
  }

  // The device's kernels are tried first; `most` is the host where only the CPU can serve.
  Result<Step> choose_kernel(int32_t index, const Node& node, PreparedNode& prepared,
                             Side most = Side::device) {
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
      }
      step.inputs.push_back(in);
    }
    if (prepared.workspace > 0) step.workspace = new_block("workspace", prepared.workspace, side);
    return step;
  }

  // Whether the kernel that was chosen before has seen the inputs as they lie now.
  bool is_prepared(const Node& node, const PreparedNode& prepared) const {
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

  Status prepare_kernel(int32_t index, const Node& node, PreparedNode& prepared, Side most) {
    std::vector<const KernelDef*> kernels;
    const auto add = [&](Device device) {
      const auto row = request_.registry->kernels(node.op->name(), device);
      kernels.insert(kernels.end(), row.begin(), row.end());
    };
    const bool has_device = request_.device != nullptr && most == Side::device;
    if (has_device) add(Device::vulkan);
    const size_t of_device = kernels.size();
    add(Device::cpu);
    prepared.remark.clear();
    for (size_t k = 0; k < kernels.size(); ++k) {
      const KernelDef* const kernel = kernels[k];
      const bool on_device = k < of_device;
      if (k == of_device && has_device) prepared.remark = remark(node, prepared, of_device > 0);
      if (!allowed(*kernel)) continue;
      PrepareContext context = prepare_context(node, prepared, *kernel);
      if (on_device && !fits_device(context)) continue;
      if (kernel->accepts != nullptr && !kernel->accepts(context)) continue;
      if (kernel->prepare != nullptr) {
        const Status made = kernel->prepare(context);
        if (on_device && made.code() == Code::unsupported) continue;
        HG_TRY(made);
      }
      Step& step = prepared.step.emplace();
      step.kernel = kernel;
      step.node = index;
      step.label = context.label_;
      step.state = context.state_;
      count_work(node, prepared, context, step);
      prepared.workspace = context.workspace_;
      prepared.inputs.clear();
      for (const ValueId id : node.inputs) {
        prepared.inputs.emplace_back();
        if (id == kNoValue) continue;
        prepared.inputs.back() = {expected(id, side_of(*kernel)), placed(id).place};
      }
      return {};
    }
    if (node.op->def.expand != nullptr) *expand_node_ = index;
    return unsupported(label(graph_, node), ": no CPU kernel takes ",
                       label_of_types(prepared.input_types));
  }

  // Device kernels count elements in 32 bits, and bind each tensor as a whole.
  bool fits_device(const PrepareContext& context) const {
    const auto fits = [&](const Tensor& tensor) {
      int64_t last = 0;
      for (int d = 0; d < tensor.rank(); ++d) last += (tensor.shape[d] - 1) * std::abs(tensor.strides[d]);
      return tensor.count() == 0 ||
             ((last + 1) * size_of(tensor.dtype) + 256 <= request_.device->max_binding_bytes &&
              std::max(last, tensor.count()) < (int64_t{1} << 31) - 1024);
    };
    return std::all_of(context.inputs_.begin(), context.inputs_.end(), fits) &&
           std::all_of(context.outputs_.begin(), context.outputs_.end(), fits);
  }

  static std::string label_of_types(const std::vector<TensorType>& all) {
    std::string types;
    for (const TensorType& type : all) types += text(types.empty() ? "" : ", ", type);
    return types;
  }

  // Why a node is not on the device.
  std::string remark(const Node& node, const PreparedNode& prepared, bool has_kernels) const {
    return text(label(graph_, node), " runs on the CPU: ",
                has_kernels ? "no kernel of the device takes "
                            : "the device has no kernel for it: ",
                label_of_types(prepared.input_types));
  }

  void count_work(const Node& node, const PreparedNode& concrete, const PrepareContext& context,
                  Step& step) {
    std::vector<Sizes> in, out;
    for (const Tensor& tensor : context.inputs_) in.push_back(tensor.shape);
    for (const Tensor& tensor : context.outputs_) out.push_back(tensor.shape);
    if (node.op->def.flops != nullptr) {
      step.flops = node.op->def.flops(in, out, AttrReader(node.op, concrete.attrs));
    } else {
      for (const Sizes& sizes : out) step.flops += static_cast<double>(sizes.count());
    }
    for (size_t i = 0; i < context.inputs_.size(); ++i)
      if (context.has_[i]) step.bytes += context.inputs_[i].bytes();
    for (const Tensor& tensor : context.outputs_) step.bytes += tensor.bytes();
  }

  Status add_outputs(const Node& node, const PreparedNode& concrete, Step step) {
    const int at = step_count();
    for (const PlacedTensor& in : step.inputs) extend(in, at);
    if (step.workspace.block >= 0) extend_block(step.workspace.block, at);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorType& type = concrete.output_types[i];
      PlacedTensor out{unplaced(type.dtype, sizes_of(type)), {}};
      out.place = memory_of_input(node, step, i, out.tensor);
      if (out.place.kind == Place::Kind::none)
        out.place = new_block(graph_.value_info(node.outputs[i]).name, out.tensor.bytes(),
                              step.on_device() ? Side::device : Side::host);
      extend(out, at);
      record(node.outputs[i], out);
      step.outputs.push_back(out);
    }
    plan_.steps.push_back(std::move(step));
    return {};
  }

  // The memory of an input that dies here, when this output may take it.
  Place memory_of_input(const Node& node, const Step& step, size_t output,
                        const Tensor& out) const {
    if (request_.options->keep_all_values) return {};
    const bool in_place = node.op->def.traits & kInPlace;
    if (output > 0 && !in_place) return {};
    size_t given = 0;
    for (size_t i = 0; i < step.inputs.size() && i < 32; ++i) {
      if (node.inputs[i] == kNoValue) continue;
      if (in_place ? given++ != output : !((node.op->def.alias >> i) & 1u)) continue;
      const PlacedTensor& in = step.inputs[i];
      if (in.place.offset != 0 || !in.tensor.is_contiguous() || in.tensor.bytes() != out.bytes() ||
          is_read_beside(step, i))
        continue;
      if (in.place.kind == Place::Kind::state) {
        const auto state = static_cast<size_t>(in.place.index);
        if (is_assigned(node.outputs[output], body_.states[state].value) &&
            state_last_use_[state] <= position_)
          return in.place;
      }
      if (in.place.kind != Place::Kind::arena || in.place.index != plan_.part) continue;
      const Block& block = plan_.blocks[static_cast<size_t>(in.place.block)];
      if (block.lifetime.bytes == out.bytes() && last_use_of_block(in.place.block) <= position_)
        return in.place;
    }
    return {};
  }

  bool is_assigned(ValueId source, ValueId target) const {
    return std::find(body_.assignments.begin(), body_.assignments.end(),
                     std::pair(target, source)) != body_.assignments.end();
  }

  // Whether another input of the step lies in the same memory but is not the same tensor.
  static bool is_read_beside(const Step& step, size_t input) {
    const PlacedTensor& one = step.inputs[input];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const PlacedTensor& other = step.inputs[i];
      if (i == input || other.place.kind != one.place.kind ||
          other.place.block != one.place.block || other.place.index != one.place.index)
        continue;
      if (!(other.tensor.shape == one.tensor.shape && other.tensor.strides == one.tensor.strides &&
            other.tensor.dtype == one.tensor.dtype && other.place.offset == one.place.offset))
        return true;
    }
    return false;
  }

  // -- Memory -------------------------------------------------------------------------------------

  int step_count() const { return static_cast<int>(plan_.steps.size()); }

  Place new_block(std::string_view name, int64_t bytes, Side side) {
    plan_.blocks.push_back({std::string(name), side, {step_count(), step_count(), bytes}, 0});
    block_last_use_.push_back(-1);
    Place place;
    place.kind = Place::Kind::arena;
    place.side = side;
    place.index = plan_.part;
    place.block = static_cast<int32_t>(plan_.blocks.size()) - 1;
    return place;
  }

  void extend_block(int32_t block, int step) {
    Lifetime& lifetime = plan_.blocks[static_cast<size_t>(block)].lifetime;
    lifetime.last = std::max(lifetime.last, step);
  }

  void extend(const PlacedTensor& value, int step) {
    if (value.place.kind == Place::Kind::arena && value.place.index == plan_.part)
      extend_block(value.place.block, step);
  }

  int last_use_of_block(int32_t block) const { return block_last_use_[static_cast<size_t>(block)]; }

  // Makes `out` the tensor of a value, and its block live as long as the value is used.
  void record(ValueId id, const PlacedTensor& out) {
    values(out.place.side)[id] = out;
    note_use_of_state(id, out);
    if (out.place.kind != Place::Kind::arena || out.place.index != plan_.part) return;
    int& last = block_last_use_[static_cast<size_t>(out.place.block)];
    last = std::max({last, position_, last_use_[static_cast<size_t>(id)]});
  }

  // A contiguous copy of a value on its side, made once in this part.
  Result<PlacedTensor> contiguous(const PlacedTensor& in, ValueId id) {
    auto& copies = copies_[static_cast<size_t>(in.place.side)];
    if (const auto known = copies.find(id); known != copies.end()) {
      int& last = block_last_use_[static_cast<size_t>(known->second.place.block)];
      last = std::max(last, position_);
      return known->second;
    }
    if (in.place.side == Side::device) return contiguous_on_device(in, id);
    const auto kernels = request_.registry->kernels("contiguous", Device::cpu);
    if (kernels.empty()) return internal("there is no CPU kernel for 'contiguous'");
    PlacedTensor out{unplaced(in.tensor.dtype, in.tensor.shape), {}};
    out.place = new_block(text(graph_.value_info(id).name, " (contiguous)"), out.tensor.bytes(),
                          Side::host);
    block_last_use_.back() = std::max(position_, last_use_[static_cast<size_t>(id)]);
    Step step;
    step.kernel = kernels.back();
    step.label = text("contiguous '", graph_.value_info(id).name, "'");
    step.inputs = {in};
    step.outputs = {out};
    step.bytes = 2 * out.tensor.bytes();
    extend(in, step_count());
    extend(out, step_count());
    plan_.steps.push_back(std::move(step));
    copies[id] = out;
    return out;
  }

  // Whether the value is a result that took the memory of a state, not a view of that state.
  bool updates_in_place(ValueId id) const {
    const int32_t node = graph_.value_info(id).node;
    return node >= 0 && body_.nodes[static_cast<size_t>(node)].op->def.view == nullptr;
  }

  Result<PlacedTensor> contiguous_on_device(const PlacedTensor& in, ValueId id) {
    Node copy;
    copy.op = request_.registry->find("contiguous");
    if (copy.op == nullptr) return internal("there is no op 'contiguous'");
    const PlacedTensor out_here{unplaced(in.tensor.dtype, in.tensor.shape), {}};
    for (const KernelDef* kernel : request_.registry->kernels("contiguous", Device::vulkan)) {
      PrepareContext context(AttrReader(copy.op, {}));
      context.label_ = text("contiguous '", graph_.value_info(id).name, "'");
      context.packs_ = &*device_packs_;
      context.has_ = {true};
      context.ids_ = {id};
      context.inputs_ = {in.tensor};
      context.outputs_ = {out_here.tensor};
      if (kernel->accepts != nullptr && !kernel->accepts(context)) continue;
      HG_TRY(kernel->prepare(context));
      PlacedTensor out = out_here;
      out.place = new_block(text(graph_.value_info(id).name, " (contiguous)"), out.tensor.bytes(),
                            Side::device);
      block_last_use_.back() = std::max(position_, last_use_[static_cast<size_t>(id)]);
      Step step;
      step.kernel = kernel;
      step.label = context.label_;
      step.state = context.state_;
      step.inputs = {in};
      step.outputs = {out};
      step.bytes = 2 * out.tensor.bytes();
      extend(in, step_count());
      extend(out, step_count());
      plan_.steps.push_back(std::move(step));
      copies_[static_cast<size_t>(Side::device)][id] = out;
      return out;
    }
    return unsupported("the device has no copy for '", graph_.value_info(id).name, "' of ",
                       in.tensor.dtype);
  }

  // What is assigned or returned must not lie in the memory of a state that the assignments at the
  // end of the run write.
  Status separate_assignments() {
    if (plan_.next_node != body_.nodes.size()) return {};
    const Side home = request_.device != nullptr ? Side::device : Side::host;  // of states
    const auto separate = [&](ValueId id, Side side, bool needs_contiguous) -> Status {
      HG_TRY_ASSIGN(const PlacedTensor value, at(id, side));
      const bool overwritten =
          value.place.kind == Place::Kind::state &&
          (*request_.mutable_states)[static_cast<size_t>(value.place.index)];
      if (!overwritten && !(needs_contiguous && !value.tensor.is_contiguous())) return {};
      HG_TRY_ASSIGN(values(side)[id], contiguous(value, id));
      return {};
    };
    const auto in_place = [&](ValueId target, ValueId source) {
      const PlacedTensor* const value = plan_.find(source, home);
      return target != source && value != nullptr && value->place.kind == Place::Kind::state &&
             body_.states[static_cast<size_t>(value->place.index)].value == target &&
             updates_in_place(source);
    };
    for (const auto& [target, source] : body_.assignments)
      if (!in_place(target, source)) HG_TRY(separate(source, home, true));
    const bool on_device = home == Side::device && request_.options->device_outputs;
    for (const auto& [name, id] : body_.outputs) {
      HG_TRY(separate(id, on_device ? Side::device : Side::host, on_device));
      if (!on_device && plan_.find(id, Side::device) != nullptr)
        HG_TRY(separate(id, Side::device, false));
    }
    if (home == Side::host) return {};
    for (const auto& [target, source] : body_.assignments) {
      if (in_place(target, source)) continue;
      const PlacedTensor from = *plan_.find(source, Side::device);
      const int32_t state = graph_.value_info(target).state;
      add_transfer(StepKind::copy, target, from,
                   {from.tensor, Place::of_state(state, Side::device)});
    }
    return {};
  }

  void count_repeated() {
    std::vector<char> seen(body_.nodes.size(), 0);
    for (const Step& step : plan_.steps)
      if (step.node >= 0 && std::exchange(seen[static_cast<size_t>(step.node)], 1))
        plan_.extra_flops += step.flops;
  }

  // Blocks that later parts, outputs or assignments read live to the end.
  void end_lifetimes() {
    const int end = std::max(0, step_count() - 1);
    const auto next = static_cast<int>(plan_.schedule.size());
    for (size_t i = 0; i < plan_.blocks.size(); ++i) {
      Lifetime& lifetime = plan_.blocks[i].lifetime;
      if (block_last_use_[i] >= next) lifetime.last = end;
      lifetime.last = std::min(lifetime.last, end);
      lifetime.first = std::min(lifetime.first, end);
    }
  }

  void place_blocks() {
    for (const Side side : kSides) {
      std::vector<Lifetime> lifetimes;
      std::vector<Block*> blocks;
      for (Block& block : plan_.blocks) {
        if (block.side != side) continue;
        lifetimes.push_back(block.lifetime);
        blocks.push_back(&block);
      }
      if (blocks.empty()) continue;
      const Arena arena = plan_memory(lifetimes);
      for (size_t i = 0; i < blocks.size(); ++i) blocks[i]->offset = arena.offsets[i];
      (side == Side::host ? plan_.arena_bytes : plan_.device_arena_bytes) = arena.bytes;
      plan_.arena_lower_bound += arena.lower_bound;
    }
    const auto move = [&](Place& place) {
      if (place.kind == Place::Kind::arena && place.index == plan_.part && place.block >= 0) {
        place.offset += plan_.blocks[static_cast<size_t>(place.block)].offset;
      }
    };
    const auto move_step = [&](Step& step) {
      for (PlacedTensor& in : step.inputs) move(in.place);
      for (PlacedTensor& out : step.outputs) move(out.place);
      move(step.workspace);
    };
    for (Step& step : plan_.steps) move_step(step);
    if (plan_.measure) move_step(*plan_.measure);
    for (const Side side : kSides)
      for (auto& [id, value] : values(side)) move(value.place);
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const GraphBody& body_;
  int32_t* expand_node_;
  std::optional<DevicePacks> device_packs_;
  Plan plan_;
  int position_ = 0;  // of the schedule
  std::vector<int> last_use_;        // of values: the last position that reads them
  std::vector<std::vector<int>> next_last_uses_;  // of the results of each position
  std::vector<int> state_last_use_;  // of the memory of states
  std::vector<int> block_last_use_;  // of blocks: the last position that reads any value in them
  PreparedNodes prepared_;
  std::unordered_map<ValueId, PlacedTensor> copies_[2];  // contiguous, on each Side
};

}  // namespace

Result<Plan> make_plan(const PlanRequest& request, int32_t* expand_node) {
  *expand_node = -1;
  return Planner(request, expand_node).make();
}

}  // namespace hg
