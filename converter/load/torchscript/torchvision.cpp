// SPDX-License-Identifier: Apache-2.0
// Each op runs as a program of one node, by its row and its own session.
#include "converter/load/torchscript/torchvision.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <stdexcept>
#include <string>

#include "converter/interpret/interpret.h"
#include "converter/load/torchscript/torch_module.h"
#include "hg/session.h"

namespace hg::convert {
namespace {

namespace jit = torch::jit;
using c10::IValue;

constexpr const char* kSchemas[] = {
    "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    "torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width) -> (Tensor, Tensor)",
    "torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
    "torchvision::ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width) -> (Tensor, Tensor)",
    "torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, "
    "Tensor bias, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, "
    "int dilation_w, int groups, int offset_groups, bool use_mask) -> Tensor",
};

void require(const Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

// A program that calls the op, with the arguments as inputs and constants.
struct OneNode {
  ScriptProgram program;
  std::vector<InputSpec> specs;
  std::vector<TensorData> data;

  OneNode(const c10::FunctionSchema& schema, const std::string& op, at::ArrayRef<IValue> given) {
    program.root = std::make_shared<Object>();
    program.body.inputs.push_back(program.value_count++);
    ScriptNode call;
    call.kind = op;
    for (size_t i = 0; i < given.size(); ++i) {
      const std::string& name = schema.arguments()[i].name();
      const ScriptId id = program.value_count++;
      call.argument_names.push_back(name);
      call.inputs.push_back(id);
      if (!given[i].isTensor()) {
        ScriptNode constant;
        constant.kind = "prim::Constant";
        constant.outputs = {id};
        constant.constant = given[i].isDouble() ? Item(given[i].toDouble())
                            : given[i].isBool() ? Item(given[i].toBool())
                                                : Item(given[i].toInt());
        program.body.nodes.push_back(std::move(constant));
        continue;
      }
      data.push_back(to_ours(given[i].toTensor()));
      if (data.back().empty())
        throw std::runtime_error(op + ": argument '" + name + "' is no plain tensor");
      const Tensor& tensor = data.back().tensor;
      program.body.inputs.push_back(id);
      program.inputs.push_back({name, "Tensor", false, {}});
      specs.push_back({name, {tensor.dtype, to_shape(tensor.shape)}});
    }
    for (size_t i = 0; i < schema.returns().size(); ++i) {
      call.outputs.push_back(program.value_count++);
      call.output_types.emplace_back("Tensor");
    }
    program.body.outputs = call.outputs;
    program.body.nodes.push_back(std::move(call));
  }
};

void run(const c10::FunctionSchema& schema, const std::string& op, jit::Stack& stack) {
  const size_t count = schema.arguments().size();
  const OneNode one(schema, op, at::ArrayRef<IValue>(stack).slice(stack.size() - count));
  Imported imported = import_program(one.program, one.specs, Registry::built_in());
  if (!imported.unsupported.empty())
    throw std::runtime_error(op + ": " + imported.unsupported[0].reason);
  require(imported.graph.status());
  Result<Model> model = Model::from_graph(std::move(imported.graph));
  require(model.status());
  Result<Session> session = Session::create(*model);
  require(session.status());
  for (size_t i = 0; i < one.data.size(); ++i)
    require(session->set_input(one.specs[i].name, one.data[i].tensor));
  require(session->run());
  stack.resize(stack.size() - count);
  for (int i = 0; i < session->output_count(); ++i) {
    const Result<Tensor> output = session->output(i);
    require(output.status());
    stack.emplace_back(to_torch(*output));
  }
}

}  // namespace

void declare_torchvision() {
  for (const char* text : kSchemas) {
    const c10::FunctionSchema schema = jit::parseSchema(text);
    const std::string op = schema.name();
    if (!jit::getAllOperatorsFor(c10::Symbol::fromQualString(op)).empty()) continue;
    jit::registerOperator(jit::Operator(
        text, [schema, op](jit::Stack& stack) { run(schema, op, stack); },
        c10::AliasAnalysisKind::FROM_SCHEMA));
  }
}

}  // namespace hg::convert
