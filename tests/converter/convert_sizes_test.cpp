// SPDX-License-Identifier: Apache-2.0
// hg-convert as a process: the inputs and sizes that fit a model, and what the check reports.
#include "hg/hg.h"
#include "tests/converter/convert_process.h"

namespace hg::convert_test {
namespace {

TEST_F(ConvertTest, OtherRanksAreNotedWithTheSizesThatRemain) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  expect("squeezed.pt --input 'f32[n,k,6]'", 0,
         {"note: the file accepts only sizes with k == 1, because of squeeze at ",
          "; for k != 1, convert with --dim k=2 or --check-size k=2", "output_0: f32[n, 6]",
          "k=1: 1 of 1 outputs equal"});
  expect("squeezed.pt --input 'f32[n,k,6]' --check-size k=3", 0,
         {"the file accepts only sizes with k != 1, because of squeeze at ",
          "; for k == 1, convert with --dim k=1 or --check-size k=1", "output_0: f32[n, k, 6]",
          "k=3: 1 of 1 outputs equal"});
  expect("squeezed.pt --input 'f32[n,k,6]' --dim k=1", 0, {"output_0: f32[n, 6]"});
}

TEST_F(ConvertTest, InputsThatDoNotFit) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  expect("two.pt --input 'left:f32[2,4]'", 1, {"'right'", "has no --input"});
  const std::string encode = "codec.pt --method encode --input 'x:f32[n,64]' ";
  expect(encode, 1, {"add --constant scale=... or --input 'scale:f64[]'"});
  expect(encode + "--input 'scale:f64[]'", 0, {"input scale: f64[]", "checked with n=3"});
  expect("two.pt --input 'lefft:f32[2,4]' --input 'f32[2]'", 1, {"did you mean 'left'"});
  expect("net.pt --input 'f32[n,4]' --input 'f32[2]'", 1, {"2 --input options", "takes 1"});
  expect("net.pt --input 'x:f32[n,4]' --input 'x:f32[2]'", 1, {"given twice"});
  expect("net.pt --input 'f32[n,5]'", 4, {"do not fit", "first", "2x5 and 4x8"});
  expect("net.pt --input 'f32[]'", 4, {"do not fit"});
  expect("net.pt --input 'i64[n,4]'", 4, {"do not fit", "x:f32[n, 4]"});
  expect("conv.pt --input 'f32[n,4,8,8]'", 4, {"3 channels", "4 channels"});
  expect("net.pt --input 'f32[n,4]' --check-size m=2", 1, {"did you mean n"});
  expect("net.pt --input 'f32[n,4]' --dim m=2", 1, {"no --input has a size m"});
}

TEST_F(ConvertTest, FindsSizesThatFit) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  expect("linear.pt --input 'f32[n,n]'", 0,
         {"checked with n=6: 1 of 1", "no other sizes than n=6"});
  expect("positions.pt --input 'i64[b,t]=0..49' --input 'f32[b,p,8]'", 0,
         {"checked with b=2, t=1, p=2: 1 of 1", "checked with b=3, t="});
  expect("positions.pt --input 'i64[b,t]=0..49' --input 'f32[b,p,8]' --check-size p=9", 4,
         {"index out of range", "--check-size"});
  expect("volume.pt --input 'f32[n,1,d,h,w]'", 0,
         {"checked with n=2, d=16, h=24, w=32: 1 of 1", "checked with n=3, d=24, h=32, w=40: 1"});
  expect("image.pt --input 'f32[n,3,h,w]'", 0,
         {"checked with n=2, h=128, w=128: 1 of 1", "checked with n=3, h=256, w=384: 1 of 1"});
}

TEST_F(ConvertTest, TheCheckTakesAllWays) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  expect("far.pt --input 'f32[n,4]' --strict", 0,
         {"checked with n=2 and normal values of scale 10: 2 of 2", "scale 100: 2 of 2"});
  // The clamp of a slice, and an op whose result is empty for some data.
  expect("head.pt --input 'f32[n,4]' --strict", 0, {"checked with n=6 and the usual values"});
}

TEST_F(ConvertTest, EachSizeIsCheckedOnce) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  // n = 2 gives fewer than three chunks.
  const std::string convert = tool() + "'" + (kModels / "thirds.pt").string() +
                              "' --input 'f32[n,4]' -o '" + output().string() + "'";
  const Outcome outcome = run_shell(convert);
  EXPECT_EQ(outcome.exit, 0) << outcome.text;
  const std::string first = "checked with n=3:", second = "checked with n=";
  const size_t at = outcome.text.find(first);
  ASSERT_NE(at, std::string::npos) << outcome.text;
  EXPECT_EQ(outcome.text.find(first, at + 1), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find(second, at + 1), std::string::npos) << outcome.text;
  // Sizes that the user repeats are checked as often as asked.
  const Outcome asked = run_shell(convert + " --check-size n=3,3");
  EXPECT_NE(asked.text.find(first, asked.text.find(first) + 1), std::string::npos) << asked.text;
}

TEST_F(ConvertTest, TheCheckSaysWhatItDidNotTake) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  const char* never = "the body of `if` at ";
  expect("never.pt --input 'f32[n,4]'", 0, {std::string("not exercised: ") + never});
  expect("never.pt --input 'f32[n,4]' --strict", 4, {std::string("did not exercise ") + never});
  // The range limits the search.
  expect("far.pt --input 'f32[n,4]=-5..5'", 0, {std::string("not exercised: ") + never});
  expect("many.pt --input 'f32[n,4]'", 0,
         {never, "not exercised: 3 more places, which --json lists"});
  expect("endless.pt --input 'f32[n,4]'", 0,
         {"not exercised: a single round of a loop; more than one round of a loop at "});
  expect("chunked.pt --input 'f32[n,4]' --check-size n=6,9", 0,
         {"not exercised: [:100] with n >= 101 at "});
  expect("raises.pt --input 'f32[n,4]' --strict", 0, {"checked with n=3"});
  expect("net.pt --input 'f32[n,4]' --strict --no-check", 1, {"--strict needs the check"});
  expect("net.pt --input 'f32[n,4]' --check-size n=0", 0,
         {"nothing is checked: no output has an element with n=0",
          "checked with n=0: the output has no elements, as libtorch's"});
  expect("net.pt --input 'f32[n,4]' --check-size n=0 --strict", 4, {"any element of an output"});
  const Outcome outcome = run_shell(tool() + "'" + (kModels / "never.pt").string() +
                                    "' --input 'f32[n,4]' -o '" + output().string() + "' --json -");
  EXPECT_NE(outcome.text.find("\"not_exercised\": [\n    \"the body"), std::string::npos)
      << outcome.text;
  const hg::Result<hg::Model> model = hg::Model::load(output().string());
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ(model->info().not_exercised.size(), 1u);
  EXPECT_EQ(model->info().not_exercised[0].find(never), 0u);
}

TEST_F(ConvertTest, JsonReport) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  Outcome outcome = run_shell(tool() + "'" + (kModels / "net.pt").string() +
                              "' --input 'f32[n,4]' --json - -o '" + output().string() + "'");
  EXPECT_EQ(outcome.exit, 0);
  for (const char* word : {"\"status\": \"ok\"", "\"source_sha256\"", "\"verdict\": \"equal\"",
                           "\"parameters\": 67", "\"stage_ms\""})
    EXPECT_NE(outcome.text.find(word), std::string::npos) << word << "\n" << outcome.text;
}

}  // namespace
}  // namespace hg::convert_test
