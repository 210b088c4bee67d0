// SPDX-License-Identifier: Apache-2.0
// Each part of a program alone: inputs, sizes, bound outputs, states and the plan cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "lib/graph/rewrite.h"
#include "lib/run/bound_outputs.h"
#include "lib/run/inputs.h"
#include "lib/run/plans_by_size.h"
#include "lib/run/sizes.h"
#include "lib/run/states.h"
#include "tests/support/must.h"
#include "tests/support/small_model.h"

namespace hg {
namespace {

using test::expect_message;
using test::ramp;

Graph two_inputs() {
  Graph g;
  const Value a = g.input("a", f32, {"n", 4}), b = g.input("b", f32, {"n", "m"});
  g.output("y", g.call("relu", {a}));
  g.output("z", g.call("relu", {b}));
  return g;
}

// -- Inputs -------------------------------------------------------------------------------------

TEST(Inputs, UseTheHostsMemoryAndCopyWhatHasGaps) {
  const Graph g = two_inputs();
  Inputs inputs(g, {});
  std::vector<float> x = ramp(24);
  expect_message(inputs.gather(), Code::invalid_argument, "input 'a' is not set");
  ASSERT_TRUE(inputs.set(0, view(x, {3, 4})).ok());
  EXPECT_EQ(inputs.data(0), x.data());
  Tensor columns = view(x, {2, 3});
  columns.strides = {1, 2};
  ASSERT_TRUE(inputs.set(1, columns).ok());
  EXPECT_NE(inputs.data(1), x.data());
  for (const float first : {1.0f, 2.0f}) {  // the host writes between two runs
    x[0] = first;
    ASSERT_TRUE(inputs.gather().ok());
    const float* const copy = static_cast<const float*>(inputs.data(1));
    EXPECT_EQ(std::vector<float>(copy, copy + 6),
              (std::vector<float>{x[0], x[2], x[4], x[1], x[3], x[5]}));
  }
}

TEST(Inputs, TellNewShapes) {
  const Graph g = two_inputs();
  Inputs inputs(g, {});
  std::vector<float> x = ramp(24), other = ramp(24);
  ASSERT_TRUE(inputs.set(0, view(x, {3, 4})).ok());
  EXPECT_TRUE(inputs.has_new_shapes());
  inputs.settle();
  ASSERT_TRUE(inputs.set(0, view(other, {3, 4})).ok());
  EXPECT_FALSE(inputs.has_new_shapes());
  EXPECT_FALSE(inputs.set(0, view(x, {3, 5})).ok());
  EXPECT_FALSE(inputs.has_new_shapes()) << "what was refused changes nothing";
  EXPECT_EQ(inputs.data(0), other.data());
  ASSERT_TRUE(inputs.set(0, view(x, {2, 4})).ok());
  EXPECT_TRUE(inputs.has_new_shapes());
  inputs.settle();
  inputs.forget();
  EXPECT_TRUE(inputs.has_new_shapes());
  EXPECT_EQ(inputs.data(0), nullptr);
}

TEST(Inputs, WithoutElementsPointSomewhere) {
  const Graph g = two_inputs();
  Inputs inputs(g, {});
  ASSERT_TRUE(inputs.set(0, view(static_cast<const void*>(nullptr), f32, {0, 4})).ok());
  EXPECT_NE(inputs.data(0), nullptr);
  ASSERT_TRUE(inputs.reserve(1, f32, {0, 0}).ok());
  EXPECT_NE(inputs.data(1), nullptr);
  EXPECT_TRUE(inputs.gather().ok());
}

// -- Sizes --------------------------------------------------------------------------------------

Result<Bindings> bound(const Graph& graph, const SizeSources& sources, const Bindings& outer = {}) {
  BoundSizes sizes;
  sizes.set_outer(outer);
  HG_TRY(sizes.bind(graph, sources));
  return sizes.all();
}

TEST(BindSizes, TakesEachSymbolFromWhereItStands) {
  const Graph g = two_inputs();
  std::vector<float> x = ramp(24);
  std::vector<Tensor> inputs = {view(x, {3, 4}), Tensor()};
  const std::pair<std::string, int64_t> m[] = {{"m", 5}}, n[] = {{"n", 7}}, k[] = {{"k", 1}};
  expect_message(bound(g, {.inputs = inputs}).status(), Code::invalid_argument,
                 "the size 'm' is not known");
  const Bindings fallback = must(bound(g, {.inputs = inputs, .fallback = m}));
  EXPECT_EQ(fallback.find("n"), 3);
  EXPECT_EQ(fallback.find("m"), 5);
  expect_message(bound(g, {.inputs = inputs, .dims = n, .fallback = m}).status(),
                 Code::invalid_argument, "the size 'n' is 7 in one place and 3 in another");
  expect_message(bound(g, {.inputs = inputs, .dims = k, .fallback = m}).status(),
                 Code::invalid_argument, "the model has no size 'k'");
  Bindings outer;
  ASSERT_TRUE(outer.bind("m", 2).ok());
  EXPECT_EQ(bound(g, {.inputs = inputs, .fallback = m}, outer)->find("m"), 2);
  inputs[1] = view(x, {3, 6});
  EXPECT_EQ(bound(g, {.inputs = inputs, .fallback = m})->find("m"), 6);
}

// Inputs whose sizes are sums of multiples of symbols. A sum with one unknown is solved, and the
// result must give the same sizes.
TEST(BindSizes, SolvesExpressionsOfOneSymbol) {
  std::mt19937 random(1);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int trial = 0; trial < 2000; ++trial) {
    Graph g;
    Bindings truth;
    std::vector<Tensor> inputs;
    Dim known = 0;
    static float element;
    for (const char* symbol : {"a", "b", "c"}) {
      ASSERT_TRUE(truth.bind(symbol, draw(0, 9)).ok());
      const Dim dim = Dim(symbol) * Dim(draw(1, 4)) + Dim(draw(0, 3)) + known;
      known = known + Dim(symbol) * Dim(draw(0, 2));
      g.input(str_cat("x_", symbol), f32, {dim});
      inputs.push_back(view(&element, f32, {*dim.evaluate(truth)}));
    }
    BoundSizes sizes;
    ASSERT_TRUE(sizes.bind(g, {.inputs = inputs}).ok());
    const Bindings found = sizes.all();
    for (const char* symbol : {"a", "b", "c"})
      EXPECT_EQ(found.find(symbol), truth.find(symbol)) << trial;
    inputs[2].shape[0] += 1;  // a different size: another solution, or none
    const Result<Bindings> other = bound(g, {.inputs = inputs});
    if (other.ok()) {
      EXPECT_NE(other->find("c"), truth.find("c"));
    }
    // Sizes that were bound before give the same.
    EXPECT_EQ(sizes.bind(g, {.inputs = inputs}).ok(), other.ok());
    if (other.ok()) {
      EXPECT_EQ(sizes.all(), *other);
    }
  }
}

// -- Bound outputs ------------------------------------------------------------------------------

Graph four_outputs() {
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  for (const char* name : {"a", "b", "c", "d"}) g.output(name, g.call("relu", {x}));
  return g;
}

TEST(BoundOutputs, RefuseMemoryThatOverlapsOrDoesNotFit) {
  const Graph g = four_outputs();
  BoundOutputs outputs(g, {});
  std::vector<float> memory(16);
  const std::vector<std::optional<Sizes>> shapes(4, Sizes{4});
  EXPECT_FALSE(outputs.any());
  ASSERT_TRUE(outputs.set(0, view(memory.data(), f32, {4})).ok());
  EXPECT_TRUE(outputs.any());
  ASSERT_TRUE(outputs.set(1, view(memory.data() + 4, f32, {4})).ok());
  EXPECT_TRUE(outputs.check(shapes).ok());
  ASSERT_TRUE(outputs.set(1, view(memory.data() + 3, f32, {4})).ok());
  expect_message(outputs.check(shapes), Code::invalid_argument, "overlaps");
  ASSERT_TRUE(outputs.set(1, view(memory.data() + 8, f32, {5})).ok());
  expect_message(outputs.check(shapes), Code::invalid_argument, "was given memory of [5]");
  expect_message(outputs.take(1, view(memory.data(), f32, {4})), Code::invalid_argument,
                 "was given memory of [5]");
  outputs.forget();
  EXPECT_FALSE(outputs.any());
  EXPECT_TRUE(outputs.check(shapes).ok());
}

TEST(BoundOutputs, GiveAWholeBlockAHomeApartFromTheInputs) {
  const Graph g = four_outputs();
  BoundOutputs outputs(g, {});
  alignas(64) static float memory[64];
  Plan plan;
  plan.blocks.resize(2);
  plan.blocks[1].offset = 128;
  plan.blocks[1].lifetime.bytes = 16;
  const int32_t blocks[] = {-1, 1, 1, -1};
  std::byte* homes[2] = {};
  const auto place = [&](const Tensor& input) {
    return outputs.place(plan, blocks, std::span(&input, 1), homes);
  };
  EXPECT_FALSE(place(Tensor()));
  ASSERT_TRUE(outputs.set(2, view(memory + 16, f32, {4})).ok());
  EXPECT_TRUE(place(Tensor()));
  EXPECT_EQ(homes[1] + 128, reinterpret_cast<std::byte*>(memory + 16));
  EXPECT_FALSE(place(Tensor())) << "nothing has moved";
  EXPECT_TRUE(place(view(memory + 19, f32, {4}))) << "an input lies there";
  EXPECT_EQ(homes[1], nullptr);
  ASSERT_TRUE(outputs.set(2, view(memory + 17, f32, {4})).ok());
  EXPECT_FALSE(place(Tensor())) << "not aligned";
  EXPECT_EQ(homes[0], nullptr);
}

// Values in any memory, even where other outputs will be copied to, are copied to the host's
// tensors as if all were read first.
TEST(BoundOutputs, CopyAsIfAllWereReadFirst) {
  const Graph g = four_outputs();
  std::mt19937 random(2);
  const auto draw = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(0, most)(random);
  };
  for (int trial = 0; trial < 3000; ++trial) {
    const int64_t n = 1 + draw(4);
    std::vector<float> memory(80);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i + 1);
    const std::vector<float> before = memory;
    BoundOutputs outputs(g, {});
    std::vector<Tensor> bound(4), made(4);
    std::vector<int64_t> places = {0, 1, 2, 3};
    std::shuffle(places.begin(), places.end(), random);
    for (size_t i = 0; i < 4; ++i) {
      made[i] = view(memory.data() + draw(60), f32, {n});
      made[i].strides = {1 + draw(2)};
      if (draw(3) == 0) continue;
      bound[i] = view(memory.data() + 20 * places[i], f32, {n});
      bound[i].strides = {1 + draw(2)};
      if (draw(2) == 0) made[i] = bound[i];  // as if a kernel had written it there
      ASSERT_TRUE(outputs.set(i, bound[i]).ok());
    }
    ASSERT_TRUE(outputs.check(std::vector<std::optional<Sizes>>(4)).ok());
    for (size_t i = 0; i < 4; ++i) {
      if (bound[i].data == nullptr) continue;
      ASSERT_TRUE(outputs.take(i, made[i]).ok());
    }
    ASSERT_TRUE(outputs.copy().ok());
    std::vector<float> expected = before;
    for (size_t i = 0; i < 4; ++i)
      for (int64_t k = 0; bound[i].data != nullptr && k < n; ++k)
        expected[bound[i].as<float>() + k * bound[i].strides[0] - memory.data()] =
            before[made[i].as<float>() + k * made[i].strides[0] - memory.data()];
    ASSERT_EQ(memory, expected) << "trial " << trial;
  }
}

// -- States -------------------------------------------------------------------------------------

TEST(States, ThatChangeHaveMemoryOfTheirOwn) {
  Graph g;
  const Value fixed = g.parameter("fixed", f32, {3}, init::uniform(-1, 1, 1));
  const Value count = g.parameter("count", f32, {3}, init::uniform(-1, 1, 2));
  g.assign(count, g.call("add", {count, fixed}));
  ASSERT_TRUE(g.status().ok());
  EXPECT_EQ(changed_states(g), (std::vector<bool>{false, true}));
  const void* const at_first = g.states()[1].data.tensor.data;
  const float first = *g.states()[1].data.tensor.as<float>();
  States states;
  ASSERT_TRUE(states.prepare(g, {}, nullptr).ok());
  EXPECT_EQ(states.data(0), g.states()[0].data.tensor.data);
  EXPECT_NE(states.data(1), at_first);
  EXPECT_EQ(*static_cast<const float*>(states.data(1)), first);
  EXPECT_EQ(states.own_bytes(), 64);
  std::vector<float> next = {5, 6, 7};
  states.assign(1, view(next, {3}));
  void* const own = states.data(1);
  ASSERT_TRUE(states.prepare(g, {}, nullptr).ok()) << "as after passes";
  EXPECT_EQ(states.data(1), own);
  EXPECT_EQ(*states.tensors(g)[1].as<float>(), 5);
  states.drop(g, 0);
  EXPECT_EQ(states.data(0), nullptr);
}

// -- The cache of plans -------------------------------------------------------------------------

std::unique_ptr<ReadyPlan> planned_for(int64_t n) {
  auto ready = std::make_unique<ReadyPlan>();
  EXPECT_TRUE(ready->plan.bindings.bind("n", n).ok());
  ready->input_shapes = {{n, 4}};
  return ready;
}

TEST(PlansBySize, FindsByBindingsInputsAndWhatWasMeasured) {
  PlansBySize cache;
  static float element;
  const auto first = [&](Sizes shape, const Bindings& outer = {}) {
    const Tensor input = view(&element, f32, shape);
    return cache.find_first(std::span(&input, 1), outer);
  };
  Bindings three;
  ASSERT_TRUE(three.bind("n", 3).ok());
  EXPECT_EQ(cache.find(0, three, nullptr), nullptr);
  EXPECT_EQ(first({3, 4}), nullptr);
  cache.add(0, planned_for(2));
  ReadyPlan* const made = cache.add(0, planned_for(3));
  EXPECT_EQ(cache.find(0, three, nullptr), made);
  EXPECT_EQ(cache.find(1, three, nullptr), nullptr);
  EXPECT_EQ(first({3, 4}), made);
  EXPECT_EQ(first({3}), nullptr);
  EXPECT_EQ(first({3, 4}, three), nullptr) << "inside of another graph";
  EXPECT_EQ(cache.find_first({}, {}), nullptr) << "without inputs nothing tells it apart";

  auto later = planned_for(3);
  later->previous = made;
  later->given_sizes = {7};
  ReadyPlan* const next = cache.add(1, std::move(later));
  const int64_t seven[] = {7}, eight[] = {8}, two[] = {7, 8};
  EXPECT_EQ(cache.find_next(1, *made, seven), next);
  EXPECT_EQ(cache.find_next(1, *made, eight), nullptr);
  EXPECT_EQ(cache.find_next(1, *made, two), nullptr);
  EXPECT_EQ(cache.find_next(1, *next, seven), nullptr);
}

TEST(PlansBySize, FindsNoPlanOfAPartThatWasFilledAgain) {
  PlansBySize cache;
  ReadyPlan* const first = cache.add(0, planned_for(3));
  auto later = planned_for(3);
  later->continue_from(first);
  later->given_sizes = {7};
  const Bindings bindings = later->plan.bindings;
  ReadyPlan* const next = cache.add(1, std::move(later));
  const int64_t seven[] = {7};
  EXPECT_EQ(cache.find_next(1, *first, seven), next);
  EXPECT_EQ(cache.find(1, bindings, first), next);
  ++first->fill;
  EXPECT_EQ(cache.find_next(1, *first, seven), nullptr);
  EXPECT_EQ(cache.find(1, bindings, first), nullptr);
  next->continue_from(first);
  EXPECT_EQ(cache.find_next(1, *first, seven), next);
  next->is_stale = true;
  EXPECT_EQ(cache.find_next(1, *first, seven), nullptr);
  EXPECT_EQ(cache.find(1, bindings, first), nullptr);
}

TEST(PlansBySize, FindsPlansThatCanBeFilledForSizesInTheirRange) {
  PlansBySize cache;
  auto made = planned_for(8);
  const Bindings eight = made->plan.bindings, three = planned_for(3)->plan.bindings,
                 nine = planned_for(9)->plan.bindings;
  made->ranges = {{4, 8}};
  ReadyPlan* const ready = cache.add(0, std::move(made));
  EXPECT_EQ(cache.find_range(0, eight, nullptr), nullptr) << "it cannot be refilled";
  ready->plan.can_refill = true;
  EXPECT_EQ(cache.find_range(0, eight, nullptr), ready);
  EXPECT_EQ(cache.find_range(0, three, nullptr), nullptr);
  EXPECT_EQ(cache.find_range(0, nine, nullptr), nullptr);
  EXPECT_EQ(cache.find_range(0, {}, nullptr), nullptr);
  EXPECT_EQ(cache.find_range(1, eight, nullptr), nullptr);
  EXPECT_EQ(cache.find_range(0, eight, ready), nullptr);
}

TEST(PlansBySize, EvictsThePlanThatWasNotUsedForLongest) {
  PlansBySize cache;
  std::vector<ReadyPlan*> first;
  for (int64_t n = 0; n < static_cast<int64_t>(PlansBySize::kMostOfAPart); ++n) {
    first.push_back(cache.add(0, planned_for(n)));
    auto later = planned_for(n);
    later->continue_from(first.back());
    cache.add(1, std::move(later));
  }
  EXPECT_EQ(cache.find(0, Bindings(first[0]->plan.bindings), nullptr), first[0]);
  auto later = planned_for(100);
  later->continue_from(first[0]);
  cache.add(1, std::move(later));
  EXPECT_EQ(cache.of_part(0).size(), PlansBySize::kMostOfAPart) << "earlier parts stay";
  EXPECT_EQ(cache.of_part(1).size(), PlansBySize::kMostOfAPart);
  const Bindings second = first[1]->plan.bindings;
  ReadyPlan* const last = cache.add(0, planned_for(200));
  EXPECT_EQ(cache.of_part(0).size(), PlansBySize::kMostOfAPart);
  EXPECT_EQ(cache.of_part(0).back().get(), last);
  EXPECT_EQ(cache.find(0, second, nullptr), nullptr);
  EXPECT_EQ(cache.of_part(1).size(), PlansBySize::kMostOfAPart - 1) << "what continued it is gone";
}

// -- A plan with addresses ----------------------------------------------------------------------

TEST(ReadyPlan, KnowsWhereItsTensorsLieAndAsksAgainWhenThatChanges) {
  const auto placed = [](Place::Kind kind, int64_t offset) {
    PlacedTensor value{view(static_cast<void*>(nullptr), f32, {2}), {}};
    value.place.kind = kind;
    value.place.index = 0;
    value.place.offset = offset;
    return value;
  };
  ReadyPlan ready;
  Step step;
  step.inputs = {placed(Place::Kind::input, 4), placed(Place::Kind::arena, 8)};
  step.outputs = {placed(Place::Kind::state, 0)};
  ready.plan.steps = {Step(), step};
  ready.lay_out(Graph(), {}, true);
  ASSERT_EQ(ready.contexts.size(), 2u);
  EXPECT_EQ(ready.contexts[1].inputs.size(), 2u);
  EXPECT_EQ(ready.contexts[1].outputs.data(), ready.tensors.data() + 2);
  EXPECT_EQ(ready.first_commit, 1u) << "the step that writes to a state";
  ASSERT_EQ(ready.patches.size(), 1u);
  EXPECT_EQ(ready.patches[0].offset, 4);
  EXPECT_EQ(ready.ms.size(), 2u);

  static std::byte memory[64];
  int asked = 0;
  const auto address_of = [&](const Place& place) -> void* {
    ++asked;
    return memory + place.offset;
  };
  ready.resolve(0, address_of);
  EXPECT_EQ(ready.tensors[1].data, memory + 8);
  EXPECT_EQ(asked, 5) << "three tensors and the scratch of two steps";
  ready.resolve(0, address_of);
  EXPECT_EQ(asked, 5);
  ready.resolve(1, address_of);
  EXPECT_EQ(asked, 10);
}

}  // namespace
}  // namespace hg
