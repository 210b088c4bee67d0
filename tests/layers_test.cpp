// SPDX-License-Identifier: Apache-2.0
// Checks the rule of lib/README.md from the includes: folders include downwards only, and files of
// lib/ops never include each other.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// The folders that files of each folder may include, besides their own and the public headers.
const std::map<std::string, std::set<std::string>> kBelow = {
    {"lib/platform", {"lib/platform/missing"}},
    {"lib/platform/missing", {}},
    {"lib/table", {}},
    {"lib/graph", {"lib/platform", "lib/table"}},
    {"lib/expression", {"lib/graph", "lib/platform"}},
    {"lib/ops", {"lib/graph", "lib/expression", "lib/table"}},
    {"lib/compile", {"lib/graph", "lib/platform", "lib/table"}},
    {"lib/parallel", {"lib/platform"}},
    {"lib/lazy", {"lib/graph"}},
    {"lib/model", {"lib/graph", "lib/platform"}},
    {"lib/device", {"lib/graph"}},
    {"lib/plan", {"lib/graph", "lib/device"}},
    {"lib/run",
     {"lib/graph", "lib/platform", "lib/parallel", "lib/compile", "lib/device", "lib/plan"}},
    {"lib/c", {"lib/graph"}},
    {"lib/array", {"lib/graph", "lib/platform", "lib/device"}},
    {"lib/eager", {"lib/graph", "lib/array", "lib/device", "lib/plan", "lib/run"}},
    {"lib/generate", {"lib/graph", "kernels/fill"}},
    {"lib/io", {"lib/graph"}},
    {"lib/text", {"lib/graph"}},
    {"lib/text/jinja", {"lib/text", "lib/graph"}},
    {"lib/quantize", {"lib/graph", "lib/compile"}},
    {"lib/nn", {"lib/graph", "lib/train"}},
    {"lib/train", {"lib/graph", "lib/table"}},
    {"lib/vulkan", {"lib/graph", "lib/platform", "lib/device"}},
    {"lib/vulkan/kernels",
     {"lib/graph", "lib/device", "lib/vulkan", "kernels/attention", "kernels/conv",
      "kernels/gemm"}},
    {"kernels", {"lib/table"}},
    {"kernels/simd", {"lib/platform"}},
    {"kernels/reference", {"kernels/pointwise"}},
};
// These folders of kernels/ may also include kernels/, kernels/simd, lib/platform, lib/parallel,
// lib/table, and the folders before them in the list.
const std::vector<std::string> kRooms = {
    "pointwise", "reduce",    "program", "gemm", "norm",      "conv",  "integer", "low_bits",
    "pool",      "attention", "index",   "fill", "recurrent", "image", "linalg",  "train"};

// The folders that a folder of kernels/ may include.
std::set<std::string> below(const std::string& folder) {
  if (const auto found = kBelow.find(folder); found != kBelow.end()) return found->second;
  std::set<std::string> allowed = {"kernels", "kernels/simd", "lib/platform", "lib/parallel",
                                   "lib/table"};
  for (const std::string& room : kRooms) {
    if (folder == "kernels/" + room) return allowed;
    allowed.insert("kernels/" + room);
  }
  ADD_FAILURE() << "no rule says what " << folder << " may include";
  return {};
}

struct Include {
  std::string file, folder, what;
};

std::vector<Include> includes(char open = '"', char close = '"') {
  const fs::path root = HG_SOURCE_DIR;
  std::vector<Include> all;
  for (const char* top : {"lib", "kernels"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string end = entry.path().extension().string();
      if (end != ".h" && end != ".cpp" && end != ".inc") continue;
      const std::string file = fs::relative(entry.path(), root).generic_string();
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);)
        if (line.starts_with(std::string("#include ") + open))
          all.push_back({file, fs::path(file).parent_path().generic_string(),
                         line.substr(10, line.find(close, 10) - 10)});
    }
  return all;
}

TEST(Layers, FoldersIncludeDownwardsOnly) {
  const std::vector<Include> all = includes();
  ASSERT_GT(all.size(), 300u);
  std::string upward;
  for (const Include& include : all) {
    const bool is_ours = include.what.starts_with("lib/") || include.what.starts_with("kernels/");
    const std::string to = fs::path(include.what).parent_path().generic_string();
    const bool is_public = include.folder.starts_with("lib/include");
    if (!is_ours || to == include.folder) continue;
    if (is_public || !below(include.folder).contains(to))
      upward += include.file + " includes " + include.what + "\n";
  }
  EXPECT_EQ(upward, "");
}

// Headers of C and C++; all others belong to a system or a library.
bool is_standard(const std::string& header) {
  static const std::set<std::string> kOfC = {"stdbool.h", "stddef.h", "stdint.h"};
  return header.find('.') == std::string::npos || kOfC.contains(header);
}

TEST(Layers, SystemsAreBehindOneRoom) {
  // Libraries, and headers that compilers provide.
  const std::set<std::string> kAllowed = {"arm_acle.h",        "cpuid.h",
                                          "nlohmann/json.hpp", "omp.h",
                                          "oniguruma.h",       "spirv/unified1/spirv.hpp11",
                                          "vulkan/vulkan.h",   "zip.h"};
  std::string others;
  for (const Include& include : includes('<', '>')) {
    if (include.folder == "lib/platform" && !include.file.ends_with(".h")) continue;
    if (is_standard(include.what) || kAllowed.contains(include.what)) continue;
    const bool is_of_characters =
        include.file == "lib/text/unicode.cpp" || include.file == "lib/text/jinja/chars.cpp";
    if (is_of_characters && include.what.starts_with("unicode/")) continue;
    others += include.file + " includes <" + include.what + ">\n";
  }
  EXPECT_EQ(others, "");
}

TEST(Layers, FilesOfOpsDoNotIncludeEachOther) {
  std::string each_other;
  for (const Include& include : includes()) {
    const fs::path to(include.what);
    if (include.folder == "lib/ops" && to.parent_path() == "lib/ops" && to.extension() != ".h")
      each_other += include.file + " includes " + include.what + "\n";
  }
  EXPECT_EQ(each_other, "");
}

TEST(Layers, EveryRoomSaysWhatItIsFor) {
  for (const char* top : {"lib", "kernels"})
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(HG_SOURCE_DIR) / top)) {
      if (!entry.is_directory() || entry.path().filename() == "include") continue;
      EXPECT_TRUE(fs::exists(entry.path() / "README.md")) << entry.path();
    }
  EXPECT_TRUE(fs::exists(fs::path(HG_SOURCE_DIR) / "shaders/README.md"));
}

}  // namespace
