// SPDX-License-Identifier: Apache-2.0
// Kernels for matrices in tiles against the library's own loops. More cases: HG_CASES=5000
// lu_tiles_test.
#include "lib/platform/instruction_set.h"
#include "tests/kernels/matrix_cases.h"

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

// Cofactors against determinants of submatrices, for regular matrices and those of lower rank.
TEST(Tiles, DerivativesOfDeterminants) {
  Random random(5);
  for (const int64_t n : {2, 5, 11, 12, 20, 35})
    for (const int missing : {0, 1, 2}) {
      Input x = random.matrix({}, n, n, Kind::plain, false);
      for (int64_t i = 0; i < std::min<int64_t>(missing, n); ++i)  // rows are sums of others
        for (int64_t j = 0; j < n; ++j)
          x.values[i * n + j] =
              n > 3 ? x.values[(n - 1) * n + j] + x.values[(n - 2 - i) * n + j] : 0;
      const Case c{.op = "det_grad", .inputs = {x}};
      const Answer y = run_by(c, "lu");
      ASSERT_TRUE(y.status.ok());
      const double size = std::max(largest(y.outputs[0].values), std::pow(0.5 * double(n), n / 2));
      for (int round = 0; round < 8; ++round) {
        const int64_t row = random.below(static_cast<int>(n)),
                      column = random.below(static_cast<int>(n));
        Input rest{{n - 1, n - 1}, {}};
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j)
            if (i != row && j != column) rest.values.push_back(x.values[i * n + j]);
        const Answer det = run_by({.op = "det", .inputs = {rest}}, "lu");
        ASSERT_NEAR(y.outputs[0].values[row * n + column],
                    ((row + column) % 2 == 0 ? 1 : -1) * det.outputs[0].values[0], 1e-11 * size)
            << n << " rows, of which " << missing << " depend on others";
      }
    }
}

}  // namespace
}  // namespace hg::test
