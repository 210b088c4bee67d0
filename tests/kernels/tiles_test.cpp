// SPDX-License-Identifier: Apache-2.0
// How kernels divide their work into parts, and how lanes share the parts.
#include "kernels/gemm/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hg::kernels {
namespace {

TEST(Tiles, PartsCoverEverythingAndDifferByOne) {
  for (int64_t count = 0; count < 40; ++count)
    for (int64_t parts = 1; parts < 9; ++parts) {
      EXPECT_EQ(part_begin(count, parts, 0), 0);
      EXPECT_EQ(part_begin(count, parts, parts), count);
      for (int64_t i = 0; i < parts; ++i) {
        const int64_t size = part_begin(count, parts, i + 1) - part_begin(count, parts, i);
        EXPECT_GE(size, count / parts);
        EXPECT_LE(size, (count + parts - 1) / parts);
      }
    }
}

TEST(Tiles, PartsOfRowsAreWholeBlocks) {
  EXPECT_EQ(row_parts(256, 6, 8), (std::vector<int64_t>{0, 30, 60, 96, 126, 156, 192, 222, 256}));
  EXPECT_EQ(row_parts(7, 6, 4), (std::vector<int64_t>{0, 4, 7}));
  EXPECT_EQ(row_parts(0, 6, 4), (std::vector<int64_t>{0}));
  for (int64_t rows = 1; rows < 200; ++rows)
    for (int64_t parts = 1; parts < 9; ++parts) {
      const std::vector<int64_t> first = row_parts(rows, 6, parts);
      EXPECT_EQ(static_cast<int64_t>(first.size()) - 1, std::min(parts, (rows + 5) / 6));
      EXPECT_EQ(first.back(), rows);
      // Each part begins at a block of pack_rows() over all rows.
      for (int64_t i = 0, at = 0; i < rows; i += block_rows(rows - i, 6))
        if (first[at] == i)
          ++at;
        else
          EXPECT_GT(first[at], i);
    }
}

TEST(Tiles, ThreadsGetAsManyTiles) {
  EXPECT_EQ(shared_equally(13, 100, 1, 2), 14);
  EXPECT_EQ(shared_equally(13, 100, 4, 2), 13);
  EXPECT_EQ(shared_equally(13, 100, 2, 8), 16);
  EXPECT_EQ(shared_equally(13, 13, 1, 2), 13) << "no more can be had";
  EXPECT_EQ(shared_equally(13, 15, 1, 16), 13);
  EXPECT_EQ(shared_equally(1, 5, 1, 1), 1);
}

TEST(Tiles, TheBusiestLaneHasTheMost) {
  const auto cost = [](int64_t tile) { return static_cast<double>(tile); };
  EXPECT_EQ(busiest_lane(4, 1, cost), 6);
  EXPECT_EQ(busiest_lane(4, 2, cost), 5);
  EXPECT_EQ(busiest_lane(1, 2, [](int64_t) { return 3.0; }), 3);
}

}  // namespace
}  // namespace hg::kernels
