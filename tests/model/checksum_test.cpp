// SPDX-License-Identifier: Apache-2.0
// Weight checksums: CRC-32C itself, and files that are damaged or have none.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "lib/model/crc32c.h"
#include "tests/support/must.h"
#include "tests/support/noise.h"

namespace hg {
namespace {

// CRC-32C one bit at a time, as the polynomial defines it.
uint32_t plain_crc32c(const std::vector<uint8_t>& bytes) {
  uint32_t crc = ~0u;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

TEST(Checksum, IsThatOfRfc3720) {
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc32c(std::vector<uint8_t>(32, 0).data(), 32), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::vector<uint8_t>(32, 0xff).data(), 32), 0x62A8AB43u);
  EXPECT_EQ(crc32c(nullptr, 0), 0u);
  std::vector<uint8_t> bytes;
  for (uint32_t i = 0; i < 1000000; ++i) bytes.push_back(static_cast<uint8_t>(i * i >> 7 ^ i));
  for (const size_t size :
       {1,     7,     8,     9,     63,    8192,   24575,  24576,  24577,  49152,
        73735, 80000, 98303, 98304, 98305, 786431, 786432, 786433, 909321, 1000000}) {
    const std::vector<uint8_t> part(bytes.end() - static_cast<std::ptrdiff_t>(size), bytes.end());
    EXPECT_EQ(crc32c(part.data(), part.size()), plain_crc32c(part)) << size;
  }
}

std::vector<std::byte> file_of_weights() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 50});
  const Value first = g.parameter("first.weight", f32, {50, 50}, init::uniform(-1, 1, 1));
  const Value second = g.parameter("second.weight", f32, {20, 50}, init::uniform(-1, 1, 2));
  g.output("y", linear(linear(x, first), second));
  return *Model::from_graph(std::move(g))->serialize();
}

TEST(Checksum, EveryFlippedBitOfTheWeightsIsFound) {
  const std::vector<std::byte> whole = file_of_weights();
  const LoadOptions verify = {.verify_weights = true};
  ASSERT_TRUE(Model::read(whole, Registry::built_in(), verify).ok());
  uint64_t data = 0;
  std::memcpy(&data, whole.data() + 32, sizeof data);
  const size_t first = data, second = data + 50 * 50 * 4 + 48;  // at a multiple of 64
  for (const auto& [at, name] : {std::pair(first, "first.weight"),
                                 {first + 9999, "first.weight"},
                                 {second, "second.weight"},
                                 {second + 3999, "second.weight"}}) {
    for (const int bit : {0, 7}) {
      std::vector<std::byte> damaged = whole;
      damaged.at(at) ^= std::byte{1} << bit;
      EXPECT_TRUE(Model::read(damaged).ok());
      const Status status = Model::read(damaged, Registry::built_in(), verify).status();
      EXPECT_EQ(status.code(), Code::corrupt_model) << at;
      EXPECT_NE(status.message().find(name), std::string_view::npos) << status.message();
      EXPECT_NE(status.message().find("checksum"), std::string_view::npos) << status.message();
    }
  }
}

TEST(Checksum, FilesWithoutOneLoadAndSaySo) {
  const std::string path = HG_OLD_MODEL;
  const Model model = must(Model::load(path));
  for (const State& state : model.graph().states()) EXPECT_TRUE(state.requires_grad);
  const Status status = Model::load(path, Registry::built_in(), {.verify_weights = true}).status();
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_NE(status.message().find("before 0.2"), std::string_view::npos) << status.message();
}

TEST(RequiresGrad, IsKeptInTheFile) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 5});
  const Value w = g.parameter("w", f32, {5, 5}, init::uniform(-1, 1, 1));
  const Value v = g.parameter("v", f32, {5, 5}, init::uniform(-1, 1, 2));
  g.set_requires_grad(w, false);
  g.output("y", linear(linear(x, w), v));
  const Model model = *Model::from_graph(std::move(g));
  const Model back = *Model::read(*model.serialize());
  EXPECT_FALSE(back.graph().states()[0].requires_grad);
  EXPECT_TRUE(back.graph().states()[1].requires_grad);
  Graph wrong;
  wrong.set_requires_grad(wrong.input("x", f32, {2}), false);
  EXPECT_FALSE(wrong.status().ok());
}

}  // namespace
}  // namespace hg
