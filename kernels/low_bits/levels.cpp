// SPDX-License-Identifier: Apache-2.0
#include "kernels/low_bits/levels.h"

#include <algorithm>

namespace hg::kernels {

std::vector<Segment> Levels::segments(int64_t block) const {
  std::vector<Segment> all;
  const int64_t count = low();
  const auto group_at = [&](int64_t column) { return std::min(column, k - 1) / group; };
  for (int64_t i = 0, end; i < count; i = end) {
    const int64_t low_group = group_at(low_column(i)), high_group = group_at(high_column(i));
    end = count;
    // The first byte whose level is in another group or block.
    const int64_t step = packing == Packing::pairs ? 2 : 1;
    const auto cut = [&](int64_t first, int64_t column, int64_t size) {
      const int64_t next = (std::min(column, k - 1) / size + 1) * size;  // a column
      if (next < k) end = std::min(end, (next - first + step - 1) / step);
    };
    for (const int64_t size : {group, block}) {
      if (size == 0) continue;
      cut(low_column(0), low_column(i), size);
      if (has_two()) cut(high_column(0), high_column(i), size);
    }
    all.push_back({static_cast<int32_t>(i), static_cast<int32_t>(end - i),
                   static_cast<int32_t>(low_group), static_cast<int32_t>(high_group)});
  }
  return all;
}

std::vector<int32_t> Levels::columns_of(const std::vector<Segment>& segments) const {
  std::vector<int32_t> columns;
  const auto place_of = [&](int64_t byte) {
    return packing != Packing::bytes ? byte % 4 * 4 + byte / 4 : byte;
  };
  const auto add = [&](const Segment& s, int64_t chunk, bool high) {
    const size_t at = columns.size();
    columns.resize(at + kChunkBytes, -1);
    for (int64_t i = 0; i < kChunkBytes && chunk + i < s.bytes; ++i) {
      const int64_t place = s.begin + chunk + i;
      const int64_t column = high ? high_column(place) : low_column(place);
      if (column < k) columns[at + static_cast<size_t>(place_of(i))] = static_cast<int32_t>(column);
    }
  };
  for (const Segment& s : segments)
    for (int64_t chunk = 0; chunk < s.bytes; chunk += kChunkBytes) {
      add(s, chunk, false);
      if (has_two()) add(s, chunk, true);
    }
  return columns;
}

void Levels::widen(const LowBitsTable& table, const LevelRows& w, int64_t r, int64_t begin,
                   int64_t end, float* to) const {
  const bool is_high_row = packing == Packing::rows && r >= byte_rows;
  const int8_t* const row = w.levels + (is_high_row ? r - byte_rows : r) * w.row_bytes;
  LevelRun run = {.from = row + begin, .row = r, .begin = begin, .end = end, .group = group};
  switch (packing) {
    case Packing::bytes:
      break;
    case Packing::rows:
      run.stream = is_high_row ? Stream::high : Stream::low;
      break;
    case Packing::halves:
      if (begin < low()) {
        run.stream = Stream::low;
        run.end = std::min(end, low());
        table.widen(w, run, to);
        to += run.end - begin;
      }
      run.stream = Stream::high;
      run.begin = std::max(begin, low());
      run.end = end;
      run.from = row + run.begin - low();
      break;
    case Packing::pairs:
      run.stream = Stream::pairs;
      run.from = row + begin / 2;
  }
  if (run.begin < run.end) table.widen(w, run, to);
}

void Levels::expect(const LevelRows& w, int64_t r, int64_t begin, int64_t end) const {
  const int64_t row = packing == Packing::rows && r >= byte_rows ? r - byte_rows : r;
  const bool is_high = packing == Packing::halves && begin >= low();
  const int64_t parts = packing == Packing::pairs ? 2 : 1;  // of a byte
  const int8_t* const first =
      w.levels + row * row_bytes + (is_high ? begin - low() : begin / parts);
  for (int64_t i = 0; i < (end - begin) / parts; i += 64) __builtin_prefetch(first + i);
}

void Levels::unpack(const RoundedTable& table, const LevelRows& w, int64_t r, int64_t begin,
                    int64_t end, uint8_t* to) const {
  const bool is_high_row = packing == Packing::rows && r >= byte_rows;
  const auto* const row =
      reinterpret_cast<const uint8_t*>(w.levels) + (is_high_row ? r - byte_rows : r) * w.row_bytes;
  switch (packing) {
    case Packing::bytes:
      return table.unpack(Stream::bytes, end - begin, row + begin, to);
    case Packing::rows:
      return table.unpack(is_high_row ? Stream::high : Stream::low, end - begin, row + begin, to);
    case Packing::halves: {
      const int64_t middle = std::clamp(low(), begin, end);
      table.unpack(Stream::low, middle - begin, row + begin, to);
      return table.unpack(Stream::high, end - middle, row + middle - low(), to + middle - begin);
    }
    case Packing::pairs:
      if (begin < end && begin % 2 != 0) table.unpack(Stream::high, 1, row + begin++ / 2, to++);
      table.unpack(Stream::pairs, (end - begin) / 2, row + begin / 2, to);
      if ((end - begin) % 2 != 0) table.unpack(Stream::low, 1, row + end / 2, to + end - begin - 1);
  }
}

}  // namespace hg::kernels
