// SPDX-License-Identifier: Apache-2.0
// TARGET [--rounds=N] [--seconds=T] [--seed=S] [--ending=.onnx ...] [--keep=FILE] FILE|FOLDER ...:
// a fuzz target without libFuzzer. It runs each file unchanged, then N damaged copies, or as many
// as T seconds allow: flipped bytes, numbers at the limits of their types, pieces copied, truncated
// and joined. Folders contribute files of up to 64 KiB with the given endings. Exits with 77 if
// there is no file. Repeat a crash with --seed=S+R --rounds=1, where R is the last round printed;
// --keep writes that file. The variable HG_FUZZ_SECONDS replaces --seconds.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
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

struct Options {
  uint64_t rounds = 0, seconds = 0, seed = 1;
  std::vector<std::string> endings;
  std::string keep;
};

constexpr uintmax_t kLargest = 64 << 10;

// The same files in the same order everywhere.
void read_folder(const std::filesystem::path& folder, const Options& options,
                 std::vector<Bytes>& all) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string ending = entry.path().extension().string();
    if (entry.is_regular_file() && entry.file_size() <= kLargest &&
        (options.endings.empty() || std::ranges::count(options.endings, ending) > 0))
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) all.push_back(read(path));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const char* const seconds = std::getenv("HG_FUZZ_SECONDS"))
    options.seconds = std::strtoull(seconds, nullptr, 10);
  std::vector<Bytes> all;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto is = [&](std::string_view name) { return word.starts_with(name); };
    const auto number = [&](uint64_t& to) {
      std::from_chars(word.data() + word.find('=') + 1, word.data() + word.size(), to);
    };
    if (is("--rounds="))
      number(options.rounds);
    else if (is("--seconds="))
      number(options.seconds);
    else if (is("--seed="))
      number(options.seed);
    else if (is("--ending="))
      options.endings.emplace_back(word.substr(9));
    else if (is("--keep="))
      options.keep = word.substr(7);
    else if (std::filesystem::is_directory(word))
      read_folder(word, options, all);
    else if (std::filesystem::is_regular_file(word))
      all.push_back(read(word));
  }
  if (all.empty()) return std::puts("skipped: there are no files to damage"), 77;
  for (const Bytes& bytes : all) (void)LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  uint64_t round = 0;
  for (; round < options.rounds || std::chrono::steady_clock::now() < end; ++round) {
    uint64_t state = (options.seed + round) * 1000003;
    Bytes bytes = all[hg::split_mix(state) % all.size()];
    damage(bytes, all, state);
    std::fprintf(stderr, "\rround %llu ", static_cast<unsigned long long>(round));
    if (!options.keep.empty())
      std::ofstream(options.keep, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    (void)LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu files, %llu damaged\n", all.size(), static_cast<unsigned long long>(round));
  return 0;
}
