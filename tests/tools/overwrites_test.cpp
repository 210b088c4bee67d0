// SPDX-License-Identifier: Apache-2.0
// No tool replaces a file that it reads, under whatever name the output is given.
#include "tools/command_line/overwrites.h"

#include <system_error>

#include "tests/tools/programs.h"

namespace hg::tools {
namespace {

class Overwrites : public Programs {
 protected:
  void SetUp() override {
    Programs::SetUp();
    fs::create_directory(folder_ / "deep");
    fs::create_symlink("both.hgm", folder_ / "symbolic.hgm");
    fs::create_symlink(folder_ / "deep", folder_ / "also_deep");
    fs::create_hard_link(folder_ / "both.hgm", folder_ / "hard.hgm");
  }
  std::string at(const char* name) const { return (folder_ / name).string(); }

  // The command names `file` as read and, under an alias, as written.
  void expect_kept(const std::string& command, const char* file) {
    const std::string before = slurp(folder_ / file);
    ASSERT_FALSE(before.empty());
    expect_refusal(command, 1, "would replace '");
    EXPECT_EQ(slurp(folder_ / file), before) << command;
  }
};

TEST_F(Overwrites, AliasesNameOneFile) {
  for (const char* alias :
       {"both.hgm", "./both.hgm", "deep/../both.hgm", "symbolic.hgm", "hard.hgm"}) {
    EXPECT_TRUE(is_same_file(at("both.hgm"), at(alias))) << alias;
    EXPECT_TRUE(is_same_file(at(alias), at("both.hgm"))) << alias;
  }
  EXPECT_FALSE(is_same_file(at("both.hgm"), at("wide.hgm")));
  EXPECT_FALSE(is_same_file(at("a.npy"), at("b.npy")));  // of equal bytes
  EXPECT_FALSE(is_same_file(at("both.hgm"), at("none.hgm")));
  EXPECT_FALSE(is_same_file(at("deep"), at("also_deep")));
}

TEST_F(Overwrites, FilesThatDoNotExistYet) {
  EXPECT_TRUE(is_same_file(at("deep/new"), at("also_deep/new")));
  EXPECT_TRUE(is_same_file(at("new"), at("deep/../new")));
  EXPECT_FALSE(is_same_file(at("new"), at("deep/new")));
  EXPECT_TRUE(is_same_file("no/such/folder/new", "no/such/folder/new"));
}

TEST_F(Overwrites, StreamsAreNoFiles) {
  EXPECT_FALSE(is_same_file("-", "-"));
  EXPECT_FALSE(is_same_file("", ""));
  EXPECT_FALSE(is_same_file("/dev/null", "/dev/null"));
}

TEST_F(Overwrites, TwoOutputsAreTwoFiles) {
  const FileOption written[] = {{"--svg", at("new")}, {"--html", at("deep/../new")}};
  const Outcome outcome = check_overwrites(written, {});
  EXPECT_EQ(outcome.exit, Exit::usage);
  EXPECT_EQ(outcome.message, "--html '" + at("deep/../new") + "' would replace '" + at("new") +
                                 "', which --svg names; give another path");
}

TEST_F(Overwrites, RunKeepsItsInputs) {
  fs::copy_file(folder_ / "a.npy", folder_ / "output_0.npy");
  expect_kept("hg-run both.hgm -i output_0.npy -i b.npy -o .", "output_0.npy");
  expect_kept("hg-run both.hgm -i y=output_0.npy -i a.npy -o deep/..", "output_0.npy");
  fs::copy_file(folder_ / "four.npy", folder_ / "also.npy");
  expect_kept("hg-run wide.hgm -i also.npy -o .", "also.npy");
  // A named output is also written under its number.
  fs::copy_file(folder_ / "four.npy", folder_ / "output_1.npy");
  expect_kept("hg-run wide.hgm -i output_1.npy -o .", "output_1.npy");
  EXPECT_EQ(run("hg-run both.hgm -i output_0.npy -i b.npy -o deep").exit, 0);
}

TEST_F(Overwrites, BenchKeepsItsInputs) {
  fs::copy_file(folder_ / "a.npy", folder_ / "output_0.npy");
  expect_kept("hg-bench both.hgm -i output_0.npy -i b.npy --repeat 1 -o .", "output_0.npy");
  expect_kept("hg-bench both.hgm --dim n=1 --repeat 1 --trace deep/../both.hgm", "both.hgm");
  expect_kept("hg-bench both.hgm --dim n=1 --repeat 1 --tuning hard.hgm", "both.hgm");
}

TEST_F(Overwrites, DrawingsKeepTheModel) {
  for (const char* option : {"--svg", "--html", "--dot", "--dim n=1 --memory-svg"})
    expect_kept(std::string("hg-info both.hgm ") + option + " symbolic.hgm", "both.hgm");
}

TEST_F(Overwrites, EmbedKeepsTheModel) {
  expect_kept("hg-embed both.hgm -o ./both.hgm", "both.hgm");
  expect_kept("hg-embed symbolic.hgm -o both.hgm", "both.hgm");
}

TEST_F(Overwrites, QuantizeKeepsSamples) {
  expect_kept("hg-quantize wide.hgm -i four.npy -o deep/../four.npy", "four.npy");
  expect_kept("hg-quantize wide.hgm -i four.npy --max-error 0.1 -o q.hgm --svg ./wide.hgm",
              "wide.hgm");
  EXPECT_EQ(run("hg-quantize wide.hgm --least 0 -o ./wide.hgm").exit, 0);  // as documented
}

TEST_F(Overwrites, TrainKeepsItsFiles) {
  const std::string train = "hg-train both.hgm -i a.npy -i b.npy -t ways.npy --epochs 1 ";
  expect_kept(train + "-o ./a.npy", "a.npy");
  expect_kept(train + "-o deep/../ways.npy", "ways.npy");
  expect_kept(train + "-o t.hgm --best hard.hgm", "both.hgm");
  expect_kept(train + "-o t.hgm --json ./b.npy", "b.npy");
  expect_kept(train + "-o t.hgm --svg symbolic.hgm", "both.hgm");
  expect_kept(train + "-o both.hgm --export ./both.hgm", "both.hgm");
  expect_refusal(train + "-o t.hgm --best ./t.hgm", 1, "which --out names");
  fs::copy_file(folder_ / "both.hgm", folder_ / "adapter.hgm");
  expect_kept(train + "--adapter adapter.hgm -o t.hgm --svg ./adapter.hgm", "adapter.hgm");
  expect_kept(train + "--adapter adapter.hgm --adapter hard.hgm -o ./adapter.hgm", "adapter.hgm");
}

}  // namespace
}  // namespace hg::tools
