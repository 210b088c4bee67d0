// SPDX-License-Identifier: Apache-2.0
// Recurrent layers of any dtype, one time step at a time. Within a step, threads share the hidden
// units: each range of units computes all its gates, then its part of the state.
#include <algorithm>
#include <cmath>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "kernels/recurrent/rnn_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct ScanState {
  Cell cell = Cell::lstm;
  int64_t time = 0, batch = 0, hidden = 0, out = 0;
  int gates = 4;
  int weight = 3, bias = 4;  // inputs
  bool projects = false, reverse = false;
};

// Workspace in the type of the computation: two states [batch, out], the cell, the recurrent
// products [batch, gates hidden], and the unprojected state [batch, hidden].
template <class W>
struct Scratch {
  W *before, *after, *cell, *products, *unprojected;
  Scratch(W* p, const ScanState& s) {
    before = p;
    after = before + s.batch * s.out;
    cell = after + s.batch * s.out;
    products = cell + s.batch * s.hidden;
    unprojected = products + s.batch * s.hidden * s.gates;
  }
  static int64_t count(const ScanState& s) {
    return s.batch * (2 * s.out + s.hidden * (2 + s.gates));
  }
};

Status prepare_scan(PrepareContext& c, ScanState s) {
  const Tensor &gates = c.in(0), &h0 = c.in(1);
  s.time = gates.shape[0];
  s.batch = gates.shape[1];
  s.hidden = gates.shape[2] / s.gates;
  s.out = h0.shape[1];
  s.reverse = c.attrs().flag("reverse");
  s.projects = s.cell == Cell::lstm && c.has(5);
  c.set_workspace(Scratch<double>::count(s) *
                  (c.out(0).dtype == f64 ? int64_t{sizeof(double)} : int64_t{sizeof(float)}));
  c.make_state(s);
  return {};
}
Status lstm_prepare(PrepareContext& c) { return prepare_scan(c, {.cell = Cell::lstm}); }
Status gru_prepare(PrepareContext& c) {
  return prepare_scan(c, {.cell = Cell::gru, .gates = 3, .weight = 2, .bias = 3});
}
Status rnn_prepare(PrepareContext& c) {
  const Cell cell = c.attrs().string("nonlinearity") == "relu" ? Cell::relu : Cell::tanh;
  return prepare_scan(c, {.cell = cell, .gates = 1, .weight = 2, .bias = 3});
}

// y[rows, columns] = a[rows, k] b[columns, k]^T
template <class T>
void dots(int64_t rows, int64_t columns, int64_t k, const Wide<T>* a, const T* b, Wide<T>* y,
          int64_t y_row) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      Wide<T> sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += a[i * k + l] * load(b + j * k + l);
      y[i * y_row + j] = sum;
    }
}

template <class W>
W sigmoid(W x) {
  return W(1) / (W(1) + std::exp(-x));
}

// The new state of unit j of sample i. p: the recurrent products with their bias, g: the gates.
template <class T>
Wide<T> advance(const ScanState& s, const T* g, const Wide<T>* p, const T* bias, int64_t j,
                Wide<T> before, Wide<T>& cell) {
  using W = Wide<T>;
  auto product = [&](int k) {
    const int64_t at = k * s.hidden + j;
    return p[at] + (bias ? load(bias + at) : W(0));
  };
  auto gate = [&](int k) { return load(g + k * s.hidden + j); };
  switch (s.cell) {
    case Cell::lstm: {
      const W in = sigmoid(gate(0) + product(0)), forget = sigmoid(gate(1) + product(1));
      cell = forget * cell + in * std::tanh(gate(2) + product(2));
      return sigmoid(gate(3) + product(3)) * std::tanh(cell);
    }
    case Cell::gru: {
      const W r = sigmoid(gate(0) + product(0)), z = sigmoid(gate(1) + product(1));
      const W n = std::tanh(gate(2) + r * product(2));
      return n + z * (before - n);
    }
    case Cell::tanh:
      return std::tanh(gate(0) + product(0));
    case Cell::relu:
      break;
  }
  const W v = gate(0) + product(0);
  return v < 0 ? W(0) : v;
}

template <class T>
void scan(const RunContext& c, const ScanState& s) {
  using W = Wide<T>;
  Scratch<W> w(c.workspace<W>(), s);
  for (int64_t i = 0; i < s.batch * s.out; ++i) w.before[i] = load(c.in(1).as<T>() + i);
  if (s.cell == Cell::lstm)
    for (int64_t i = 0; i < s.batch * s.hidden; ++i) w.cell[i] = load(c.in(2).as<T>() + i);
  const T* weight = c.in(s.weight).as<T>();
  const T* bias = c.has(s.bias) ? c.in(s.bias).as<T>() : nullptr;
  const int64_t width = s.gates * s.hidden;
  const int64_t work = std::max<int64_t>(1, s.batch * s.out * s.gates);
  const int64_t grain = std::max<int64_t>(16, (int64_t{1} << 17) / work);
  for (int64_t k = 0; k < s.time; ++k) {
    const int64_t t = s.reverse ? s.time - 1 - k : k;
    const T* gates = c.in(0).as<T>() + t * s.batch * width;
    W* next = s.projects ? w.unprojected : w.after;
    c.parallel_for(s.hidden, grain, [&](int64_t begin, int64_t end) {
      for (int g = 0; g < s.gates; ++g) {
        const int64_t first = g * s.hidden + begin;
        dots(s.batch, end - begin, s.out, w.before, weight + first * s.out, w.products + first,
             width);
      }
      for (int64_t i = 0; i < s.batch; ++i)
        for (int64_t j = begin; j < end; ++j) {
          const int64_t at = i * s.hidden + j;
          next[at] = advance(s, gates + i * width, w.products + i * width, bias, j,
                             s.projects ? W(0) : w.before[at], w.cell[at]);
        }
    });
    if (s.projects) dots(s.batch, s.out, s.hidden, next, c.in(5).as<T>(), w.after, s.out);
    T* y = c.out(0).as<T>() + t * s.batch * s.out;
    for (int64_t i = 0; i < s.batch * s.out; ++i) store(y + i, w.after[i]);
    std::swap(w.before, w.after);
  }
  for (int64_t i = 0; i < s.batch * s.out; ++i) store(c.out(1).as<T>() + i, w.before[i]);
  if (s.cell == Cell::lstm)
    for (int64_t i = 0; i < s.batch * s.hidden; ++i) store(c.out(2).as<T>() + i, w.cell[i]);
}

void scan_run(const RunContext& c) noexcept {
  for_float(c.out(0).dtype, [&]<class T>() { scan<T>(c, c.state<ScanState>()); });
}

constexpr KernelDef kKernels[] = {
    {.op = "lstm_scan", .name = "steps", .prepare = lstm_prepare, .run = scan_run},
    {.op = "gru_scan", .name = "steps", .prepare = gru_prepare, .run = scan_run},
    {.op = "rnn_scan", .name = "steps", .prepare = rnn_prepare, .run = scan_run},
};

}  // namespace

std::span<const KernelDef> rnn() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
