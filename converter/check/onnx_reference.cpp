// SPDX-License-Identifier: Apache-2.0
#include "converter/check/onnx_reference.h"

#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include "converter/check/compare.h"
#include "converter/load/onnx/file.h"
#include "converter/load/onnx/order.h"

namespace hg::convert {
namespace {

namespace file = hg::onnx_file;
using Feeds = OnnxSession::Feeds;

constexpr char kWhose[] = "ONNX Runtime";

std::string bytes_of(const file::ModelProto& model) {
  std::string bytes;
  if (!model.SerializeToString(&bytes))
    throw OnnxRefusal{"the model with its inner values as outputs is larger than a file may be"};
  return bytes;
}

int onnx_type_of(DType dtype) {
  int type = 1;
  while (onnx::dtype_of_onnx(type) != dtype) ++type;
  return type;
}

}  // namespace

struct OnnxReference::State {
  State(const OnnxRuntime& library, const Loaded& from, const Graph& imported)
      : runtime(library),
        loaded(from),
        graph(imported),
        model(*from.onnx->model),
        whole(runtime, from.onnx->path) {}

  // Returns the inputs of the file, including those that are constants of the converted model.
  Feeds feeds(const Inputs& inputs) const {
    Feeds feeds;
    size_t next = 0;
    for (const ScriptInput& input : loaded.program.inputs) {
      if (input.is_constant) {
        const auto& index = std::get<ScriptTensorIndex>(input.default_value.value);
        feeds.emplace_back(input.name, loaded.program.tensors[index.index].data.tensor);
      } else if (next < inputs.data.size()) {
        feeds.emplace_back(input.name, inputs.data[next++].tensor);
      }
    }
    return feeds;
  }

  // Returns the converted model's value for a value of the file.
  std::optional<Tensor> ours(const Session& kept, const std::string& name) const {
    const auto id = loaded.onnx->values.find(name);
    if (id == loaded.onnx->values.end()) return std::nullopt;
    const auto value = values.find(id->second);
    if (value == values.end()) return std::nullopt;
    const Result<Tensor> kept_value = kept.value(graph.value_info(value->second).name);
    return kept_value.ok() ? std::optional(*kept_value) : std::nullopt;
  }

  const OnnxRuntime& runtime;
  const Loaded& loaded;
  const Graph& graph;
  const file::ModelProto& model;
  OnnxSession whole;
  std::map<ScriptId, ValueId> values;  // graph values of the program's values
};

namespace {

// Finds the first wrong node of the main graph.
template <class State>
class NodeWalk {
 public:
  NodeWalk(const State& state, const Session& kept, const Inputs& inputs)
      : state_(state), kept_(kept) {
    for (const auto& [name, tensor] : state.feeds(inputs)) theirs_[name] = tensor;
  }

  OnnxReference::Explanation run() {
    OnnxReference::Explanation result;
    try {
      run_with_all_values();
    } catch (const OnnxRefusal& refusal) {
      result.trouble = refusal.reason;
      return result;
    }
    for (const file::NodeProto& node : state_.model.graph().node()) {
      result.wrong = check(node);
      if (result.wrong) return result;
    }
    result.complete = !doubtful_;
    for (const file::ValueInfoProto& output : state_.model.graph().output())
      result.complete = result.complete && checked_.contains(output.name());
    return result;
  }

 private:
  void run_with_all_values() {
    file::ModelProto all = state_.model;
    std::set<std::string> given;
    std::vector<std::string> names;
    for (const file::ValueInfoProto& output : all.graph().output()) given.insert(output.name());
    for (const file::NodeProto& node : state_.model.graph().node())
      for (const std::string& name : node.output()) {
        if (name.empty()) continue;
        if (given.insert(name).second) all.mutable_graph()->add_output()->set_name(name);
        names.push_back(name);
      }
    const OnnxSession session(state_.runtime, bytes_of(all), folder());
    Feeds feeds;
    for (const auto& [name, tensor] : theirs_) feeds.emplace_back(name, tensor);
    const auto values = session.run(feeds, names);
    for (size_t i = 0; i < names.size(); ++i)
      if (values[i].size() == 1) keep(names[i], values[i][0]);
    for (const file::TensorProto& tensor : state_.model.graph().initializer())
      if (!theirs_.contains(tensor.name())) initializers_[tensor.name()] = &tensor;
  }

  std::string folder() const {
    return std::filesystem::path(state_.loaded.onnx->path).parent_path().string();
  }

  void keep(const std::string& name, TensorData data) {
    owners_.push_back(std::move(data));
    theirs_[name] = owners_.back().tensor;
  }

  std::optional<WrongNode> check(const file::NodeProto& node) {
    std::vector<std::string> names;  // outputs that both have
    std::vector<Tensor> ours;
    std::optional<WrongNode> wrong;
    bool far = false;
    for (const std::string& name : node.output()) {
      const std::optional<Tensor> own = state_.ours(kept_, name);
      const auto their = theirs_.find(name);
      if (!own || their == theirs_.end()) continue;
      names.push_back(name);
      ours.push_back(*own);
      far = far || !is_rounding(*own, their->second);
      const Comparison comparison = compare(*own, their->second, f64, kWhose);
      if (!comparison.equal && !wrong) wrong = describe(node, comparison);
    }
    const auto pass = [&] {
      checked_.insert(names.begin(), names.end());
      return std::nullopt;
    };
    if (!wrong && !far) return pass();
    std::vector<TensorData> alone;
    try {
      alone = run_alone(node, names);
    } catch (const OnnxRefusal&) {
      return wrong;  // unsure: its inputs may already differ
    }
    bool same = true;
    for (size_t i = 0; i < names.size(); ++i) {
      const Comparison comparison = compare(ours[i], alone[i].tensor, f64, kWhose);
      if (!comparison.equal) {
        wrong = describe(node, comparison);
        wrong->sure = true;
        return wrong;
      }
      same = same && is_rounding(ours[i], alone[i].tensor);
    }
    doubtful_ = doubtful_ || !same;
    return pass();
  }

  static WrongNode describe(const file::NodeProto& node, const Comparison& comparison) {
    std::string name = node.name();
    if (name.empty() && node.output_size() > 0) name = node.output(0);
    const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
    return {str_cat(domain.empty() ? "onnx" : domain, "::", node.op_type()), Origin{name, ""},
            comparison.difference, comparison.largest_error};
  }

  // Runs one node in ONNX Runtime, with our values if available.
  std::vector<TensorData> run_alone(const file::NodeProto& node,
                                    const std::vector<std::string>& names) {
    file::ModelProto model;
    model.set_ir_version(state_.model.ir_version());
    *model.mutable_opset_import() = state_.model.opset_import();
    *model.mutable_functions() = state_.model.functions();
    file::GraphProto& graph = *model.mutable_graph();
    graph.set_name("node");
    *graph.add_node() = node;
    Feeds feeds;
    std::deque<TensorData> copies;
    for (const std::string& name : onnx::names_read(node)) {
      if (const auto initializer = initializers_.find(name); initializer != initializers_.end()) {
        *graph.add_initializer() = *initializer->second;
        continue;
      }
      std::optional<Tensor> given = state_.ours(kept_, name);
      if (!given) {
        const auto their = theirs_.find(name);
        if (their == theirs_.end()) throw OnnxRefusal{"an input has no tensor"};
        given = their->second;
      }
      copies.emplace_back();
      const Result<Tensor> dense = row_major(*given, copies.back());
      if (!dense.ok()) throw OnnxRefusal{std::string(dense.status().message())};
      file::ValueInfoProto& input = *graph.add_input();
      input.set_name(name);
      auto& type = *input.mutable_type()->mutable_tensor_type();
      type.set_elem_type(onnx_type_of(dense->dtype));
      type.mutable_shape();
      for (const int64_t size : dense->shape) type.mutable_shape()->add_dim()->set_dim_value(size);
      feeds.emplace_back(name, *dense);
    }
    for (const std::string& name : names) graph.add_output()->set_name(name);
    const OnnxSession session(state_.runtime, bytes_of(model), folder());
    std::vector<TensorData> results;
    for (const std::vector<TensorData>& value : session.run(feeds, names)) {
      if (value.size() != 1) throw OnnxRefusal{"an output is no tensor"};
      results.push_back(value[0]);
    }
    return results;
  }

  const State& state_;
  const Session& kept_;
  std::deque<TensorData> owners_;
  std::map<std::string, Tensor> theirs_;
  std::map<std::string, const file::TensorProto*> initializers_;
  std::set<std::string> checked_;
  bool doubtful_ = false;  // a node is within the tolerance, but differs by more than rounding
};

}  // namespace

OnnxReference::OnnxReference(const OnnxRuntime& runtime, const Loaded& loaded, const Graph& graph,
                             std::span<const Executed> trace)
    : state_(std::make_unique<State>(runtime, loaded, graph)) {
  for (const Executed& executed : trace)
    for (size_t i = 0; i < executed.outputs.size(); ++i)
      if (executed.outputs[i] != kNoValue)
        state_->values[executed.node->outputs[i]] = executed.outputs[i];
  // The inputs that are not constants, in order; input 0 of the body is the module.
  size_t next = 0;
  for (size_t i = 0; i < loaded.program.inputs.size(); ++i)
    if (!loaded.program.inputs[i].is_constant && next < graph.inputs().size())
      state_->values[loaded.program.body.inputs[i + 1]] = graph.inputs()[next++];
}

OnnxReference::~OnnxReference() = default;

std::vector<TensorData> OnnxReference::run(const Inputs& inputs) const {
  std::vector<std::string> names;
  for (const file::ValueInfoProto& output : state_->model.graph().output())
    names.push_back(output.name());
  std::vector<TensorData> results;
  for (std::vector<TensorData>& value : state_->whole.run(state_->feeds(inputs), names)) {
    if (value.empty()) value.emplace_back();
    for (TensorData& data : value) results.push_back(std::move(data));
  }
  return results;
}

OnnxReference::Explanation OnnxReference::explain(const Session& kept, const Inputs& inputs) const {
  return NodeWalk(*state_, kept, inputs).run();
}

}  // namespace hg::convert
