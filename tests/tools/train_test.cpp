// SPDX-License-Identifier: Apache-2.0
// hg-train as a program: its log, its files, its exit codes; interrupted, and on a full disk.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hg/hg.h"
#include "hg/npy.h"
#include "tests/support/must.h"
#include "tests/support/noise.h"

namespace hg::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// y = w x + b over x[n, 4], with data of known weights, in a folder of its own.
class Train : public testing::Test {
 protected:
  fs::path folder_;
  std::string err_;

  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("hg_train_" + std::to_string(getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Graph g;
    const Value x = g.input("x", f32, {"n", 4});
    const Value w = g.parameter("fc.weight", f32, {1, 4}, init::uniform(-1, 1, 1));
    const Value b = g.parameter("fc.bias", f32, {1});
    g.output("", g.call("linear", {x, w, b}));
    ASSERT_TRUE(Model::from_graph(std::move(g))->save(folder_ / "m.hgm").ok());
    const std::vector<float> xs = test::noise(50 * 4, 4);
    std::vector<float> ys;
    for (size_t i = 0; i < xs.size(); i += 4)
      ys.push_back(0.5f + xs[i] - 2 * xs[i + 1] + 3 * xs[i + 2] + 0.25f * xs[i + 3]);
    ASSERT_TRUE(write_npy(folder_ / "x.npy", view(xs, {50, 4})).ok());
    const std::vector<double> wide(xs.begin(), xs.end());
    ASSERT_TRUE(write_npy(folder_ / "x64.npy", view(wide, {50, 4})).ok());
    const std::vector<uint8_t> bytes(xs.size(), 7);
    ASSERT_TRUE(write_npy(folder_ / "x8.npy", view(bytes, {50, 4})).ok());
    ASSERT_TRUE(write_npy(folder_ / "y.npy", view(ys, {50})).ok());
    ys[7] = HUGE_VALF;
    ASSERT_TRUE(write_npy(folder_ / "inf.npy", view(ys, {50})).ok());
    ASSERT_TRUE(write_npy(folder_ / "short.npy", view(ys, {49})).ok());
  }
  void TearDown() override { fs::remove_all(folder_); }

  int run(const std::string& arguments, const std::string& prefix = "",
          const std::string& then = "") {
    const std::string line = "cd '" + folder_.string() + "' || exit 99; " + prefix +
                             " " HG_BIN "/hg-train " + arguments +
                             " >stdout.txt 2>stderr.txt </dev/null " + then;
    const int status = std::system(line.c_str());
    err_ = slurp(folder_ / "stderr.txt");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  json log() const { return json::parse(slurp(folder_ / "log.json")); }
  std::vector<float> weights(const char* file) const {
    const Model model = must(Model::load(folder_ / file));
    const Tensor t = model.graph().states()[0].data.tensor;
    return std::vector<float>(t.as<float>(), t.as<float>() + t.count());
  }
};

constexpr char kFiles[] = "m.hgm --input x.npy --target y.npy --loss mse ";

TEST_F(Train, FindsTheWeightsAndLogsEveryStep) {
  ASSERT_EQ(
      run(std::string(kFiles) + "--optimizer sgd --lr 0.1 --momentum 0.9 --epochs 60 --batch 16 "
                                "--out t.hgm --json log.json --svg curve.svg"),
      0)
      << err_;
  EXPECT_EQ(err_, "") << "progress is for terminals";
  const json log = this->log();
  ASSERT_EQ(log["steps"].size(), 60u * 4);
  EXPECT_EQ(log["steps"][5]["step"], 6);
  EXPECT_EQ(log["steps"][5]["epoch"], 2);
  EXPECT_GT(log["steps"][0]["loss"], 1.0);
  EXPECT_LT(log["steps"][239]["loss"], 1e-6);
  EXPECT_GT(log["plan"]["peak_bytes"], 0);
  EXPECT_EQ(log["plan"]["extra_flops"], 0);
  EXPECT_EQ(log["stopped"], "finished");
  const std::vector<float> w = weights("t.hgm");
  const float expected[] = {1, -2, 3, 0.25f};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(w[i], expected[i], 1e-3);
  EXPECT_NE(slurp(folder_ / "curve.svg").find("<polyline points=\"0,"), std::string::npos);
}

// The other entry has one weight in common with the trained one, and one of equal bits by chance.
TEST_F(Train, TrainsAnEntryAndWhatItShares) {
  const std::vector<float> w = {0.5f, 0.25f, -0.5f, 1}, b = {0};
  const auto graph = [&](const std::string& weight, const std::string& bias, double factor) {
    Graph g;
    const Value x = g.input("x", f32, {"n", 4});
    const Value first = g.parameter(weight, *TensorData::copy_of(view(w, {1, 4})));
    const Value second = g.parameter(bias, *TensorData::copy_of(view(b, {1})));
    g.output("", g.call("linear", {x * factor, first, second}));
    return g;
  };
  Model file;
  ASSERT_TRUE(file.add_entry("loss", graph("w", "b", 1)).ok());
  ASSERT_TRUE(file.add_entry("shared", graph("w", "other", 2)).ok());
  ASSERT_TRUE(file.add_entry("alone", graph("v", "b", 3)).ok());
  ASSERT_TRUE(file.save(folder_ / "e.hgm").ok());
  const std::string command =
      "e.hgm --input x.npy --target y.npy --lr 0.1 --epochs 2 --batch 16 --best best.hgm --out "
      "t.hgm ";
  EXPECT_EQ(run(command), 3);
  EXPECT_NE(err_.find("entries loss, shared, alone"), std::string::npos) << err_;
  EXPECT_EQ(run(command + "--entry none"), 2);
  EXPECT_EQ(run("m.hgm" + command.substr(5) + "--entry loss"), 2);
  ASSERT_EQ(run(command + "--entry loss"), 0) << err_;
  for (const char* path : {"t.hgm", "best.hgm"}) {
    const Model trained = must(Model::load(folder_ / path));
    EXPECT_EQ(trained.entries(), (std::vector<std::string>{"loss", "shared", "alone"}));
    const auto state = [&](const char* entry, const std::string& name) {
      const Result<Model> model = trained.entry(entry);
      for (const State& each : model->graph().states())
        if (each.name == name) return *Array::copy_of(each.data.tensor);
      return Array();
    };
    const auto is_same = [](const Array& a, const Array& b) {
      return a.bytes() == b.bytes() && std::memcmp(a.as<float>(), b.as<float>(), a.bytes()) == 0;
    };
    EXPECT_FALSE(is_same(state("loss", "w"), *Array::copy_of(view(w, {1, 4}))));
    EXPECT_TRUE(is_same(state("loss", "w"), state("shared", "w")));
    EXPECT_TRUE(is_same(state("loss", "b"), state("alone", "b")));
    EXPECT_TRUE(is_same(state("shared", "other"), *Array::copy_of(view(b, {1}))));
    EXPECT_TRUE(is_same(state("alone", "v"), *Array::copy_of(view(w, {1, 4}))));
  }
  ASSERT_EQ(run("t.hgm --input x.npy --target y.npy --epochs 1 --out u.hgm --entry loss"), 0)
      << err_;
}

TEST_F(Train, ExportsTheWeightsByTheirNames) {
  const std::string command = std::string(kFiles) + "--lr 0.1 --epochs 2 --out t.hgm ";
  ASSERT_EQ(run(command + "--export t.safetensors"), 0) << err_;
  const std::string bytes = slurp(folder_ / "t.safetensors");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  const json header = json::parse(bytes.substr(8, length));
  ASSERT_EQ(header["fc.weight"]["shape"], json::array({1, 4}));
  EXPECT_EQ(header["fc.weight"]["dtype"], "F32");
  EXPECT_EQ(header["fc.bias"]["shape"], json::array({1}));
  EXPECT_EQ(header.size(), 3u) << header;  // without the optimizer's state
  const uint64_t at = 8 + length + header["fc.weight"]["data_offsets"][0].get<uint64_t>();
  EXPECT_EQ(at % 8, 0u);
  std::vector<float> stored(4);
  std::memcpy(stored.data(), bytes.data() + at, 16);
  EXPECT_EQ(stored, weights("t.hgm"));
  EXPECT_EQ(run(command + "--export t.pt"), 1);
  EXPECT_NE(err_.find("must end in .npz or .safetensors"), std::string::npos) << err_;
  EXPECT_EQ(run(command + "--export none/t.npz"), 2);
  EXPECT_FALSE(fs::exists(folder_ / "t.pt"));
  if (run(command + "--export t.npz") != 0)
    EXPECT_NE(err_.find("this build has no .npz"), std::string::npos) << err_;
  else
    EXPECT_EQ(slurp(folder_ / "t.npz").substr(0, 2), "PK");
}

// --lora trains beside a base of floats or 4 bits, and resumes with the same bits.
TEST_F(Train, TrainsAnAdapterThatOtherToolsTake) {
  const auto shell = [&](const std::string& line) {
    return std::system(("cd '" + folder_.string() + "' && " + line + " >/dev/null").c_str());
  };
  ASSERT_EQ(shell(HG_BIN "/hg-quantize m.hgm -o four.hgm --bits 4 --least 0"), 0);
  const std::string rest = "--input x.npy --target y.npy --optimizer adamw --lr 0.05 --batch 16 ";
  for (const std::string base : {"m.hgm ", "four.hgm "}) {
    const std::string before = slurp(folder_ / base.substr(0, base.size() - 1));
    const std::string lora = base + rest + "--lora 'f?' --rank 2 --lora-alpha 4 ";
    ASSERT_EQ(run(lora + "--epochs 20 --out whole.hgm --json log.json"), 0) << err_;
    EXPECT_LT(log()["steps"].back()["loss"], 0.5 * log()["steps"][0]["loss"].get<double>());
    ASSERT_EQ(run(lora + "--epochs 7 --out part.hgm"), 0) << err_;
    ASSERT_EQ(run(base + rest + "--adapter part.hgm --epochs 20 --finish --out part.hgm"), 0)
        << err_;
    EXPECT_EQ(slurp(folder_ / "part.hgm"), slurp(folder_ / "whole.hgm"));
    EXPECT_EQ(slurp(folder_ / base.substr(0, base.size() - 1)), before);
    // y with the adapter, and with two of them.
    const auto results = [&](const std::string& adapters) {
      EXPECT_EQ(shell(HG_BIN "/hg-run " + base + "--input x.npy --output-dir y " + adapters), 0);
      const Array y = must(read_npy(folder_ / "y/output_0.npy"));
      return std::vector<float>(y.tensor().as<float>(), y.tensor().as<float>() + 50);
    };
    const std::vector<float> none = results(""), one = results("--adapter whole.hgm"),
                             two = results("--adapter whole.hgm --adapter part.hgm");
    for (size_t i = 0; i < none.size(); ++i)
      EXPECT_NEAR(two[i] - one[i], one[i] - none[i], 1e-5) << i;
    EXPECT_NE(none, one);
  }
  EXPECT_EQ(run(std::string(kFiles) + "--lora nothing --out t.hgm"), 4);
  EXPECT_NE(err_.find("no layer matches 'nothing'"), std::string::npos) << err_;
  EXPECT_EQ(run(std::string(kFiles) + "--lora fc --out m.hgm"), 1);
  EXPECT_EQ(run(std::string(kFiles) + "--lora fc --adapter whole.hgm --out t.hgm"), 1);
  EXPECT_EQ(run(std::string(kFiles) + "--lora fc --thaw '*' --out t.hgm"), 1);
  EXPECT_EQ(run(std::string(kFiles) + "--adapter m.hgm --out t.hgm"), 4);
  EXPECT_EQ(run(std::string(kFiles) + "--bits 4 --out t.hgm"), 1);
  ASSERT_EQ(run(std::string(kFiles) + "--quantize-aware --bits 4 --least 0 --out t.hgm"), 0)
      << err_;
  EXPECT_EQ(run(std::string(kFiles) + "--quantize-aware --out t.hgm"), 4);
  EXPECT_NE(err_.find("the model has no weight to quantize"), std::string::npos) << err_;
}

TEST_F(Train, LabelsThatAreAllIgnoredAreNamed) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  g.output("", g.call("linear", {x, g.parameter("w", f32, {3, 4}, init::uniform(-1, 1, 1))}));
  ASSERT_TRUE(Model::from_graph(std::move(g))->save(folder_ / "classes.hgm").ok());
  std::vector<int64_t> labels(50, -100);
  ASSERT_TRUE(write_npy(folder_ / "ignored.npy", view(labels, {50})).ok());
  const std::string command =
      "classes.hgm --input x.npy --target ignored.npy --loss cross_entropy --out t.hgm ";
  EXPECT_EQ(run(command + "--batch 50"), 4);
  EXPECT_NE(err_.find("the loss of batch 1 is nan: all 50 labels of the target 'target' are -100, "
                      "which ignore_index ignores"),
            std::string::npos)
      << err_;
  EXPECT_EQ(run(command + "--batch 50 --reduction sum"), 0) << err_;
  labels.assign(50, 2);
  ASSERT_TRUE(write_npy(folder_ / "ignored.npy", view(labels, {50})).ok());
  EXPECT_EQ(run(command + "--batch 50 --class-weights 1,1,0"), 4);
  EXPECT_NE(err_.find("class weight 0"), std::string::npos) << err_;
}

TEST_F(Train, TwiceFiveEpochsAreTenAndAnInterruptedRunIsFinished) {
  const std::string options = "--input x.npy --target y.npy --lr 0.05 --batch 16 --seed 4 ";
  ASSERT_EQ(run("m.hgm " + options + "--epochs 10 --out ten.hgm"), 0) << err_;
  ASSERT_EQ(run("m.hgm " + options + "--epochs 5 --out five.hgm"), 0) << err_;
  ASSERT_EQ(run("five.hgm " + options + "--epochs 5 --out both.hgm"), 0) << err_;
  EXPECT_EQ(weights("ten.hgm"), weights("both.hgm"));
  ASSERT_EQ(run("five.hgm " + options + "--epochs 10 --finish --out finished.hgm"), 0) << err_;
  EXPECT_EQ(slurp(folder_ / "ten.hgm"), slurp(folder_ / "finished.hgm"));
}

TEST_F(Train, OptionsReachTheTrainer) {
  const std::string one = std::string(kFiles) + "--optimizer sgd --lr 0.1 --batch 50 --no-shuffle ";
  const auto losses_with = [&](const std::string& more) {
    EXPECT_EQ(run(one + "--epochs 2 --out t.hgm --json log.json " + more), 0) << more << err_;
    const json steps = log()["steps"];
    return std::pair(steps[0]["loss"].get<double>(), steps[1]["loss"].get<double>());
  };
  const auto [first, second] = losses_with("");
  // The sum of w^2 and of 0.5 |w| over the first weights.
  double squares = 0, sum = 0;
  for (const float w : weights("m.hgm")) {
    squares += double{w} * w;
    sum += std::abs(w);
  }
  EXPECT_NEAR(losses_with("--l2 fc.weight=1 --l1 '*.weight=0.5'").first,
              first + squares + 0.5 * sum, 1e-5);
  EXPECT_NEAR(losses_with("--loss mse*2 --target y.npy").first, 3 * first, 1e-5) << "two losses";
  EXPECT_NEAR(losses_with("--reduction sum").first, 50 * first, 1e-3) << "of 50 samples";
  EXPECT_EQ(losses_with("--reduction mean").first, first);
  EXPECT_NE(losses_with("--lr-for 'fc.weight=0.01'").second, second);
  EXPECT_NE(losses_with("--weight-decay-for 'fc.weight=0.5'").second, second);
  const auto [half, half_later] = losses_with("--precision bf16");
  EXPECT_NE(half, first);
  EXPECT_NEAR(half, first, 0.02 * first);
  EXPECT_NEAR(half_later, second, 0.02 * second);
  // A rule for rates does not train parameters that --freeze froze.
  const std::vector<float> before = weights("m.hgm");
  EXPECT_NE(losses_with("--freeze fc.weight --lr-for 'fc.*=0.2'").second, first)
      << "the bias moves";
  EXPECT_EQ(weights("t.hgm"), before);
  // The last option that matches decides.
  losses_with("--thaw '*.weight' --freeze 'fc.*' --thaw fc.bias");
  EXPECT_EQ(weights("t.hgm"), before);
  losses_with("--freeze '*' --thaw '*.weight'");
  EXPECT_NE(weights("t.hgm"), before);
}

TEST_F(Train, ValidatesAndKeepsTheBest) {
  ASSERT_EQ(run("m.hgm --input x.npy --target y.npy --validation-split 0.2 --metric mean_error "
                "--metric output_0=mean_error --loss output_0=mse "
                "--lr 0.5 --batch 8 --epochs 500 --patience 3 --best best.hgm --out t.hgm "
                "--json log.json"),
            0)
      << err_;
  const json log = this->log();
  EXPECT_LT(log["steps"].size(), 500u * 5) << "40 samples in batches of 8, ended early";
  EXPECT_TRUE(fs::exists(folder_ / "best.hgm"));
  const json last = log["epochs"].back();
  const double loss = last["validation_loss"], error = last["metrics"]["mean_error"];
  char line[200];
  std::snprintf(line, sizeof line,
                "validation: loss %.6g, mean_error %.6g, output_0=mean_error %.6g\n", loss, error,
                error);
  EXPECT_NE(slurp(folder_ / "stdout.txt").find(line), std::string::npos)
      << slurp(folder_ / "stdout.txt") << line;
  EXPECT_NE(slurp(folder_ / "best.hgm"), slurp(folder_ / "t.hgm"));
}

// The training would take far too long; it is interrupted once its first checkpoint exists.
TEST_F(Train, CtrlCSavesWhatCanBeFinished) {
  const std::string options = "--input x.npy --target y.npy --lr 0.001 --batch 16 --seed 1 ";
  const std::string interrupt =
      "& while ! [ -e t.hgm ]; do sleep 0.01; done; kill -INT $!; wait $!";
  ASSERT_EQ(
      run("m.hgm " + options + "--epochs 100000000 --save-every 3 --out t.hgm --json log.json", "",
          interrupt),
      130)
      << err_;
  EXPECT_EQ(log()["stopped"], "interrupted");
  const int64_t steps = static_cast<int64_t>(log()["steps"].size());
  EXPECT_GE(steps, 3 * 4);
  const std::string epochs = "--epochs " + std::to_string(steps / 4 + 2);
  ASSERT_EQ(run("m.hgm " + options + epochs + " --out whole.hgm"), 0) << err_;
  ASSERT_EQ(run("t.hgm " + options + epochs + " --finish --out t.hgm"), 0) << err_;
  EXPECT_EQ(slurp(folder_ / "whole.hgm"), slurp(folder_ / "t.hgm"));
}

TEST_F(Train, AFullDiskKeepsTheOldCheckpoint) {
  ASSERT_EQ(run(std::string(kFiles) + "--epochs 1 --out t.hgm"), 0) << err_;
  const std::string before = slurp(folder_ / "t.hgm");
  // A limit of one block imitates a full disk.
  EXPECT_EQ(run(std::string(kFiles) + "--epochs 2 --out t.hgm", "trap '' XFSZ && ulimit -f 1 &&"),
            2);
  EXPECT_NE(err_.find("cannot write"), std::string::npos) << err_;
  EXPECT_EQ(slurp(folder_ / "t.hgm"), before);
}

TEST_F(Train, ALossThatIsNotFiniteStops) {
  EXPECT_EQ(run("m.hgm --input x.npy --target inf.npy --batch 5 --no-shuffle --out t.hgm "
                "--json log.json"),
            4);
  EXPECT_NE(err_.find("the loss of batch 2 is inf: the data of 'target' is not finite"),
            std::string::npos)
      << err_;
  EXPECT_EQ(log()["steps"].size(), 1u);
  EXPECT_TRUE(fs::exists(folder_ / "t.hgm"));
  EXPECT_EQ(run("m.hgm --input x.npy --target y.npy --batch 5 --schedule exponential --gamma 1e300 "
                "--out t.hgm --json log.json"),
            4);
  EXPECT_NE(err_.find("the learning rate of this step would be 1e+297"), std::string::npos) << err_;
  EXPECT_EQ(log()["steps"].size(), 1u);
}

// The numbers of nodes and edges of a graph differ: every step uses all of both.
TEST_F(Train, FilesOfDifferentLengthsGoAsTheyAre) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4}), edges = g.input("edges", i64, {"e"});
  const Value w = g.parameter("fc.weight", f32, {1, 4}, init::uniform(-1, 1, 1));
  const Value b = g.parameter("fc.bias", f32, {1});
  const Value near = g.call("index_select", {x, edges}, {{"dim", 0}});
  const Value mixed = g.call("index_reduce", {x, edges, near}, {{"dim", 0}, {"reduce", "add"}});
  g.output("", g.call("linear", {mixed, w, b}));
  ASSERT_TRUE(Model::from_graph(std::move(g))->save(folder_ / "graph.hgm").ok());
  const std::vector<int64_t> nodes = {3, 3, 7, 11, 20, 49, 0};
  ASSERT_TRUE(write_npy(folder_ / "edges.npy", view(nodes, {7})).ok());
  const std::string options =
      "graph.hgm --input x.npy --input edges.npy --target y.npy --out t.hgm "
      "--json log.json --optimizer sgd --lr 0.1 --momentum 0.9 ";
  EXPECT_EQ(run(options), 4);
  EXPECT_NE(err_.find("give --batch all"), std::string::npos) << err_;
  EXPECT_EQ(run(options + "--batch all --validation-split 0.1"), 1);
  EXPECT_EQ(run(options + "--batch some"), 1);
  EXPECT_NE(err_.find("some is neither a number of samples nor 'all'"), std::string::npos) << err_;
  ASSERT_EQ(run(options + "--batch all --epochs 60 --validation-input x.npy --validation-input "
                          "edges.npy --validation-target y.npy"),
            0)
      << err_;
  const json steps = log()["steps"];
  ASSERT_EQ(steps.size(), 60u);
  EXPECT_LT(steps[59]["loss"], 0.2 * steps[0]["loss"].get<double>());
  EXPECT_NEAR(log()["epochs"][58]["validation_loss"], steps[59]["loss"], 1e-5)
      << "what the next step begins with";
}

TEST_F(Train, NumbersOfNumpyAreTakenAndTheNoteSaysSo) {
  const std::string rest = " --target y.npy --epochs 3 --batch 16 --lr 0.05 ";
  ASSERT_EQ(run("m.hgm --input x.npy" + rest + "--out one.hgm"), 0) << err_;
  EXPECT_EQ(slurp(folder_ / "stdout.txt").find("note"), std::string::npos);
  ASSERT_EQ(run("m.hgm --input x64.npy" + rest +
                "--validation-input x64.npy --validation-target "
                "y.npy --out two.hgm --json log.json"),
            0)
      << err_;
  EXPECT_EQ(weights("one.hgm"), weights("two.hgm"));
  EXPECT_EQ(log()["notes"], json::array({"input 'x': f64 is taken as f32"}));
  const std::string said = slurp(folder_ / "stdout.txt");
  EXPECT_EQ(said.find("note: input 'x': f64 is taken as f32"), 0u) << said;
}

TEST_F(Train, AnEarlyStopSaysSoAndWhichEpochWasBest) {
  ASSERT_EQ(run(std::string(kFiles) + "--optimizer sgd --lr 2.5 --epochs 9 --batch 50 "
                                      "--patience 2 --out t.hgm --best b.hgm --json log.json"),
            0)
      << err_;
  const std::string said = slurp(folder_ / "stdout.txt");
  EXPECT_NE(said.find("stopped early: no lower loss for 2 epochs"), std::string::npos) << said;
  EXPECT_NE(said.find("b.hgm: loss "), std::string::npos) << said;
  EXPECT_NE(said.find(", of epoch 1\n"), std::string::npos) << said;
  EXPECT_EQ(log()["stopped"], "early");
  // There is nothing to finish.
  ASSERT_EQ(run("t.hgm --input x.npy --target y.npy --optimizer sgd --lr 2.5 --epochs 9 --batch 50 "
                "--patience 2 --finish --out finished.hgm"),
            0)
      << err_;
  EXPECT_EQ(slurp(folder_ / "t.hgm"), slurp(folder_ / "finished.hgm"));
  // The model knows its lowest loss.
  ASSERT_EQ(run("t.hgm --input x.npy --target y.npy --optimizer sgd --lr 2.5 --epochs 1 --batch 50 "
                "--out more.hgm --best c.hgm"),
            0)
      << err_;
  EXPECT_NE(slurp(folder_ / "stdout.txt").find("c.hgm: not written, since no epoch has a lower"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "c.hgm"));
}

TEST_F(Train, RefusesWithOneSentence) {
  const auto refused = [&](const std::string& arguments, int exit, const std::string& part) {
    EXPECT_EQ(run(arguments), exit) << arguments;
    EXPECT_NE(err_.find(part), std::string::npos) << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_FALSE(fs::exists(folder_ / "t.hgm"));
  };
  const std::string out = " --out t.hgm";
  refused("", 1, "no MODEL is given");
  refused(kFiles, 1, "no --out is given");
  refused("m.hgm --input x.npy" + out, 1, "--loss mse has no --target FILE.npy");
  refused(kFiles + std::string("--metric accuracy") + out, 1, "give --validation-split or");
  refused(kFiles + std::string("--validation-split 0.5 --metric other=accuracy") + out, 1,
          "no --loss compares that output with a target");
  refused(kFiles + std::string("--optimizer adagrad") + out, 1, "there is no optimizer 'adagrad'");
  refused(kFiles + std::string("--reduction max") + out, 1, "max is not one of mean, sum");
  refused(kFiles + std::string("--memory-limit lots") + out, 1, "lots is not a size");
  refused(kFiles + std::string("--l2 0.1") + out, 1, "expected PATTERN=NUMBER");
  refused("none.hgm --input x.npy --target y.npy" + out, 2, "none.hgm");
  refused("m.hgm --input x.npy --target none.npy" + out, 2, "none.npy");
  refused("m.hgm --input x.npy --target short.npy" + out, 4, "50 samples, another 49");
  refused("m.hgm --input x.npy --target x.npy" + out, 4, "the output");
  refused(kFiles + std::string("--freeze 'head.*'") + out, 4, "no parameter matches");
  refused("m.hgm --input x.npy --target y.npy --loss hinge" + out, 1, "there is no loss 'hinge'");
  refused("m.hgm --input x8.npy --target y.npy" + out, 4, "takes f32[n, 4], the file has u8");
  refused(kFiles + std::string("--epochs 0") + out, 1, "0 is not a whole number from 1");
  refused(kFiles + std::string("--epochs 99999999999999999999") + out, 1, "is not a whole number");
  refused(kFiles + std::string("--memory-limit 1e30G") + out, 1, "1e30G is not a size");
  refused(kFiles + std::string("--lr-for 'fc.*=1e999'") + out, 1, "1e999");
  refused(kFiles + std::string("--warmup -3") + out, 4, "the schedule's warmup is -3");
  // This fails before any computation, which might take hours.
  refused(kFiles + std::string("--validation-input x.npy --validation-target x.npy") + out, 4,
          "input 'target' takes f32[n, 1], not data of f32[50, 4]");
  for (const char* option : {"--best", "--json", "--svg"})
    refused(kFiles + std::string(option) + " none/file" + out, 2, "there is no directory 'none'");
  refused(kFiles + std::string("--epochs 1000000000 --out none/t.hgm"), 2,
          "there is no directory 'none'");
}

}  // namespace
}  // namespace hg::tools
