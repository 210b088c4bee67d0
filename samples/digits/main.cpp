// SPDX-License-Identifier: Apache-2.0
// Classifies handwritten digits: prints images as text with the result, and the number of correct
// ones. Shows how an application uses a model: load, create, set_input, run, output.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "hg/hg.h"
#include "hg/npy.h"

namespace {

constexpr int kSide = 8;

int largest(const float* scores, int count) {
  int best = 0;
  for (int i = 1; i < count; ++i) best = scores[i] > scores[best] ? i : best;
  return best;
}

void print_image(const float* pixels, int answer, int64_t truth) {
  constexpr char kInk[] = " .:-=+*#%@";
  for (int y = 0; y < kSide; ++y) {
    std::printf("    ");
    for (int x = 0; x < kSide; ++x) {
      const char ink = kInk[static_cast<int>(pixels[y * kSide + x] * 9.0f + 0.5f)];
      std::printf("%c%c", ink, ink);
    }
    if (y == 3) std::printf("    read as %d%s", answer, answer == truth ? "" : ", which is wrong:");
    if (y == 4 && answer != truth) std::printf("    it is %d", static_cast<int>(truth));
    std::printf("\n");
  }
  std::printf("    ----------------\n");
}

// Prints the first images, and all misclassified ones.
hg::Status read_digits(const std::string& file, const std::string& folder, int64_t shown) {
  HG_TRY_ASSIGN(const auto images, hg::read_npy(folder + "/test_images.npy"));
  HG_TRY_ASSIGN(const auto labels, hg::read_npy(folder + "/test_labels.npy"));
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::load(file));
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model));
  HG_TRY(session.set_input(0, images));  // all images at once: the batch size is a symbol
  HG_TRY(session.run());
  HG_TRY_ASSIGN(const hg::Tensor scores, session.output(0));
  HG_CHECK(scores.rank() == 2 && scores.dtype == hg::f32 && scores.is_contiguous(),
           "digits: the model answers ", scores.dtype, scores.shape, ", not f32[n, classes]");

  const int64_t count = scores.shape[0];
  const int classes = static_cast<int>(scores.shape[1]);
  int64_t right = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int answer = largest(scores.as<float>() + i * classes, classes);
    const int64_t truth = labels.as<int64_t>()[i];
    right += answer == truth;
    if (i < shown || answer != truth) {
      print_image(images.as<float>() + i * kSide * kSide, answer, truth);
    }
  }
  std::printf("%lld of %lld images classified correctly\n", static_cast<long long>(right),
              static_cast<long long>(count));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: digits MODEL.hgm FOLDER [how many images to show]\n");
    return 1;
  }
  const hg::Status status = read_digits(argv[1], argv[2], argc > 3 ? std::atoll(argv[3]) : 6);
  if (!status.ok()) std::fprintf(stderr, "digits: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
