// SPDX-License-Identifier: Apache-2.0
// Kernels that call OpenBLAS against the library's own loops on random matrices: full-rank and
// rank-deficient, singular, with very large and small numbers, with NaN and infinities, in batches.
// Threads, OpenBLAS settings and memory stay unchanged. More cases: HG_CASES=5000 openblas_test.
#include "kernels/gemm/openblas.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "hg/hg.h"
#include "hg/op.h"
#include "tests/malloc_count.h"
#include "tests/must.h"
#include "tests/random_case.h"

namespace hg {
namespace {

using Numbers = std::vector<double>;

// Whether kernels use OpenBLAS in this build.
bool is_used() { return kernels::openblas() != nullptr; }

struct Input {
  Sizes shape;
  Numbers values;
};
// One call of an op.
struct Case {
  std::string op;
  DType dtype = f64;
  NamedAttrs attrs = {};
  std::vector<Input> inputs = {};
};
struct Answer {
  Status status;
  std::vector<Input> outputs;
};

Session session_of(const Case& c, SessionOptions options) {
  Graph g;
  std::vector<Value> inputs;
  for (const Input& input : c.inputs)
    inputs.push_back(g.input(str_cat("x", inputs.size()), c.dtype, to_shape(input.shape)));
  const std::vector<Value> outputs = g.calls(c.op, inputs, c.attrs);
  for (const Value& y : outputs) g.output(str_cat("y", y.id()), y);
  Session session =
      must(Session::create(must(Model::from_graph(std::move(g))), std::move(options)));
  return std::move(session);
}

Answer run(Session& session, const Case& c) {
  std::vector<std::vector<float>> floats(c.inputs.size());
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Input& input = c.inputs[i];
    floats[i].assign(input.values.begin(), input.values.end());
    must(c.dtype == f64 ? session.set_input(static_cast<int>(i), view(input.values, input.shape))
                        : session.set_input(static_cast<int>(i), view(floats[i], input.shape)));
  }
  Answer answer{session.run(), {}};
  if (!answer.status.ok()) return answer;
  for (int k = 0; k < session.output_count(); ++k) {
    const Tensor y = *session.output(k);
    Input& out = answer.outputs.emplace_back(Input{y.shape, Numbers(size_t(y.count()))});
    for (size_t i = 0; i < out.values.size(); ++i)
      out.values[i] = y.dtype == f64   ? y.as<double>()[i]
                      : y.dtype == f32 ? y.as<float>()[i]
                      : y.dtype == i32 ? double(y.as<int32_t>()[i])
                                       : double(y.as<int64_t>()[i]);
  }
  return answer;
}
Answer run_by(const Case& c, const std::string& kernel, int threads = 1) {
  SessionOptions options;
  options.threads = threads;
  options.kernels = {c.op + "=" + kernel};
  Session session = session_of(c, options);
  return run(session, c);
}

bool same_bits(const Answer& a, const Answer& b) {
  if (a.status.message() != b.status.message() || a.outputs.size() != b.outputs.size())
    return false;
  for (size_t k = 0; k < a.outputs.size(); ++k) {
    const Numbers &x = a.outputs[k].values, &y = b.outputs[k].values;
    if (x.size() != y.size() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) != 0)
      return false;
  }
  return true;
}

// ---- Random matrices ----

enum class Kind { plain, low_rank, singular, huge, tiny, not_finite, count };

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  double real() { return static_cast<double>(engine_() >> 11) * 0x1p-52 - 1; }

  Sizes batch() {
    switch (below(4)) {
      case 0:
        return {3};
      case 1:
        return {2, 2};
      default:
        return {};
    }
  }
  static Sizes matrices(Sizes batch, int64_t m, int64_t n) {
    batch.push_back(m);
    batch.push_back(n);
    return batch;
  }
  Input numbers(const Sizes& shape) {
    Input x{shape, Numbers(static_cast<size_t>(shape.count()))};
    for (double& v : x.values) v = real();
    return x;
  }
  // `dominant`: far from singular, and positive definite if only one triangle is read.
  Input matrix(const Sizes& batch, int64_t m, int64_t n, Kind kind, bool dominant) {
    Input x = numbers(matrices(batch, m, n));
    for (size_t begin = 0; begin < x.values.size(); begin += static_cast<size_t>(m * n))
      change(x.values.data() + begin, m, n, kind, dominant);
    return x;
  }

 private:
  void change(double* x, int64_t m, int64_t n, Kind kind, bool dominant) {
    const int64_t k = std::min(m, n);
    if (dominant)
      for (int64_t i = 0; i < k; ++i) x[i * n + i] += static_cast<double>(n);
    if (kind == Kind::low_rank)  // rows repeat others, scaled
      for (int64_t i = 1; i < m; i += 2)
        for (int64_t j = 0; j < n; ++j) x[i * n + j] = 2 * x[(i - 1) * n + j];
    if (kind == Kind::singular) {  // a column and a row of zeros
      const int64_t at = below(static_cast<int>(k));
      for (int64_t i = 0; i < m; ++i) x[i * n + at] = 0;
      for (int64_t j = 0; j < n; ++j) x[at * n + j] = 0;
    }
    if (kind == Kind::huge || kind == Kind::tiny)  // within the range of f32
      for (int64_t i = 0; i < m * n; ++i) x[i] *= kind == Kind::huge ? 1e17 : 1e-17;
    if (kind == Kind::not_finite) {
      const double odd[] = {NAN, INFINITY, -INFINITY};
      x[below(static_cast<int>(m * n))] = odd[below(3)];
    }
  }

  std::mt19937_64 engine_;
};

// ---- What must hold ----

double largest(const Numbers& x) {
  double most = 0;
  for (const double v : x) most = std::max(most, std::fabs(v));
  return most;
}
// Allows for rounding of results to the dtype, and of sums of n products in f64.
double tolerance_of(const Case& c) {
  const auto n = static_cast<double>(c.inputs[0].shape[c.inputs[0].shape.rank() - 1]);
  return c.dtype == f32 ? 2e-6 : 1e-14 * n;
}
void expect_near(const Numbers& a, const Numbers& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  const double size = std::max(largest(a), largest(b));
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * size) << what << " at " << i;
  }
}
// a[m, k] b[k, n] of matrix `index`.
Numbers product(const double* a, const double* b, int64_t m, int64_t k, int64_t n) {
  Numbers y(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] += a[i * k + p] * b[p * n + j];
  return y;
}
Numbers transposed(const double* a, int64_t m, int64_t n) {
  Numbers y(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) y[j * m + i] = a[i * n + j];
  return y;
}
void expect_orthonormal_columns(const double* q, int64_t m, int64_t k, double tolerance) {
  const Numbers qt = transposed(q, m, k);
  Numbers one(static_cast<size_t>(k * k));
  for (int64_t i = 0; i < k; ++i) one[i * k + i] = 1;
  expect_near(product(qt.data(), q, k, m, k), one, tolerance, "q^T q");
}
void expect_columns_point_up(const double* v, int64_t m, int64_t k, double tolerance) {
  for (int64_t j = 0; j < k; ++j) {
    double least = 0, most = 0;
    for (int64_t i = 0; i < m; ++i) {
      least = std::min(least, v[i * k + j]);
      most = std::max(most, v[i * k + j]);
    }
    EXPECT_GE(most, -least * (1 - tolerance)) << "column " << j;
  }
}

// x = u diag(s) vh; vectors of equal or zero singular values are arbitrary.
void expect_svd(const Case& c, const Answer& y) {
  const Input& x = c.inputs[0];
  const int64_t m = x.shape[x.shape.rank() - 2], n = x.shape[x.shape.rank() - 1];
  const int64_t k = std::min(m, n);
  const double tolerance = 10 * tolerance_of(c);
  for (int64_t i = 0; i < x.shape.count() / (m * n); ++i) {
    const double* const u = y.outputs[0].values.data() + i * m * k;
    const double* const s = y.outputs[1].values.data() + i * k;
    const double* const vh = y.outputs[2].values.data() + i * k * n;
    expect_orthonormal_columns(u, m, k, tolerance);
    expect_columns_point_up(u, m, k, 1e-5);
    const Numbers v = transposed(vh, k, n);
    expect_orthonormal_columns(v.data(), n, k, tolerance);
    Numbers scaled(u, u + m * k);
    for (int64_t j = 0; j < m * k; ++j) scaled[j] *= s[j % k];
    const double* const from = x.values.data() + i * m * n;
    expect_near(product(scaled.data(), vh, m, k, n), Numbers(from, from + m * n), tolerance,
                "u s vh");
  }
}
// x = v diag(w) v^T, where one triangle of x defines the other.
void expect_eigh(const Case& c, const Answer& y, bool upper) {
  const Input& x = c.inputs[0];
  const int64_t n = x.shape[x.shape.rank() - 1];
  const double tolerance = 10 * tolerance_of(c);
  for (int64_t index = 0; index < x.shape.count() / (n * n); ++index) {
    const double* const w = y.outputs[0].values.data() + index * n;
    const double* const v = y.outputs[1].values.data() + index * n * n;
    expect_orthonormal_columns(v, n, n, tolerance);
    expect_columns_point_up(v, n, n, 1e-5);
    Numbers whole(x.values.begin() + index * n * n, x.values.begin() + (index + 1) * n * n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        if (upper ? i > j : i < j) whole[i * n + j] = whole[j * n + i];
    Numbers scaled(v, v + n * n);
    for (int64_t j = 0; j < n * n; ++j) scaled[j] *= w[j % n];
    const Numbers vt = transposed(v, n, n);
    expect_near(product(scaled.data(), vt.data(), n, n, n), whole, tolerance, "v w v^T");
  }
}
void expect_qr(const Case& c, const Answer& y) {
  const Input& x = c.inputs[0];
  const int64_t m = x.shape[x.shape.rank() - 2], n = x.shape[x.shape.rank() - 1];
  const int64_t k = std::min(m, n);
  const double tolerance = 10 * tolerance_of(c);
  for (int64_t i = 0; i < x.shape.count() / (m * n); ++i) {
    const double* const q = y.outputs[0].values.data() + i * m * k;
    const double* const r = y.outputs[1].values.data() + i * k * n;
    expect_orthonormal_columns(q, m, k, tolerance);
    for (int64_t a = 0; a < k; ++a)
      for (int64_t b = 0; b < std::min(a, n); ++b) EXPECT_EQ(r[a * n + b], 0);
    const double* const from = x.values.data() + i * m * n;
    expect_near(product(q, r, m, k, n), Numbers(from, from + m * n), tolerance, "q r");
  }
}

// ---- Cases ----

struct Row {
  const char* op;
  const char* loops;
  int64_t least;  // of rows and columns that LAPACK takes
  bool is_square, has_b, has_upper;
};
constexpr Row kRows[] = {
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

void check_case(uint64_t seed) {
  Random random(seed);
  const Row& row = kRows[random.below(std::size(kRows))];
  const auto kind = static_cast<Kind>(random.below(static_cast<int>(Kind::count)));
  Case c{.op = row.op, .dtype = random.below(2) ? f64 : f32};
  const Sizes batch = kind == Kind::not_finite ? Sizes() : random.batch();
  const int64_t n = row.least + random.below(24);
  const int64_t m = row.is_square ? n : std::max<int64_t>(n, row.least + random.below(80));
  const bool wide = random.below(2) == 1;
  const bool is_exp = c.op == "matrix_exp", is_values = c.op == "svdvals" || c.op == "eigvalsh";
  const bool is_vectors = c.op == "svd" || c.op == "eigh";
  const bool dominant = !is_vectors && !is_values && c.op != "qr" && c.op != "geqrf" && !is_exp;
  // The loops compute with squares, whose sums may exceed f64.
  c.inputs.push_back(random.matrix(
      batch, wide ? n : m, wide ? m : n,
      is_exp && (kind == Kind::huge || kind == Kind::singular) ? Kind::plain : kind, dominant));
  if (row.has_b) {
    c.inputs.push_back(random.numbers(Random::matrices(batch, n, 1 + random.below(9))));
    if (kind == Kind::not_finite && random.below(2)) {
      c.inputs[0] = random.matrix(batch, n, n, Kind::plain, dominant);
      c.inputs[1].values[0] = NAN;
    }
  }
  const bool upper = random.below(2) == 1;
  if (row.has_upper) c.attrs.push_back({"upper", upper});
  if (c.op == "solve_triangular") c.attrs.push_back({"unitriangular", random.below(2) == 1});
  if (c.dtype == f32)
    for (Input& input : c.inputs)
      for (double& v : input.values) v = static_cast<float>(v);

  const std::string what =
      str_cat(c.op, " ", c.dtype, c.inputs[0].shape, " kind ", int(kind), " upper ", upper);
  SCOPED_TRACE(str_cat(what, ", seed ", int64_t(seed)));
  const Answer by_loops = run_by(c, row.loops), by_lapack = run_by(c, "lapack");
  ASSERT_EQ(by_lapack.status.message(), by_loops.status.message());
  if (!by_loops.status.ok()) return;
  if (kind == Kind::not_finite) {  // the loops' own result, unless in the unread triangle
    const bool is_triangle = row.has_upper || c.op == "svd";
    EXPECT_TRUE(is_triangle || same_bits(by_lapack, by_loops));
    if (c.op != "eigh") return;
  }
  if (c.op == "svd") {
    expect_near(by_lapack.outputs[1].values, by_loops.outputs[1].values, 10 * tolerance_of(c), "s");
    return expect_svd(c, by_lapack);
  }
  if (c.op == "eigh") {
    expect_near(by_lapack.outputs[0].values, by_loops.outputs[0].values, 10 * tolerance_of(c), "w");
    return expect_eigh(c, by_lapack, upper);
  }
  if (is_values)
    return expect_near(by_lapack.outputs[0].values, by_loops.outputs[0].values,
                       10 * tolerance_of(c), "values");
  if (c.op == "qr") return expect_qr(c, by_lapack);
  if (c.op == "geqrf" && kind != Kind::plain) return;  // rank-deficient: rounding errors
  if (c.op == "lu" && kind == Kind::low_rank) return;  // pivots are equal
  if (c.op == "ldl_factor" && kind == Kind::singular) return;
  // A unit triangle with large numbers, and repeated rows, are ill-conditioned: both results are
  // mostly rounding errors.
  if (kind == Kind::low_rank || (c.op == "solve_triangular" && kind == Kind::huge)) return;
  for (size_t k = 0; k < by_loops.outputs.size(); ++k)
    expect_near(by_lapack.outputs[k].values, by_loops.outputs[k].values, 100 * tolerance_of(c),
                str_cat("output ", int64_t(k)));
}

TEST(Lapack, AnswersAsTheLoopsDo) {
  if (!is_used()) GTEST_SKIP() << "OpenBLAS is not used here";
  const int64_t count = test::case_count(300);
  for (int64_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed)
    check_case(static_cast<uint64_t>(seed));
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
  std::vector<Row> rows(std::begin(kRows), std::end(kRows));
  rows.push_back({"eig", "qr", 1, true, false, false});  // tests/eig_test.cpp checks the results
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
