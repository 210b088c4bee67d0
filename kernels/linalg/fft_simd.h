// SPDX-License-Identifier: Apache-2.0
// The inner loops of Fourier transforms for every instruction set, in float or double.
#pragma once

#include <cstdint>

namespace hg::kernels {

constexpr int64_t kMostFftLines = 16;  // that are transformed together

// Complex numbers as two arrays. `lines` transforms run side by side: element i of line l is at i
// lines + l.
template <class T>
struct Complexes {
  T* re = nullptr;
  T* im = nullptr;
};

// `stride` transforms of length radix * rest become radix-sized steps of length rest:
// from[(p + rest j) stride + q] -> to[(radix p + k) stride + q]
template <class T>
struct FftPass {
  int64_t radix = 1, rest = 1, stride = 1, lines = 1;
  int64_t length = 0;        // of the whole transform
  const T* roots = nullptr;  // of unity, `length` of them, as pairs
  Complexes<T> from, to;
};

// The spectrum of 2n real numbers from that of n complex ones, whose parts are neighbors: the first
// n + 1 numbers of each line.
template <class T>
struct FftHalves {
  int64_t n = 0, lines = 1;
  const T* turns = nullptr;  // e^(-2 pi i k / 2n), k = 0 .. n, as pairs
  Complexes<T> from, to;
};

// The inverse: n complex numbers, with their parts exchanged, whose inverse transform has 2n real
// numbers as parts of neighbors, from the first n + 1 numbers of the spectrum.
template <class T>
struct FftJoin {
  int64_t n = 0, lines = 1;
  T sign = 1;                // of the spectrum's imaginary parts
  const T* turns = nullptr;  // as above
  Complexes<T> from, to;
};

// numbers[k] = (re, sign im) factors[k] for k < count, of each line.
template <class T>
struct FftProduct {
  int64_t count = 0, lines = 1;
  T sign = 1;
  const T* factors = nullptr;  // as pairs
  Complexes<T> numbers;
};

// Floats of memory, as pairs, that become elements 0 .. count - 1 of each line, or come from them.
struct FftCopy {
  int64_t count = 0, lines = 1;
  int64_t stride = 1;                // of elements, in pairs; below 0 only to write
  float* line[kMostFftLines] = {};   // element 0
  float scale_re = 1, scale_im = 1;  // of what is written
  Complexes<float> numbers;
};

template <class T>
struct FftTable {
  // Results of a line do not depend on the other lines.
  void (*pass)(const FftPass<T>& pass) = nullptr;
  void (*halves)(const FftHalves<T>& halves) = nullptr;
  void (*join)(const FftJoin<T>& join) = nullptr;
  void (*multiply)(const FftProduct<T>& product) = nullptr;  // only of doubles
};
struct FftCopyTable {
  void (*load)(const FftCopy& copy) = nullptr;
  void (*store)(const FftCopy& copy) = nullptr;
};

template <class T>
const FftTable<T>& fft_table();
const FftCopyTable& fft_copy_table();

}  // namespace hg::kernels
