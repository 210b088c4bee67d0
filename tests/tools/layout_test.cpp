// SPDX-License-Identifier: Apache-2.0
// The layered layout: boxes never overlap, edges run downward, a shortcut goes around boxes, and a
// line of boxes stays straight.
#include "tools/draw/layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace hg::tools {
namespace {

Layout of_edges(int boxes, std::vector<std::pair<int, int>> edges) {
  Layout layout;
  layout.boxes.resize(boxes, {60, 30, 0, 0});
  for (const auto& [from, to] : edges) layout.edges.push_back({from, to, {}});
  lay_out(layout);
  return layout;
}

bool overlap(const LayoutBox& a, const LayoutBox& b) {
  return std::abs(a.x - b.x) < (a.width + b.width) / 2 - 0.01 && a.y < b.y + b.height - 0.01 &&
         b.y < a.y + a.height - 0.01;
}

void expect_readable(const Layout& layout) {
  for (size_t i = 0; i < layout.boxes.size(); ++i) {
    const LayoutBox& box = layout.boxes[i];
    EXPECT_GE(box.x - box.width / 2, -0.01);
    EXPECT_LE(box.x + box.width / 2, layout.width + 0.01);
    EXPECT_GE(box.y, 0);
    EXPECT_LE(box.y + box.height, layout.height + 0.01);
    for (size_t k = i + 1; k < layout.boxes.size(); ++k) {
      EXPECT_FALSE(overlap(box, layout.boxes[k])) << i << " and " << k;
    }
  }
  for (const LayoutEdge& edge : layout.edges) {
    ASSERT_GE(edge.points.size(), 2u);
    for (size_t i = 1; i < edge.points.size(); ++i) {
      EXPECT_GE(edge.points[i].y, edge.points[i - 1].y);
    }
  }
}

TEST(Layout, NothingAndOneBox) {
  EXPECT_EQ(of_edges(0, {}).height, 0);
  expect_readable(of_edges(1, {}));
}

TEST(Layout, AChainIsStraight) {
  const Layout layout = of_edges(5, {{0, 1}, {1, 2}, {2, 3}, {3, 4}});
  expect_readable(layout);
  for (const LayoutBox& box : layout.boxes) EXPECT_NEAR(box.x, layout.boxes[0].x, 0.01);
}

TEST(Layout, AShortCutGoesAroundAStraightLine) {
  const Layout layout = of_edges(5, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 4}});
  expect_readable(layout);
  for (const LayoutBox& box : layout.boxes) EXPECT_NEAR(box.x, layout.boxes[0].x, 1.0);
  const LayoutEdge& around = layout.edges.back();
  for (size_t i = 1; i + 1 < around.points.size(); ++i) {
    EXPECT_GT(std::abs(around.points[i].x - layout.boxes[2].x), 30) << "through a box";
  }
}

TEST(Layout, TwoBranchesDoNotCross) {
  const Layout layout = of_edges(6, {{0, 1}, {0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 5}});
  expect_readable(layout);
  EXPECT_EQ(layout.boxes[1].x < layout.boxes[2].x, layout.boxes[3].x < layout.boxes[4].x);
}

TEST(Layout, ALateSourceStandsAboveItsReader) {
  const Layout layout = of_edges(5, {{0, 1}, {1, 2}, {2, 4}, {3, 4}});
  EXPECT_GT(layout.boxes[3].y, layout.boxes[1].y);
}

TEST(Layout, RandomGraphsStayReadable) {
  std::mt19937 random(1);
  for (int round = 0; round < 30; ++round) {
    const int boxes = 2 + static_cast<int>(random() % 30);
    Layout layout;
    for (int i = 0; i < boxes; ++i) {
      layout.boxes.push_back({20.0 + random() % 100, 10.0 + random() % 40, 0, 0});
    }
    for (int to = 1; to < boxes; ++to) {
      for (int k = 0; k < 2; ++k) {
        layout.edges.push_back({static_cast<int>(random() % static_cast<unsigned>(to)), to, {}});
      }
    }
    lay_out(layout);
    expect_readable(layout);
  }
}

}  // namespace
}  // namespace hg::tools
