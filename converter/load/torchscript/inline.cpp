// SPDX-License-Identifier: Apache-2.0
#include "converter/load/torchscript/inline.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <set>
#include <string>

#include "converter/core/failure.h"

namespace hg::convert {
namespace {

namespace jit = torch::jit;

// In a trace, Python numbers are constant tensors of rank 0. Before libtorch runs a graph, it
// converts some of them back to numbers, so that they do not affect the dtype of the result. The
// same is done here for those ops, also for the reference, whose graph is not optimized.
void restore_numbers(jit::Block* block) {
  static const std::set<std::string> kKinds = {"aten::add",    "aten::sub",        "aten::mul",
                                               "aten::div",    "aten::subtract",   "aten::multiply",
                                               "aten::divide", "aten::true_divide"};
  for (jit::Node* node : block->nodes()) {
    for (jit::Block* inner : node->blocks()) restore_numbers(inner);
    if (kKinds.count(node->kind().toQualString()) == 0 || node->inputs().size() < 2) continue;
    const c10::FunctionSchema* schema = node->maybeSchema();
    if (schema == nullptr || schema->overload_name() != "Tensor") continue;
    const jit::Value* other = node->input(1);
    if (other->node()->kind() != c10::prim::Constant) continue;
    const auto value = jit::toIValue(other);
    if (!value || !value->isTensor() || value->toTensor().dim() != 0 ||
        value->toTensor().is_complex())
      continue;
    jit::WithInsertPoint before(node);
    node->replaceInput(1, block->owningGraph()->insertConstant(value->toTensor().item()));
  }
}
void restore_numbers(const jit::Module& module) {
  for (const jit::Module& each : module.modules())
    for (const jit::Method& method : each.get_methods())
      restore_numbers(jit::toGraphFunction(method.function()).graph()->block());
}

// Inlines every call, depth first, and records the path of its module in each node's scope.
class Inliner {
 public:
  explicit Inliner(const jit::Module& root) : root_(root) {}

  std::shared_ptr<jit::Graph> run(jit::Function& function) {
    return inlined(function, "", root_._ivalue());
  }

 private:
  struct Self {
    std::string path;
    c10::intrusive_ptr<c10::ivalue::Object> object;  // null if it is created at run time
  };

  std::shared_ptr<jit::Graph> inlined(jit::Function& function, const std::string& path,
                                      c10::intrusive_ptr<c10::ivalue::Object> self) {
    if (++depth_ > 200)
      throw Failure{Exit::unsupported, "function " + function.name() + " calls itself"};
    std::shared_ptr<jit::Graph> graph = jit::toGraphFunction(function).graph()->copy();
    jit::ScopePtr scope = c10::make_intrusive<jit::Scope>(c10::make_intrusive<jit::Scope>(),
                                                          c10::Symbol::scope("at:" + path));
    mark(graph->block(), scope);
    expand(*graph, graph->block(), {path, std::move(self)});
    --depth_;
    return graph;
  }

  static void mark(jit::Block* block, const jit::ScopePtr& scope) {
    for (jit::Node* node : block->nodes()) {
      node->setScope(scope);
      for (jit::Block* inner : node->blocks()) mark(inner, scope);
    }
  }

  // Follows attribute reads back to the module that is the graph's first input.
  static Self resolve(jit::Graph& graph, jit::Value* value, const Self& self) {
    if (!graph.inputs().empty() && value == graph.inputs()[0]) return self;
    jit::Node* node = value->node();
    if (node->kind() == c10::prim::unchecked_cast) return resolve(graph, node->input(), self);
    if (node->kind() != c10::prim::GetAttr) return {self.path, {}};
    Self owner = resolve(graph, node->input(), self);
    if (!owner.object) return {self.path, {}};
    const std::string& name = node->s(jit::attr::name);
    if (!owner.object->type()->hasAttribute(name)) return {self.path, {}};
    c10::IValue child = owner.object->getAttr(name);
    if (!child.isObject()) return {self.path, {}};
    return {owner.path.empty() ? name : owner.path + "." + name, child.toObject()};
  }

  // Runs a forked call at the place of the fork. Returns the first node that replaces it.
  static jit::graph_node_list_iterator join_fork(jit::Graph& graph, jit::Node* node) {
    std::shared_ptr<jit::Graph> body = node->g(jit::attr::Subgraph)->copy();
    mark(body->block(), node->scope());
    jit::Node* before = node->prev();
    jit::WithInsertPoint here(node);
    std::vector<jit::Value*> results = jit::insertGraph(graph, *body, node->inputs());
    node->output()->replaceAllUsesWith(results.at(0));
    jit::graph_node_list_iterator first = ++before->iterator();
    if (*first == node) ++first;
    node->destroy();
    return first;
  }

  void expand(jit::Graph& graph, jit::Block* block, const Self& self) {
    for (auto it = block->nodes().begin(); it != block->nodes().end();) {
      jit::Node* node = *it++;
      for (jit::Block* inner : node->blocks()) expand(graph, inner, self);
      if (node->kind() == c10::prim::fork) {
        it = join_fork(graph, node);
        continue;
      }
      if (node->kind() == c10::aten::wait) {
        node->input()->setType(node->output()->type());
        node->output()->replaceAllUsesWith(node->input());
        node->destroy();
        continue;
      }
      std::shared_ptr<jit::Graph> body;
      at::ArrayRef<jit::Value*> arguments = node->inputs();
      if (node->kind() == c10::prim::CallMethod) {
        Self callee = resolve(graph, node->input(0), self);
        const std::string& name = node->s(jit::attr::name);
        c10::ClassTypePtr type =
            callee.object ? callee.object->type() : node->input(0)->type()->cast<c10::ClassType>();
        jit::Function* method = type ? type->findMethod(name) : nullptr;
        if (!method || !jit::tryToGraphFunction(*method)) continue;
        body = inlined(*method, callee.path, callee.object);
      } else if (node->kind() == c10::prim::CallFunction) {
        auto type = node->input(0)->type()->cast<c10::FunctionType>();
        if (!type || !jit::tryToGraphFunction(*type->function())) continue;
        body = inlined(*type->function(), self.path, {});
        arguments = arguments.slice(1);
      } else {
        continue;
      }
      jit::WithInsertPoint here(node);
      std::vector<jit::Value*> results = jit::insertGraph(graph, *body, arguments);
      for (size_t i = 0; i < results.size(); ++i)
        node->outputs()[i]->replaceAllUsesWith(results[i]);
      node->destroy();
    }
  }

  jit::Module root_;
  int depth_ = 0;
};

}  // namespace

std::shared_ptr<jit::Graph> inlined_graph(const jit::Module& module, jit::Function& method) {
  restore_numbers(module);
  return Inliner(module).run(method);
}

}  // namespace hg::convert
