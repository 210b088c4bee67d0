// SPDX-License-Identifier: Apache-2.0
#include "kernels/integer/integer_operands.h"

#include "kernels/gemm/tiles.h"

namespace hg::kernels {
namespace {

template <class T>
void pack_rows_of(int64_t rows, int64_t k, const T* from, int64_t first, const ZeroPoints& zeros,
                  int mr, int16_t* to, int32_t* sums) {
  const int64_t pairs = pairs_of(k);
  int count;
  for (int64_t i = 0; i < rows; i += count, to += 2 * count * pairs) {
    count = block_rows(rows - i, mr);
    for (int r = 0; r < count; ++r) {
      const T* const row = from + (i + r) * k;
      const int zero = zeros.at(first + i + r);
      int16_t* at = to + 2 * r;
      int32_t sum = 0;
      for (int64_t p = 0; p < pairs; ++p, at += 2 * count) {
        const int one = row[2 * p] - zero, other = 2 * p + 1 < k ? row[2 * p + 1] - zero : 0;
        at[0] = static_cast<int16_t>(one);
        at[1] = static_cast<int16_t>(other);
        sum += one + other;
      }
      sums[i + r] = sum;
    }
  }
}

}  // namespace

std::string key_of(const ZeroPoints& zeros) {
  bool same = true;
  for (int64_t i = 1; i < zeros.count; ++i) same = same && zeros.at(i) == zeros.at(0);
  std::string key = str_cat(int64_t{zeros.at(0)});
  for (int64_t i = 1; !same && i < zeros.count; ++i) key += str_cat(",", int64_t{zeros.at(i)});
  return key;
}

void pack_byte_rows(int64_t rows, int64_t k, const Tensor& from, int64_t first,
                    const ZeroPoints& zeros, int mr, int16_t* to, int32_t* sums) {
  if (from.dtype == DType::i8)
    pack_rows_of(rows, k, from.as<int8_t>() + first * k, first, zeros, mr, to, sums);
  else
    pack_rows_of(rows, k, from.as<uint8_t>() + first * k, first, zeros, mr, to, sums);
}

IntegerFinish integer_finish(const RunContext& c) {
  IntegerFinish f;
  f.to = c.out(0).dtype;
  if (c.has(5)) f.scale = c.in(5).as<float>();
  if (c.has(6)) f.zero = static_cast<float>(zero_points(c.in(6)).at(0));
  return f;
}

}  // namespace hg::kernels
