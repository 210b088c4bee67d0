// SPDX-License-Identifier: Apache-2.0
#include "kernels/integer/integer_operands.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/gemm/tiles.h"
#include "kernels/saves_code.h"
#include "kernels/simd/transpose_simd.h"

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

// Rows [count, 2 pairs] of i16, `step` apart, as pairs [pairs, count]. If vectors have eight words,
// eight rows are read and written, of which the next pairs overwrite the excess.
void interleave_rows(int count, int64_t pairs, const int16_t* from, int64_t step, bool by_eight,
                     int16_t* to) {
  const auto copy = [&](int64_t first, int64_t end, int rows) {
    transpose_words()(reinterpret_cast<const uint32_t*>(from) + first, step / 2,
                      reinterpret_cast<uint32_t*>(to) + first * count, count, end - first, rows);
  };
  const int64_t most = by_eight && count > 4 && pairs > 8 ? (pairs - 8) / 4 * 4 : 0;
  copy(0, most, 8);
  copy(most, pairs, count);
}

// The same as pack_rows_of(), in vectors.
void pack_rows_widened(int64_t rows, int64_t k, const Tensor& from, int64_t first,
                       const ZeroPoints& zeros, int mr, int16_t* to, int32_t* sums) {
  constexpr int64_t kPart = 512, kStep = kPart + kDepthwiseSlack;  // elements of a row
  constexpr int kRows = 8;
  alignas(64) int16_t wide[kRows * kStep];
  const IntegerTable& table = integer_table_of_quads();
  const bool is_signed = from.dtype == DType::i8;
  int count;
  for (int64_t i = 0; i < rows; i += count) {
    count = block_rows(rows - i, mr);
    std::fill_n(sums + i, count, 0);
    for (int64_t at = 0; at < k; at += kPart) {
      const int64_t size = std::min(kPart, k - at);
      for (int r = 0; r < count; ++r) {
        const int64_t row = first + i + r;
        int16_t* const line = wide + r * kStep;
        table.widen(1, size, size, from.as<uint8_t>() + row * k + at, is_signed,
                    static_cast<int16_t>(zeros.at(row)), line, 0);
        line[size] = 0;  // the second of the last pair
        int32_t sum = 0;
        for (int64_t j = 0; j < size; ++j) sum += line[j];
        sums[i + r] += sum;
      }
      interleave_rows(count, pairs_of(size), wide, kStep, table.nr >= 16, to);
      to += 2 * count * pairs_of(size);
    }
  }
}

// Four neighboring weights of a row. Quads are split off until nothing is left.
struct Quad {
  int left[4] = {};

  Quad(const Tensor& weight, int64_t row, int64_t k, int64_t place, int zero) {
    for (int64_t i = 0; i < 4 && place * 4 + i < k; ++i) {
      const int64_t at = row * k + place * 4 + i;
      left[i] = (weight.dtype == DType::i8 ? int{weight.as<int8_t>()[at]}
                                           : int{weight.as<uint8_t>()[at]}) -
                zero;
    }
  }
  bool empty() const { return (left[0] | left[1] | left[2] | left[3]) == 0; }
  void take(int most_pair, int8_t* part) {
    for (int i = 0; i < 4; i += 2) {
      const int one = std::clamp(left[i], -kMostWeight, kMostWeight - 1);
      // Products of opposite signs do not add up.
      const bool is_same = (left[i] < 0) == (left[i + 1] < 0);
      const int room = std::min(is_same ? most_pair - std::abs(one) : most_pair, kMostWeight);
      const int other = std::clamp(left[i + 1], -room, std::min(room, kMostWeight - 1));
      part[i] = static_cast<int8_t>(one);
      part[i + 1] = static_cast<int8_t>(other);
      left[i] -= one;
      left[i + 1] -= other;
    }
  }
};

// Marks the quads of a row that may need another quad at the same position, which is rare.
template <class T>
void mark_quads(const T* row, int64_t k, int zero, int most_pair, uint8_t* marks) {
  const auto is_large = [&](int64_t i) {
    const int one = row[i] - zero, other = row[i + 1] - zero;
    return (std::abs(one + other) > most_pair) | (std::abs(one) >= kMostWeight) |
           (std::abs(other) >= kMostWeight);
  };
  const int64_t full = k / 4;
  for (int64_t i = 0; i < full; ++i) marks[i] |= is_large(4 * i) | is_large(4 * i + 2);
  if (k % 4 != 0) marks[full] = 1;
}

// The same for i8 without a zero point, in vectors of pairs.
void mark_plain_quads(const int8_t* row, int64_t k, int most_pair, uint8_t* marks) {
  constexpr int64_t kPart = 256;
  const auto most = static_cast<int16_t>(most_pair);
  const int64_t full = k / 4;
  for (int64_t first = 0; first < full; first += kPart) {
    int16_t pairs[2 * kPart], large[2 * kPart];
    const int64_t count = std::min(kPart, full - first);
    std::memcpy(pairs, row + 4 * first, static_cast<size_t>(4 * count));
    for (int64_t i = 0; i < 2 * count; ++i) {
      const auto low = static_cast<int16_t>(static_cast<uint16_t>(pairs[i]) << 8);
      const auto sum = static_cast<int16_t>((low >> 8) + (pairs[i] >> 8));
      large[i] = static_cast<int16_t>((sum > most) | (sum < -most));
    }
    for (int64_t i = 0; i < count; ++i) marks[first + i] |= large[2 * i] | large[2 * i + 1];
  }
  if (k % 4 != 0) marks[full] = 1;
}

// Whether weights are stored as the i8 numbers that quads hold.
bool is_plain(const Tensor& weight, int zero) {
  return !kSavesCode && weight.dtype == DType::i8 && zero == 0;
}

// Calls f(first row, rows) for each block.
template <class F>
void for_blocks(int64_t rows, int64_t group, int mr, const F& f) {
  int count;
  for (int64_t first = 0; first < rows; first += group)
    for (int64_t i = first, end = std::min(rows, first + group); i < end; i += count) {
      count = block_rows(end - i, mr);
      f(i, count);
    }
}

}  // namespace

std::vector<int32_t> panel_places(int64_t quads, int64_t panel_columns) {
  std::vector<int32_t> offsets(static_cast<size_t>(quads));
  for (size_t q = 0; q < offsets.size(); ++q)
    offsets[q] = static_cast<int32_t>(static_cast<int64_t>(q) * panel_columns);
  return offsets;
}

Quads find_quads(int64_t rows, int64_t group, int64_t k, const Tensor& weight,
                 const ZeroPoints& zeros, const IntegerTable& table, int64_t most_more) {
  const bool by_row = !kSavesCode && table.places_by_row;
  Quads quads;
  quads.whole = quads_of(k);
  for (std::vector<int64_t>* each : {&quads.at, &quads.more_at, &quads.more})
    each->resize(static_cast<size_t>(rows));
  std::vector<uint8_t> marks(static_cast<size_t>(quads.whole));
  const int most = table.most_pair;
  // Lists of positions, one after the other: of each row, or for all rows of a block.
  std::vector<int32_t> again;
  std::vector<size_t> ends = {0};
  const auto find = [&](int64_t row, int count) {
    std::fill(marks.begin(), marks.end(), uint8_t{0});
    for (int64_t r = row; r < row + count; ++r)
      if (is_plain(weight, zeros.at(r)))
        mark_plain_quads(weight.as<int8_t>() + r * k, k, most, marks.data());
      else if (weight.dtype == DType::i8)
        mark_quads(weight.as<int8_t>() + r * k, k, zeros.at(r), most, marks.data());
      else
        mark_quads(weight.as<uint8_t>() + r * k, k, zeros.at(r), most, marks.data());
    for (int64_t place = 0; place < quads.whole; ++place) {
      if (marks[static_cast<size_t>(place)] == 0) continue;
      int all = 1;
      for (int64_t r = row; r < row + count; ++r) {
        Quad quad(weight, r, k, place, zeros.at(r));
        int8_t part[4];
        int parts = 0;
        for (; !quad.empty(); ++parts) quad.take(most, part);
        all = std::max(all, parts);
      }
      again.insert(again.end(), static_cast<size_t>(all - 1), static_cast<int32_t>(place));
    }
    ends.push_back(again.size());
  };
  const auto length = [&](size_t list) { return ends[list + 1] - ends[list]; };
  // A block has as many additional quads as the row that needs most, so its rows need about as
  // many.
  for (int64_t row = 0; by_row && row < rows; ++row) {
    find(row, 1);
    const int64_t more = static_cast<int64_t>(again.size());
    if (more > most_more || (row + 1 == group && more * rows > 4 * most_more * group)) {
      quads.count = std::numeric_limits<int64_t>::max();
      return quads;
    }
    quads.row.push_back(static_cast<int32_t>(row));
  }
  for (int64_t first = 0; by_row && first < rows; first += group)
    std::stable_sort(quads.row.begin() + first, quads.row.begin() + std::min(rows, first + group),
                     [&](int32_t one, int32_t other) {
                       return length(static_cast<size_t>(one)) < length(static_cast<size_t>(other));
                     });
  for_blocks(rows, group, table.mr, [&](int64_t first, int count) {
    const auto block = static_cast<size_t>(first);
    quads.at[block] = quads.bytes;
    quads.more_at[block] = static_cast<int64_t>(quads.again.size());
    if (!by_row) find(first, count);
    const auto list_of = [&](int r) {
      return by_row ? static_cast<size_t>(quads.row[block + static_cast<size_t>(r)])
                    : ends.size() - 2;
    };
    const int lists = by_row ? count : 1;
    size_t more = 0;
    for (int r = 0; r < lists; ++r) more = std::max(more, length(list_of(r)));
    for (size_t i = 0; i < more; ++i)
      for (int r = 0; r < lists; ++r)  // the weights of missing quads are 0
        quads.again.push_back(i < length(list_of(r)) ? again[ends[list_of(r)] + i] : 0);
    quads.more[block] = static_cast<int64_t>(more);
    quads.count += (quads.whole + quads.more[block]) * count;
    const QuadRows layout(count, table.side);
    quads.bytes += layout.bytes(quads.whole) + layout.bytes(quads.more[block]);
  });
  return quads;
}

void pack_quad_rows(const Quads& quads, int64_t rows, int64_t group, int64_t k,
                    const Tensor& weight, const ZeroPoints& zeros, const IntegerTable& table,
                    int8_t* to, int32_t* sums) {
  for_blocks(rows, group, table.mr, [&](int64_t first, int count) {
    const auto block = static_cast<size_t>(first);
    const int32_t* const again = quads.again.data() + quads.more_at[block];
    const QuadRows layout(count, table.side);
    int8_t* const first_quads = to + quads.at[block];
    int8_t* const more_quads = first_quads + layout.bytes(quads.whole);
    std::memset(first_quads, 0,
                static_cast<size_t>(layout.bytes(quads.whole) + layout.bytes(quads.more[block])));
    const int64_t step = table.places_by_row ? count : 1;
    for (int r = 0; r < count; ++r) {
      const int64_t list = table.places_by_row ? r : 0, row = quads.row_at(first + r);
      const int zero = zeros.at(row);
      const bool plain = is_plain(weight, zero) && table.side == 1;
      int32_t sum = 0;
      if (plain) {
        const int8_t* const from = weight.as<int8_t>() + row * k;
        int8_t* at = first_quads + layout.at(0, r);
        for (int64_t i = 0; i + 4 <= k; i += 4, at += 4 * count) std::memcpy(at, from + i, 4);
        for (int64_t i = 0; i < k; ++i) sum += from[i];
      }
      for (int64_t place = 0, next = 0; place < quads.whole; ++place) {
        if (plain) {  // only split quads and an incomplete last one remain
          const bool is_split = next < quads.more[block] && again[next * step + list] >= place;
          place = std::max(place, is_split ? int64_t{again[next * step + list]} : k / 4);
          if (place == quads.whole) break;
        }
        Quad quad(weight, row, k, place, zero);
        for (int i = 0; i < 4 && !plain; ++i) sum += quad.left[i];
        quad.take(table.most_pair, first_quads + layout.at(place, r));
        for (; next < quads.more[block] && again[next * step + list] == place; ++next)
          quad.take(table.most_pair, more_quads + layout.at(next, r));
      }
      sums[row] = sum;
    }
  });
}

std::string key_of(const ZeroPoints& zeros) {
  bool same = true;
  for (int64_t i = 1; i < zeros.count; ++i) same = same && zeros.at(i) == zeros.at(0);
  std::string key = str_cat(int64_t{zeros.at(0)});
  for (int64_t i = 1; !same && i < zeros.count; ++i) key += str_cat(",", int64_t{zeros.at(i)});
  return key;
}

void pack_byte_rows(int64_t rows, int64_t k, const Tensor& from, int64_t first,
                    const ZeroPoints& zeros, int mr, int16_t* to, int32_t* sums) {
  if constexpr (!kSavesCode)
    if (k > 0 && mr <= 8) return pack_rows_widened(rows, k, from, first, zeros, mr, to, sums);
  if (from.dtype == DType::i8)
    pack_rows_of(rows, k, from.as<int8_t>() + first * k, first, zeros, mr, to, sums);
  else
    pack_rows_of(rows, k, from.as<uint8_t>() + first * k, first, zeros, mr, to, sums);
}

namespace {

// Numbers of a row: i8, or u8 minus 128.
void flip_bytes(const uint8_t* from, int64_t count, uint8_t flip, int8_t* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<int8_t>(from[i] ^ flip);
}

}  // namespace

void pack_byte_quads(int64_t rows, int64_t k, const Tensor& from, int64_t first, int zero,
                     const IntegerTable& table, int8_t* to, int32_t* sums) {
  const bool is_signed = from.dtype == DType::i8;
  const uint8_t flip = is_signed ? 0 : 128;
  // Quads whose bytes are adjacent in both places.
  const int64_t each = 4 * table.side;
  const uint8_t* row = from.as<uint8_t>() + first * k;
  int count;
  for (int64_t i = 0; i < rows; i += count) {
    count = block_rows(rows - i, table.mr);
    const QuadRows layout(count, table.side);
    for (int r = 0; r < count; ++r, row += k) {
      int64_t done = 0;
      for (; done + each <= k; done += each) {
        int8_t* const at = to + layout.at(done / 4, r);
        table.side == 1   ? flip_bytes(row + done, 4, flip, at)
        : table.side == 2 ? flip_bytes(row + done, 8, flip, at)
                          : flip_bytes(row + done, 4 * kTileSide, flip, at);
      }
      if (done < k) {
        int8_t* const at = to + layout.at(done / 4, r);
        std::memset(at, 0, static_cast<size_t>(each));
        flip_bytes(row + done, k - done, flip, at);
      }
      uint32_t sum = 0;
      if (is_signed)
        for (int64_t j = 0; j < k; ++j) sum += static_cast<uint32_t>(static_cast<int8_t>(row[j]));
      else
        for (int64_t j = 0; j < k; ++j) sum += row[j];
      sums[i + r] =
          static_cast<int32_t>(sum - static_cast<uint32_t>(zero) * static_cast<uint32_t>(k));
    }
    to += layout.bytes(quads_of(k));
  }
}

IntegerFinish integer_finish(const RunContext& c) {
  IntegerFinish f;
  f.to = c.out(0).dtype;
  if (c.has(5)) f.scale = c.in(5).as<float>();
  if (c.has(6)) f.zero = static_cast<float>(zero_points(c.in(6)).at(0));
  return f;
}

}  // namespace hg::kernels
