// SPDX-License-Identifier: Apache-2.0
// Kernels for matrices against the library's own loops on random matrices: full-rank and
// rank-deficient, singular, with very large and small numbers, with NaN and infinities, in batches.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include "hg/hg.h"
#include "hg/op.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg::test::matrices {

using Numbers = std::vector<double>;

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

inline Session session_of(const Case& c, SessionOptions options) {
  Graph g;
  std::vector<Value> inputs;
  for (const Input& input : c.inputs)
    inputs.push_back(g.input(str_cat("x", inputs.size()), c.dtype, to_shape(input.shape)));
  const std::vector<Value> outputs = g.calls(c.op, inputs, c.attrs);
  for (const Value& y : outputs) g.output(str_cat("y", y.id()), y);
  Session session =
      must(Session::create(must(Model::from_graph(std::move(g))), std::move(options)));
  return session;
}

inline Answer run(Session& session, const Case& c) {
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
inline Answer run_by(const Case& c, const std::string& kernel, int threads = 1) {
  SessionOptions options;
  options.threads = threads;
  options.kernels = {c.op + "=" + kernel};
  Session session = session_of(c, options);
  return run(session, c);
}

inline bool same_bits(const Answer& a, const Answer& b) {
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

inline double largest(const Numbers& x) {
  double most = 0;
  for (const double v : x) most = std::max(most, std::fabs(v));
  return most;
}
// Allows for rounding of results to the dtype, and of sums of n products in f64.
inline double tolerance_of(const Case& c) {
  const auto n = static_cast<double>(c.inputs[0].shape[c.inputs[0].shape.rank() - 1]);
  return c.dtype == f32 ? 2e-6 : 1e-14 * n;
}
inline void expect_near(const Numbers& a, const Numbers& b, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  const double size = std::max(largest(a), largest(b));
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * size) << what << " at " << i;
  }
}
// a[m, k] b[k, n] of matrix `index`.
inline Numbers product(const double* a, const double* b, int64_t m, int64_t k, int64_t n) {
  Numbers y(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] += a[i * k + p] * b[p * n + j];
  return y;
}
inline Numbers transposed(const double* a, int64_t m, int64_t n) {
  Numbers y(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) y[j * m + i] = a[i * n + j];
  return y;
}
inline void expect_orthonormal_columns(const double* q, int64_t m, int64_t k, double tolerance) {
  const Numbers qt = transposed(q, m, k);
  Numbers one(static_cast<size_t>(k * k));
  for (int64_t i = 0; i < k; ++i) one[i * k + i] = 1;
  expect_near(product(qt.data(), q, k, m, k), one, tolerance, "q^T q");
}
inline void expect_columns_point_up(const double* v, int64_t m, int64_t k, double tolerance) {
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
inline void expect_svd(const Case& c, const Answer& y) {
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
inline void expect_eigh(const Case& c, const Answer& y, bool upper) {
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
inline void expect_qr(const Case& c, const Answer& y) {
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
  int64_t least;  // of the cases, in rows and columns
  bool is_square, has_b, has_upper;
};

inline void check_case(uint64_t seed, const char* kernel, std::span<const Row> rows) {
  Random random(seed);
  const Row& row = rows[static_cast<size_t>(random.below(static_cast<int>(rows.size())))];
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
  const Answer by_loops = run_by(c, row.loops), answer = run_by(c, kernel);
  ASSERT_EQ(answer.status.message(), by_loops.status.message());
  if (!by_loops.status.ok()) return;
  if (kind == Kind::not_finite) {  // the loops' own result, unless in the unread triangle
    const bool is_triangle = row.has_upper || c.op == "svd";
    EXPECT_TRUE(is_triangle || same_bits(answer, by_loops));
    if (c.op != "eigh") return;
  }
  if (c.op == "svd") {
    expect_near(answer.outputs[1].values, by_loops.outputs[1].values, 10 * tolerance_of(c), "s");
    return expect_svd(c, answer);
  }
  if (c.op == "eigh") {
    expect_near(answer.outputs[0].values, by_loops.outputs[0].values, 10 * tolerance_of(c), "w");
    return expect_eigh(c, answer, upper);
  }
  if (is_values)
    return expect_near(answer.outputs[0].values, by_loops.outputs[0].values, 10 * tolerance_of(c),
                       "values");
  if (c.op == "qr") return expect_qr(c, answer);
  if (c.op == "geqrf" && kind != Kind::plain) return;  // rank-deficient: rounding errors
  if (c.op == "lu" && kind == Kind::low_rank) return;  // pivots are equal
  if (c.op == "ldl_factor" && kind == Kind::singular) return;
  // A unit triangle with large numbers, and repeated rows, are ill-conditioned: both results are
  // mostly rounding errors.
  if (kind == Kind::low_rank || (c.op == "solve_triangular" && kind == Kind::huge)) return;
  for (size_t k = 0; k < by_loops.outputs.size(); ++k)
    expect_near(answer.outputs[k].values, by_loops.outputs[k].values, 100 * tolerance_of(c),
                str_cat("output ", int64_t(k)));
}

inline void check_cases(const char* kernel, std::span<const Row> rows) {
  const int64_t count = test::case_count(300);
  for (int64_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed)
    check_case(static_cast<uint64_t>(seed), kernel, rows);
}

}  // namespace hg::test::matrices
