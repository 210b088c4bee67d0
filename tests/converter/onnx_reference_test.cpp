// SPDX-License-Identifier: Apache-2.0
// Compares a converted model with ONNX Runtime: equal outputs, and the first wrongly converted
// node. Skipped without ONNX Runtime.
#include "converter/check/onnx_reference.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "converter/core/failure.h"
#include "converter/interpret/interpret.h"
#include "hg/model.h"
#include "hg/session.h"
#include "hg_onnx.pb.h"

namespace hg::convert {
namespace {

namespace file = hg::onnx_file;

void add_node(file::GraphProto& graph, const char* op, const char* in, const char* out) {
  file::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(std::string("the_") + out);
  node.add_input(in);
  node.add_output(out);
}

// x -> Neg -> LeakyRelu(alpha) -> Tanh -> y
std::string write_model(const std::string& name, float alpha) {
  file::ModelProto model;
  model.set_ir_version(8);
  file::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(17);
  file::GraphProto& graph = *model.mutable_graph();
  graph.set_name("test");
  file::ValueInfoProto& x = *graph.add_input();
  x.set_name("x");
  auto& type = *x.mutable_type()->mutable_tensor_type();
  type.set_elem_type(file::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("n");
  type.mutable_shape()->add_dim()->set_dim_value(3);
  add_node(graph, "Neg", "x", "a");
  add_node(graph, "LeakyRelu", "a", "b");
  file::AttributeProto& attribute = *graph.mutable_node(1)->add_attribute();
  attribute.set_name("alpha");
  attribute.set_type(file::AttributeProto::FLOAT);
  attribute.set_f(alpha);
  add_node(graph, "Tanh", "b", "y");
  graph.add_output()->set_name("y");
  const std::string path = (std::filesystem::path(::testing::TempDir()) / name).string();
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  return path;
}

// A converted file, and a run of it for some x.
struct Converted {
  explicit Converted(const std::string& path) : loaded(load_onnx(path, path, {})) {
    const InputSpec spec{"x", *loaded.program.inputs[0].known};
    imported.emplace(import_program(loaded.program, std::vector{spec}, Registry::built_in()));
    graph = imported->graph;
    model.emplace(*Model::from_graph(imported->graph));
    inputs = make_inputs(std::vector{spec}, {{"n", 4}}, Job(), Draw());
    SessionOptions options;
    options.keep_all_values = true;
    kept.emplace(*Session::create(*model, options));
    EXPECT_TRUE(kept->set_input("x", inputs.data[0].tensor).ok());
    EXPECT_TRUE(kept->run().ok());
  }

  Loaded loaded;
  std::optional<Imported> imported;
  Graph graph;
  std::optional<Model> model;
  Inputs inputs;
  std::optional<Session> kept;
};

file::TensorProto& add_weight(file::GraphProto& graph, const char* name, float value) {
  file::TensorProto& weight = *graph.add_initializer();
  weight.set_name(name);
  weight.set_data_type(file::TensorProto::FLOAT);
  for (const int64_t size : {3, 3}) weight.add_dims(size);
  for (int i = 0; i < 9; ++i) weight.add_float_data(value);
  return weight;
}

// Each dim is 3.
void add_input(file::GraphProto& graph, const char* name, file::TensorProto::DataType dtype,
               int rank) {
  file::ValueInfoProto& input = *graph.add_input();
  input.set_name(name);
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(dtype);
  type.mutable_shape();
  for (int i = 0; i < rank; ++i) type.mutable_shape()->add_dim()->set_dim_value(3);
}

// Returns the trainable parameters, and the first number of each.
std::map<std::string, float> parameters_of(const file::ModelProto& model, const char* file_name) {
  const std::string path = (std::filesystem::path(::testing::TempDir()) / file_name).string();
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  const Loaded loaded = load_onnx(path, path, {});
  std::vector<InputSpec> specs;
  for (const ScriptInput& input : loaded.program.inputs)
    specs.push_back({input.name, *input.known});
  const Imported imported = import_program(loaded.program, specs, Registry::built_in());
  std::map<std::string, float> found;
  for (const State& state : imported.graph.states())
    if (state.kind == State::Kind::parameter && state.requires_grad)
      found[state.name] = state.data.tensor.as<float>()[0];
  return found;
}

// Initializers of the branches of an If are trained like those of the main graph.
TEST(Onnx, WeightsOfBodiesAreParameters) {
  file::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  file::GraphProto& graph = *model.mutable_graph();
  add_input(graph, "x", file::TensorProto::FLOAT, 2);
  add_input(graph, "way", file::TensorProto::BOOL, 0);
  add_node(graph, "If", "way", "y");
  graph.add_output()->set_name("y");
  float value = 1;
  for (const char* name : {"then_branch", "else_branch"}) {
    file::AttributeProto& attribute = *graph.mutable_node(0)->add_attribute();
    attribute.set_name(name);
    attribute.set_type(file::AttributeProto::GRAPH);
    file::GraphProto& body = *attribute.mutable_g();
    body.set_name(name);
    add_weight(body, "weight", value++);
    add_node(body, "MatMul", "x", "product");
    body.mutable_node(0)->add_input("weight");
    body.add_output()->set_name("product");
  }
  EXPECT_EQ(parameters_of(model, "weights_of_bodies.onnx"),
            (std::map<std::string, float>{{"weight", 1}, {"weight_1", 2}}));
}

// A transposed copy of a weight is the same parameter; layers that start with equal values are not.
TEST(Onnx, CopiesOfWeightsThatAreTurned) {
  file::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  model.set_producer_name("pytorch");
  file::GraphProto& graph = *model.mutable_graph();
  add_input(graph, "x", file::TensorProto::FLOAT, 2);
  const auto product = [&](const char* in, const char* weight, const char* out) {
    add_node(graph, "MatMul", in, out);
    graph.mutable_node(graph.node_size() - 1)->add_input(weight);
  };
  for (const char* name : {"identity", "onnx::identity"}) {
    file::TensorProto& weight = add_weight(graph, name, 0);
    for (int i = 0; i < 3; ++i) weight.set_float_data(i * 4, 1);
  }
  for (const char* name : {"weight", "onnx::turned"}) {
    file::TensorProto& weight = add_weight(graph, name, 0);
    for (int i = 0; i < 9; ++i)
      weight.set_float_data(i, 1 + static_cast<float>(name[0] == 'w' ? i : i % 3 * 3 + i / 3));
  }
  product("x", "identity", "a");
  product("a", "onnx::identity", "b");
  product("b", "weight", "c");
  product("c", "onnx::turned", "y");
  graph.add_output()->set_name("y");
  EXPECT_EQ(parameters_of(model, "turned_weights.onnx"),
            (std::map<std::string, float>{{"identity", 1}, {"onnx::identity", 1}, {"weight", 1}}));
}

class OnnxReferenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      runtime_ = std::make_unique<OnnxRuntime>("");
    } catch (const Failure& failure) {
      GTEST_SKIP() << failure.message;
    }
  }
  std::unique_ptr<OnnxRuntime> runtime_;
};

TEST_F(OnnxReferenceTest, FindsEveryNodeEqual) {
  const Converted made(write_model("equal.onnx", 0.5F));
  const OnnxReference reference(*runtime_, made.loaded, made.graph, made.imported->trace);
  const std::vector<TensorData> outputs = reference.run(made.inputs);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0].tensor.shape, (Sizes{4, 3}));
  const OnnxReference::Explanation why = reference.explain(*made.kept, made.inputs);
  EXPECT_FALSE(why.wrong.has_value());
  EXPECT_TRUE(why.complete);
  EXPECT_EQ(why.trouble, "");
}

// Simulates a conversion with a wrong alpha.
TEST_F(OnnxReferenceTest, NamesTheFirstWrongNode) {
  const Converted other(write_model("other.onnx", 0.5F));
  Converted made(write_model("made.onnx", 0.25F));
  made.loaded.onnx = std::make_shared<OnnxSource>(
      OnnxSource{other.loaded.onnx->path, other.loaded.onnx->model, made.loaded.onnx->values});
  const OnnxReference reference(*runtime_, made.loaded, made.graph, made.imported->trace);
  const OnnxReference::Explanation why = reference.explain(*made.kept, made.inputs);
  ASSERT_TRUE(why.wrong.has_value());
  EXPECT_EQ(why.wrong->op, "onnx::LeakyRelu");
  EXPECT_EQ(why.wrong->origin.module, "the_b");
  EXPECT_TRUE(why.wrong->sure);
  EXPECT_NE(why.wrong->difference.find("ONNX Runtime has"), std::string::npos)
      << why.wrong->difference;
}

TEST_F(OnnxReferenceTest, SaysWhatTheRuntimeRefuses) {
  const Converted made(write_model("refused.onnx", 0.5F));
  Inputs wrong;
  wrong.data.push_back(*TensorData::allocate(i64, {4, 3}));
  const OnnxReference reference(*runtime_, made.loaded, made.graph, made.imported->trace);
  EXPECT_THROW(reference.run(wrong), OnnxRefusal);
}

TEST(OnnxRuntimeTest, SaysWhereItLooked) {
  try {
    const OnnxRuntime runtime(::testing::TempDir());
    FAIL() << "a folder without a library";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit, Exit::usage);
    EXPECT_NE(failure.message.find(::testing::TempDir()), std::string::npos) << failure.message;
  }
}

}  // namespace
}  // namespace hg::convert
