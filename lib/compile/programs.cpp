// SPDX-License-Identifier: Apache-2.0
// Joins elementwise nodes of one shape, and a reduction that reads them, into pointwise programs,
// so that intermediate values are not stored. A node joins its reader if it has no other reader.
// Results are bit-identical.
#include <algorithm>

#include "hg/kernel.h"
#include "hg/pointwise_program.h"
#include "lib/compile/passes.h"
#include "lib/device/backend.h"

namespace hg {
namespace {

// Limits of a program on a device, which keeps the results of steps in registers.
constexpr size_t kMostStepsOnDevice = 16, kMostInputsOnDevice = 8;
constexpr int kMostTensors = 8;  // inputs of more than one element

// Whether programs can call every kernel that could run the op on the CPU.
bool runs_in_programs(const Node& node, const CompileContext& context) {
  const auto kernels = context.registry->kernels(node.op->name(), Device::cpu);
  const auto own = Registry::built_in().kernels(node.op->name(), Device::cpu);
  const auto is_own = [&](const KernelDef* kernel) {
    return std::any_of(own.begin(), own.end(), [&](const KernelDef* one) {
      return one->in_programs && one->prepare == kernel->prepare && one->run == kernel->run;
    });
  };
  return !kernels.empty() && std::all_of(kernels.begin(), kernels.end(), is_own);
}

bool has_one_element(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& size) { return size == Dim(1); });
}

// Whether the text form can hold the attributes. Attributes with default values are left out.
bool can_hold_attrs(const Node& node) {
  for (size_t i = 0; i < node.attrs.size(); ++i) {
    const Signature::Attribute& attribute = node.op->signature.attributes[i];
    if ((attribute.required || !(node.attrs[i] == attribute.fallback)) &&
        !PointwiseProgram::can_hold(node.attrs[i]))
      return false;
  }
  return true;
}

bool joins_as(Traits trait, const Node& node, const CompileContext& context) {
  return (node.op->def.traits & trait) && node.outputs.size() == 1 &&
         runs_in_programs(node, context);
}

class ProgramBuilder {
 public:
  ProgramBuilder(Graph& graph, const CompileContext& context)
      : graph_(graph), context_(context), uses_(use_counts(graph)) {}

  Status run() {
    const std::vector<Node>& nodes = graph_.nodes();
    taken_.assign(nodes.size(), false);
    std::vector<Program> programs;
    const size_t most_steps = context_.options->device == Device::vulkan
                                  ? kMostStepsOnDevice
                                  : PointwiseProgram::kMostSteps;
    for (size_t i = nodes.size(); i-- > 0;) {
      if (taken_[i]) continue;
      Program program;
      if (joins(nodes[i])) {
        program = grow(static_cast<int32_t>(i), most_steps);
      } else if (const int32_t root = reduced_node(nodes[i]); root >= 0) {
        program = grow(root, most_steps - 1);
        if (!program.nodes.empty()) program.nodes.push_back(static_cast<int32_t>(i));
        program.op = "pointwise_reduction";
      }
      if (program.nodes.size() < 2) continue;
      for (const int32_t node : program.nodes) taken_[node] = true;
      by_root_[nodes[i].outputs[0]] = programs.size();
      programs.push_back(std::move(program));
    }
    for (Program& program : programs) program.text = text_of(program);
    HG_TRY(rewrite(graph_, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      const auto found = by_root_.find(node.outputs[0]);
      if (found == by_root_.end()) return std::optional<std::vector<Value>>();
      const Program& program = programs[found->second];
      std::vector<Value> inputs;
      for (const ValueId id : program.inputs) inputs.push_back(graph_.value(replaced(id)));
      const Value y = graph_.call(program.op, inputs, {{"program", program.text}});
      replaced_[node.outputs[0]] = y.id();
      return std::optional(std::vector<Value>{y});
    }));
    remove_dead_nodes(graph_);
    return {};
  }

 private:
  struct Program {
    std::vector<int32_t> nodes;  // in order, the root last
    std::vector<ValueId> inputs;
    std::string text;
    std::string_view op = "pointwise_program";
  };

  ValueId replaced(ValueId id) const {
    const auto found = replaced_.find(id);
    return found == replaced_.end() ? id : found->second;
  }

  bool joins(const Node& node) const {
    if (context_.options->device == Device::vulkan && !joins_on_device(node)) return false;
    return is_elementwise(node, context_) && can_hold_attrs(node);
  }

  // A program runs on one side. With a device, only ops that every device can compute join.
  bool joins_on_device(const Node& node) const {
    const auto suits = [&](ValueId id) {
      const DType dtype = id == kNoValue ? f32 : graph_.value_info(id).type.dtype;
      return dtype == f32 || dtype == f16 || dtype == bf16 || dtype == boolean;
    };
    const auto kernels = kernels_of(context_.options->gpu, *context_.registry, *node.op);
    return !kernels.empty() && kernels.front()->in_programs &&
           std::all_of(node.inputs.begin(), node.inputs.end(), suits) &&
           std::all_of(node.outputs.begin(), node.outputs.end(), suits);
  }

  // Whether the results are adjacent, but so few that each element would be gathered separately.
  bool has_few_columns(const Node& node) const {
    const Attr& attr = AttrReader(node.op, node.attrs).raw("dim");
    std::vector<Dim> dims;
    if (const auto* many = std::get_if<std::vector<Dim>>(&attr.value)) dims = *many;
    if (const Dim* one = std::get_if<Dim>(&attr.value)) dims = {*one};
    const Shape& shape = graph_.value_info(node.inputs[0]).type.shape;
    const auto rank = static_cast<int64_t>(shape.size());
    int64_t columns = 1;
    for (int64_t d = rank - 1; d >= 0 && !dims.empty(); --d) {
      const Dim& size = shape[d];
      if (size == Dim(1)) continue;
      const bool reduced = std::find(dims.begin(), dims.end(), Dim(d)) != dims.end() ||
                           std::find(dims.begin(), dims.end(), Dim(d - rank)) != dims.end();
      if (reduced || !size.is_constant()) break;
      columns *= size.constant();
    }
    return columns > 1 && columns < 8;
  }

  // The elementwise node that only this reduction reads; -1: none.
  int32_t reduced_node(const Node& node) const {
    if (context_.options->device == Device::vulkan || node.inputs.empty() ||
        !joins_as(kReduction, node, context_) || has_few_columns(node) || !can_hold_attrs(node))
      return -1;
    const ValueId x = node.inputs[0];
    const int32_t index = graph_.value_info(x).node;
    const bool is_free =
        index >= 0 && !taken_[index] && uses_[x] == 1 && joins(graph_.nodes()[index]);
    return is_free ? index : -1;
  }

  void collect_inputs(Program& program) const {
    program.inputs.clear();
    std::vector<ValueId> made;
    for (const int32_t index : program.nodes) {
      const Node& node = graph_.nodes()[index];
      for (const ValueId id : node.inputs) {
        const auto is_known = [&](const std::vector<ValueId>& ids) {
          return std::find(ids.begin(), ids.end(), id) != ids.end();
        };
        if (id != kNoValue && !is_known(made) && !is_known(program.inputs))
          program.inputs.push_back(id);
      }
      made.push_back(node.outputs[0]);
    }
  }

  bool fits(const std::vector<ValueId>& inputs) const {
    const size_t most = context_.options->device == Device::vulkan ? kMostInputsOnDevice
                                                                   : PointwiseProgram::kMostInputs;
    const auto is_tensor = [&](ValueId id) {
      return !has_one_element(graph_.value_info(id).type.shape);
    };
    return !inputs.empty() && inputs.size() <= most &&
           std::count_if(inputs.begin(), inputs.end(), is_tensor) <= kMostTensors;
  }

  // How many nodes of the program read the value.
  int reads(const Program& program, ValueId id) const {
    int count = 0;
    for (const int32_t index : program.nodes)
      for (const ValueId in : graph_.nodes()[index].inputs) count += in == id;
    return count;
  }

  Program grow(int32_t root, size_t most_steps) const {
    Program program{{root}, {}, ""};
    collect_inputs(program);
    if (!fits(program.inputs)) return {};
    const Node& last = graph_.nodes()[root];
    const Shape& shape = graph_.value_info(last.outputs[0]).type.shape;
    for (bool grown = true; grown;) {
      grown = false;
      for (const ValueId id : program.inputs) {
        const int32_t index = graph_.value_info(id).node;
        if (index < 0 || taken_[index] || program.nodes.size() >= most_steps ||
            !(graph_.value_info(id).type.shape == shape) || uses_[id] != reads(program, id) ||
            !joins(graph_.nodes()[index]))
          continue;
        Program larger = program;
        larger.nodes.insert(std::lower_bound(larger.nodes.begin(), larger.nodes.end(), index),
                            index);
        collect_inputs(larger);
        if (!fits(larger.inputs)) continue;
        program = std::move(larger);
        grown = true;
        break;
      }
    }
    return program;
  }

  std::string text_of(const Program& program) const {
    PointwiseProgram out;
    out.input_count = static_cast<int>(program.inputs.size());
    std::unordered_map<ValueId, int> numbers;
    for (const ValueId id : program.inputs) numbers.emplace(id, static_cast<int>(numbers.size()));
    for (const int32_t index : program.nodes) {
      const Node& node = graph_.nodes()[index];
      PointwiseProgram::Step step;
      step.op = node.op;
      step.attrs = node.attrs;
      for (size_t i = 0; i < node.op->signature.inputs.size(); ++i) {
        const bool given = i < node.inputs.size() && node.inputs[i] != kNoValue;
        step.args.push_back(given ? numbers.find(node.inputs[i])->second
                                  : PointwiseProgram::kAbsent);
      }
      numbers.emplace(node.outputs[0], static_cast<int>(numbers.size()));
      out.steps.push_back(std::move(step));
    }
    return out.text();
  }

  Graph& graph_;
  const CompileContext& context_;
  std::vector<int> uses_;
  std::vector<bool> taken_;
  std::unordered_map<ValueId, size_t> by_root_;
  std::unordered_map<ValueId, ValueId> replaced_;
};

#if !defined(HG_SMALL)

// Moves a reshape of an elementwise result behind the elementwise node that reads it, if the other
// inputs of this node have one element, so that both nodes can join.
Status reshape_later(Graph& graph, const CompileContext& context) {
  std::vector<int> uses = use_counts(graph);
  const auto maker = [&](ValueId id) -> const Node* {
    const int32_t at = graph.value_info(id).node;
    return at < 0 || uses[static_cast<size_t>(id)] != 1 ? nullptr
                                                        : &graph.nodes()[static_cast<size_t>(at)];
  };
  HG_TRY(rewrite(graph, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
    const std::optional<std::vector<Value>> none;
    if (!is_elementwise(node, context)) return none;
    std::vector<Value> inputs;
    Value y;
    size_t place = 0;
    int rank = 0;  // of the numbers
    for (const ValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? Value() : graph.value(id));
      if (id == kNoValue) continue;
      if (has_one_element(graph.value_info(id).type.shape)) {
        rank = std::max(rank, inputs.back().rank());
        continue;
      }
      if (y) return none;
      y = inputs.back();
      place = inputs.size() - 1;
    }
    const Node* const reshape = y ? maker(y.id()) : nullptr;
    if (reshape == nullptr || reshape->op->name() != "reshape" ||
        !(y.shape() == graph.value_info(node.outputs[0]).type.shape))
      return none;
    const Value x = graph.value(reshape->inputs[0]);
    const Node* const before = maker(x.id());
    if (before == nullptr || !is_elementwise(*before, context) || rank > x.rank()) return none;
    const NamedAttrs shape = named_attrs(*reshape);
    inputs[place] = x;
    const Value z = graph.call(node.op->name(), inputs, named_attrs(node));
    const Value reshaped = graph.call("reshape", {z}, shape);
    uses.resize(static_cast<size_t>(graph.value_count()), 1);
    uses[static_cast<size_t>(reshaped.id())] = uses[static_cast<size_t>(node.outputs[0])];
    return std::optional(std::vector<Value>{reshaped});
  }));
  remove_dead_nodes(graph);
  return {};
}

#endif

}  // namespace

bool is_elementwise(const Node& node, const CompileContext& context) {
  return joins_as(kElementwise, node, context);
}

Status form_programs(Graph& graph, const CompileContext& context) {
#if !defined(HG_SMALL)
  if (context.options->device != Device::vulkan) HG_TRY(reshape_later(graph, context));
#endif
  return ProgramBuilder(graph, context).run();
}

}  // namespace hg
