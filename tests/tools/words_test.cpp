// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line/words.h"

#include <gtest/gtest.h>

namespace hg::tools {
namespace {

using Lines = std::vector<std::string>;

TEST(Words, LinesOfConsecutiveNumbersAreJoined) {
  EXPECT_EQ(join_numbered({}), Lines{});
  EXPECT_EQ(
      join_numbered({"ids: i64[b, 1]", "past.0.key: f32[b, 2]", "past.0.value: f32[b, 3]",
                     "past.1.key: f32[b, 2]", "past.1.value: f32[b, 3]", "past.2.key: f32[b, 2]",
                     "past.2.value: f32[b, 3]"}),
      (Lines{"ids: i64[b, 1]", "past.{0..2}.key: f32[b, 2]", "past.{0..2}.value: f32[b, 3]"}));
  EXPECT_EQ(join_numbered({"b2.x8: f32[]", "b2.x9: f32[]", "b2.x10: f32[]", "b2.x11: f32[]"}),
            (Lines{"b2.x{8..11}: f32[]"}));
}

TEST(Words, OtherLinesStay) {
  const Lines cases[] = {{"x0: f32[1]", "x1: f32[1]"},                   // too few
                         {"x0: f32[1]", "x1: f32[2]", "x2: f32[3]"},     // of other types
                         {"x0: f32[1]", "x2: f32[1]", "x4: f32[1]"},     // not consecutive
                         {"x: f32[1]", "x: f32[2]", "x: f32[3]"},        // numbers of types
                         {"x00: f32[1]", "x01: f32[1]", "x02: f32[1]"},  // not written as numbers
                         {"x99999999999: f32[1]", "x99999999999999999999999: f32[1]"}};
  for (const Lines& lines : cases) EXPECT_EQ(join_numbered(lines), lines);
}

}  // namespace
}  // namespace hg::tools
