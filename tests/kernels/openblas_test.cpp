// SPDX-License-Identifier: Apache-2.0
// Kernels that call OpenBLAS against the library's own loops. Threads, OpenBLAS settings and memory
// stay unchanged. More cases: HG_CASES=5000 openblas_test.
#include "kernels/gemm/openblas.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "hg/hg.h"
#include "hg/op.h"
#include "tests/support/malloc_count.h"
#include "tests/kernels/matrix_cases.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using namespace test::matrices;

// Whether kernels use OpenBLAS in this build.
bool is_used() { return kernels::openblas() != nullptr; }

constexpr Row kLapackRows[] = {
    {"solve", "lu", 48, true, true, false},
    {"solve_triangular", "substitution", 24, true, true, true},
    {"det", "lu", 80, true, false, false},
    {"slogdet", "lu", 80, true, false, false},
    {"lu", "loop", 80, false, false, false},
    {"cholesky", "loop", 96, true, false, true},
    {"qr", "householder", 24, false, false, false},
    {"geqrf", "householder", 24, false, false, false},
    {"eigh", "jacobi", 8, true, false, true},
    {"svd", "jacobi", 12, false, false, false},
    {"eigvalsh", "jacobi", 8, true, false, true},
    {"svdvals", "jacobi", 12, false, false, false},
    {"matrix_exp", "taylor", 8, true, false, false},
    {"ldl_factor", "loop", 64, true, false, false},
};

TEST(Lapack, AnswersAsTheLoopsDo) {
  if (!is_used()) GTEST_SKIP() << "OpenBLAS is not used here";
  check_cases("lapack", kLapackRows);
}
// Singular and indefinite matrices give the same error message, not a result.
TEST(Lapack, FailsAsTheLoopsDo) {
  if (!is_used()) GTEST_SKIP();
  Random random(1);
  const Case singular{
      .op = "solve",
      .inputs = {random.matrix({2}, 64, 64, Kind::singular, true), random.numbers({2, 64, 3})}};
  Case negative{.op = "cholesky", .inputs = {random.matrix({}, 100, 100, Kind::plain, true)}};
  negative.inputs[0].values[50 * 100 + 50] = -1;
  Case nan{.op = "svd", .inputs = {random.matrix({}, 40, 30, Kind::not_finite, false)}};
  for (const Case* c : std::initializer_list<const Case*>{&singular, &negative, &nan}) {
    const Answer answer = run_by(*c, "lapack");
    EXPECT_FALSE(answer.status.ok()) << c->op;
    EXPECT_EQ(answer.status.message(), run_by(*c, c->op == "solve"      ? "lu"
                                                  : c->op == "cholesky" ? "loop"
                                                                        : "jacobi")
                                           .status.message());
  }
}

// x of a x = b with factors of either kernel, a being symmetric and indefinite.
TEST(Lapack, SolvesWithLdl) {
  if (!is_used()) GTEST_SKIP();
  Random random(11);
  for (int round = 0; round < 12; ++round) {
    const int64_t n = 64 + random.below(60), k = 1 + random.below(5);
    Input a = random.numbers({2, n, n}), b = random.numbers({2, n, k});
    for (int64_t index = 0; index < 2; ++index)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < i; ++j)
          a.values[(index * n + j) * n + i] = a.values[(index * n + i) * n + j];
    Numbers answers[2];
    for (const bool by_lapack : {false, true}) {
      Graph g;
      const Value in = g.input("a", f64, {2, n, n}), right = g.input("b", f64, {2, n, k});
      const std::vector<Value> factors = g.calls("ldl_factor", {in});
      g.output("x", g.call("ldl_solve", {factors[0], right, factors[1]}));
      SessionOptions options;
      options.kernels = {by_lapack ? "ldl_factor=lapack" : "ldl_factor=loop",
                         by_lapack ? "ldl_solve=lapack" : "ldl_solve=loop"};
      Session session = *Session::create(*Model::from_graph(std::move(g)), options);
      ASSERT_TRUE(session.set_input(0, view(a.values, a.shape)).ok());
      ASSERT_TRUE(session.set_input(1, view(b.values, b.shape)).ok());
      ASSERT_TRUE(session.run().ok());
      const Tensor x = *session.output(0);
      answers[by_lapack].assign(x.as<double>(), x.as<double>() + x.count());
    }
    for (const Numbers& x : answers)
      for (int64_t index = 0; index < 2; ++index) {
        const Numbers left =
            product(a.values.data() + index * n * n, x.data() + index * n * k, n, n, k);
        const double* const from = b.values.data() + index * n * k;
        expect_near(left, Numbers(from, from + n * k), 1e-10 * largest(x), "a x");
      }
  }
}

// Loops compute small matrices.
TEST(Lapack, LeavesSmallMatrices) {
  for (const int64_t n : {0, 1, 3}) {
    Graph g;
    g.output("y", g.calls("svd", {g.input("x", f64, {n, n})})[1]);
    SessionOptions options;
    options.kernels = {"svdvals=lapack"};
    options.dims = {};
    Result<Session> session = Session::create(*Model::from_graph(std::move(g)), options);
    const Status status = session.ok() ? session->plan({}) : session.status();
    EXPECT_EQ(status.code(), Code::unsupported) << n;
  }
}

// ---- Products ----

TEST(Products, AnswerAsTheLoopsDo) {
  if (!is_used()) GTEST_SKIP();
  Random random(7);
  for (int seed = 0; seed < 20; ++seed) {
    const bool is_linear = random.below(2) == 1;
    const int64_t m = is_linear ? 1 + random.below(300) : 128 + random.below(300);
    const int64_t n = is_linear ? 1 + random.below(300) : 128 + random.below(300);
    const int64_t k = is_linear ? 1 + random.below(90) : 500 + random.below(50);
    const Sizes batch = random.batch();
    for (const DType dtype : {f64, f32}) {
      Case c{.op = is_linear ? "linear" : "matmul",
             .dtype = dtype,
             .inputs = {random.numbers(Random::matrices(batch, m, k)),
                        random.numbers(is_linear ? Sizes{n, k}
                                                 : Random::matrices(
                                                       random.below(2) ? batch : Sizes(), k, n))}};
      if (is_linear && random.below(2)) {
        c.inputs.push_back(random.numbers({n}));
        c.attrs.push_back({"activation", "relu"});
      }
      const Answer loops = run_by(c, "loops"), openblas = run_by(c, "openblas");
      ASSERT_TRUE(openblas.status.ok()) << openblas.status.message();
      expect_near(openblas.outputs[0].values, loops.outputs[0].values, dtype == f64 ? 1e-13 : 1e-5,
                  str_cat(c.op, " ", m, " ", k, " ", n));
      EXPECT_TRUE(same_bits(openblas, run_by(c, "openblas", 2)));
    }
  }
}

// By default, f64 uses OpenBLAS and f32 the library's own kernel.
TEST(Products, AreChosenByDtype) {
  if (!is_used()) GTEST_SKIP();
  for (const DType dtype : {f64, f32}) {
    Graph g;
    g.output("y",
             g.call("matmul", {g.input("a", dtype, {256, 256}), g.input("b", dtype, {256, 256})}));
    SessionOptions options;
    options.profile = true;
    Session session = *Session::create(*Model::from_graph(std::move(g)), options);
    const std::vector<double> x(256 * 256, 1.0);
    const std::vector<float> y(256 * 256, 1.0f);
    for (const int i : {0, 1})
      ASSERT_TRUE((dtype == f64 ? session.set_input(i, view(x, {256, 256}))
                                : session.set_input(i, view(y, {256, 256})))
                      .ok());
    ASSERT_TRUE(session.run().ok());
    EXPECT_EQ(session.profile()[0].kernel, dtype == f64 ? "openblas" : "gemm");
  }
}

// ---- What a host has is left alone ----

int64_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}
Case large(const char* op) {
  Random random(3);
  return {.op = op, .inputs = {random.matrix({2}, 300, 300, Kind::plain, true)}};
}

// A session with one thread starts no thread; a session with two starts at most one, which may end
// with it, whatever OpenMP is set to.
TEST(OpenBlas, StartsNoThreads) {
  if (!is_used()) GTEST_SKIP();
  const int before = omp_get_max_threads(),
            setting = kernels::openblas()->openblas_get_num_threads();
  omp_set_num_threads(4);
  const int64_t alone = threads_of_this_process();
  std::thread([&] {  // it has its own OpenMP settings
    omp_set_num_threads(4);
    for (const char* op : {"svd", "eigh", "eig", "qr", "lu", "det", "ldl_factor"}) {
      run_by(large(op), "lapack");
      EXPECT_EQ(threads_of_this_process(), alone + 1) << op;
    }
    Random random(5);
    const Case product{.op = "matmul",
                       .inputs = {random.numbers({700, 500}), random.numbers({500, 600})}};
    run_by(product, "openblas");
    EXPECT_EQ(threads_of_this_process(), alone + 1);
    EXPECT_EQ(omp_get_max_threads(), 4);
    run_by(large("qr"), "lapack", 2);
    EXPECT_LE(threads_of_this_process(), alone + 2);
    run_by(product, "openblas", 2);
    EXPECT_LE(threads_of_this_process(), alone + 2);
  })
      .join();
  EXPECT_EQ(omp_get_max_threads(), 4);
  omp_set_num_threads(before);
  EXPECT_EQ(kernels::openblas()->openblas_get_num_threads(), setting);
}

TEST(OpenBlas, GivesTheSameBitsForEveryNumberOfThreads) {
  if (!is_used()) GTEST_SKIP();
  for (const char* op : {"svd", "svdvals", "eigh", "eigvalsh", "eig", "qr", "lu", "det", "slogdet",
                         "matrix_exp", "ldl_factor"}) {
    Random random(3);
    const Case c{.op = op, .inputs = {random.matrix({5}, 90, 90, Kind::plain, false)}};
    const Answer one = run_by(c, "lapack", 1);
    for (const int threads : {2, 3})
      EXPECT_TRUE(same_bits(one, run_by(c, "lapack", threads))) << op;
  }
}

// Sessions in several threads at once: OpenBLAS must not mix up its buffers.
TEST(OpenBlas, ServesSeveralThreadsAtOnce) {
  if (!is_used()) GTEST_SKIP();
  const Case c = large("svd");
  const Answer alone = run_by(c, "lapack");
  std::vector<std::thread> threads;
  std::vector<int> same(6);
  for (size_t i = 0; i < same.size(); ++i)
    threads.emplace_back([&, i] {
      same[i] = 1;
      for (int round = 0; round < 3; ++round) same[i] &= same_bits(alone, run_by(c, "lapack"));
    });
  for (std::thread& thread : threads) thread.join();
  for (const int is_same : same) EXPECT_EQ(is_same, 1);
}

TEST(OpenBlas, RunsWithoutAllocations) {
  if (!is_used()) GTEST_SKIP();
  std::vector<Row> rows(std::begin(kLapackRows), std::end(kLapackRows));
  rows.push_back({"eig", "qr", 1, true, false, false});  // tests/kernels/eig_test.cpp checks the results
  rows.push_back({"eigvals", "qr", 1, true, false, false});
  for (const Row& row : rows)
    for (const int threads : {1, 2}) {
      // OpenBLAS divides and conquers here.
      if (row.op == std::string("eigh") || row.op == std::string("svd")) continue;
      Random random(9);
      const int64_t n = row.op == std::string("matrix_exp") ? 51 : 123;
      Case c{.op = row.op, .inputs = {random.matrix({2}, n, n, Kind::plain, true)}};
      if (row.has_b) c.inputs.push_back(random.numbers({2, n, 5}));
      if (row.has_upper) c.attrs.push_back({"upper", true});
      SessionOptions options;
      options.threads = threads;
      options.kernels = {c.op + "=lapack"};
      Session session = session_of(c, options);
      ASSERT_TRUE(run(session, c).status.ok()) << c.op;
      const int64_t before = test::malloc_count();
      (void)session.run();
      EXPECT_EQ(test::malloc_count(), before) << c.op << " with threads " << threads;
    }
  for (const bool by_rows : {true, false}) {  // the memory order of b, for matmul and linear
    Random random(9);
    const Case c{.op = by_rows ? "matmul" : "linear",
                 .inputs = {random.numbers({131, 560}),
                            random.numbers(by_rows ? Sizes{560, 139} : Sizes{139, 560})}};
    SessionOptions options;
    options.threads = 1;
    options.kernels = {c.op + "=openblas"};
    Session session = session_of(c, options);
    ASSERT_TRUE(run(session, c).status.ok()) << c.op;
    const int64_t before = test::malloc_count();
    (void)session.run();
    EXPECT_EQ(test::malloc_count(), before) << c.op;
  }
}

}  // namespace
}  // namespace hg
