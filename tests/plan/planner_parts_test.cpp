// SPDX-License-Identifier: Apache-2.0
// Each part of the planner alone: last uses, concatenations without copies, and blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "lib/graph/disjoint_sets.h"
#include "lib/plan/block_list.h"
#include "lib/plan/joins.h"
#include "lib/plan/last_uses.h"

namespace hg {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int operator()(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(engine_);
  }

 private:
  std::mt19937 engine_;
};

TEST(DisjointSets, AreThoseOfLabels) {
  Random draw(1);
  for (int trial = 0; trial < 300; ++trial) {
    DisjointSets sets(static_cast<size_t>(draw(0, 3)));
    std::vector<size_t> label;
    while (sets.size() < 20) label.resize(sets.add() + 1);
    for (size_t i = 0; i < 20; ++i) label[i] = i;
    for (int k = draw(0, 25); k > 0; --k) {
      const auto a = static_cast<size_t>(draw(0, 19)), b = static_cast<size_t>(draw(0, 19));
      const size_t kept = sets.root(a), other = sets.root(b);
      if (kept != other) sets.join(kept, other);
      EXPECT_EQ(sets.root(b), kept);
      std::replace(label.begin(), label.end(), size_t{label[b]}, size_t{label[a]});
    }
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(sets.is_root(i), sets.root(i) == i);
      for (size_t k = 0; k < 20; ++k) EXPECT_EQ(sets.root(i) == sets.root(k), label[i] == label[k]);
    }
  }
}

// -- Last uses ----------------------------------------------------------------------------------

// Sums of any two earlier values.
Graph random_sums(Random& draw) {
  Graph g;
  std::vector<Value> values = {g.input("x", f32, {4}), g.input("y", f32, {4})};
  const int nodes = draw(1, 10);
  for (int i = 0; i < nodes; ++i) {
    const auto any = [&] { return values[draw(0, static_cast<int>(values.size()) - 1)]; };
    values.push_back(g.call("add", {any(), any()}));
  }
  g.output("last", values.back());
  g.output("any", values[draw(2, static_cast<int>(values.size()) - 1)]);
  return g;
}

TEST(LastUses, AreTheLastReadersBeforeAValueIsMadeAgain) {
  Random draw(2);
  for (int trial = 0; trial < 1000; ++trial) {
    const Graph g = random_sums(draw);
    const auto nodes = static_cast<int32_t>(g.nodes().size());
    NodeOrder schedule;
    const int32_t part = draw(0, 3) == 0 ? draw(1, nodes) : nodes;  // the rest is a later part
    for (int32_t i = 0; i < part; ++i) {
      schedule.push_back(i);
      if (draw(0, 2) == 0) schedule.push_back(draw(0, i));  // the node runs once more
    }
    const auto reads = [&](size_t position, ValueId id) {
      const std::vector<ValueId>& inputs = g.nodes()[schedule[position]].inputs;
      return std::find(inputs.begin(), inputs.end(), id) != inputs.end();
    };
    LastUses uses(g, schedule, false);
    for (size_t p = 0; p < schedule.size(); ++p) {
      uses.begin(static_cast<int>(p));
      const ValueId made = g.nodes()[schedule[p]].outputs[0];
      int expected = -1;
      bool is_last = true;
      for (size_t q = p + 1; q < schedule.size() && is_last; ++q) {
        if (reads(q, made)) expected = static_cast<int>(q);
        is_last = schedule[q] != schedule[p];
      }
      const bool is_output = std::any_of(g.outputs().begin(), g.outputs().end(),
                                         [&](const auto& output) { return output.second == made; });
      bool is_read_later = false;
      for (auto i = static_cast<size_t>(part); i < g.nodes().size(); ++i)
        for (const ValueId id : g.nodes()[i].inputs) is_read_later |= id == made;
      if (is_last && (is_output || is_read_later)) expected = LastUses::kForever;
      ASSERT_EQ(uses.of(made), expected) << "trial " << trial << ", position " << p;
    }
    LastUses all(g, schedule, true);
    all.begin(0);
    EXPECT_EQ(all.of(g.nodes()[0].outputs[0]), LastUses::kForever);
  }
}

// -- Concatenations -----------------------------------------------------------------------------

NodeOrder in_order(const Graph& g) {
  NodeOrder schedule;
  for (size_t i = 0; i < g.nodes().size(); ++i) schedule.push_back(static_cast<int32_t>(i));
  return schedule;
}

TEST(Joins, PartsLieOneBehindTheOtherAndFillTheWhole) {
  Random draw(3);
  int found = 0, refused = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    Graph g;
    const Value x = g.input("x", f32, {"n", 64});
    const int64_t rows = draw(1, 2);
    std::vector<Value> parts;
    int64_t columns = 0;
    bool aligned = true, twice = false, given = false;
    for (int i = draw(2, 4); i > 0; --i) {
      const int64_t width = draw(0, 3) == 0 ? draw(1, 40) : 16 * draw(1, 2);
      aligned &= columns % 16 == 0;
      const Value cut = g.call("slice", {x}, {{"dim", 1}, {"start", 0}, {"end", width}});
      const int way = draw(0, 9);
      given |= way == 0;
      parts.push_back(way == 0 ? cut : g.call("neg", {cut}));
      columns += width;
      if (draw(0, 9) == 0) {
        aligned &= columns % 16 == 0;
        parts.push_back(parts.back());
        columns += width;
        twice = true;
      }
    }
    const Value whole = g.call("concat", parts, {{"dim", draw(0, 1) == 0 ? 1 : -1}});
    g.output("y", whole);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    Bindings bindings;
    ASSERT_TRUE(bindings.bind("n", rows).ok());
    const Joins joins = find_joins(g, in_order(g), bindings);
    const bool possible = rows == 1 && aligned && !twice && !given;
    ASSERT_EQ(joins.wholes.size(), possible ? 1u : 0u) << trial;
    ++(possible ? found : refused);
    if (!possible) {
      EXPECT_TRUE(joins.parts.empty());
      continue;
    }
    int64_t offset = 0;
    for (const Value& part : parts) {
      EXPECT_EQ(joins.parts.at(part.id()).offset, offset);
      EXPECT_EQ(joins.parts.at(part.id()).whole, whole.id());
      offset += part.dim(1).constant() * 4;
    }
    EXPECT_EQ(joins.wholes.at(whole.id()), offset);
    NodeOrder again = in_order(g);
    again.push_back(0);
    EXPECT_TRUE(find_joins(g, again, bindings).wholes.empty()) << "something is computed twice";
  }
  EXPECT_GT(found, 50);
  EXPECT_GT(refused, 50);
}

// -- Blocks -------------------------------------------------------------------------------------

TEST(BlockList, BlocksLiveFromTheirStepToTheirLast) {
  Plan plan;
  plan.part = 1;
  BlockList blocks(plan);
  const Place first = blocks.add("a", 100, Side::host);
  EXPECT_EQ(first.index, 1);
  EXPECT_EQ(first.block, 0);
  plan.steps.resize(2);
  const Place second = blocks.add("b", 200, Side::device);
  EXPECT_EQ(second.side, Side::device);
  EXPECT_EQ(plan.blocks[1].lifetime.first, 2);
  blocks.extend(first.block, 1);
  blocks.extend(first.block, 0);
  EXPECT_EQ(plan.blocks[0].lifetime.last, 1);
  EXPECT_EQ(blocks.last_reader(0), -1);
  blocks.note_reader(first, 3);
  blocks.note_reader(first, 2);
  EXPECT_EQ(blocks.last_reader(0), 3);
  Place earlier = first;
  earlier.index = 0;  // in the arena of the previous part
  blocks.note_reader(earlier, 9);
  blocks.extend({Tensor(), earlier}, 9);
  EXPECT_EQ(blocks.last_reader(0), 3);
  EXPECT_EQ(plan.blocks[0].lifetime.last, 1);
  plan.steps.resize(6);
  blocks.note_reader(second, 7);
  blocks.close(7);
  EXPECT_EQ(plan.blocks[0].lifetime.last, 1);
  EXPECT_EQ(plan.blocks[1].lifetime.last, 5) << "read behind the schedule";
}

}  // namespace
}  // namespace hg
