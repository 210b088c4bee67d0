// SPDX-License-Identifier: Apache-2.0
// hg-convert as a process, in the folder of the models that make_models.py makes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace hg::convert_test {

namespace fs = std::filesystem;

inline const fs::path kModels = HG_TEST_MODELS;

struct Outcome {
  int exit = -1;
  std::string text;  // from both streams
};

inline Outcome run_shell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return outcome;
  char buffer[4096];
  for (size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    outcome.text.append(buffer, got);
  int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit = WEXITSTATUS(status);
  return outcome;
}

inline std::string tool() { return std::string("'") + HG_CONVERT_TOOL + "' "; }

inline void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class ConvertTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              (std::string("hg_convert_test_") + std::to_string(getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  bool has_models() const { return fs::exists(kModels / "made"); }
  fs::path output() const { return folder_ / "out.hgm"; }

  // Runs the tool in the models' folder; expects an exit code and words in its output.
  void expect(const std::string& arguments, int exit, const std::vector<std::string>& words) {
    std::string command = "cd '" + kModels.string() + "' && " + tool() + arguments;
    if (arguments.find("-o ") == std::string::npos) command += " -o '" + output().string() + "'";
    Outcome outcome = run_shell(command);
    EXPECT_EQ(outcome.exit, exit) << command << "\n" << outcome.text;
    for (const std::string& word : words)
      EXPECT_NE(outcome.text.find(word), std::string::npos)
          << command << "\nlacks '" << word << "':\n"
          << outcome.text;
    EXPECT_EQ(fs::exists(output()), exit == 0) << command;
    fs::remove(output());
    EXPECT_TRUE(fs::is_empty(folder_) || exit == 0) << command << " left a file behind";
  }

  fs::path folder_;
};

}  // namespace hg::convert_test
