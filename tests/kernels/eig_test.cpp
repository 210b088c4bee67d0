// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and eigenvectors of general matrices with each kernel, on random matrices of many
// kinds, including defective ones. Checks A v = w v for each pair, lengths and signs of vectors,
// that values sum to the trace, and that all kernels agree. More cases: HG_CASES=5000 eig_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <random>

#include "hg/hg.h"
#include "hg/kernel.h"
#include "hg/op.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

using Number = std::complex<double>;
using Numbers = std::vector<Number>;

enum class Kind {
  plain,
  symmetric,
  triangle,     // the diagonal may repeat
  defective,    // a Jordan block, transformed
  nearly,       // a Jordan block with a small perturbation
  scaled,       // rows and columns of very different sizes
  sparse,       // some rows and columns have an eigenvalue alone
  permutation,  // all eigenvalues have the magnitude 1
  zero,
  huge,
  tiny,
  count
};

struct Case {
  DType dtype = f64;
  bool complex = false;
  int64_t n = 0;
  Kind kind = Kind::plain;
  Numbers a;  // one matrix
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  double real() { return static_cast<double>(engine_() >> 11) * 0x1p-52 - 1; }
  Number number(bool complex) { return {real(), complex ? real() : 0}; }

  Case next() {
    Case c;
    c.dtype = below(3) == 0 ? f32 : f64;
    c.complex = below(2) == 1;
    c.n = below(8) == 0 ? below(60) : below(9);
    c.kind = static_cast<Kind>(below(static_cast<int>(Kind::count)));
    fill(c);
    if (c.dtype == f32)
      for (Number& x : c.a) x = {static_cast<float>(x.real()), static_cast<float>(x.imag())};
    return c;
  }

 private:
  void fill(Case& c) {
    const int64_t n = c.n;
    c.a.resize(static_cast<size_t>(n * n));
    const auto at = [&](int64_t i, int64_t j) -> Number& { return c.a[i * n + j]; };
    for (Number& x : c.a) x = number(c.complex);
    switch (c.kind) {
      case Kind::symmetric:
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j <= i; ++j)
            at(j, i) = i == j ? at(i, i).real() : std::conj(at(i, j));
        break;
      case Kind::triangle: {
        const bool lower = below(2) == 1;
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) {
            if (i == j && below(2) == 1) at(i, j) = 0.5;
            if (lower ? i < j : i > j) at(i, j) = 0;
          }
        break;
      }
      case Kind::defective:
      case Kind::nearly:
        jordan(c);
        break;
      case Kind::scaled:
        for (int64_t i = 0; i < n; ++i) {
          const double f = std::ldexp(1, below(40) - 20);
          for (int64_t j = 0; j < n; ++j) at(i, j) *= f, at(j, i) /= f;
        }
        break;
      case Kind::sparse:
        for (Number& x : c.a)
          if (below(3) != 0) x = 0;
        break;
      case Kind::permutation:
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) at(i, j) = j == (i + 1) % n;
        break;
      case Kind::zero:
        for (Number& x : c.a) x = 0;
        break;
      case Kind::huge:
      case Kind::tiny: {
        const double f = c.dtype == f32 ? 1e30 : 1e290;
        for (Number& x : c.a) x *= c.kind == Kind::huge ? f : 1 / f;
        break;
      }
      default:
        break;
    }
  }
  // h j h with a reflection h and a Jordan block j, perhaps with a number in its corner.
  void jordan(Case& c) {
    const int64_t n = c.n;
    const auto at = [&](int64_t i, int64_t j) -> Number& { return c.a[i * n + j]; };
    const Number value = number(c.complex);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) at(i, j) = i == j ? value : Number(j == i + 1);
    if (c.kind == Kind::nearly && n > 0) at(n - 1, 0) += 1e-9;
    std::vector<double> v;
    double square = 0;
    for (int64_t i = 0; i < n; ++i) square += std::norm(v.emplace_back(real()));
    const auto reflect = [&](bool rows) {
      for (int64_t j = 0; j < n; ++j) {
        Number dot = 0;
        for (int64_t i = 0; i < n; ++i) dot += v[i] * (rows ? at(i, j) : at(j, i));
        for (int64_t i = 0; i < n; ++i) (rows ? at(i, j) : at(j, i)) -= 2 / square * v[i] * dot;
      }
    };
    reflect(true);
    reflect(false);
  }

  std::mt19937_64 engine_;
};

struct Answer {
  Status status;
  Numbers values, vectors;
};
Answer run(const std::string& op, const Case& c, const std::string& kernel) {
  Graph g;
  Shape shape = {c.n, c.n};
  if (c.complex) shape.emplace_back(2);
  const std::vector<Value> outputs =
      g.calls(op, {g.input("x", c.dtype, shape)}, {{"complex", c.complex}});
  for (const Value& y : outputs) g.output(str_cat("y", y.id()), y);
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  SessionOptions options;
  options.threads = 1;
  if (!kernel.empty()) options.kernels = {op + "=" + kernel};
  Result<Session> session = Session::create(*Model::from_graph(std::move(g)), options);
  if (!session.ok()) return {std::move(session).status(), {}, {}};
  std::vector<double> doubles;
  for (const Number& x : c.a) {
    doubles.push_back(x.real());
    if (c.complex) doubles.push_back(x.imag());
  }
  const std::vector<float> floats(doubles.begin(), doubles.end());
  Sizes sizes = {c.n, c.n};
  if (c.complex) sizes.push_back(2);
  must(c.dtype == f64 ? session->set_input(0, view(doubles, sizes))
                      : session->set_input(0, view(floats, sizes)));
  Answer answer;
  answer.status = session->run();
  if (!answer.status.ok()) return answer;
  for (int k = 0; k < session->output_count(); ++k) {
    const Tensor y = *session->output(k);
    std::vector<double> numbers(static_cast<size_t>(y.count()));
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = y.dtype == f64 ? y.as<double>()[i] : y.as<float>()[i];
    Numbers& to = k == 0 ? answer.values : answer.vectors;
    for (size_t i = 0; i < numbers.size(); i += 2) to.emplace_back(numbers[i], numbers[i + 1]);
  }
  return answer;
}

double largest(const Numbers& x) {
  double most = 0;
  for (const Number& each : x) most = std::max(most, std::abs(each));
  return most;
}

// The distance between two sets: each number is matched with the nearest unmatched one.
double distance(const Numbers& a, Numbers b) {
  double most = 0;
  for (const Number& x : a) {
    if (b.empty()) return HUGE_VAL;
    const auto nearest = std::min_element(
        b.begin(), b.end(),
        [&](const Number& p, const Number& q) { return std::abs(p - x) < std::abs(q - x); });
    most = std::max(most, std::abs(*nearest - x));
    b.erase(nearest);
  }
  return b.empty() ? most : HUGE_VAL;
}

void expect_eig(const Case& c, const Answer& y) {
  const int64_t n = c.n;
  ASSERT_EQ(y.values.size(), static_cast<size_t>(n));
  ASSERT_EQ(y.vectors.size(), static_cast<size_t>(n * n));
  const double size = largest(c.a) * static_cast<double>(std::max<int64_t>(n, 1));
  const double tolerance = c.dtype == f32 ? 1e-6 : 1e-14;
  Number trace = 0, sum = 0;
  for (int64_t j = 0; j < n; ++j) {
    trace += c.a[j * n + j];
    sum += y.values[j];
    double square = 0;
    Number head = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Number v = y.vectors[i * n + j];
      square += std::norm(v);
      if (std::abs(v) > std::abs(head) * (1 + 1e-6)) head = v;
      Number left = 0;
      for (int64_t p = 0; p < n; ++p) left += c.a[i * n + p] * y.vectors[p * n + j];
      EXPECT_LE(std::abs(left - y.values[j] * v), tolerance * size) << "vector " << j;
    }
    EXPECT_NEAR(square, 1, 10 * tolerance) << "vector " << j;
    EXPECT_GT(head.real(), 0) << "vector " << j;
    EXPECT_NEAR(head.imag(), 0, 1e-2 * head.real()) << "of one of equal size, perhaps";
    if (c.complex || y.values[j].imag() == 0) continue;
    const bool first = y.values[j].imag() > 0;
    const int64_t other = first ? j + 1 : j - 1;
    ASSERT_TRUE(other >= 0 && other < n);
    EXPECT_EQ(y.values[other], std::conj(y.values[j]));
    for (int64_t i = 0; i < n && first; ++i)
      EXPECT_EQ(y.vectors[i * n + other], std::conj(y.vectors[i * n + j]));
  }
  EXPECT_LE(std::abs(trace - sum), tolerance * size) << "the trace";
  for (int64_t j = 0; j < n && !c.complex; ++j)
    for (int64_t i = 0; i < n && y.values[j].imag() == 0; ++i)
      EXPECT_EQ(y.vectors[i * n + j].imag(), 0) << "of a real value";
}

// How far eigenvalues may be from exact ones: a Jordan block of size k moves them by the k-th root.
double spread(const Case& c) {
  const double epsilon = c.dtype == f32 ? 1e-7 : 1e-15;
  const bool is_block = c.kind == Kind::defective || c.kind == Kind::nearly ||
                        c.kind == Kind::triangle || c.kind == Kind::sparse;
  return is_block ? 3 * std::pow(epsilon * 10, 1.0 / static_cast<double>(std::max<int64_t>(c.n, 1)))
                  : 1e-9 + 100 * epsilon;
}

bool has_lapack(const std::string& op) {
  for (const KernelDef* kernel : Registry::built_in().kernels(op, Device::cpu))
    if (kernel->name == "lapack") return true;
  return false;
}

void check(const Case& c) {
  const Answer by_loops = run("eig", c, "qr");
  ASSERT_TRUE(by_loops.status.ok()) << by_loops.status.message();
  expect_eig(c, by_loops);
  const double limit = spread(c) * (largest(c.a) * static_cast<double>(c.n) + 1e-300);
  const Answer values = run("eigvals", c, "qr");
  ASSERT_TRUE(values.status.ok()) << values.status.message();
  EXPECT_LE(distance(values.values, by_loops.values), limit);
  if (c.n == 0 || !has_lapack("eig")) return;
  const Answer by_lapack = run("eig", c, "lapack");
  if (by_lapack.status.code() == Code::unsupported) return;  // this build does not use OpenBLAS
  ASSERT_TRUE(by_lapack.status.ok()) << by_lapack.status.message();
  expect_eig(c, by_lapack);
  EXPECT_LE(distance(by_lapack.values, by_loops.values), limit);
  EXPECT_LE(distance(run("eigvals", c, "lapack").values, by_loops.values), limit);
}

TEST(Eig, OfRandomMatrices) {
  const int64_t count = test::case_count(400);
  for (int64_t seed = 0; seed < count && !HasFailure(); ++seed) {
    const Case c = Random(static_cast<uint64_t>(seed)).next();
    SCOPED_TRACE(str_cat("seed ", seed, ": ", c.dtype, c.complex ? " complex" : "", " n = ", c.n,
                         " kind ", int(c.kind)));
    check(c);
  }
}

// A batch with strides gives the same bits on any number of threads.
TEST(Eig, OfBatches) {
  Random random(5);
  std::vector<double> x(5 * 7 * 7);
  for (double& each : x) each = random.real();
  Graph g;
  const Value in = g.input("x", f64, {7, 7, 5});
  for (const Value& y : g.calls("eig", {permute(in, {2, 0, 1})})) g.output("", y);
  const Model model = *Model::from_graph(std::move(g));
  std::vector<std::vector<double>> answers;
  for (const int threads : {1, 3}) {
    SessionOptions options;
    options.threads = threads;
    Session session = *Session::create(model, options);
    ASSERT_TRUE(session.set_input(0, view(x, {7, 7, 5})).ok());
    ASSERT_TRUE(session.run().ok());
    for (int k = 0; k < 2; ++k) {
      const Tensor y = *session.output(k);
      answers.emplace_back(y.as<double>(), y.as<double>() + y.count());
    }
  }
  EXPECT_EQ(answers[0], answers[2]);
  EXPECT_EQ(answers[1], answers[3]);
  for (int64_t index = 0; index < 5; ++index) {
    Case c{.n = 7, .a = {}};
    for (int64_t i = 0; i < 49; ++i) c.a.emplace_back(x[i * 5 + index]);
    const Answer one = run("eig", c, "");
    for (int64_t i = 0; i < 7; ++i)
      EXPECT_EQ(one.values[i],
                Number(answers[0][(index * 7 + i) * 2], answers[0][(index * 7 + i) * 2 + 1]));
  }
}

TEST(Eig, RefusesWhatIsNotFinite) {
  for (const double odd : {NAN, INFINITY})
    for (const char* op : {"eig", "eigvals"}) {
      const Answer answer = run(op, {.n = 2, .a = {1, odd, 2, 3}}, "");
      EXPECT_NE(answer.status.message().find("a matrix is not finite"), std::string::npos)
          << answer.status.message();
    }
}

TEST(Eig, RefusesWhatIsNoMatrix) {
  for (const auto& [shape, complex, words] :
       {std::tuple(Shape{3, 2}, false, "square"), std::tuple(Shape{3}, false, "two dims"),
        std::tuple(Shape{2, 2, 3}, true, "imaginary"), std::tuple(Shape{2, 2}, true, "two dims")}) {
    Graph g;
    g.calls("eig", {g.input("x", f32, shape)}, {{"complex", complex}});
    EXPECT_NE(g.status().message().find(words), std::string::npos) << g.status().message();
  }
}

}  // namespace
}  // namespace hg
