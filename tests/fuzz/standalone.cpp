// SPDX-License-Identifier: Apache-2.0
// TARGET [--rounds=N] [--seed=S] FILE|FOLDER ...: a fuzz target without libFuzzer: each file as it
// is, then N damaged ones: bytes flipped, numbers at the limits of their types, pieces copied, cut
// off and joined.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "lib/graph/split_mix.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

void damage(Bytes& bytes, const std::vector<Bytes>& all, uint64_t& state) {
  const auto below = [&](size_t n) {
    return n == 0 ? 0 : static_cast<size_t>(hg::split_mix(state) % n);
  };
  for (size_t times = 1 + below(4); times > 0 && !bytes.empty(); --times) {
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(hg::split_mix(state));
        break;
      case 2: {
        constexpr int64_t kValues[] = {
            0, 1, -1, 127, 255, 65535, 0x7fffffff, -0x80000000ll, INT64_MAX, INT64_MIN};
        const int64_t value = kValues[below(std::size(kValues))];
        for (size_t i = 0, width = size_t{1} << below(4); i < width && at + i < bytes.size(); ++i)
          bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
        break;
      }
      case 3:
        bytes.resize(at);
        break;
      case 4: {
        const Bytes& other = all[below(all.size())];
        const size_t from = below(other.size()), count = std::min(below(64), other.size() - from);
        for (size_t i = 0; i < count && at + i < bytes.size(); ++i) bytes[at + i] = other[from + i];
        break;
      }
      default: {
        const size_t count = std::min(below(32), bytes.size() - at);
        const Bytes piece(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                          bytes.begin() + static_cast<std::ptrdiff_t>(at + count));
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size())),
                     piece.begin(), piece.end());
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t rounds = 0, seed = 1;
  std::vector<Bytes> all;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--rounds=")) {
      std::from_chars(word.data() + 9, word.data() + word.size(), rounds);
    } else if (word.starts_with("--seed=")) {
      std::from_chars(word.data() + 7, word.data() + word.size(), seed);
    } else if (std::filesystem::is_directory(word)) {
      std::vector<std::filesystem::path> paths;
      for (const auto& entry : std::filesystem::directory_iterator(word))
        paths.push_back(entry.path());
      std::sort(paths.begin(), paths.end());  // the same damage everywhere
      for (const auto& path : paths) all.push_back(read(path));
    } else {
      all.push_back(read(word));
    }
  }
  if (all.empty()) return std::fputs("no file is given\n", stderr), 1;
  for (const Bytes& bytes : all) (void)LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  for (uint64_t round = 0; round < rounds; ++round) {
    uint64_t state = seed * 1000003 + round;
    Bytes bytes = all[hg::split_mix(state) % all.size()];
    damage(bytes, all, state);
    // What crashes is found by its number: --seed=S and the round that was written last.
    if (round % 1000 == 0)
      std::printf("round %llu\n", static_cast<unsigned long long>(round)), std::fflush(stdout);
    (void)LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu files, %llu damaged\n", all.size(), static_cast<unsigned long long>(rounds));
  return 0;
}
