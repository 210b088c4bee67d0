// SPDX-License-Identifier: Apache-2.0
// What a session rejects, and the error message: bad inputs, sizes and data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hg/array.h"
#include "hg/hg.h"
#include "hg/npy.h"
#include "hg/op.h"
#include "hg/shared_states.h"
#include "tests/support/must.h"
#include "tests/support/small_model.h"

namespace hg {
namespace {

using test::copy_of;
using test::expect_message;
using test::ramp;
using test::small_model;

TEST(Refusals, RefusesBadInputsWithASentence) {
  const Model model = small_model();
  Session session = *Session::create(model);
  std::vector<float> x = ramp(32);
  std::vector<double> doubles(32);
  expect_message(session.run(), Code::invalid_argument, "input 'x' is not set");
  expect_message(session.output("y").status(), Code::invalid_argument, "call run() first");
  expect_message(session.set_input("image", view(x, {2, 16})), Code::not_found,
                 "there is no input 'image'; the inputs are x");
  expect_message(session.set_input(1, view(x, {2, 16})), Code::not_found, "the model has 1");
  expect_message(session.set_input("x", view(doubles, {2, 16})), Code::invalid_argument,
                 "takes f32[n, 16], not a tensor of f64");
  expect_message(session.set_input("x", view(x, {32})), Code::invalid_argument, "rank 2");
  expect_message(session.set_input("x", view(x, {4, 8})), Code::invalid_argument,
                 "dimension 1 is 8, not 16");
  expect_message(session.set_input("x", view(static_cast<const void*>(nullptr), f32, {2, 16})),
                 Code::invalid_argument, "null data");
  expect_message(session.output("q").status(), Code::not_found, "the outputs are y, z");
  for (const auto& [limit, options] :
       {std::pair<const char*, SessionOptions>{"threads", {.threads = -1}},
        {"memory_limit", {.memory_limit = -1}},
        {"most_rounds", {.most_rounds = -1}}})
    expect_message(Session::create(model, options).status(), Code::invalid_argument,
                   str_cat(limit, " is -1; it must not be negative"));
  expect_message(Session::create(model, {.dims = {{"m", 3}}}).status(), Code::invalid_argument,
                 "the model has no size 'm'");
  expect_message(Session::create(model, {.disabled_passes = {"magic"}}).status(),
                 Code::invalid_argument, "there is no pass 'magic'");
}

// A tensor made without view() has no strides, so that all its elements would be the first one.
TEST(Refusals, RefusesTensorsWithoutDataOrStrides) {
  std::vector<float> x = ramp(32);
  const Sizes shape = {2, 16};
  const ConstTensor no_strides(x.data(), f32, shape, {});
  const ConstTensor few_strides(x.data(), f32, shape, {1});
  const ConstTensor no_data(nullptr, f32, shape, {16, 1});
  Session session = *Session::create(small_model());
  Graph g;
  const Value count = g.buffer("count", must(TensorData::allocate(f32, shape)));
  g.assign(count, count + 1.0);
  g.output("y", count);
  const Model counter = must(Model::from_graph(std::move(g)));
  Session own = *Session::create(counter);
  const auto shared = must(SharedStates::create(counter));
  for (const auto& [tensor, part] :
       {std::pair<ConstTensor, const char*>{no_strides, "strides [] for shape [2, 16]"},
        {few_strides, "strides [1] for shape [2, 16]"},
        {no_data, "null data for shape [2, 16]"}}) {
    const auto refuses = [&](const Status& status) {
      expect_message(status, Code::invalid_argument, part);
    };
    refuses(session.set_input("x", tensor));
    refuses(own.set_value("count", tensor));
    refuses(shared->set_value("count", tensor));
    refuses(TensorData::copy_of(tensor).status());
    refuses(Array::copy_of(tensor).status());
    refuses(write_npy("refused.npy", tensor));
  }
  Tensor out = view(x, shape);
  out.strides = {};
  expect_message(session.set_output("y", out), Code::invalid_argument, "strides [] for shape");
}

TEST(Refusals, RefusesASizeThatMeansTwoNumbers) {
  Graph g;
  const Value a = g.input("a", f32, {"n", 2});
  const Value b = g.input("b", f32, {"n", 2});
  g.output("y", g.call("add", {a, b}));
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model);
  std::vector<float> x = ramp(8);
  ASSERT_TRUE(session.set_input("a", view(x, {2, 2})).ok());
  ASSERT_TRUE(session.set_input("b", view(x, {4, 2})).ok());
  expect_message(session.run(), Code::invalid_argument,
                 "the size 'n' is 2 in one place and 4 in another");
}

TEST(Refusals, FindsSizesFromExpressions) {
  Graph g;
  const Value a = g.input("a", f32, {Dim("n") * 2 + 1});
  g.output("y", g.call("relu", {a}));
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model);
  std::vector<float> x = ramp(8);
  ASSERT_TRUE(session.set_input("a", view(x, {7})).ok());
  EXPECT_TRUE(session.run().ok());
  ASSERT_TRUE(session.set_input("a", view(x, {8})).ok());
  EXPECT_FALSE(session.run().ok());
}

TEST(Refusals, RefusesSizesThatAGuardRulesOut) {
  Graph g;
  const Value x = g.input("x", f32, {"n", "m"});
  g.set_origin({"", "model.py:3"});
  g.guard("n", Relation::ne, 1, "squeeze");
  const auto body = [&](bool guarded) {
    auto graph = std::make_shared<Graph>();
    const Value v = graph->input("v", f32, {"n", "m"});
    if (guarded) graph->guard("m", Relation::lt, 4, "a branch");
    graph->output("", graph->call("neg", {v}));
    return graph;
  };
  const Value chosen[] = {g.call("any", {g.call("lt", {x, g.scalar(0.0)})}), x};
  g.output("y", g.calls("if", chosen, {}, {body(true), body(false)})[0]);
  // At most two elements may be above 0.
  const Value found = g.call("nonzero", {g.call("gt", {x, g.scalar(0.0)})});
  g.guard(found.dim(0), Relation::lt, 3, "a list");
  ASSERT_TRUE(g.verify().ok()) << g.verify().message();
  const Model model = *Model::from_graph(std::move(g));

  const auto answer = [&](Session& session, std::vector<float> values, Sizes shape) {
    Status status = session.set_input("x", view(values, shape));
    if (status.ok()) status = session.run();
    return std::string(status.message());
  };
  Session session = *Session::create(model, {});
  EXPECT_EQ(answer(session, {1, 2, 0, 0}, {2, 2}), "");
  EXPECT_EQ(answer(session, {1, 2}, {1, 2}),
            "n is 1, but the model was converted for n other than 1, because of squeeze at "
            "model.py:3; n is dim 0 of 'x'");
  EXPECT_EQ(answer(session, {0, 0, 0, 0, 0, 0, 0, 0}, {2, 4}), "");
  EXPECT_NE(answer(session, {0, 0, -1, 0, 0, 0, 0, 0}, {2, 4}).find("m is 4"), std::string::npos);
  EXPECT_NE(answer(session, {1, 1, 1, 1, 0, 0}, {2, 3}).find("below 3, because of a list"),
            std::string::npos);
  EXPECT_EQ(answer(session, {-1, 2, 0, 0}, {2, 2}), "");

  SessionOptions options;
  options.dims = {{"n", 1}, {"m", 2}};
  const Result<Session> fixed = Session::create(model, options);
  ASSERT_FALSE(fixed.ok());
  EXPECT_NE(fixed.status().message().find("n is 1, but"), std::string::npos);
}

TEST(Refusals, RefusesSizesThatDoNotBroadcast) {
  Graph g;
  const Value a = g.input("a", f32, {"n"});
  const Value b = g.input("b", f32, {"m"});
  g.output("y", g.call("add", {a, b}));
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model);
  std::vector<float> x = ramp(8);
  ASSERT_TRUE(session.set_input("a", view(x, {2})).ok());
  ASSERT_TRUE(session.set_input("b", view(x, {2})).ok());
  EXPECT_TRUE(session.run().ok());
  ASSERT_TRUE(session.set_input("b", view(x, {1})).ok());
  EXPECT_TRUE(session.run().ok());
  ASSERT_TRUE(session.set_input("b", view(x, {3})).ok());
  expect_message(session.run(), Code::invalid_argument, "do not broadcast");
}

TEST(Refusals, AnIndexOutOfRangeFailsTheRun) {
  Graph g;
  const Value x = g.input("x", f32, {3}), at = g.input("at", i64, {2});
  g.output("y", g.call("index_select", {x, at}, {{"dim", 0}}));
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model);
  std::vector<float> values = {1, 2, 3};
  std::vector<int64_t> indices = {0, 3};
  ASSERT_TRUE(session.set_input("x", view(values, {3})).ok());
  ASSERT_TRUE(session.set_input("at", view(indices, {2})).ok());
  EXPECT_EQ(session.run().code(), Code::invalid_argument);
  indices[1] = 2;
  EXPECT_TRUE(session.run().ok());
  EXPECT_EQ(copy_of(*session.output("y")), (std::vector<float>{1, 3}));
}

// As the only node, with a constant, and in a pointwise program.
TEST(Refusals, DivisionsOfIntegersByZeroFailTheRun) {
  for (const char* op : {"floor_divide", "trunc_divide", "remainder", "fmod"}) {
    for (const bool fused : {false, true}) {
      Graph g;
      const Value a = g.input("a", i64, {"n"});
      const Value b = g.input("b", i64, {"n"});
      const Value y = g.call(op, {a, b});
      g.output("y", fused ? g.call("neg", {g.call("add", {y, a})}) : y);
      const Model model = *Model::from_graph(std::move(g));
      Session session = *Session::create(model, {.threads = 2});
      std::vector<int64_t> x(40000, 7), divisors(40000, 2);
      ASSERT_TRUE(session.set_input("a", view(x, {40000})).ok());
      ASSERT_TRUE(session.set_input("b", view(divisors, {40000})).ok());
      EXPECT_TRUE(session.run().ok());
      divisors[39999] = 0;
      expect_message(session.run(), Code::invalid_argument, "divided by zero");
      divisors[39999] = -1;
      EXPECT_TRUE(session.run().ok());
    }
  }
}

TEST(Refusals, NumbersThatNoIntegerHasFailTheRun) {
  Graph g;
  g.output("y", g.call("to_integer", {g.input("x", f32, {"n"})}));
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model);
  std::vector<float> x = {1.9f, -1.9f, -9.2e18f};
  ASSERT_TRUE(session.set_input("x", view(x, {3})).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(session.output("y")->as<int64_t>()[1], -1);
  for (const float bad : {9.3e18f, -1e19f, std::nanf(""), INFINITY}) {
    x[2] = bad;
    expect_message(session.run(), Code::invalid_argument, "too large for i64");
  }
}

TEST(Refusals, NumbersThatNoIntegerHasFailTheRunThoughNobodyReadsThem) {
  Graph g;
  const Value x = g.input("x", f32, {});
  g.call("to_integer", {x});
  g.output("y", x + x);
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model);
  float number = 1.5f;
  ASSERT_TRUE(session.set_input("x", view(&number, f32, {})).ok());
  ASSERT_TRUE(session.run().ok());
  number = std::nanf("");
  expect_message(session.run(), Code::invalid_argument, "too large for i64");
}

// A hostile file may contain inputs that do not fit each other, and huge numbers.
TEST(Refusals, ShapeRulesBelieveNoInputAndNoNumber) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  const TensorType floats2 = {f32, {2}}, longs2 = {i64, {2}}, image = {f32, {1, 1, 4, 4}};
  const struct {
    std::string_view op;
    std::vector<TensorType> inputs;
    NamedAttrs attrs;
    std::string_view sentence;
  } kCases[] = {
      {"ctc_loss_grad",
       {{f32, {3}}, {f32, {4, 2, 5}}, {i64, {2, 3}}, longs2, longs2},
       {},
       "dy must"},
      {"lstm_scan", {{f32, {2, 1, 5}}, {f32, {1, 1}}, {f32, {1, 1}}, {f32, {5, 1}}}, {}, "hidden"},
      {"gru_scan", {{f32, {2, 1, 5}}, {f32, {1, 1}}, {f32, {5, 1}}}, {}, "hidden"},
      {"lstm_scan_grad", {{f32, {2, 1, 5}}, {f32, {1, 1}}, {f32, {5, 1}}}, {}, "do not fit"},
      {"gru_scan_grad",
       {{f32, {2, 1, 3}}, {f32, {2, 1, 3}}, {f32, {2, 1, 1}}, {f64, {3, 1}}},
       {},
       "the weight is f64"},
      {"conv_weight_grad", {image, {f32, {1, 1, 9, 9}}}, {{"kernel", Shape{3, 3}}}, "positions"},
      {"bincount", {{i64, {4}}, floats2}, {}, "weights are [2]"},
      {"bincount", {{i64, {0}}}, {{"minlength", -1}}, "minlength is -1"},
      {"max_pool",
       {{i64, {1, 2, 0, 9}}},
       {{"kernel_size", Shape{3}}, {"padding", Shape{1}}, {"ceil_mode", true}},
       "no element to pool"},
      {"pinv", {{f32, {3, 1}}, {f32, {1}}}, {{"hermitian", true}}, "square"},
      {"pinv", {{f32, {3, 3}}, {f32, {3, 3}}}, {}, "bound is"},
      {"threshold", {{i64, {3}}}, {{"threshold", 1.0}, {"value", -5e120}}, "value must be whole"},
      {"roi_align",
       {{f32, {1, 1, 0, 4}}, {f32, {1, 5}}},
       {{"output_size", Shape{2, 2}}},
       "no pixels"},
      {"roi_align",
       {image, {f32, {1, 5}}},
       {{"output_size", Shape{2, 2}}, {"sampling_ratio", kHuge}},
       "sampling_ratio"},
      {"roi_align_grad",
       {{f32, {1, 1, 2, 2}}, {f32, {1, 5}}},
       {{"input_size", Shape{1, 1, 0, 4}}, {"output_size", Shape{2, 2}}},
       "no pixels"},
      {"col2im",
       {{f32, {1, 4, 1}}},
       {{"output_size", Shape{int64_t{1} << 32, int64_t{1} << 32}},
        {"kernel_size", Shape{int64_t{1} << 32, int64_t{1} << 32}}},
       "block"},
      {"pad", {{f32, {5}}}, {{"pads", Shape{-10, 10}}}, "less than nothing"},
      {"pad", {{f32, {5}}}, {{"pads", Shape{INT64_MIN, INT64_MAX}}}, "less than nothing"},
      {"max_pool",
       {{f32, {1, 1, 3}}},
       {{"kernel_size", Shape{kHuge}}, {"padding", Shape{kHuge / 2}}},
       "nearly all padding"},
      {"max_pool",
       {{f32, {1, 1, 3}}},
       {{"kernel_size", Shape{(int64_t{1} << 62) + 1}}, {"dilation", Shape{4}}},
       "64 bits"},
      {"conv",
       {image, {f32, {1, 1, 3, 3}}},
       {{"padding", Shape{kHuge, kHuge}}, {"stride", Shape{kHuge, kHuge}}},
       "elements"},
      {"reshape", {{f32, {0}}}, {{"shape", Shape{int64_t{1} << 32, int64_t{1} << 32}}}, "64 bits"},
      {"nll_loss",
       {{f32, {2, "n"}}, longs2},
       {{"ignore_index", Dim("n")}},
       "ignore_index is n, but must be a number"},
      {"embedding",
       {{f32, {"n", 2}}, longs2},
       {{"padding_idx", Dim("n")}},
       "padding_idx is n, but must be a number"},
  };
  for (const auto& one : kCases) {
    Graph g;
    std::vector<Value> inputs;
    for (const TensorType& type : one.inputs) inputs.push_back(g.input("", type.dtype, type.shape));
    const Op& op = *Registry::built_in().find(one.op);
    inputs.resize(std::max(inputs.size(), op.signature.inputs.size()));  // optional ones
    g.calls(one.op, inputs, one.attrs);
    EXPECT_NE(g.status().message().find(one.sentence), std::string::npos)
        << one.op << ": " << (g.status().ok() ? "taken" : g.status().message());
  }
}

// Index tensors that would lead outside the memory of other tensors.
TEST(Refusals, DataThatLeadsBeyondItsTensorsFailsTheRun) {
  struct Given {
    TensorType type;
    std::vector<int64_t> whole;
    std::vector<float> floats;
  };
  constexpr int64_t kQuarter = int64_t{1} << 62;
  const Given log_probs = {{f32, {2, 2, 2}}, {}, std::vector<float>(8, -0.7f)};
  const Given times = {{i64, {2}}, {2, 2}, {}};
  const struct {
    std::string_view op;
    std::vector<Given> inputs;
    NamedAttrs attrs;
    std::string_view sentence;
  } kCases[] = {
      {"repeat_interleave",
       {{{i64, {4}}, {kQuarter, kQuarter, kQuarter, kQuarter + 5}, {}}},
       {},
       "more than 64 bits"},
      {"one_hot", {{{i64, {1}}, {INT64_MAX}, {}}}, {}, "out of range"},
      {"bincount", {{{i64, {1}}, {INT64_MAX}, {}}}, {}, "too large"},
      {"histc",
       {{{f32, {2}}, {}, {0, 1}}},
       {{"bins", 4}, {"min", -3e38}, {"max", 3e38}},
       "range is not finite"},
      {"ctc_loss",
       {log_probs, {{i64, {4}}, {1, 1, 1, 1}, {}}, times, {{i64, {2}}, {INT64_MAX, INT64_MAX}, {}}},
       {},
       "a length is"},
      {"ctc_loss",
       {log_probs, {{i64, {2, 1}}, {1, 1}, {}}, {{i64, {2}}, {2, 3}, {}}, {{i64, {2}}, {1, 1}, {}}},
       {},
       "a length is"},
  };
  for (const auto& one : kCases) {
    Graph g;
    std::vector<Value> inputs;
    for (const Given& given : one.inputs)
      inputs.push_back(g.input("", given.type.dtype, given.type.shape));
    const Op& op = *Registry::built_in().find(one.op);
    inputs.resize(std::max(inputs.size(), op.signature.inputs.size()));  // optional ones
    for (const Value& y : g.calls(one.op, inputs, one.attrs)) g.output("", y);
    const Result<Model> model = Model::from_graph(std::move(g));
    ASSERT_TRUE(model.ok()) << one.op << ": " << model.status().message();
    Session session = *Session::create(*model, {.threads = 1});
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      const Given& given = one.inputs[i];
      const Sizes shape = *evaluate(given.type.shape, {});
      must(given.floats.empty()
               ? session.set_input(static_cast<int>(i), view(given.whole, shape))
               : session.set_input(static_cast<int>(i), view(given.floats, shape)));
    }
    expect_message(session.run(), Code::invalid_argument, one.sentence);
  }
}

// Each node may lead only to later nodes, so that every walk ends.
TEST(Refusals, TreesThatLeadAstrayFailTheRun) {
  struct Tables {
    std::vector<int32_t> nodes, roots;
    bool right;
  };
  const Tables kCases[] = {
      {{1, 4, 1, 2, -1, 0, 7, 0, -1, 0, 9, 0}, {0}, true},
      {{1, 4, 1, 2, -1, 0, 7, 0, -1, 0, 9, 0}, {0, 2, 1, 0}, true},
      {{1, 4, 1, 0, -1, 0, 7, 0, -1, 0, 9, 0}, {0}, false},  // to itself
      {{-1, 0, 7, 0, 1, 4, 0, 0, -1, 0, 9, 0}, {1}, false},  // back
      {{1, 4, 3, 3, -1, 0, 7, 0, -1, 0, 9, 0}, {0}, false},  // beyond the last one
      {{1, 4, -1, -5, -1, 0, 7, 0, -1, 0, 9, 0}, {0}, false},
      {{2, 4, 1, 2, -1, 0, 7, 0, -1, 0, 9, 0}, {0}, false},  // x has two features
      {{1, 4, 1, 2, -1, 0, 7, 0, -1, 0, 9, 0}, {0, 3}, false},
      {{1, 4, 1, 2, -1, 0, 7, 0, -1, 0, 9, 0}, {-1}, false},
  };
  for (const Tables& tables : kCases)
    for (const int64_t rows : {1, 30}) {
      const auto trees = static_cast<int64_t>(tables.roots.size());
      Graph g;
      g.output("y", tree_leaves(g.input("x", f32, {rows, 2}), g.input("nodes", i32, {3, 4}),
                                g.input("splits", f32, {3}), g.input("roots", i32, {trees})));
      Session session = *Session::create(*Model::from_graph(std::move(g)), {.threads = 1});
      const std::vector<float> x(static_cast<size_t>(rows) * 2, 1), splits = {1, 0, 0};
      ASSERT_TRUE(session.set_input("x", view(x, {rows, 2})).ok());
      ASSERT_TRUE(session.set_input("nodes", view(tables.nodes, {3, 4})).ok());
      ASSERT_TRUE(session.set_input("splits", view(splits, {3})).ok());
      ASSERT_TRUE(session.set_input("roots", view(tables.roots, {trees})).ok());
      const Status status = session.run();
      EXPECT_EQ(status.ok(), tables.right) << status.message();
      if (!tables.right)
        EXPECT_NE(status.message().find("not where the table says"), std::string_view::npos);
      else
        EXPECT_EQ(session.output("y")->as<const int64_t>()[0], 9);
    }
}

// Sums of such sizes would exceed 64 bits.
TEST(Refusals, TensorsThatNoProcessHasAreRefused) {
  Graph g;
  const Value x = g.call("expand", {g.input("x", f32, {})}, {{"shape", Shape{int64_t{1} << 46}}});
  g.output("y", g.call("neg", {x}));
  const Model model = must(Model::from_graph(std::move(g)));
  Result<Session> session = Session::create(model, {.threads = 1});
  Status status = session.status();
  const float one = 1;
  if (status.ok()) status = session->set_input("x", view(&one, f32, {}));
  if (status.ok()) status = session->run();
  EXPECT_NE(status.message().find("2^47 bytes"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace hg
