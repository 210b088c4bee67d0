// SPDX-License-Identifier: Apache-2.0
// Arrays: application memory without a copy, views of it, another library's tensor through DLPack,
// and a file that NumPy reads.
#include <cstdio>
#include <string>
#include <vector>

#include "hg/create.h"
#include "hg/dlpack.h"
#include "hg/npy.h"

namespace {

hg::Status show(const std::string& file) {
  // An image that the application owns: rows of red, green and blue.
  std::vector<uint8_t> pixels(4 * 6 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i);
  HG_TRY_ASSIGN(const hg::Array image, hg::Array::wrap(std::span(pixels), {4, 6, 3}));
  HG_TRY_ASSIGN(const hg::Array channels, image.permute({2, 0, 1}));
  HG_TRY_ASSIGN(const hg::Array green, channels.select(0, 1));
  HG_TRY_ASSIGN(const hg::Array lower, green.narrow(0, 2, 2));
  HG_TRY_ASSIGN(hg::Array corner, lower.narrow(1, 4, 2));
  std::printf("the corner of green, in the application's own memory:\n%s\n",
              hg::to_text(corner).c_str());
  *corner.write<uint8_t>() = 255;
  std::printf("pixel 49 is %d now\n", pixels[49]);

  // To another library and back: the new owner of the struct calls its deleter.
  HG_TRY_ASSIGN(hg::dlpack::ManagedTensor* const lent, hg::dlpack::to_dlpack(channels));
  HG_TRY_ASSIGN(const hg::Array back, hg::dlpack::from_dlpack(lent));
  std::printf("through DLPack it is %s memory\n",
              back.tensor().data == pixels.data() ? "the same" : "other");

  // Converts numbers to another dtype, writes them and reads them.
  HG_TRY_ASSIGN(const hg::Array floats, hg::cast(channels, hg::f32));
  HG_TRY(hg::write_npy(file, floats));
  HG_TRY_ASSIGN(const hg::Array read, hg::read_npy(file));
  HG_TRY_ASSIGN(const hg::Array red, read.select(0, 0));
  HG_TRY_ASSIGN(const hg::Array row, red.select(0, 3));
  std::printf("%s\n", hg::to_text(row).c_str());

  const hg::Status wrong = image.reshape({5, -1}).status();
  std::printf("%s\n", std::string(wrong.message()).c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: arrays FILE.npy\n");
    return 1;
  }
  const hg::Status status = show(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "arrays: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
