// SPDX-License-Identifier: Apache-2.0
// The inner loops of rnn_simd.h. Forward computes two vectors of units with all their gates at a
// time, or one for several sequences.
#include "kernels/recurrent/rnn_simd.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/rnn_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/rows-inl.h"
#include "kernels/simd/vector_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

constexpr int kVectors = 2;
constexpr int kUnits = kVectors * kLanes;

void pack(Cell cell, int64_t hidden, const float* weight, float* to) {
  const int gates = gate_count(cell);
  const int64_t end = (hidden + kUnits - 1) / kUnits * kUnits;
  for (int64_t first = 0; first < end; first += kLanes)
    for (int64_t k = 0; k < hidden; ++k)
      for (int g = 0; g < gates; ++g)
        for (int64_t u = first; u < first + kLanes; ++u)
          *to++ = u < hidden ? weight[(g * hidden + u) * hidden + k] : 0;
}

// The new states of one vector of units; products with their bias, inputs: the gates of the input.
template <Cell kCell>
HWY_INLINE V advance(const V* products, const V* inputs, V before, V& cell) {
  if constexpr (kCell == Cell::lstm) {
    const V in = sigmoid_of(hn::Add(inputs[0], products[0]));
    const V forget = sigmoid_of(hn::Add(inputs[1], products[1]));
    const V fresh = tanh_of(hn::Add(inputs[2], products[2]));
    cell = hn::MulAdd(forget, cell, hn::Mul(in, fresh));
    return hn::Mul(sigmoid_of(hn::Add(inputs[3], products[3])), tanh_of(cell));
  } else if constexpr (kCell == Cell::gru) {
    const V r = sigmoid_of(hn::Add(inputs[0], products[0]));
    const V z = sigmoid_of(hn::Add(inputs[1], products[1]));
    const V n = tanh_of(hn::MulAdd(r, products[2], inputs[2]));
    return hn::MulAdd(z, hn::Sub(before, n), n);
  } else if constexpr (kCell == Cell::tanh) {
    return tanh_of(hn::Add(inputs[0], products[0]));
  } else {
    return relu_of(hn::Add(inputs[0], products[0]));
  }
}

// A vector of units of one sequence, from the products of its weights. A separate function, which
// makes programs smaller.
template <Cell kCell>
HWY_NOINLINE void advance_units(const RnnStep& s, int64_t unit, int64_t row, V* products) {
  if (unit >= s.hidden) return;
  constexpr int kGates = gate_count(kCell);
  const D d;
  const int valid = static_cast<int>(std::min<int64_t>(kLanes, s.hidden - unit));
  V inputs[kGates];
#pragma GCC unroll 4
  for (int g = 0; g < kGates; ++g) {
    const int64_t at = g * s.hidden + unit;
    if (s.bias != nullptr) products[g] = hn::Add(products[g], load_part(d, s.bias + at, valid));
    inputs[g] = load_part(d, s.gates + row * kGates * s.hidden + at, valid);
  }
  const int64_t at = row * s.hidden + unit;
  V cell = kCell == Cell::lstm ? load_part(d, s.cell + at, valid) : hn::Zero(d);
  const V after = advance<kCell>(products, inputs, load_part(d, s.before + at, valid), cell);
  if (kCell == Cell::lstm) store_part(d, cell, valid, s.cell + at);
  store_part(d, after, valid, s.after + at);
}

// kVectors vectors of units of kRows sequences: reads a weight once for all of them.
template <Cell kCell, int kRows, int kVectors>
HWY_INLINE void advance_rows(const RnnStep& s, int64_t first_vector, int64_t row) {
  constexpr int kGates = gate_count(kCell);
  const D d;
  const int64_t vector_floats = s.hidden * kGates * kLanes;
  const float* weight = s.packed + first_vector * vector_floats;
  const float* const before = s.before + row * s.hidden;
  V sums[kRows][kVectors][kGates];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
#pragma GCC unroll 4
      for (int g = 0; g < kGates; ++g) sums[r][v][g] = hn::Zero(d);
  // Keeps one vector of the shorter side in a register at a time; sixteen hold all of it.
  for (int64_t k = 0; k < s.hidden; ++k, weight += kGates * kLanes) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const float* const factors = weight + v * vector_floats;
      if constexpr (kRows > kGates) {
        V factor[kGates];
#pragma GCC unroll 4
        for (int g = 0; g < kGates; ++g) factor[g] = hn::Load(d, factors + g * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const V state = hn::Set(d, before[r * s.hidden + k]);
#pragma GCC unroll 4
          for (int g = 0; g < kGates; ++g)
            sums[r][v][g] = hn::MulAdd(state, factor[g], sums[r][v][g]);
        }
      } else {
        V state[kRows];
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) state[r] = hn::Set(d, before[r * s.hidden + k]);
#pragma GCC unroll 4
        for (int g = 0; g < kGates; ++g) {
          const V factor = hn::Load(d, factors + g * kLanes);
#pragma GCC unroll 4
          for (int r = 0; r < kRows; ++r)
            sums[r][v][g] = hn::MulAdd(state[r], factor, sums[r][v][g]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      V products[kGates];
#pragma GCC unroll 4
      for (int g = 0; g < kGates; ++g) products[g] = sums[r][v][g];
      advance_units<kCell>(s, (first_vector + v) * kLanes, row + r, products);
    }
  }
}

// As many sequences at a time as registers allow for their sums; a single sequence uses two
// vectors.
template <Cell kCell>
void step_of(const RnnStep& s, int64_t first_block, int64_t end_block) {
  constexpr int kRows = gate_count(kCell) == 4 ? 3 : 4;
  const int64_t together = s.batch % kRows == 1 ? s.batch - 1 : s.batch;
  for (int64_t block = first_block; block < end_block; ++block) {
    const int64_t vector = block * kVectors;
    for (int v = 0; v < kVectors; ++v)
      for (int64_t row = 0; row < together; row += kRows) {
        const int64_t rows = std::min<int64_t>(kRows, together - row);
        if (rows == 2)
          advance_rows<kCell, 2, 1>(s, vector + v, row);
        else if (rows == 3)
          advance_rows<kCell, 3, 1>(s, vector + v, row);
        else
          advance_rows<kCell, kRows, 1>(s, vector + v, row);
      }
    if (together < s.batch) advance_rows<kCell, 1, kVectors>(s, vector, together);
  }
}

template <Cell kCell>
void step_of_products_of(const RnnStep& s, const float* products, int64_t first_block,
                         int64_t end_block) {
  constexpr int kGates = gate_count(kCell);
  const D d;
  const int64_t end = std::min(s.hidden, end_block * kUnits);
  for (int64_t row = 0; row < s.batch; ++row, products += kGates * s.hidden)
    for (int64_t unit = first_block * kUnits; unit < end; unit += kLanes) {
      const int valid = static_cast<int>(std::min<int64_t>(kLanes, s.hidden - unit));
      V parts[kGates];
#pragma GCC unroll 4
      for (int g = 0; g < kGates; ++g)
        parts[g] = load_part(d, products + g * s.hidden + unit, valid);
      advance_units<kCell>(s, unit, row, parts);
    }
}

// Calls body.operator()<cell>().
template <class Body>
void for_cell(Cell cell, const Body& body) {
  switch (cell) {
    case Cell::lstm:
      return body.template operator()<Cell::lstm>();
    case Cell::gru:
      return body.template operator()<Cell::gru>();
    case Cell::tanh:
      return body.template operator()<Cell::tanh>();
    case Cell::relu:
      return body.template operator()<Cell::relu>();
  }
}

void step(Cell cell, const RnnStep& s, int64_t first_block, int64_t end_block) {
  for_cell(cell, [&]<Cell kCell>() { step_of<kCell>(s, first_block, end_block); });
}

void step_of_products(Cell cell, const RnnStep& s, const float* products, int64_t first_block,
                      int64_t end_block) {
  for_cell(cell,
           [&]<Cell kCell>() { step_of_products_of<kCell>(s, products, first_block, end_block); });
}

// Calls body(first, valid) for each vector of units.
template <class Body>
HWY_INLINE void for_vectors(int64_t hidden, const Body& body) {
  for (int64_t j = 0; j < hidden; j += kLanes)
    body(j, static_cast<int>(std::min<int64_t>(kLanes, hidden - j)));
}

void advance_cell(int64_t hidden, const float* gates, const float* before, float* active,
                  float* after) {
  const D d;
  for_vectors(hidden, [&](int64_t j, int valid) {
    const auto gate = [&](int k) { return load_part(d, gates + k * hidden + j, valid); };
    const V in = sigmoid_of(gate(0)), forget = sigmoid_of(gate(1)), fresh = tanh_of(gate(2));
    const V out = sigmoid_of(gate(3));
    const V cell = hn::MulAdd(forget, load_part(d, before + j, valid), hn::Mul(in, fresh));
    store_part(d, in, valid, active + j);
    store_part(d, forget, valid, active + hidden + j);
    store_part(d, fresh, valid, active + 2 * hidden + j);
    store_part(d, out, valid, active + 3 * hidden + j);
    store_part(d, cell, valid, after + j);
  });
}

HWY_INLINE V with_slope_of_sigmoid(V dy, V y) { return hn::Mul(dy, hn::NegMulAdd(y, y, y)); }
HWY_INLINE V with_slope_of_tanh(V dy, V y) { return hn::NegMulAdd(dy, hn::Mul(y, y), dy); }

void lstm_back(const RnnBack& b) {
  const D d;
  for_vectors(b.hidden, [&](int64_t j, int valid) {
    const auto gate = [&](int k) { return load_part(d, b.gates + k * b.hidden + j, valid); };
    const V in = gate(0), forget = gate(1), fresh = gate(2), out = gate(3);
    const V squashed = tanh_of(load_part(d, b.after + j, valid));
    V dh = load_part(d, b.dh + j, valid);
    if (b.dy != nullptr) dh = hn::Add(dh, load_part(d, b.dy + j, valid));
    const V dcell =
        hn::Add(load_part(d, b.dcell + j, valid), with_slope_of_tanh(hn::Mul(dh, out), squashed));
    const auto give = [&](int k, V da) { store_part(d, da, valid, b.dgates + k * b.hidden + j); };
    give(0, with_slope_of_sigmoid(hn::Mul(dcell, fresh), in));
    give(1, with_slope_of_sigmoid(hn::Mul(dcell, load_part(d, b.before + j, valid)), forget));
    give(2, with_slope_of_tanh(hn::Mul(dcell, in), fresh));
    give(3, with_slope_of_sigmoid(hn::Mul(dh, squashed), out));
    store_part(d, hn::Mul(dcell, forget), valid, b.dcell + j);
  });
}

void gru_back(const RnnBack& b) {
  const D d;
  for_vectors(b.hidden, [&](int64_t j, int valid) {
    const auto gate = [&](int k) { return load_part(d, b.gates + k * b.hidden + j, valid); };
    const auto back = [&](int k) { return load_part(d, b.back + k * b.hidden + j, valid); };
    const V r = sigmoid_of(hn::Add(gate(0), back(0))), z = sigmoid_of(hn::Add(gate(1), back(1)));
    const V product = back(2), n = tanh_of(hn::MulAdd(r, product, gate(2)));
    V dh = load_part(d, b.dh + j, valid);
    if (b.dy != nullptr) dh = hn::Add(dh, load_part(d, b.dy + j, valid));
    const V past = hn::Mul(dh, z), dn = with_slope_of_tanh(hn::Sub(dh, past), n);
    const V dr = with_slope_of_sigmoid(hn::Mul(dn, product), r);
    const V dz =
        with_slope_of_sigmoid(hn::Mul(dh, hn::Sub(load_part(d, b.before + j, valid), n)), z);
    const auto give = [&](int k, V da, V du) {
      store_part(d, da, valid, b.dgates + k * b.hidden + j);
      store_part(d, du, valid, b.dback + k * b.hidden + j);
    };
    give(0, dr, dr);
    give(1, dz, dz);
    give(2, dn, hn::Mul(dn, r));
    store_part(d, past, valid, b.dh + j);
  });
}

void plain_back(const RnnBack& b, bool relu) {
  const D d;
  for_vectors(b.hidden, [&](int64_t j, int valid) {
    const V y = load_part(d, b.after + j, valid);
    V dh = load_part(d, b.dh + j, valid);
    if (b.dy != nullptr) dh = hn::Add(dh, load_part(d, b.dy + j, valid));
    const V da = relu ? hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), dh) : with_slope_of_tanh(dh, y);
    store_part(d, da, valid, b.dgates + j);
  });
}

void back(Cell cell, const RnnBack& b) {
  if (cell == Cell::lstm) return lstm_back(b);
  if (cell == Cell::gru) return gru_back(b);
  plain_back(b, cell == Cell::relu);
}

constexpr RnnTable kTable = {kUnits, pack, step, step_of_products, advance_cell, back};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const RnnTable& rnn_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
