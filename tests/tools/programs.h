// SPDX-License-Identifier: Apache-2.0
// Tools as programs: a folder with two models and some arrays, and how a program ended there.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "hg/model.h"
#include "hg/npy.h"
#include "tests/support/must.h"

namespace hg::tools {

namespace fs = std::filesystem;

struct Ran {
  int exit = -1;
  std::string out, err;
};

inline std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Two models in a folder of their own: `both` adds x[n, 3] and y[n, 3]; `wide` is a small network.
class Programs : public testing::Test {
 protected:
  fs::path folder_;

  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("hg_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Graph both;
    const Value x = both.input("x", f32, {"n", 3});
    const Value y = both.input("y", f32, {"n", 3});
    both.output("", both.call("add", {x, y}));
    save(std::move(both), "both.hgm");

    Graph wide;
    wide.set_origin({"net.first", "net.py:3"});
    const Value image = wide.input("image", f32, {"n", 4});
    const Value w = wide.parameter("net.first.weight", f32, {8, 4}, init::uniform(-1, 1, 1));
    const Value hidden = wide.call("linear", {image, w});
    wide.set_origin({"net.second", "net.py:4"});
    const Value act = wide.call("relu", {hidden});
    wide.output("../scores", act);
    wide.output("also", wide.call("mul", {act, hidden}));
    save(std::move(wide), "wide.hgm");

    const float values[] = {1, 2, 3, 4, 5, 6};
    put("a.npy", view(values, f32, Sizes{2, 3}));
    put("one.npy", view(values, f32, Sizes{1, 3}));
    put("b.npy", view(values, f32, Sizes{2, 3}));
    put("empty.npy", view(values, f32, Sizes{0, 3}));
    put("wrong_shape.npy", view(values, f32, Sizes{3, 2}));
    put("rank1.npy", view(values, f32, Sizes{6}));
    const float ways[] = {0, 0.5f, 1, 1.5f, 2, 2.5f};
    put("ways.npy", view(ways, f32, Sizes{2, 3}));
    const int64_t whole[] = {1, 2, 3};
    put("i64.npy", view(whole, i64, Sizes{1, 3}));
    const float four[] = {1, -2, 3, -4};
    put("four.npy", view(four, f32, Sizes{1, 4}));
    std::ofstream(folder_ / "text.npy") << "hello";
    std::ofstream(folder_ / "text.hgm") << "hello, this is no model at all";
  }
  void TearDown() override { fs::remove_all(folder_); }

  void save(Graph graph, const char* name, std::vector<Model::Attachment> attachments = {}) {
    Model model = must(Model::from_graph(std::move(graph)));
    Model::Info info;
    info.attachments = std::move(attachments);
    model.set_info(std::move(info));
    must(model.save(folder_ / name));
  }
  void put(const char* name, const ConstTensor& tensor) {
    ASSERT_TRUE(write_npy(folder_ / name, tensor).ok());
  }

  Ran run(const std::string& command) {
    const std::string line = "cd '" + folder_.string() + "' && " HG_BIN "/" + command +
                             " >stdout.txt 2>stderr.txt </dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder_ / "stdout.txt"),
            slurp(folder_ / "stderr.txt")};
  }
  // One sentence on standard error, nothing on standard output.
  void expect_refusal(const std::string& command, int exit, const std::string& part) {
    const Ran ran = run(command);
    EXPECT_EQ(ran.exit, exit) << command << "\n" << ran.err;
    EXPECT_NE(ran.err.find(part), std::string::npos) << command << "\n" << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_EQ(ran.out, "") << command;
  }
};

}  // namespace hg::tools
