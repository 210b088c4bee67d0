// SPDX-License-Identifier: Apache-2.0
// Which parts of a plan depend on which symbol, and how they are filled for other sizes.
#include "lib/plan/refill.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lib/graph/registry_watch.h"
#include "lib/graph/symbols.h"
#include "lib/plan/branches.h"
#include "lib/plan/planner.h"

namespace hg {
namespace {

constexpr size_t kMostSymbols = 64;  // bits of PlanAction::symbols

// As with_numbers(), in place.
void set_numbers(const Attr& attr, const Bindings& bindings, Attr& out) {
  if (const Dim* const dim = std::get_if<Dim>(&attr.value)) {
    *std::get_if<Dim>(&out.value) = dim->substitute(bindings);
  } else if (const auto* const dims = std::get_if<std::vector<Dim>>(&attr.value)) {
    std::transform(dims->begin(), dims->end(), std::get_if<std::vector<Dim>>(&out.value)->begin(),
                   [&](const Dim& dim) { return dim.substitute(bindings); });
  }
}

// Whether kernels cannot tell the attributes apart: 0.0 equals -0.0, but is another attribute.
bool are_same(const std::vector<Attr>& a, const std::vector<Attr>& b) {
  const auto are_same_bits = [](std::span<const double> x, std::span<const double> y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](double one, double other) {
      return std::bit_cast<uint64_t>(one) == std::bit_cast<uint64_t>(other);
    });
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Attr& x, const Attr& y) {
    if (!(x == y)) return false;
    if (const auto* const all = std::get_if<std::vector<double>>(&x.value))
      return are_same_bits(*all, *std::get_if<std::vector<double>>(&y.value));
    const double* const one = std::get_if<double>(&x.value);
    return one == nullptr || are_same_bits({one, 1}, {std::get_if<double>(&y.value), 1});
  });
}

bool have_same_symbols(const Bindings& a, const Bindings& b) {
  return std::equal(a.all().begin(), a.all().end(), b.all().begin(), b.all().end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

}  // namespace

// -- Dependencies ---------------------------------------------------------------------------------

uint64_t Planner::symbols_in(const Dim& dim) const {
  if (dim.is_constant()) return 0;
  uint64_t bits = 0;
  std::vector<std::string> names;
  dim.collect_symbols(names);
  const auto& all = plan_.bindings.all();
  for (size_t i = 0; i < all.size(); ++i)
    if (std::find(names.begin(), names.end(), all[i].first) != names.end())
      bits |= uint64_t{1} << (i % kMostSymbols);
  return bits;
}

uint64_t Planner::symbols_in(const Attr& attr) const {
  if (const Dim* const dim = std::get_if<Dim>(&attr.value)) return symbols_in(*dim);
  uint64_t bits = 0;
  if (const auto* const dims = std::get_if<std::vector<Dim>>(&attr.value))
    for (const Dim& dim : *dims) bits |= symbols_in(dim);
  return bits;
}

uint64_t Planner::symbols_of_shape(ValueId id) const {
  uint64_t bits = 0;
  for (const Dim& dim : graph_.value_info(id).type.shape) bits |= symbols_in(dim);
  return bits;
}

uint64_t Planner::symbols_of_node(const Node& node) const {
  uint64_t bits = 0;
  for (const Attr& attr : node.attrs) bits |= symbols_in(attr);
  for (const ValueId id : node.inputs)
    if (id != kNoValue) bits |= plan_.symbols_of[id] | symbols_of_shape(id);
  for (const ValueId id : node.outputs) bits |= symbols_of_shape(id);
  return bits;
}

void Planner::note_inputs_and_states() {
  plan_.can_refill = request_.device == nullptr && plan_.bindings.all().size() <= kMostSymbols;
  if (request_.previous != nullptr) plan_.symbols_of = request_.previous->symbols_of;
  // If a part cannot be refilled, its values count as depending on all symbols.
  const bool is_unknown = request_.previous != nullptr && plan_.symbols_of.empty();
  plan_.symbols_of.resize(body_.values.size(), is_unknown ? ~uint64_t{0} : 0);
  for (const ValueId id : body_.inputs) plan_.symbols_of[id] = symbols_of_shape(id);
}

void Planner::note_action(PlanAction action) {
  if (!request_.ranged) return;
  if (action.kind == PlanAction::Kind::copy) {
    action.symbols = plan_.symbols_of[action.value] | symbols_of_shape(action.value);
  } else {
    const Node& node = body_.nodes[action.node];
    action.copies = copies_read_;
    action.symbols = symbols_of_node(node);
    // A view has the place of its input.
    for (const ValueId id : node.outputs)
      plan_.symbols_of[id] =
          action.kind == PlanAction::Kind::view ? action.symbols : symbols_of_shape(id);
  }
  plan_.actions.push_back(std::move(action));
}

void Planner::finish_actions() {
  std::vector<char> seen(body_.nodes.size(), 0), moved(body_.values.size(), 0);
  for (const int32_t node : plan_.schedule) plan_.can_refill &= !std::exchange(seen[node], 1);
  for (const ValueId id : plan_.separated) {
    moved[id] = 1;
    plan_.can_refill &= plan_.symbols_of[id] == 0;
  }
  std::erase_if(plan_.actions, [](const PlanAction& action) { return action.symbols == 0; });
  for (const PlanAction& action : plan_.actions)
    if (action.node >= 0)
      for (const ValueId id : body_.nodes[action.node].inputs)
        plan_.can_refill &= id == kNoValue || !moved[id];
  for (Block& block : plan_.blocks) block.room = block.lifetime.bytes;
}

// -- Filling --------------------------------------------------------------------------------------

void Planner::begin_refills(RefillCache& cache) {
  cache.frames.resize(plan_.actions.size());
  cache.steps.reserve(plan_.actions.size());
  for (size_t i = 0; i < plan_.actions.size(); ++i) {
    const int32_t index = plan_.actions[i].node;
    if (index < 0) continue;
    const Node& node = body_.nodes[index];
    RefillFrame& frame = cache.frames[i];
    frame.call = call_for(cache, index);
    frame.threads = call_of(node, frame.call->prepared, Side::host).threads;
    frame.can_share = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return id == kNoValue || constant_data(placed(id)) == nullptr;
    });
  }
}

RefillCall* Planner::call_for(RefillCache& cache, int32_t index) {
  const Node& node = body_.nodes[index];
  const auto same_types = [&](const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](ValueId x, ValueId y) {
      return x == y || (x != kNoValue && y != kNoValue &&
                        graph_.value_info(x).type == graph_.value_info(y).type);
    });
  };
  auto made = std::make_unique<RefillCall>();
  made->infer = GraphAccess::infer_call(graph_, node);
  made->is_shared = node.subgraphs.empty() && GraphAccess::fresh_symbols(graph_, node).empty() &&
                    std::all_of(made->infer.constants.begin(), made->infer.constants.end(),
                                [](const TensorData* data) { return data == nullptr; });
  for (const auto& call : cache.calls) {
    const Node& other = body_.nodes[call->node];
    if (made->is_shared && call->is_shared && other.op == node.op &&
        are_same(other.attrs, node.attrs) && same_types(other.inputs, node.inputs) &&
        same_types(other.outputs, node.outputs))
      return call.get();
  }
  made->node = index;
  if (!(node.op->def.traits & kControl))
    for (const KernelDef* const kernel : request_.registry->kernels(node.op->name(), Device::cpu))
      if (allowed(*kernel)) made->kernels.push_back(kernel);
  made->prepared.attrs = node.attrs;
  made->prepared.input_types.resize(node.inputs.size());
  for (size_t i = 0; i < node.attrs.size(); ++i)
    if (has_symbol(node.attrs[i])) made->open_attrs.push_back(static_cast<int32_t>(i));
  return cache.calls.emplace_back(std::move(made)).get();
}

Status Planner::refill_types(RefillCache& cache, RefillCall& call) {
  if (call.refill == cache.refill) return {};
  const Node& node = body_.nodes[call.node];
  PreparedNode& c = call.prepared;
  for (const int32_t i : call.open_attrs) {
    set_numbers(node.attrs[i], plan_.bindings, c.attrs[i]);
    HG_CHECK(!has_symbol(c.attrs[i]), label(graph_, node), ": the size ", c.attrs[i],
             " is not known");
  }
  call.infer.attrs = c.attrs;
  call.infer.origin = &node.origin;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const Tensor& in = placed(node.inputs[i]).tensor;
    TensorType& type = c.input_types[i];
    type.dtype = in.dtype;
    type.shape.resize(in.shape.size());
    std::copy(in.shape.begin(), in.shape.end(), type.shape.begin());
    call.infer.inputs[i] = &type;
    call.infer.constants[i] = graph_.constant_of(node.inputs[i]);
  }
  HG_TRY(infer_types(node, call.infer, c));
  call.made.clear();
  call.refill = cache.refill;
  return {};
}

Status Planner::refill(Plan& plan, uint64_t changed, RefillCache& cache, RefillResult& result) {
  plan_ = std::move(plan);
  plan_.bindings = *request_.bindings;
  sizes_ = std::move(cache.sizes);
  cache.steps.clear();
  ++cache.refill;
  const Status status = [&]() -> Status {
    if (cache.frames.empty()) begin_refills(cache);
    const auto is_separated = [&](ValueId id) {
      return std::find(plan_.separated.begin(), plan_.separated.end(), id) != plan_.separated.end();
    };
    if (request_.previous != nullptr) {
      for (const auto& [id, value] : request_.previous->values[0])
        if (!is_separated(id)) values(Side::host)[id] = value;
    } else {
      for (const ValueId id : body_.inputs)
        if (plan_.symbols_of[id] & changed) {
          PlacedTensor& input = values(Side::host)[id];
          HG_TRY_ASSIGN(const Sizes shape,
                        evaluate(graph_.value_info(id).type.shape, plan_.bindings));
          input.tensor = unplaced(input.tensor.dtype, shape);
        }
    }
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      if (!(plan_.actions[i].symbols & changed)) continue;
      HG_TRY(refill_action(plan_.actions[i], cache.frames[i], cache, result));
      if (!result.fits) break;
    }
    if (result.fits && plan_.part == 0) HG_TRY(check_later_nodes());
    return {};
  }();
  if (result.has_grown) place_blocks(plan_);  // also if it fits no more: blocks have their room
  plan = std::move(plan_);
  cache.sizes = std::move(sizes_);
  HG_TRY(status);
  result.fits = result.fits && is_still_apart(plan);
  return {};
}

Status Planner::refill_action(PlanAction& action, RefillFrame& frame, RefillCache& cache,
                              RefillResult& result) {
  if (action.kind == PlanAction::Kind::copy) {
    Step& step = plan_.steps[action.step];
    PlacedTensor& out = step.outputs[0];
    step.inputs[0] = placed(action.value);
    out.tensor = unplaced(out.tensor.dtype, step.inputs[0].tensor.shape);
    step.bytes = 2 * out.tensor.bytes();
    refill_block(out.place.block, out.tensor.bytes(), result);
    cache.steps.push_back(action.step);
    return {};
  }
  HG_TRY(refill_types(cache, *frame.call));
  if (action.kind == PlanAction::Kind::step) return refill_step(action, frame, cache, result);
  const Node& node = body_.nodes[action.node];
  const PreparedNode& prepared = frame.call->prepared;
  const Sizes shape = sizes_of(prepared.output_types[0]);
  const DType dtype = prepared.output_types[0].dtype;
  PlacedTensor& out = values(Side::host)[node.outputs[0]];
  if (action.kind == PlanAction::Kind::joined) {
    out.tensor = unplaced(dtype, shape);
    const Block& block = plan_.blocks[out.place.block];
    const int64_t end = out.place.offset - block.offset + out.tensor.bytes();
    // A concatenation nested in another does not determine the size of the outer one.
    if (out.place.offset == block.offset) refill_block(out.place.block, end, result);
    return {};
  }
  std::optional<PlacedTensor> made =
      viewed(node, prepared.attrs, placed(node.inputs[0]), shape, dtype);
  result.fits = made.has_value() == (action.copies[0] == PlanAction::kNone);
  if (!result.fits) return {};
  if (!made)
    made = viewed(node, prepared.attrs, plan_.steps[action.copies[0]].outputs[0], shape, dtype);
  result.fits = made.has_value();
  if (made) out = *made;
  return {};
}

Status Planner::refill_inputs(const PlanAction& action, const Node& node, Step& step) {
  const auto misfit = [&] { return unsupported(step.label, ": reads other copies"); };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    if (step.kind == StepKind::control) {
      step.inputs[i] = placed(node.inputs[i]);
      continue;
    }
    const PlacedTensor& value = placed(node.inputs[i]);
    step.inputs[i] = constant_data(value) == nullptr ? value : input_for(*step.kernel, node, i);
    const bool is_copied = step.inputs[i].place.kind != Place::Kind::fixed &&
                           !wants_any_strides(*step.kernel, i) &&
                           !step.inputs[i].tensor.is_contiguous();
    if (is_copied != (action.copies[i] != PlanAction::kNone)) return misfit();
    if (is_copied) step.inputs[i] = plan_.steps[action.copies[i]].outputs[0];
  }
  return {};
}

Result<const RefillKernel*> Planner::refill_kernel(const Node& node, RefillFrame& frame,
                                                   Step& step) {
  RefillCall& call = *frame.call;
  const auto take = [&](const RefillKernel& made) {
    step.kernel = made.kernel;
    step.state = made.context->shared_state();
    step.flops = made.flops;
    step.bytes = made.bytes;
    return &made;
  };
  const auto fits = [&](const RefillKernel& made) {
    if (made.context->threads() != frame.threads) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != kNoValue && !(placed(node.inputs[i]).tensor.strides == made.strides[i]))
        return false;
    return true;
  };
  if (frame.can_share)
    for (const RefillKernel* const made : call.made)
      if (fits(*made)) return take(*made);
  if (frame.own == nullptr) {
    frame.own = std::make_unique<RefillKernel>();
    frame.own->context.emplace(call_of(node, call.prepared, Side::host));
    frame.own->strides.resize(node.inputs.size());
  }
  RefillKernel& own = *frame.own;
  PrepareContext& context = *own.context;
  PrepareContext::Call& known = PrepareAccess::call(context);
  known.packs = request_.packs;
  step.state = nullptr;
  PrepareAccess::begin_again(own);
  for (const KernelDef* const kernel : call.kernels) {
    set_tensors(node, call.prepared, *kernel, known);
    if (kernel->accepts != nullptr && !kernel->accepts(context)) continue;
    if (kernel->prepare != nullptr) HG_TRY(kernel->prepare(context));
    RegistryWatch::note_kernel(*request_.registry, kernel->op, kernel->name);
    own.kernel = kernel;
    count_work(node, call.prepared, context, step);
    own.flops = step.flops;
    own.bytes = step.bytes;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != kNoValue) own.strides[i] = placed(node.inputs[i]).tensor.strides;
    if (frame.can_share) call.made.push_back(&own);
    return take(own);
  }
  return static_cast<const RefillKernel*>(nullptr);
}

Status Planner::refill_step(PlanAction& action, RefillFrame& frame, RefillCache& cache,
                            RefillResult& result) {
  const Node& node = body_.nodes[action.node];
  const bool measures = action.step == step_count();
  Step& step = measures ? *plan_.measure : plan_.steps[action.step];
  const PreparedNode& prepared = frame.call->prepared;
  result.fits = prepared.known != measures;
  if (!result.fits) return {};
  const RefillKernel* made = nullptr;
  if (step.kind != StepKind::control) {
    HG_TRY_ASSIGN(made, refill_kernel(node, frame, step));
    result.fits = made != nullptr && (!measures || made->kernel->measure != nullptr);
    if (!result.fits) return {};
  }
  HG_TRY(refill_inputs(action, node, step));
  if (made != nullptr) refill_workspace(action, made->context->workspace(), step, result);
  for (size_t i = 0; i < action.overwrites.size(); ++i) {
    PlacedTensor& out = step.outputs[i];
    out.tensor = unplaced(prepared.output_types[i].dtype, sizes_of(prepared.output_types[i]));
    const int32_t over = action.overwrites[i];
    if (over >= 0) {
      result.fits = fits_on_input(node, step, static_cast<size_t>(over), out.tensor);
      if (!result.fits) return {};
      out.place = step.inputs[over].place;
    } else if (over == PlanAction::kNone) {
      refill_block(out.place.block, out.tensor.bytes(), result);
    }
    values(Side::host)[node.outputs[i]] = out;
  }
  cache.steps.push_back(action.step);
  return {};
}

void Planner::refill_block(int32_t block, int64_t bytes, RefillResult& result) {
  Block& known = plan_.blocks[block];
  known.lifetime.bytes = bytes;
  if (bytes <= align_up(known.room)) return;
  known.room = bytes;
  result.has_grown = true;
}

void Planner::refill_workspace(PlanAction& action, int64_t bytes, Step& step,
                               RefillResult& result) {
  step.workspace = {};
  if (bytes == 0) return;
  if (action.workspace == PlanAction::kNone) {
    int at = std::min(action.step, std::max(0, step_count() - 1));
    Lifetime lifetime{at, at, 0};
    for (const Branches& branches : plan_.branches)
      if (branches.begin <= at && at < branches.end) lifetime.first = branches.begin;
    action.workspace = static_cast<int32_t>(plan_.blocks.size());
    plan_.blocks.push_back({"workspace", Side::host, lifetime});
  }
  refill_block(action.workspace, bytes, result);
  step.workspace.kind = Place::Kind::arena;
  step.workspace.index = plan_.part;
  step.workspace.block = action.workspace;
  step.workspace.offset = plan_.blocks[action.workspace].offset;
}

Status refill_plan(PlanRequest request, Plan& plan, bool is_stale, RefillCache& cache,
                   RefillResult& result) {
  if (!have_same_symbols(plan.bindings, *request.bindings)) {
    result.fits = false;
    return {};
  }
  uint64_t changed = is_stale ? ~uint64_t{0} : 0;
  for (size_t i = 0; i < plan.bindings.all().size(); ++i)
    if (plan.bindings.all()[i].second != request.bindings->all()[i].second)
      changed |= uint64_t{1} << i;
  std::vector<char> alone = std::move(plan.alone);
  request.alone = alone.empty() ? nullptr : &alone;
  request.prepared = nullptr;
  request.ranged = true;
  int32_t expand_node = -1;
  const Status status = Planner(request, &expand_node).refill(plan, changed, cache, result);
  plan.alone = std::move(alone);
  if (!status.ok()) result.fits = false;  // a new plan reports the reason
  return status.code() == Code::out_of_memory ? status : Status();
}

}  // namespace hg
