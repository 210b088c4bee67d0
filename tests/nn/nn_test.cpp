// SPDX-License-Identifier: Apache-2.0
// Layers: their initial values, names, results in eager calls and in graphs, and training.
#include "hg/nn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "hg/create.h"
#include "hg/executor.h"
#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/must.h"

namespace hg {
namespace {

Executor cpu() { return *Executor::create({.threads = 1}); }

std::vector<float> floats_of(const Result<Array>& array) {
  EXPECT_TRUE(array.ok()) << array.status().message();
  if (!array.ok()) return {};
  const Result<Array> dense = Array::copy_of(*array);
  return std::vector<float>(dense->as<float>(), dense->as<float>() + dense->count());
}

std::vector<std::string> names_of(const Result<NamedArrays>& all) {
  std::vector<std::string> names;
  for (const auto& [name, array] : *all) names.push_back(name);
  return names;
}
using Names = std::vector<std::string>;

TEST(Layers, ArePrintedAsPyTorchPrintsThem) {
  using namespace nn;
  EXPECT_EQ(Linear(784, 256).text(), "Linear(in_features=784, out_features=256, bias=True)");
  EXPECT_EQ(Linear(2, 3, false).text(), "Linear(in_features=2, out_features=3, bias=False)");
  EXPECT_EQ(ReLU().text(), "ReLU()");
  EXPECT_EQ(Sigmoid().text(), "Sigmoid()");
  EXPECT_EQ(Tanh().text(), "Tanh()");
  EXPECT_EQ(GELU().text(), "GELU(approximate='none')");
  EXPECT_EQ(GELU(GeluApproximation::tanh).text(), "GELU(approximate='tanh')");
  EXPECT_EQ(Softmax(1).text(), "Softmax(dim=1)");
  EXPECT_EQ(Conv2d(4, 8, 3).text(), "Conv2d(4, 8, kernel_size=(3, 3), stride=(1, 1))");
  EXPECT_EQ(Conv2d(4, 8, {3, 5},
                   {.stride = 2, .padding = {1, 2}, .dilation = 2, .groups = 2, .bias = false})
                .text(),
            "Conv2d(4, 8, kernel_size=(3, 5), stride=(2, 2), padding=(1, 2), dilation=(2, 2), "
            "groups=2, bias=False)");
  EXPECT_EQ(
      BatchNorm2d(8).text(),
      "BatchNorm2d(8, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)");
  EXPECT_EQ(LayerNorm({10}).text(),
            "LayerNorm((10,), eps=1e-05, elementwise_affine=True, bias=True)");
  EXPECT_EQ(LayerNorm({2, 3}, 1e-6, false).text(),
            "LayerNorm((2, 3), eps=1e-06, elementwise_affine=False, bias=False)");
  EXPECT_EQ(Embedding(10, 3).text(), "Embedding(10, 3)");
  EXPECT_EQ(Embedding(10, 3, 0).text(), "Embedding(10, 3, padding_idx=0)");
  EXPECT_EQ(Dropout().text(), "Dropout(p=0.5, inplace=False)");
  EXPECT_EQ(Dropout(0.25).text(), "Dropout(p=0.25, inplace=False)");
  EXPECT_EQ(MSELoss().text(), "MSELoss()");
  const auto text = [](std::string_view kind, const Settings& settings = {}) {
    const Result<Layer> layer = make_layer(kind, settings);
    return layer.ok() ? layer->text() : std::string(layer.status().message());
  };
  const Attr two = std::vector<Dim>{2}, pair = std::vector<Dim>{3, 2};
  EXPECT_EQ(text("Conv1d", {{"in_channels", 3}, {"out_channels", 4}, {"kernel_size", 5}}),
            "Conv1d(3, 4, kernel_size=(5,), stride=(1,))");
  EXPECT_EQ(text("MaxPool2d", {{"kernel_size", two}}),
            "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)");
  EXPECT_EQ(text("AvgPool2d", {{"kernel_size", pair}, {"stride", two}}),
            "AvgPool2d(kernel_size=(3, 2), stride=2, padding=0)");
  EXPECT_EQ(text("AvgPool1d", {{"kernel_size", 3}}),
            "AvgPool1d(kernel_size=(3,), stride=(3,), padding=(0,))");
  EXPECT_EQ(text("Flatten"), "Flatten(start_dim=1, end_dim=-1)");
  EXPECT_EQ(text("GroupNorm", {{"num_groups", 2}, {"num_channels", 4}}),
            "GroupNorm(2, 4, eps=1e-05, affine=True)");
  EXPECT_EQ(text("LSTM", {{"hidden_size", 8}, {"input_size", 4}, {"bidirectional", true}}),
            "LSTM(4, 8, bidirectional=True)");
  EXPECT_EQ(text("GRU", {{"hidden_size", 8}, {"num_layers", 2}, {"batch_first", true}}),
            "GRU(?, 8, num_layers=2, batch_first=True)");
  EXPECT_EQ(text("LeakyReLU"), "LeakyReLU(negative_slope=0.01)");
  EXPECT_EQ(text("Softplus"), "Softplus(beta=1.0, threshold=20.0)");
  EXPECT_EQ(text("CrossEntropyLoss"), "CrossEntropyLoss()");
  EXPECT_NE(text("HuberLoss", {{"reduction", "most"}}).find("most"), std::string::npos);
  EXPECT_NE(text("Nothing").find("LogSoftmax"), std::string::npos);
  EXPECT_EQ(str_cat(Sequential{Linear(2, 3), ReLU(), Sequential{Dropout(), Sequential{}}}),
            "Sequential(\n"
            "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
            "  (1): ReLU()\n"
            "  (2): Sequential(\n"
            "    (0): Dropout(p=0.5, inplace=False)\n"
            "    (1): Sequential()\n"
            "  )\n"
            ")");
}

TEST(Layers, FlattenJoinsDims) {
  Result<ExecutorBase> ex = ExecutorBase::create();
  const Array x = *Array::allocate(f32, {2, 3, 4, 5});
  const auto flatten = [](int64_t first, int64_t last) {
    return *nn::make_layer("Flatten", {{"start_dim", first}, {"end_dim", last}});
  };
  EXPECT_EQ(flatten(1, -1)(*ex, x)->shape(), (Sizes{2, 60}));
  EXPECT_EQ(flatten(0, 1)(*ex, x)->shape(), (Sizes{6, 4, 5}));
  EXPECT_EQ(flatten(2, 2)(*ex, x)->shape(), (Sizes{2, 3, 4, 5}));
  EXPECT_FALSE(flatten(2, 1)(*ex, x).ok());
  EXPECT_FALSE(flatten(1, 4)(*ex, x).ok());
  Graph g;
  const Value open = g.input("x", f32, {"n", 3, 4, "w"});
  EXPECT_EQ(str_cat(flatten(1, -1)(open).shape()), "[n, 12*w]");
}

TEST(Layers, ParametersHavePyTorchsNamesAndShapes) {
  nn::Sequential net = {nn::Linear(2, 3),
                        nn::Sequential{nn::Conv2d(4, 6, {3, 1}, {.groups = 2}), nn::BatchNorm2d(6)},
                        nn::Embedding(5, 2), nn::LayerNorm({7})};
  EXPECT_EQ(names_of(net.parameters()),
            (Names{"0.weight", "0.bias", "1.0.weight", "1.0.bias", "1.1.weight", "1.1.bias",
                   "2.weight", "3.weight", "3.bias"}));
  EXPECT_EQ(names_of(net.buffers()),
            (Names{"1.1.running_mean", "1.1.running_var", "1.1.num_batches_tracked"}));
  const auto parameters = *net.parameters();
  EXPECT_EQ(parameters[0].second.shape(), (Sizes{3, 2}));
  EXPECT_EQ(parameters[2].second.shape(), (Sizes{6, 2, 3, 1}));
  EXPECT_EQ(parameters[7].second.shape(), (Sizes{7}));
}

// The least and the greatest of many draws are near the ends of the range, and none is beyond.
void expect_uniform(const Array& array, double bound) {
  const std::vector<float> values = floats_of(array);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -bound * 1.000001);
  EXPECT_LE(*most, bound * 1.000001);
  EXPECT_LT(*least, -0.98 * bound);
  EXPECT_GT(*most, 0.98 * bound);
  double sum = 0;
  for (const float v : values) sum += v;
  EXPECT_NEAR(sum / double(values.size()), 0, 0.1 * bound);
}

TEST(Layers, StartAsPyTorchStartsThem) {
  nn::Linear linear(100, 300);
  ASSERT_TRUE(linear.initialise(1).ok());
  expect_uniform((*linear.parameters())[0].second, 0.1);
  expect_uniform((*linear.parameters())[1].second, 0.1);
  nn::Conv2d conv(8, 500, 5, {.groups = 2});
  expect_uniform((*conv.parameters())[0].second, 0.1);
  expect_uniform((*conv.parameters())[1].second, 0.1);
  nn::BatchNorm2d norm(3);
  EXPECT_EQ(floats_of((*norm.parameters())[0].second), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(floats_of((*norm.parameters())[1].second), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(floats_of((*norm.buffers())[0].second), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(floats_of((*norm.buffers())[1].second), (std::vector<float>{1, 1, 1}));
  nn::Embedding embedding(500, 40, -1);
  const std::vector<float> vectors = floats_of((*embedding.parameters())[0].second);
  double squares = 0;
  for (const float v : vectors) squares += double(v) * v;
  EXPECT_NEAR(squares / double(vectors.size()), 1, 0.05);
  for (size_t i = vectors.size() - 40; i < vectors.size(); ++i) EXPECT_EQ(vectors[i], 0);
}

TEST(Layers, TheSeedDecides) {
  const auto bytes = [](uint64_t seed) {
    nn::Sequential net = {nn::Linear(3, 4), nn::Linear(3, 4)};
    EXPECT_TRUE(net.initialise(seed).ok());
    std::vector<float> all;
    const NamedArrays parameters = *net.parameters();
    for (const auto& [name, array] : parameters)
      for (const float v : floats_of(array)) all.push_back(v);
    return all;
  };
  EXPECT_EQ(bytes(5), bytes(5));
  EXPECT_NE(bytes(5), bytes(6));
  const std::vector<float> both = bytes(5);
  EXPECT_FALSE(std::equal(both.begin(), both.begin() + 16, both.begin() + 16));  // they differ
  // Arrays that were taken before see the new numbers.
  nn::Linear layer(3, 4);
  const Array weight = (*layer.parameters())[0].second;
  const std::vector<float> before = floats_of(weight);
  ASSERT_TRUE(layer.initialise(9).ok());
  EXPECT_NE(floats_of(weight), before);
}

// The result of a graph of the layer.
std::vector<float> in_graph(const nn::Layer& layer, const Array& x) {
  Graph g;
  Shape shape = to_shape(x.shape());
  shape[0] = "n";
  g.output("y", layer(g.input("x", x.dtype(), shape)));
  const Model model = must(Model::from_graph(std::move(g)));
  Session session = *Session::create(model, {.threads = 1});
  EXPECT_TRUE(session.set_input("x", x).ok());
  EXPECT_TRUE(session.run().ok());
  const Tensor y = *session.output(0);
  return floats_of(Array::copy_of(y));
}

TEST(Layers, SayTheSameAtOnceAndInAGraph) {
  using namespace nn;
  Executor ex = cpu();
  const Array image = *rand({2, 4, 6, 5}, 1), rows = *randn({3, 10}, 2);
  const Array words = *randint(0, 10, {3, 2}, 3), steps = *randn({5, 2, 3}, 4);
  const std::vector<std::pair<Layer, Array>> cases = {
      {Linear(10, 7), rows},
      {Linear(10, 7, false), rows},
      {Conv2d(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}), image},
      {BatchNorm2d(4), image},
      {BatchNorm2d(4, 1e-3, 0.2, false), image},
      {LayerNorm({10}), rows},
      {LayerNorm({6, 5}, 1e-6, false), image},
      {Embedding(10, 3, 0), words},
      {Dropout(0.5), rows},
      {ReLU(), rows},
      {Sigmoid(), rows},
      {Tanh(), rows},
      {GELU(), rows},
      {GELU(GeluApproximation::tanh), rows},
      {Softmax(-1), rows},
      {*make_layer("LSTM", {{"hidden_size", 3}, {"num_layers", 2}, {"proj_size", 2}}), steps},
      {*make_layer("GRU", {{"hidden_size", 3}, {"batch_first", true}, {"bidirectional", true}}),
       steps},
      {*make_layer("RNN", {{"hidden_size", 3}, {"bias", false}}), steps},
      {Sequential{}, rows},
      {Sequential{Linear(10, 16), GELU(), Sequential{LayerNorm({16}), Linear(16, 2)}, Softmax(1)},
       rows},
  };
  for (auto [layer, x] : cases) {
    layer.eval();
    const std::vector<float> once = floats_of(layer(ex, x)), graph = in_graph(layer, x);
    ASSERT_EQ(once.size(), graph.size()) << layer.text();
    for (size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(once[i], graph[i], 2e-6) << layer.text();
  }
  Array bias = (*cases[0].first.parameters())[1].second;
  for (int i = 0; i < 7; ++i) bias.write<float>()[i] = 100;  // later calls see what is written here
  EXPECT_GT(floats_of(cases[0].first(ex, rows))[0], 50);
  EXPECT_GT(in_graph(cases[0].first, rows)[0], 50);
}

TEST(Layers, TrainingIsAMode) {
  Executor ex = cpu();
  nn::Sequential net = {nn::BatchNorm2d(2, 1e-5, 0.5), nn::Dropout(0.5)};
  const std::vector<float> values = {1, 3, 2, 6};
  const Array x = *Array::copy_of(view(values, {2, 2, 1, 1}));
  EXPECT_TRUE(net.is_training());
  EXPECT_TRUE(net(ex, x).ok());
  const auto buffers = *net.buffers();
  EXPECT_EQ(floats_of(buffers[0].second), (std::vector<float>{0.75, 2.25}));  // half of the means
  EXPECT_EQ(floats_of(buffers[1].second), (std::vector<float>{0.75, 2.75}));  // and of 1 and var
  EXPECT_EQ(buffers[2].second.as<int64_t>()[0], 1);
  const Array many = *ones({1000});
  nn::Dropout dropout;
  const std::vector<float> dropped = floats_of(dropout(ex, many));
  EXPECT_NEAR(double(std::count(dropped.begin(), dropped.end(), 0.0f)), 500, 100);
  dropout.eval();
  EXPECT_EQ(floats_of(dropout(ex, many)), std::vector<float>(1000, 1));
  net.eval();
  EXPECT_TRUE(net(ex, x).ok());
  EXPECT_EQ(buffers[2].second.as<int64_t>()[0], 1);
}

TEST(Layers, LossesTakeATarget) {
  Executor ex = cpu();
  const Array x = *arange(0, 4), target = *ones({4});
  EXPECT_EQ(floats_of(nn::MSELoss()(ex, x, target)), std::vector<float>{1.5});
  EXPECT_EQ(floats_of(nn::MSELoss(Reduction::sum)(ex, x, target)), std::vector<float>{6});
  EXPECT_EQ(floats_of(nn::MSELoss(Reduction::none)(ex, x, target)),
            (std::vector<float>{1, 0, 1, 4}));
  EXPECT_FALSE(nn::MSELoss()(ex, x).ok());
  EXPECT_FALSE(nn::ReLU()(ex, x, target).ok());
  Graph g;
  const Value v = g.input("x", f32, {4});
  g.output("loss", nn::MSELoss()(v, g.input("target", f32, {4})));
  EXPECT_TRUE(g.status().ok());
  (void)nn::MSELoss()(v);
  EXPECT_FALSE(g.status().ok());
}

TEST(Layers, ErrorsNameShapesAndNames) {
  Executor ex = cpu();
  const Status status = nn::Linear(3, 4)(ex, *zeros({2, 5})).status();
  EXPECT_NE(status.message().find("[2, 5]"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("[4, 3]"), std::string::npos) << status.message();
  Graph g;
  const Value x = g.input("x", f32, {2, 3});
  const nn::Linear shared(3, 3), other(3, 3);
  g.output("y", shared(shared(x, "a"), "a"));  // the same parameters used twice
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(g.states().size(), 2u);
  EXPECT_EQ(g.states()[0].name, "a.weight");
  EXPECT_EQ(g.nodes()[0].origin.module, "a");
  (void)other(x, "a");
  EXPECT_NE(g.status().message().find("'a.weight'"), std::string::npos) << g.status().message();
  nn::Linear narrow(2, 3);
  EXPECT_NE(narrow.load(g, "a").message().find("[3, 3]"), std::string::npos);
  EXPECT_EQ(narrow.load(g, "b").code(), Code::not_found);
}

// 784-256-10, as for handwritten digits: classes that a linear network separates.
TEST(Layers, AnMlpTrains) {
  constexpr int64_t kSamples = 200;
  nn::Sequential net = {nn::Linear(784, 256), nn::ReLU(), nn::Dropout(0.1), nn::Linear(256, 10)};
  ASSERT_TRUE(net.initialise(1).ok());
  Executor ex = cpu();
  const Array centers = *randn({10, 784}, 4), noise = *randn({kSamples, 784}, 5);
  const Array labels = *randint(0, 10, {kSamples}, 6);
  const Array images = *ex.add(ex.index_select(centers, labels, 0), ex.mul(noise, 0.5));
  Graph g;
  g.output("scores", net(g.input("image", f32, {"n", 784})));
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  TrainOptions options;
  options.losses = {{.kind = Loss::Kind::cross_entropy}};
  options.metrics = {{.kind = Metric::Kind::accuracy}};
  options.optimizer = adam(1e-3);
  options.session.threads = 1;
  Trainer trainer = *Trainer::create(*Model::from_graph(std::move(g)), options);
  EXPECT_EQ(trainer.trained(), (Names{"0.weight", "0.bias", "3.weight", "3.bias"}));
  const Dataset data = {{images}, {labels}};
  const double before = trainer.evaluate(data)->loss;
  EXPECT_NEAR(before, std::log(10), 0.5);
  ASSERT_TRUE(trainer.fit(data, {.epochs = 5, .batch = 20}).ok());
  const Evaluation after = *trainer.evaluate(data);
  EXPECT_LT(after.loss, 0.1);
  EXPECT_GT(after.metrics[0], 0.99);
  // The trained layers, at once.
  const Model trained = *trainer.model();
  const std::vector<float> untrained = floats_of((*net.parameters())[0].second);
  ASSERT_TRUE(net.load(trained.graph()).ok());
  EXPECT_NE(floats_of((*net.parameters())[0].second), untrained);
  net.eval();
  EXPECT_NEAR(floats_of(ex.cross_entropy(net(ex, images), labels))[0], after.loss, 1e-4);
}

}  // namespace
}  // namespace hg
