// SPDX-License-Identifier: Apache-2.0
// The op calls that hg-convert finds in the code of a TorchScript archive.
#include "converter/load/torchscript/archive_ops.h"

#include <gtest/gtest.h>

namespace hg::convert {
namespace {

std::string found(std::string_view code) {
  std::map<std::string, OpUse> uses;
  find_op_uses(code, uses);
  std::string text;
  for (const auto& [op, use] : uses) {
    text += op + " " + std::to_string(use.positional) + " " + std::to_string(use.results);
    for (const std::string& keyword : use.keywords) text += " " + keyword;
    text += "; ";
  }
  return text;
}

TEST(ArchiveOps, CallsAreFoundWithWhatTheyTakeAndGive) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"", ""},
      {"ops.acme.wave(x, 2., n=4)", "acme::wave 2 1 n; "},
      {"ops.acme.wave()", "acme::wave 0 1; "},
      {"    a, b, c, = ops.acme.split(x)\n", "acme::split 1 3; "},
      {"    a = ops.acme.split(x)\n    b, c, = ops.acme.split(x, y)\n", "acme::split 2 2; "},
      {"a, b, = torch.add(ops.acme.wave(x), y)", "acme::wave 1 1; "},
      {"self.a, b = ops.acme.wave(x)", "acme::wave 1 1; "},
      {"a: Tensor = ops.acme.wave(x)", "acme::wave 1 1; "},
      {"ops.a.f(ops.a.g(x, k=[1, 2]), {1: 2, 3: 4}, j=(5, 6))", "a::f 2 1 j; a::g 1 1 k; "},
      {"ops.a.f(x == y, z = 3)", "a::f 2 1; "},
      {"ops.a.f(\"a, \\\"b(\", x)", "a::f 2 1; "},
      {"ops.a.f(x, \"ops.a.g(y)\")", "a::f 2 1; "},
      {"z = \"no end\nops.a.f(x)", "a::f 1 1; "},
      {"self.ops.a.f(x), drops.a.f(x), ops.a.f, ops.a(x), ops..f(x), ops.a.(x)", ""},
      {"ops.a.f(x, ops.a.g(y", "a::f 2 1; a::g 1 1; "},
      {"ops.a.f(x]), y)", "a::f 1 1; "},
      {")]} ops.a.f(x,)", "a::f 1 1; "},
      {"ops", ""},
      {"ops.", ""},
      {"ops.a", ""},
      {"ops.a.", ""},
      {"ops.a.f", ""},
      {"\"\\", ""},
  };
  for (const auto& [code, expected] : kCases) EXPECT_EQ(found(code), expected) << code;
}

// Hostile code that tries to make the converter hang: text before an unclosed parenthesis is not
// read again for each call.
TEST(ArchiveOps, TimeGrowsWithTheLengthAlone) {
  std::string open, line = "a = ";
  for (int i = 0; i < 300000; ++i) open += "ops.a.f(", line += "ops.a.f(b = ";
  EXPECT_EQ(found(open), "a::f 1 1; ");
  EXPECT_EQ(found(open + std::string(300000, ')')), "a::f 1 1; ");
  EXPECT_EQ(found(line), "a::f 1 1; ");
}

}  // namespace
}  // namespace hg::convert
