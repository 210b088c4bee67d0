// SPDX-License-Identifier: Apache-2.0
// CRC-32C (polynomial 0x1EDC6F41, reflected; RFC 3720, appendix B.4). Splits large data into three
// lanes, because the processor's instruction has a latency of three cycles. Joins their sums by a
// product with x^(8 lane) modulo the polynomial, as zlib's crc32_combine does. Lanes are as long as
// possible: at the start of each, the processor waits for memory.
#include "lib/model/crc32c.h"

#include <array>
#include <cstring>

#include "lib/platform/instruction_set.h"

#if defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace hg {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // reflected

// Processors with the instruction need them for the last bytes only.
#if defined(HG_SMALL)
constexpr size_t kTableCount = 1;
#else
constexpr size_t kTableCount = 8;
#endif
using Tables = std::array<std::array<uint32_t, 256>, kTableCount>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (size_t t = 1; t < kTableCount; ++t)
    for (size_t i = 0; i < 256; ++i)
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 255];
  return tables;
}
constexpr auto kTables = make_tables();

uint64_t load8(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// Processes as many bytes at a time as there are tables (Kounavis and Berry 2005).
uint32_t by_tables(uint32_t crc, const uint8_t* p, size_t bytes) {
  if constexpr (kTableCount == 8)
    for (; bytes >= 8; p += 8, bytes -= 8) {
      const uint64_t word = load8(p) ^ crc;
      crc = 0;
      for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 255];
    }
  for (; bytes > 0; ++p, --bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 255];
  return crc;
}

#if (defined(__x86_64__) && defined(__GNUC__)) || defined(__ARM_FEATURE_CRC32)

// a b modulo the polynomial, bits reflected.
constexpr uint32_t product(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  for (int bit = 31; bit >= 0; --bit) {
    sum ^= b & (0 - ((a >> bit) & 1));
    b = (b >> 1) ^ (kPolynomial & (0 - (b & 1)));
  }
  return sum;
}
// x^(8 bytes) modulo the polynomial.
constexpr uint32_t power(uint64_t bytes) {
  uint32_t result = 1u << 31, square = 1u << 23;  // 1 and x^8
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) result = product(result, square);
    square = product(square, square);
  }
  return result;
}
struct Lane {
  size_t bytes;
  uint32_t one = power(bytes), two = power(2 * bytes);
};
constexpr Lane kLanes[] = {{1 << 18}, {1 << 15}, {1 << 13}};

#if defined(__x86_64__)
#define HG_CRC_TARGET __attribute__((target("sse4.2")))
bool has_instruction() { return processor_isa() >= Isa::sse4; }
HG_CRC_TARGET inline uint32_t step(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(__builtin_ia32_crc32di(crc, word));
}
#else
#define HG_CRC_TARGET
bool has_instruction() { return true; }
inline uint32_t step(uint32_t crc, uint64_t word) { return __crc32cd(crc, word); }
#endif

HG_CRC_TARGET uint32_t by_instruction(uint32_t crc, const uint8_t* p, size_t bytes) {
  for (const Lane& lane : kLanes)
    for (; bytes >= 3 * lane.bytes; p += 3 * lane.bytes, bytes -= 3 * lane.bytes) {
      uint32_t second = 0, third = 0;
      for (size_t i = 0; i < lane.bytes; i += 8) {
        crc = step(crc, load8(p + i));
        second = step(second, load8(p + lane.bytes + i));
        third = step(third, load8(p + 2 * lane.bytes + i));
      }
      crc = product(crc, lane.two) ^ product(second, lane.one) ^ third;
    }
  for (; bytes >= 8; p += 8, bytes -= 8) crc = step(crc, load8(p));
  return by_tables(crc, p, bytes);
}
#undef HG_CRC_TARGET

#else
bool has_instruction() { return false; }
uint32_t by_instruction(uint32_t crc, const uint8_t* p, size_t bytes) {
  return by_tables(crc, p, bytes);
}
#endif

}  // namespace

uint32_t crc32c(const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  return ~(has_instruction() ? by_instruction(~0u, p, bytes) : by_tables(~0u, p, bytes));
}

}  // namespace hg
