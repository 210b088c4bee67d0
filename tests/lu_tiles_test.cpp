// SPDX-License-Identifier: Apache-2.0
// Kernels for matrices in tiles against the library's own loops. More cases: HG_CASES=5000
// lu_tiles_test.
#include "lib/platform/instruction_set.h"
#include "tests/matrix_cases.h"

namespace hg::test {
namespace {

using namespace matrices;

constexpr Row kTileRows[] = {
    {"solve", "lu", 8, true, true, false},
    {"solve_triangular", "substitution", 8, true, true, true},
    {"det", "lu", 8, true, false, false},
    {"slogdet", "lu", 8, true, false, false},
    {"lu", "loop", 8, false, false, false},
    {"solve", "lu", 45, true, true, false},
    {"lu", "loop", 45, false, false, false},
    {"matrix_exp", "taylor", 8, true, false, false},
};

// With each instruction set.
TEST(Tiles, AnswerAsTheLoopsDo) {
  for (const Isa isa : {Isa::baseline, Isa::sse4, Isa::avx2, kBestIsa}) {
    limit_isa(isa);
    check_cases("tiles", kTileRows);
  }
}

// A singular matrix has the loops' message, and the loops' bits.
TEST(Tiles, LeaveSingularMatricesToTheLoops) {
  Random random(3);
  for (const char* op : {"solve", "det", "slogdet", "lu"}) {
    Case c{.op = op, .inputs = {random.matrix({2}, 24, 24, Kind::singular, false)}};
    if (c.op == "solve") c.inputs.push_back(random.numbers({2, 24, 3}));
    const char* const loops = c.op == "lu" ? "loop" : "lu";
    EXPECT_TRUE(same_bits(run_by(c, "tiles"), run_by(c, loops))) << op;
    EXPECT_EQ(run_by(c, "tiles").status.ok(), c.op != "solve");
  }
}
TEST(Tiles, HaveTheSameBitsWithAnyNumberOfThreads) {
  Random random(4);
  const Case c{
      .op = "solve",
      .inputs = {random.matrix({7}, 37, 37, Kind::plain, true), random.numbers({7, 37, 5})}};
  for (const int threads : {2, 3})
    EXPECT_TRUE(same_bits(run_by(c, "tiles", 1), run_by(c, "tiles", threads)));
}

}  // namespace
}  // namespace hg::test
