// SPDX-License-Identifier: Apache-2.0
// mutations COUNT SEED FOLDER...: what libFuzzer's entry does with damaged copies of the small
// files there (.pt2, .onnx), where there is no libFuzzer: cut off, with bytes changed, with runs
// moved. Says which copy is at work, so that the last line of a crash repeats it. Exits with 77
// without any file.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kLargest = 64 << 10;

Bytes damaged(Bytes bytes, std::mt19937_64& random) {
  const auto below = [&](size_t n) {
    return static_cast<size_t>(random() % std::max<size_t>(n, 1));
  };
  if (below(4) == 0) bytes.resize(below(bytes.size()));
  for (size_t i = below(8); i > 0 && !bytes.empty(); --i) {
    constexpr uint8_t kTelling[] = {0, 1, 0x7f, 0x80, 0xff};
    uint8_t& at = bytes[below(bytes.size())];
    at = below(2) == 0 ? kTelling[below(std::size(kTelling))] : static_cast<uint8_t>(random());
  }
  if (below(4) == 0 && bytes.size() > 8) {
    const size_t length = below(std::min<size_t>(bytes.size(), 64)),
                 from = below(bytes.size() - length), to = below(bytes.size() - length);
    std::copy_n(Bytes(bytes).begin() + static_cast<long>(from), length,
                bytes.begin() + static_cast<long>(to));
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fputs("mutations COUNT SEED FOLDER...\n", stderr), 1;
  std::vector<std::filesystem::path> files;
  for (int i = 3; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      const auto kind = entry.path().extension();
      if ((kind == ".onnx" || kind == ".pt2") && entry.file_size() <= kLargest)
        files.push_back(entry.path());
    }
  }
  if (files.empty()) return std::puts("skipped: no files to start from"), 77;
  std::sort(files.begin(), files.end());
  const uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  const uint64_t count = std::strtoull(argv[1], nullptr, 10);
  for (uint64_t i = 0; i < count; ++i) {
    std::mt19937_64 random(seed + i);
    const auto& path = files[random() % files.size()];
    std::ifstream from(path, std::ios::binary);
    const Bytes bytes = damaged({std::istreambuf_iterator<char>(from), {}}, random);
    std::fprintf(stderr, "\r--count 1, seed %llu, from %s ",
                 static_cast<unsigned long long>(seed + i), path.c_str());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%llu damaged copies of %zu files\n", static_cast<unsigned long long>(count),
              files.size());
}
