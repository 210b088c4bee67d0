// SPDX-License-Identifier: Apache-2.0
// A model that is part of the program: hg-embed made an object file from digits.hgm, and its
// weights are used in place.
#include <array>
#include <cstdint>
#include <cstdio>

#include "hg/hg.h"

extern "C" const std::byte digits[];
extern "C" const uint64_t digits_size;

namespace {

// An image of a dark stroke down the middle.
std::array<float, 64> one() {
  std::array<float, 64> image{};
  for (size_t row = 0; row < 8; ++row) image[row * 8 + 3] = image[row * 8 + 4] = 1;
  return image;
}

hg::Status run() {
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::borrow({digits, digits_size}));
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model, {.dims = {{"n", 1}}}));
  const std::array<float, 64> image = one();
  HG_TRY(session.set_input("image", hg::view(image, {1, 1, 8, 8})));
  alignas(64) std::array<float, 10> scores;
  HG_TRY(session.set_output(0, hg::view(scores, {1, 10})));
  HG_TRY(session.run());
  size_t best = 0;
  for (size_t digit = 0; digit < scores.size(); ++digit)
    if (scores[digit] > scores[best]) best = digit;
  std::printf("the stroke is a %d, read by a model of %llu bytes\n", static_cast<int>(best),
              static_cast<unsigned long long>(digits_size));
  return {};
}

}  // namespace

int main() {
  const hg::Status status = run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
