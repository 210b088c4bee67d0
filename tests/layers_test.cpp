// SPDX-License-Identifier: Apache-2.0
// Checks the rule of lib/README.md from the includes: folders include downwards only, and files of
// lib/ops never include each other. Modules of the Python package import each other in no circle.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
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
    {"lib/compile", {"lib/graph", "lib/platform", "lib/device", "lib/table"}},
    {"lib/parallel", {"lib/platform"}},
    {"lib/kernel_text", {"lib/expression", "lib/graph", "lib/run"}},
    {"lib/lazy", {"lib/graph", "lib/run", "lib/array", "lib/device"}},
    {"lib/model", {"lib/graph", "lib/platform"}},
    {"lib/device", {"lib/graph"}},
    {"lib/plan", {"lib/graph", "lib/device"}},
    {"lib/run",
     {"lib/graph", "lib/platform", "lib/parallel", "lib/compile", "lib/device", "lib/plan",
      "lib/model", "lib/table"}},
    {"lib/c", {"lib/graph"}},
    {"lib/array", {"lib/graph", "lib/platform", "lib/device"}},
    {"lib/eager", {"lib/graph", "lib/array", "lib/device", "lib/plan", "lib/run"}},
    {"lib/generate", {"lib/graph", "lib/model", "kernels/fill"}},
    {"lib/io", {"lib/graph"}},
    {"lib/text", {"lib/graph", "lib/c"}},
    {"lib/text/jinja", {"lib/text", "lib/graph"}},
    {"lib/text/grammar", {"lib/text", "lib/graph"}},
    {"lib/adapter", {"lib/graph"}},
    {"lib/quantize", {"lib/graph", "lib/compile"}},
    {"lib/nn", {"lib/graph", "lib/run", "lib/train"}},
    {"lib/train", {"lib/graph", "lib/table", "lib/quantize"}},
    {"lib/vulkan", {"lib/graph", "lib/platform", "lib/device"}},
    {"lib/vulkan/kernels",
     {"lib/graph", "lib/device", "lib/vulkan", "lib/table", "kernels/attention", "kernels/conv",
      "kernels/gemm", "kernels/integer"}},
    {"kernels", {"lib/table"}},
    {"kernels/simd", {"lib/platform"}},
    {"kernels/reference", {"kernels/pointwise", "lib/table"}},
    {"converter/core", {}},
    {"converter/memory", {"converter/core", "lib/graph"}},
    {"converter/rows", {"converter/core", "converter/memory", "lib/graph"}},
    {"converter/script", {"converter/core", "converter/memory", "converter/rows"}},
    {"converter/containers",
     {"converter/core", "converter/memory", "converter/rows", "converter/script"}},
    {"converter/aten",
     {"converter/core", "converter/memory", "converter/rows", "converter/script",
      "converter/containers", "lib/graph"}},
    {"converter/onnx", {"converter/rows", "converter/containers", "lib/graph", "lib/quantize"}},
    {"converter/interpret",
     {"converter/core", "converter/memory", "converter/rows", "converter/script",
      "converter/containers", "converter/aten", "converter/onnx", "lib/graph"}},
    {"converter/load", {"converter/core", "lib/graph"}},
    {"converter/load/torchscript",
     {"converter/core", "converter/rows", "converter/interpret", "converter/load"}},
    {"converter/load/exported",
     {"converter/core", "converter/rows", "converter/aten", "converter/interpret", "converter/load",
      "lib/graph", "lib/quantize"}},
    {"converter/load/onnx", {"converter/core", "converter/onnx", "converter/load", "lib/graph"}},
    {"converter/load/gguf", {"converter/core", "lib/graph", "lib/platform", "lib/quantize"}},
    {"converter/check",
     {"converter/core", "converter/rows", "converter/aten", "converter/onnx", "converter/interpret",
      "converter/load", "converter/load/torchscript", "converter/load/exported",
      "converter/load/onnx", "converter/load/gguf", "lib/graph", "kernels/reference",
      "tools/command_line"}},
    {"converter/sandbox", {"converter/core"}},
    {"converter/cli",
     {"converter/core", "converter/aten", "converter/interpret", "converter/load",
      "converter/load/exported", "converter/load/onnx", "converter/load/gguf", "converter/check",
      "converter/sandbox", "lib/graph", "tools/command_line"}},
    {"tools/command_line", {}},
    {"tools/draw", {"tools/command_line"}},
    {"tools", {"tools/command_line", "tools/draw", "lib/graph", "lib/model", "lib/platform"}},
    {"python/src", {"converter/cli", "tools/draw"}},
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

using Folders = std::vector<std::string>;
const Folders kLibrary = {"lib", "kernels"};
const Folders kAll = {"lib", "kernels", "converter", "tools", "python/src"};

std::vector<Include> includes(const Folders& tops, char open = '"', char close = '"') {
  const fs::path root = HG_SOURCE_DIR;
  std::vector<Include> all;
  for (const std::string& top : tops)
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
  const std::vector<Include> all = includes(kAll);
  ASSERT_GT(all.size(), 1500u);
  std::string upward;
  for (const Include& include : all) {
    const bool is_ours = std::any_of(kAll.begin(), kAll.end(), [&](const std::string& top) {
      return include.what.starts_with(top + "/");
    });
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
  for (const Include& include : includes(kLibrary, '<', '>')) {
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
  for (const Include& include : includes(kLibrary)) {
    const fs::path to(include.what);
    if (include.folder == "lib/ops" && to.parent_path() == "lib/ops" && to.extension() != ".h")
      each_other += include.file + " includes " + include.what + "\n";
  }
  EXPECT_EQ(each_other, "");
}

TEST(Layers, EveryRoomSaysWhatItIsFor) {
  for (const char* top : {"lib", "kernels", "converter"})
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(HG_SOURCE_DIR) / top)) {
      if (!entry.is_directory() || entry.path().filename() == "include") continue;
      EXPECT_TRUE(fs::exists(entry.path() / "README.md")) << entry.path();
    }
  EXPECT_TRUE(fs::exists(fs::path(HG_SOURCE_DIR) / "shaders/README.md"));
}

// The modules of python/hologram by their names in it, such as "nn._norms"; "" is the package.
std::map<std::string, fs::path> python_modules() {
  const fs::path root = fs::path(HG_SOURCE_DIR) / "python/hologram";
  std::map<std::string, fs::path> all;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".py") continue;
    fs::path name = fs::relative(entry.path(), root).replace_extension();
    if (name.filename() == "__init__") name = name.parent_path();
    std::string module = name.generic_string();
    std::replace(module.begin(), module.end(), '/', '.');
    all[module] = entry.path();
  }
  return all;
}

std::string parent_of(const std::string& module) {
  const size_t dot = module.rfind('.');
  return dot == module.npos ? "" : module.substr(0, dot);
}

// What a module imports of the package, in functions too. An import of a.b also runs package a.
std::set<std::string> python_imports(const std::map<std::string, fs::path>& modules,
                                     const std::string& module) {
  const fs::path& path = modules.at(module);
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::set<std::string> found;
  const auto add = [&](const std::string& target) {
    found.insert(target);
    for (std::string package = parent_of(target); !package.empty(); package = parent_of(package))
      if (package != module && !module.starts_with(package + ".")) found.insert(package);
  };
  static const std::regex kFrom(R"(\n *from (\.+)([\w.]*) import (\([^)]*\)|[^\n]*))");
  for (std::sregex_iterator at(text.begin(), text.end(), kFrom), end; at != end; ++at) {
    std::string from = path.filename() == "__init__.py" ? module : parent_of(module);
    for (auto dots = (*at)[1].length(); dots > 1; --dots) from = parent_of(from);
    if ((*at)[2].length() > 0) from += (from.empty() ? "" : ".") + (*at)[2].str();
    if (from == "_core") continue;  // C++
    const std::string names = std::regex_replace((*at)[3].str(), std::regex("#.*"), "");
    static const std::regex kName(R"((\w+)( as \w+)?)");
    for (std::sregex_iterator name(names.begin(), names.end(), kName); name != end; ++name) {
      const std::string inner = (from.empty() ? "" : from + ".") + (*name)[1].str();
      if (modules.contains(inner))
        add(inner);
      else if (inner != "_core" && modules.contains(from))
        add(from);
      else if (inner != "_core")
        ADD_FAILURE() << path << " imports '" << inner << "', which the package does not have";
    }
  }
  return found;
}

TEST(Layers, PythonModulesImportInNoCircle) {
  const std::map<std::string, fs::path> modules = python_modules();
  ASSERT_GT(modules.size(), 40u);
  std::map<std::string, std::set<std::string>> imports;
  size_t count = 0;
  for (const auto& [module, path] : modules)
    count += (imports[module] = python_imports(modules, module)).size();
  ASSERT_GT(count, 150u);
  // Takes away what imports nothing that is left; a circle stays.
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (auto it = imports.begin(); it != imports.end();) {
      const bool is_last = std::none_of(it->second.begin(), it->second.end(),
                                        [&](const auto& each) { return imports.contains(each); });
      it = is_last ? imports.erase(it) : std::next(it);
      goes_on |= is_last;
    }
  }
  // A circle is found by following imports that are left.
  std::string circle;
  if (!imports.empty()) {
    std::vector<std::string> way = {imports.begin()->first};
    const auto seen = [&] { return std::find(way.begin(), way.end() - 1, way.back()); };
    while (seen() == way.end() - 1)
      way.push_back(*std::find_if(imports[way.back()].begin(), imports[way.back()].end(),
                                  [&](const auto& each) { return imports.contains(each); }));
    for (auto it = seen(); it != way.end(); ++it) circle += (circle.empty() ? "" : " -> ") + *it;
  }
  EXPECT_EQ(circle, "") << "these modules of python/hologram import each other";
}

// Two classes of one name in one namespace are one class to the linker, which keeps either code.
TEST(Layers, ClassesHaveNamesOfTheirOwn) {
  const fs::path root = HG_SOURCE_DIR;
  const std::regex opens(R"(namespace ([\w:]*) ?\{.*)");
  const std::regex defines(R"((?:struct|class) (\w+)(?: final)?(?: :.*)? ?\{.*)");
  std::map<std::string, std::string> files;  // by the full name of a class
  std::string twice;
  for (const std::string& top : kAll)
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string end = entry.path().extension().string();
      if (end != ".h" && end != ".cpp") continue;
      const std::string file = fs::relative(entry.path(), root).generic_string();
      std::ifstream in(entry.path());
      std::vector<std::string> within;  // "" for a namespace without a name
      for (std::string line; std::getline(in, line);) {
        std::smatch match;
        if (std::regex_match(line, match, opens)) within.push_back(match[1]);
        if (line.starts_with("}  // namespace") && !within.empty()) within.pop_back();
        if (!std::regex_match(line, match, defines) ||
            std::find(within.begin(), within.end(), "") != within.end())
          continue;
        std::string name;
        for (const std::string& each : within) name += each + "::";
        name += match[1].str();
        const auto [at, is_new] = files.emplace(name, file);
        if (!is_new && at->second != file)
          twice += name + " in " + at->second + " and " + file + "\n";
      }
    }
  EXPECT_GT(files.size(), 500u);
  EXPECT_EQ(twice, "");
}

}  // namespace
