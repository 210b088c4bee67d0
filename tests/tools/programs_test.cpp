// SPDX-License-Identifier: Apache-2.0
// hg-run, hg-info, hg-bench, hg-quantize and hg-embed as programs: what they print and write, and
// the exit code and error message for each bad input.
#include "tests/tools/programs.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hg/ops.h"
#include "hg/version.h"
#include "tests/support/must.h"

namespace hg::tools {
namespace {

using nlohmann::json;

TEST_F(Programs, RunWritesEveryOutput) {
  const Ran ran = run("hg-run both.hgm --input a.npy --input y=b.npy --output-dir out");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.out, "out/output_0.npy\n");
  Array sum = must(read_npy(folder_ / "out" / "output_0.npy"));
  EXPECT_EQ(sum.shape(), (Sizes{2, 3}));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(sum.as<float>()[i], 2.0f * (i + 1));
}

TEST_F(Programs, AnOutputsNameNeverLeavesTheFolder) {
  const Ran ran = run("hg-run wide.hgm --input four.npy --output-dir out --json");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  const json answer = json::parse(ran.out);
  EXPECT_EQ(answer["outputs"], json::array({"out/_._scores.npy", "out/also.npy"}));
  EXPECT_TRUE(fs::exists(folder_ / "out" / "_._scores.npy"));
}

TEST_F(Programs, EachOutputHasAFileOfItsOwn) {
  Graph g;
  const Value x = g.input("x", f32, {2, 3});
  g.output("a/b", x + 1);
  g.output("a:b", x + 2);
  g.output("a_b_", x + 3);
  save(std::move(g), "alike.hgm");
  EXPECT_EQ(run("hg-run alike.hgm --input a.npy -o new/deep").out,
            "new/deep/a_b.npy\nnew/deep/a_b_.npy\nnew/deep/a_b__.npy\n");
  for (int k = 0; k < 3; ++k)
    for (const std::string& name :
         {std::string("a_b") + std::string(k, '_'), "output_" + std::to_string(k)}) {
      const Array y = must(read_npy((folder_ / "new" / "deep" / (name + ".npy")).string()));
      EXPECT_EQ(y.as<float>()[0], static_cast<float>(2 + k)) << name;
    }
  expect_refusal("hg-run alike.hgm --input a.npy -o a.npy/out", 1, "--output-dir a.npy/out: ");
}

TEST_F(Programs, AnEmptyBatchRuns) {
  const Ran ran = run("hg-run both.hgm -i empty.npy -i empty.npy -o out");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  Array sum = must(read_npy(folder_ / "out" / "output_0.npy"));
  EXPECT_EQ(sum.shape(), (Sizes{0, 3}));
}

TEST_F(Programs, GradientsOfEveryFloatInput) {
  const Ran ran = run("hg-run both.hgm -i a.npy -i b.npy --grad-output ways.npy -o out");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  for (const char* name : {"grad_input_0.npy", "grad_input_1.npy"}) {
    Array grad = must(read_npy(folder_ / "out" / name));
    EXPECT_EQ(grad.shape(), (Sizes{2, 3}));
    for (int i = 0; i < 6; ++i) EXPECT_EQ(grad.as<float>()[i], 0.5f * i);
  }
  expect_refusal("hg-run wide.hgm -i four.npy --grad-output four.npy -o out", 4,
                 "1 output gradients are given, but the model has 2 float outputs");
  expect_refusal("hg-run both.hgm -i a.npy -i b.npy --grad-output one.npy -o out", 4, "n");
}

TEST_F(Programs, RunRefusesWhatDoesNotFit) {
  expect_refusal("hg-run both.hgm -i a.npy -i wrong_shape.npy -o out", 4, "'y'");
  expect_refusal("hg-run both.hgm -i a.npy -i rank1.npy -o out", 4, "'y'");
  expect_refusal("hg-run both.hgm -i i64.npy -i i64.npy -o out", 4, "i64");
  expect_refusal("hg-run both.hgm -i a.npy -i one.npy -o out", 4, "n");
  expect_refusal("hg-run both.hgm -i a.npy -o out", 4,
                 "input 'y' (f32[n, 3]) is missing: add --input y=FILE.npy");
  expect_refusal("hg-run both.hgm -i a.npy -i b.npy -i a.npy -o out", 4,
                 "3 inputs are given, but the model takes 2: x: f32[n, 3], y: f32[n, 3]");
  expect_refusal("hg-run both.hgm -i x=a.npy -i z=b.npy -o out", 4, "the model has no input 'z'");
  expect_refusal("hg-run both.hgm -i x=a.npy -i x=b.npy -o out", 4, "has 'a.npy' already");
}

TEST_F(Programs, RandomInputsKeepToTheirRangeAndSeed) {
  const auto sums = [&](const std::string& arguments) {
    const Ran ran = run("hg-run both.hgm -o out " + arguments);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    const Array sum = *read_npy(folder_ / "out" / "output_0.npy");
    EXPECT_EQ(sum.shape(), (Sizes{2, 3}));
    return std::vector<float>(sum.as<float>(), sum.as<float>() + 6);
  };
  const std::vector<float> first = sums("-i 'x:f32[2,3]=5..6' -i 'y=f32[2,3]=0..0'");
  for (const float x : first) EXPECT_TRUE(x >= 5 && x <= 6) << x;
  EXPECT_EQ(sums("-i 'f32[2,3]=5..6' -i 'y:f32[2,3]=0..0'"), first);  // by position
  EXPECT_NE(sums("-i 'f32[2,3]=5..6' -i 'y:f32[2,3]=0..0' --seed 1"), first);
  // The size of y in the file determines n.
  for (const float sum : sums("-i x=100..101 -i y=a.npy")) EXPECT_TRUE(sum >= 101 && sum <= 107);
  expect_refusal("hg-run both.hgm -o out -i 'x:f32[2,3]' -i 'w=y:f32[2,3]'", 4, "no input 'w'");
  expect_refusal("hg-run both.hgm -o out -i 'x:f32[2,3]'", 4, "input 'y' (f32[n, 3]) is missing");
}

TEST_F(Programs, ASeedDecidesWhatTheModelDraws) {
  Graph g;
  const Value x = g.input("x", f32, {2, 3});
  g.output("y", x * 0.0 + rand(g, {2, 3}));
  save(std::move(g), "draws.hgm");
  const auto drawn = [&](const std::string& seed) {
    EXPECT_EQ(run("hg-run draws.hgm -i a.npy -o out --seed " + seed).exit, 0);
    const Array y = *read_npy(folder_ / "out" / "y.npy");
    return std::vector<float>(y.as<float>(), y.as<float>() + 6);
  };
  const std::vector<float> first = drawn("3");
  EXPECT_EQ(drawn("3"), first);
  EXPECT_NE(drawn("4"), first);
}

TEST_F(Programs, IntegersOfARangeIncludeBothEnds) {
  Graph g;
  const Value x = g.input("x", i64, {"n"});
  g.output("y", x + 1);
  save(std::move(g), "ids.hgm");
  EXPECT_EQ(run("hg-run ids.hgm -i 'x:i64[200]=7..9' -o out").exit, 0);
  const Array y = *read_npy(folder_ / "out" / "y.npy");
  std::array<int, 11> counts{};
  for (int i = 0; i < 200; ++i) ++counts.at(static_cast<size_t>(y.as<int64_t>()[i]));
  for (const int count : {counts[8], counts[9], counts[10]}) EXPECT_GT(count, 30);
  EXPECT_EQ(run("hg-bench ids.hgm -i x=0..49151 --dim n=4 --repeat 1").exit, 0);
  EXPECT_EQ(run("hg-bench both.hgm -i 'x:f32[2,3]=0..1' --repeat 1").exit, 0);  // n of y is 2
  expect_refusal("hg-run ids.hgm -i 'x:u8[2]=0..300' -o out", 1, "no u8 is in the range 0..300");
}

// numpy has no bf16: files hold the bytes of ml_dtypes.bfloat16, or f32.
TEST_F(Programs, BFloat16GoesInAndOutAsFloat32) {
  Graph g;
  const Value x = g.input("x", bf16, {"n", 3});
  g.output("y", x + x);
  save(std::move(g), "short.hgm");
  const Ran ran = run("hg-run short.hgm -i a.npy -o out");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "hg-run: note: input 'x': f32 is taken as bf16\n");
  EXPECT_NE(slurp(folder_ / "out" / "y.npy").find("'descr': '<V2'"), std::string::npos);
  EXPECT_EQ(run("hg-run short.hgm -i out/y.npy -o wide --as-f32").exit, 0);
  const Array y = *read_npy(folder_ / "wide" / "y.npy");
  ASSERT_EQ(y.dtype(), f32);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y.as<float>()[i], 4.0f * static_cast<float>(i + 1));
  expect_refusal("hg-run short.hgm -i i64.npy -o out", 4, "astype(ml_dtypes.bfloat16)");
}

TEST_F(Programs, RunRefusesFilesItCannotRead) {
  expect_refusal("hg-run none.hgm -i a.npy -o out", 2, "none.hgm");
  expect_refusal("hg-run text.hgm -i a.npy -o out", 2, "text.hgm");
  expect_refusal("hg-run both.hgm -i a.npy -i none.npy -o out", 2, "none.npy: cannot be opened");
  expect_refusal("hg-run both.hgm -i a.npy -i text.npy -o out", 2, "text.npy: is not a .npy file");
  expect_refusal("hg-run both.hgm -i a.npy -i '' -o out", 4, "input 'y' (f32[n, 3]) is missing");
}

TEST_F(Programs, RunRefusesSenselessCommandLines) {
  expect_refusal("hg-run", 1, "no MODEL is given");
  expect_refusal("hg-run both.hgm -i a.npy -i b.npy", 1, "no --output-dir is given");
  expect_refusal("hg-run both.hgm --wrong", 1, "--wrong");
  expect_refusal("hg-run both.hgm -i a.npy -i b.npy -o out --device tpu", 1, "not one of cpu");
  expect_refusal("hg-run both.hgm -i a.npy -i b.npy -o out --threads -1", 1, "--threads");
  expect_refusal("hg-run both.hgm -i a.npy -i b.npy -o text.npy/out", 1, "text.npy/out");
}

TEST_F(Programs, RunTakesAKernelAndLeavesOutPasses) {
  EXPECT_EQ(run("hg-run both.hgm -i a.npy -i b.npy -o out --disable-pass cse").exit, 0);
  expect_refusal("hg-run both.hgm -i a.npy -i b.npy -o out --disable-pass nothing", 4,
                 "there is no pass 'nothing'");
  expect_refusal("hg-run both.hgm -i a.npy -i b.npy -o out --kernel nothing=plain", 4,
                 "the op 'nothing' has none");
  expect_refusal("hg-run both.hgm -i a.npy -i b.npy -o out --kernel add=nothing", 4, "add has ");
  const json jobs = {{{"model", "both.hgm"}, {"inputs", {"a.npy", "b.npy"}}, {"output_dir", "."}}};
  std::ofstream(folder_ / "jobs.json") << jobs.dump();
  const Ran ran = run("hg-run --batch jobs.json --kernel add=nothing");
  EXPECT_EQ(ran.exit, 1);
  EXPECT_NE(ran.out.find("add has "), std::string::npos) << ran.out;
}

TEST_F(Programs, BatchAnswersEachJob) {
  const json jobs = {
      {{"model", "both.hgm"}, {"inputs", {"a.npy", "b.npy"}}, {"output_dir", "made/here"}},
      {{"model", "both.hgm"}, {"inputs", {"a.npy", "one.npy"}}, {"output_dir", "."}},
      {{"inputs", {"a.npy"}}, {"output_dir", "."}},
      {{"model", "none.hgm"}, {"inputs", json::array()}, {"output_dir", "."}},
      {{"model", "both.hgm"}, {"inputs", 7}, {"output_dir", "."}},
      {{"model", "wide.hgm"}, {"inputs", "four.npy"}, {"output_dir", "."}},
      {{"model", "both.hgm"},
       {"device", "cpu"},
       {"inputs", {"empty.npy", "empty.npy"}},
       {"grad_outputs", json::array()},
       {"output_dir", "."}},
      {{"model", "both.hgm"}, {"input", {"a.npy", "b.npy"}}, {"output_dir", "."}},
  };
  std::ofstream(folder_ / "jobs.json") << jobs.dump();
  const Ran ran = run("hg-run --batch jobs.json");
  EXPECT_EQ(ran.exit, 1);
  std::vector<std::string> statuses;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) {
    const json answer = json::parse(line);
    statuses.push_back(answer["status"]);
    EXPECT_EQ(answer["message"].get<std::string>().empty(), answer["status"] == "ok") << line;
  }
  EXPECT_EQ(statuses, (std::vector<std::string>{"ok", "mismatch", "usage", "unreadable", "usage",
                                                "usage", "ok", "usage"}));
  EXPECT_NE(ran.out.find(R"(a job has no \"input\"; it has model, entry, stream)"),
            std::string::npos)
      << ran.out;
  EXPECT_TRUE(fs::exists(folder_ / "made" / "here" / "output_0.npy"));
  EXPECT_TRUE(fs::exists(folder_ / "output_0.npy"));
}

TEST_F(Programs, BatchRefusesWhatIsNoList) {
  expect_refusal("hg-run --batch none.json", 2, "none.json: cannot be opened");
  expect_refusal("hg-run --batch text.npy", 2, "is not a JSON array");
  expect_refusal("hg-run both.hgm --batch text.npy", 1, "takes no MODEL");
}

TEST_F(Programs, BenchKeepsItsContract) {
  const Ran ran =
      run("hg-bench wide.hgm --input 'f32[5,4]' --threads 1 --warmup 1 --repeat 4 --json "
          "--output-dir out");
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const json answer = json::parse(ran.out);
  for (const char* key : {"load_ms", "create_ms", "peak_bytes", "arena_lower_bound_bytes",
                          "weights_bytes", "flops"}) {
    EXPECT_TRUE(answer[key].is_number()) << key;
  }
  const json latency = answer["latency_ms"];
  EXPECT_LE(latency["min"], latency["median"]);
  EXPECT_LE(latency["median"], latency["p90"]);
  EXPECT_GE(answer["load_ms"], answer["create_ms"]);
  EXPECT_EQ(answer["weights_bytes"], 8 * 4 * 4);
  Array scores = must(read_npy(folder_ / "out" / "also.npy"));
  EXPECT_EQ(scores.shape(), (Sizes{5, 8}));
}

TEST_F(Programs, BenchProfilesEveryNode) {
  const Ran text = run("hg-bench wide.hgm --dim n=3 --repeat 2 --profile");
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_NE(text.out.find("linear"), std::string::npos) << text.out;
  const Ran ran = run("hg-bench wide.hgm -i four.npy --repeat 2 --profile --json");
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const json answer = json::parse(ran.out);
  EXPECT_GE(answer["profile"].size(), 1u);
  EXPECT_TRUE(answer["profile"][0].contains("ms"));
  EXPECT_GT(answer["peak"]["gflops"], 0);
  EXPECT_GT(answer["profile"][0]["share_of_peak"], 0);
}

TEST_F(Programs, BenchTracesEveryNode) {
  const Ran ran = run("hg-bench wide.hgm --dim n=3 --repeat 2 --trace trace.json --json");
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_FALSE(json::parse(ran.out).contains("profile"));
  const json events = json::parse(std::ifstream(folder_ / "trace.json"))["traceEvents"];
  ASSERT_GE(events.size(), 1u);
  EXPECT_EQ(events[0]["ph"], "X");
  EXPECT_GE(events[0]["dur"], 0);
  EXPECT_TRUE(events[0]["args"].contains("kernel"));
  expect_refusal("hg-bench wide.hgm --dim n=3 --repeat 1 --trace none/trace.json", 1, "none/trace");
}

TEST_F(Programs, BenchRefusals) {
  expect_refusal("hg-bench wide.hgm", 4, "open sizes");
  expect_refusal("hg-bench wide.hgm --dim n", 1, "not of the form");
  expect_refusal("hg-bench wide.hgm -i 'f32[2,5]'", 4, "image");
  expect_refusal("hg-bench wide.hgm -i 'f16[2,4]'", 4, "f16");
  expect_refusal("hg-bench wide.hgm -i 'f99[2,4]'", 1, "there is no dtype 'f99'");
  expect_refusal("hg-bench wide.hgm -i 'f32[2,4]=3..1'", 1, "first number exceeds its second");
  expect_refusal("hg-bench wide.hgm -i 'z:f32[2,4]'", 4, "the model has no input 'z'");
  expect_refusal("hg-bench wide.hgm -i image=0..1", 4, "open sizes");
  expect_refusal("hg-bench wide.hgm -i four.npy --repeat 0", 1, "--repeat");
  expect_refusal("hg-bench none.hgm", 2, "none.hgm");
}

TEST_F(Programs, InfoDescribes) {
  const Ran text = run("hg-info wide.hgm --dim n=2");
  EXPECT_EQ(text.exit, 0) << text.err;
  for (const char* part : {"image: f32[n, 4]", "also: f32[n, 8]", "n = 2", "linear", "arena"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  const Ran ran = run("hg-info wide.hgm --json");
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const json answer = json::parse(ran.out);
  EXPECT_EQ(answer["inputs"][0]["shape"], json::array({"n", 4}));
  EXPECT_EQ(answer["parameters"]["elements"], 32);
  EXPECT_EQ(answer["ops"]["relu"], 1);
  EXPECT_EQ(answer["symbols"], json::array({"n"}));
  EXPECT_NE(answer["no_plan"].get<std::string>().find("--dim n=1"), std::string::npos);
  const Ran whole = run("hg-info wide.hgm --text");
  EXPECT_NE(whole.out.find("relu"), std::string::npos);
}

TEST_F(Programs, InfoListsTheEntriesOfAFile) {
  Model library;
  for (const char* name : {"half", "double"}) {
    Graph graph;
    const Value x = graph.input("x", f32, {"n"});
    graph.output("y", x * (name[0] == 'h' ? 0.5 : 2.0));
    ASSERT_TRUE(library.add_entry(name, std::move(graph)).ok());
  }
  ASSERT_TRUE(library.save(folder_ / "library.hgm").ok());
  const Ran text = run("hg-info library.hgm");
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_NE(text.out.find("half(x: f32[n]) -> y: f32[n]\n"), std::string::npos) << text.out;
  const json answer = json::parse(run("hg-info library.hgm --json").out);
  EXPECT_EQ(answer["entries"][1]["name"], "double");
  EXPECT_EQ(answer["entries"][1]["outputs"][0]["shape"], json::array({"n"}));
  EXPECT_NE(run("hg-info library.hgm --verify").out.find("all checksums match"), std::string::npos);
  expect_refusal("hg-run library.hgm -i four.npy -o out", 3, "entries half, double");
  expect_refusal("hg-bench library.hgm", 3, "entries half, double");
  EXPECT_EQ(run("hg-bench library.hgm --entry half --dim n=3 --repeat 1").exit, 0);
  const Ran entry = run("hg-run library.hgm --entry double -i rank1.npy -o entry");
  EXPECT_EQ(entry.exit, 0) << entry.err;

  expect_refusal("hg-diff library.hgm library.hgm", 3, "entries half, double");
  EXPECT_EQ(run("hg-diff library.hgm library.hgm --entry half").exit, 0);
  expect_refusal("hg-diff library.hgm library.hgm --entry third", 2, "half, double");
  expect_refusal("hg-diff both.hgm both.hgm --entry half", 1, "neither file has entries");
  EXPECT_NE(run("hg-diff library.hgm both.hgm --entry half").out.find("- "), std::string::npos);
  expect_refusal("hg-generate library.hgm --ids 1", 3, "entries half, double");
  expect_refusal("hg-generate library.hgm --ids 1 --entry third", 2, "half, double");
  const json one = json::parse(run("hg-info library.hgm --entry double --json").out);
  EXPECT_EQ(one["inputs"][0]["name"], "x");
  for (const auto& [name, factor] : {std::pair("half", 0.5f), std::pair("double", 2.0f)}) {
    const Ran ran =
        run(std::string("hg-run library.hgm --function ") + name + " -i rank1.npy -o " + name);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    const Array y = *read_npy(folder_ / name / "y.npy");
    ASSERT_EQ(y.shape(), (Sizes{6}));
    for (int i = 0; i < 6; ++i) EXPECT_EQ(y.as<float>()[i], factor * static_cast<float>(i + 1));
  }
  std::ofstream(folder_ / "jobs.json")
      << R"([{"model": "library.hgm", "function": "half", "inputs": ["rank1.npy"], "output_dir": "out"},
             {"model": "library.hgm", "function": 3, "inputs": ["rank1.npy"], "output_dir": "out"}])";
  const Ran batch = run("hg-run --batch jobs.json");
  EXPECT_NE(batch.out.find("\"ok\""), std::string::npos) << batch.out;
  EXPECT_NE(batch.out.find("\\\"function\\\" is not a string"), std::string::npos) << batch.out;
  expect_refusal("hg-run library.hgm --function third -i rank1.npy -o out", 2, "half, double");
  expect_refusal("hg-run both.hgm --function half -i rank1.npy -o out", 2, "both.hgm");
}

TEST_F(Programs, InfoVerifiesTheWeights) {
  EXPECT_NE(run("hg-info wide.hgm --verify").out.find("all checksums match"), std::string::npos);
  std::string bytes = slurp(folder_ / "wide.hgm");
  bytes[bytes.size() - 100] ^= 1;
  std::ofstream(folder_ / "flipped.hgm", std::ios::binary) << bytes;
  EXPECT_EQ(run("hg-info flipped.hgm").exit, 0);
  expect_refusal("hg-info flipped.hgm --verify", 2, "net.first.weight");
}

TEST_F(Programs, InfoDraws) {
  const Ran ran = run("hg-info wide.hgm --dim n=2 --svg graph.svg --memory-svg memory.svg");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  const std::string graph = slurp(folder_ / "graph.svg");
  for (const char* part : {"<svg", ">linear<", "weight f32[8, 4]", ">../scores<", "</svg>"}) {
    EXPECT_NE(graph.find(part), std::string::npos) << part;
  }
  EXPECT_NE(slurp(folder_ / "memory.svg").find("lower bound"), std::string::npos);
}

// Names with characters that DOT interprets, nested modules, and a cycle of modules.
TEST_F(Programs, InfoWritesDot) {
  Graph odd;
  const Value x = odd.input("a \"quoted\" \\n name", f32, {"n", 4});
  const Value w = odd.parameter("net.first.weight", f32, {4, 4}, init::uniform(-1, 1, 1));
  Value y = x;
  for (const char* module : {"net.first", "net.second", "net.second"}) {
    odd.set_origin({module, "model.py:1"});
    y = odd.call("linear", {y, w});
  }
  odd.set_origin({});
  odd.output("<y>", odd.call("relu", {y}));
  save(std::move(odd), "odd.hgm");
  const Ran ran = run("hg-info odd.hgm --dot odd.dot");
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::string dot = slurp(folder_ / "odd.dot");
  EXPECT_EQ(run("hg-info odd.hgm --dot -").out, dot);
  for (const char* part :
       {"digraph \"odd.hgm\"", "a \\\"quoted\\\" \\\\n name\\l", "weight f32[4, 4]",
        "label=\"net.second\"", "label=\"net\"", "n0 -> n1;", "<y>"})
    EXPECT_NE(dot.find(part), std::string::npos) << part << " in\n" << dot;
  EXPECT_EQ(dot.find("label=\"net.first\""), std::string::npos);  // no box around a single node
  expect_refusal("hg-info odd.hgm --dot none/there.dot", 2, "cannot be written");
  if (std::system("dot -V > /dev/null 2>&1") != 0) GTEST_SKIP() << "Graphviz is not installed";
  const std::string folder = folder_.string();
  ASSERT_EQ(std::system(("dot -Tplain -o " + folder + "/odd.txt " + folder + "/odd.dot 2> " +
                         folder + "/dot.err")
                            .c_str()),
            0);
  EXPECT_EQ(slurp(folder_ / "dot.err"), "");
  const std::string plain = slurp(folder_ / "odd.txt");
  const auto count_of = [&](std::string_view begin) {
    int count = 0;
    for (size_t at = 0; (at = plain.find(begin, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(count_of("\nnode "), 6);  // the input, three products, relu, the output
  EXPECT_EQ(count_of("\nedge "), 5);
}

TEST_F(Programs, InfoListsOps) {
  const Ran ran = run("hg-info --ops");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_NE(ran.out.find("| add | primitive | `add("), std::string::npos) << ran.out;
}

TEST_F(Programs, InfoListsNeeds) {
  const Ran ran = run("hg-info --needs wide.hgm");
  EXPECT_EQ(ran.exit, 0);
  EXPECT_TRUE(ran.out.starts_with(str_cat("hologram ", HG_VERSION, "\ndtype f32\nop "))) << ran.out;
  for (const char* line : {"\nop linear\n", "\nop relu\n", "\nop mul\n", "\nkernel linear "})
    EXPECT_NE(ran.out.find(line), std::string::npos) << line;
  EXPECT_EQ(ran.out.find("\nop conv\n"), std::string::npos);
  expect_refusal("hg-info --needs wide.hgm --dim m=2", 4, "no size 'm'");
  expect_refusal("hg-info --needs none.hgm", 2, "none.hgm");
}

TEST_F(Programs, InfoRefusals) {
  expect_refusal("hg-info", 1, "MODEL");
  expect_refusal("hg-info text.hgm", 2, "text.hgm");
  expect_refusal("hg-info wide.hgm --dim m=2", 4, "no such symbol; it has n");
  expect_refusal("hg-info wide.hgm --memory-svg m.svg", 1, "--dim n=1");
  expect_refusal("hg-info wide.hgm --svg none/there.svg", 2, "cannot be written");
}

TEST_F(Programs, EmbedTakesNamesOfC) {
  for (const char* name : {"a", "_1", "integer"})
    EXPECT_EQ(run(str_cat("hg-embed wide.hgm -o wide.o --symbol ", name)).exit, 0) << name;
  for (const char* name : {"a-b", "1a", "int", "class", "xor_eq"})
    expect_refusal(str_cat("hg-embed wide.hgm -o wide.o --symbol ", name), 1,
                   str_cat("'", name, "' is not a valid name in C"));
  fs::copy(folder_ / "wide.hgm", folder_ / "double.hgm");
  EXPECT_EQ(run("hg-embed double.hgm -o double.o").exit, 0);
  EXPECT_NE(slurp(folder_ / "double.o").find("model_double_size"), std::string::npos);
}

TEST_F(Programs, QuantizeWritesASmallerModel) {
  const Ran ran = run("hg-quantize wide.hgm -o small.hgm --least 0 --bits 4");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_NE(ran.out.find("net.first.weight       128 B ->       48 B  error "), std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("1 weight: 128 B -> 48 B\n"), std::string::npos) << ran.out;
  EXPECT_EQ(run("hg-run small.hgm --input four.npy -o out").exit, 0);
  // The result replaces the model that was read.
  const json answer = json::parse(run("hg-quantize wide.hgm -o wide.hgm --least 0 --json").out);
  ASSERT_EQ(answer["weights"].size(), 1u);
  const json& weight = answer["weights"][0];
  EXPECT_EQ(weight["name"], "net.first.weight");
  EXPECT_EQ(weight["module"], "net.first");
  EXPECT_EQ(weight["elements"], 32);
  EXPECT_EQ(weight["bits"], 8);
  EXPECT_EQ(weight["bytes_before"], 128);
  EXPECT_EQ(weight["bytes"], 64);
  const json info = json::parse(run("hg-info wide.hgm --json").out);
  ASSERT_EQ(info["quantized"].size(), 1u);
  EXPECT_EQ(info["quantized"][0]["name"], weight["name"]);
  EXPECT_EQ(info["quantized"][0]["error"], weight["error"]);
  EXPECT_NE(run("hg-info wide.hgm").out.find("quantized   1 tensor, off by "), std::string::npos);
  EXPECT_NE(run("hg-quantize wide.hgm -o none.hgm").out.find("no weight is quantized"),
            std::string::npos);
}

TEST_F(Programs, QuantizeTakesSamples) {
  const json answer = json::parse(
      run("hg-quantize wide.hgm -o small.hgm --least 0 --json --input four.npy --batch 3").out);
  ASSERT_EQ(answer["layers"].size(), 1u);
  EXPECT_EQ(answer["layers"][0]["module"], "net.first");
  EXPECT_EQ(answer["layers"][0]["input"].size(), 2u);
  EXPECT_FALSE(answer["layers"][0].contains("stays"));
  EXPECT_EQ(run("hg-run small.hgm --input four.npy -o out").exit, 0);
  const Ran ran = run("hg-quantize wide.hgm -o all.hgm --least 0 --input four.npy --batch all");
  EXPECT_NE(ran.out.find(" of net.first: input "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("1 of 1 layer takes 8 bits\n"), std::string::npos) << ran.out;
  const json timed =
      json::parse(run("hg-quantize wide.hgm -o fast.hgm --input four.npy --fastest --threads 1 "
                      "--least 0 --json")
                      .out);
  ASSERT_EQ(timed["layers"].size(), 1u);
  EXPECT_GT(timed["layers"][0]["ms"], 0);
  EXPECT_GT(timed["layers"][0]["float_ms"], 0);
  EXPECT_LE(timed["ms"], timed["float_ms"]);
  EXPECT_EQ(timed["weights"].size(), timed["layers"][0].contains("stays") ? 0u : 1u);
  EXPECT_NE(
      run("hg-quantize wide.hgm -o fast.hgm --input four.npy --fastest").out.find("a run takes "),
      std::string::npos);
  expect_refusal("hg-quantize wide.hgm -o x.hgm --fastest", 1, "--fastest needs samples");
  for (const char* option : {"--threads", "--batch", "--percentile"})
    expect_refusal(str_cat("hg-quantize wide.hgm -o x.hgm ", option, " 2"), 1,
                   str_cat(option, " requires --input"));
  expect_refusal("hg-quantize wide.hgm -o x.hgm --input four.npy --fastest --max-error 1", 1,
                 "--fastest");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --input four.npy --fastest --rounding second_order",
                 4, "inputs stay floats");
  // Ranges cover all samples, however many runs they take.
  EXPECT_EQ(slurp(folder_ / "small.hgm"), slurp(folder_ / "all.hgm"));
  expect_refusal("hg-quantize wide.hgm -o x.hgm --input four.npy --batch 0", 1, "--batch");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --input four.npy --percentile 101", 1,
                 "--percentile");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --input four.npy --input four.npy", 4, "takes 1");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --input none.npy", 2, "none.npy");
  EXPECT_FALSE(fs::exists(folder_ / "x.hgm"));
}

TEST_F(Programs, QuantizeLimitsTheError) {
  const std::string samples = " --least 0 --input four.npy --batch 3";
  const Ran ran =
      run("hg-quantize wide.hgm -o mixed.hgm --max-error 0.02 --svg errors.svg" + samples);
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_NE(ran.out.find(" bits  "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("; of the model "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("error of the outputs: "), std::string::npos) << ran.out;
  EXPECT_EQ(slurp(folder_ / "errors.svg").substr(0, 4), "<svg");
  EXPECT_EQ(run("hg-run mixed.hgm --input four.npy -o out").exit, 0);
  const json answer =
      json::parse(run("hg-quantize wide.hgm -o mixed.hgm --max-error 0.02 --json" + samples).out);
  EXPECT_LE(answer["error"].get<double>(), 0.02);
  EXPECT_GE(answer["mixes"].size(), 2u);
  EXPECT_FALSE(answer.contains("layers"));
  EXPECT_NE(run("hg-quantize wide.hgm -o mixed.hgm --max-error 0 --metric accuracy" + samples)
                .out.find("accuracy is 0 % worse, at most 0 %"),
            std::string::npos);
  const json second = json::parse(
      run("hg-quantize wide.hgm -o mixed.hgm --bits 4 --rounding second_order --json" + samples)
          .out);
  EXPECT_LE(second["weights"][0]["output_error"].get<double>(),
            second["weights"][0]["nearest_output_error"].get<double>());
  expect_refusal("hg-quantize wide.hgm -o x.hgm --max-error 0.1", 1,
                 "--max-error needs samples: --input FILE.npy");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --rounding second_order", 1,
                 "--rounding second_order needs samples: --input FILE.npy");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --rounding up", 1, "--rounding");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --max-error 0.1 --bits 4" + samples, 1, "--bits");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --max-error -1" + samples, 4, "`max_error` is -1");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --max-error 1 --metric speed" + samples, 1,
                 "--metric speed: there is no metric 'speed'");
  expect_refusal(
      "hg-quantize wide.hgm -o x.hgm --max-error 1 --metric accuracy --target none.npy" + samples,
      2, "none.npy");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --metric accuracy" + samples, 1, "--max-error");
  expect_refusal("hg-quantize wide.hgm -o four.npy --max-error 1" + samples, 1, "four.npy");
  EXPECT_FALSE(fs::exists(folder_ / "x.hgm"));
}

TEST_F(Programs, QuantizeRefusals) {
  expect_refusal("hg-quantize", 1, "no MODEL is given; see hg-quantize --help");
  expect_refusal("hg-quantize wide.hgm", 1, "-o names no file to write; see hg-quantize --help");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --bits 5", 1, "--bits: 5 not in {8,4}");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --group -1", 1, "--group");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --least x", 1, "--least");
  expect_refusal("hg-quantize none.hgm -o x.hgm", 2, "none.hgm");
  expect_refusal("hg-quantize text.hgm -o x.hgm", 2, "text.hgm");
  expect_refusal("hg-quantize wide.hgm -o a.npy/x.hgm", 2, "a.npy/x.hgm");
  expect_refusal("hg-quantize wide.hgm -o x.hgm --keep net.third", 4,
                 "`keep` names 'net.third', which is neither a state nor a module of the model");
  Graph g;
  TensorData bad = *TensorData::allocate(f32, {8, 4});
  bad.tensor.as<float>()[9] = NAN;
  g.output("y", linear(g.input("x", f32, {"n", 4}), g.parameter("w", bad)));
  save(std::move(g), "bad.hgm");
  expect_refusal("hg-quantize bad.hgm -o x.hgm --least 0", 4, "element 9 of 'w' is nan");
  EXPECT_FALSE(fs::exists(folder_ / "x.hgm"));
}

TEST_F(Programs, HelpAndVersion) {
  for (const char* tool : {"hg-run", "hg-info", "hg-bench", "hg-quantize", "hg-generate"}) {
    const Ran help = run(std::string(tool) + " --help");
    EXPECT_EQ(help.exit, 0);
    EXPECT_NE(help.out.find("Examples:"), std::string::npos);
    const Ran version = run(std::string(tool) + " --version");
    EXPECT_EQ(version.exit, 0);
    EXPECT_EQ(version.out, std::string(tool) + " " HG_VERSION "\n");
  }
}

}  // namespace
}  // namespace hg::tools
