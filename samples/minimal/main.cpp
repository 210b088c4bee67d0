// SPDX-License-Identifier: Apache-2.0
// The smallest application: classifies one digit, drawn as text below, with the model of
// samples/digits.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "hg/hg.h"

namespace {

constexpr std::string_view kInk = " .:-=+*#%@";  // from 0 to 1
constexpr std::array<std::string_view, 8> kImage = {
    "  :%@+  ",  //
    "  #*-@= ",  //
    " -@:.%- ",  //
    "  *@@@: ",  //
    "     #- ",  //
    "     #: ",  //
    " :*.-%  ",  //
    "  :#@*  ",
};

hg::Result<int> read_digit(const std::string& file) {
  std::array<float, 64> pixels;
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<float>(kInk.find(kImage[i / 8][i % 8])) / 9.0f;

  HG_TRY_ASSIGN(const hg::Model model, hg::Model::load(file));
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model));
  HG_TRY(session.set_input("image", hg::view(pixels, {1, 1, 8, 8})));
  HG_TRY(session.run());
  HG_TRY_ASSIGN(const hg::Tensor scores, session.output(0));
  HG_CHECK(scores.dtype == hg::f32 && scores.count() == 10, "the model answers ", scores.dtype,
           scores.shape, ", not f32[1, 10]");
  const float* first = scores.as<float>();
  return static_cast<int>(std::max_element(first, first + 10) - first);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: minimal DIGITS.hgm\n");
    return 1;
  }
  const hg::Result<int> digit = read_digit(argv[1]);
  if (!digit.ok()) {
    std::fprintf(stderr, "minimal: %s\n", std::string(digit.status().message()).c_str());
    return 2;
  }
  std::printf("The digit is a %d.\n", *digit);
}
