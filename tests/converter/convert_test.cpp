// SPDX-License-Identifier: Apache-2.0
// hg-convert as a process: its messages, its exit code, and that it writes nothing unless the exit
// code is 0. Without a Python installation with torch the tests are skipped.
#include <algorithm>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/converter/convert_process.h"

namespace hg::convert_test {
namespace {

TEST_F(ConvertTest, FilesThatAreNoModel) {
  const std::pair<std::string, std::string> kFiles[] = {
      {"", "is empty"},
      {"<!DOCTYPE html><html>", "HTML page"},
      {"  <HTML>", "HTML page"},
      {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
      {std::string("\x1f\x8b\x08\0", 4), "gunzip"},
      {std::string("\x08\x07\x12\x07pytorch", 11), "ONNX"},
      {std::string("\x10\0\0\0\0\0\0\0{\"a\":{}}        ", 24), "safetensors"},
      {"HGMODEL\n and more", "already a .hgm file"},
      {std::string("\x93NUMPY\x01\0", 8), "NumPy array"},
      {std::string("PK\x03\x04 and no more", 16), "cut off"},
      {"hello\n", "text file"},
      {std::string("\0\1\2\3", 4), "neither a TorchScript archive"},
  };
  for (const auto& [bytes, words] : kFiles) {
    fs::path file = fs::temp_directory_path() / ("hg_no_model_" + std::to_string(getpid()));
    write(file, bytes);
    Outcome outcome = run_shell(tool() + "'" + file.string() + "' -o '" + output().string() + "'");
    EXPECT_EQ(outcome.exit, 2) << words << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find(words), std::string::npos) << outcome.text;
    EXPECT_FALSE(fs::exists(output()));
    fs::remove(file);
  }
  Outcome outcome = run_shell(tool() + "/no/such/file.pt");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_NE(outcome.text.find("no such file"), std::string::npos) << outcome.text;
  outcome = run_shell(tool() + "'" + folder_.string() + "'");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_NE(outcome.text.find("is a directory"), std::string::npos) << outcome.text;
}

TEST_F(ConvertTest, AnOutputThatCannotBeWrittenEndsTheConversionFirst) {
  if (!has_models()) GTEST_SKIP();
  // These options alone end it with 3.
  const std::string unsupported = "newer.pt --input 'f32[2]' --input 'f32[2]' -o ";
  for (const std::string sandbox : {"", " --sandbox"}) {
    expect(unsupported + "/no/such/folder/out.hgm" + sandbox, 2,
           {"cannot write '/no/such/folder/out.hgm': No such file or directory"});
    expect(unsupported + "'" + folder_.string() + "'" + sandbox, 1, {"is a directory"});
  }
}

TEST_F(ConvertTest, NumbersOfATraceKeepTheDtypeOfFloats) {
  if (!has_models()) GTEST_SKIP();
  expect("numbers.pt --input 'i64[n]'", 0, {"output_0: f32[n]", "output_1: f32[n]"});
}

TEST_F(ConvertTest, TorchvisionIsNotNeeded) {
  if (!has_models()) GTEST_SKIP();
  expect("nms.pt --input 'f32[n,4]' --input 'f32[n]'", 0,
         {"output_0: i64[", "1 of 1 outputs equal"});
  expect("roi_align.pt --input 'f32[1,2,h,6]' --input 'f32[n,5]=0..0.5'", 0,
         {"output_0: f32[n, 2, 2, 2]", "1 of 1 outputs equal"});
}

TEST_F(ConvertTest, MethodsBecomeEntriesOfOneFile) {
  if (!has_models()) GTEST_SKIP();
  const std::string methods = "codec.pt --method encode --method decode --method reset ";
  const std::string options =
      "--input 'x:f32[n,64]' --input 'code=decode/z:f32[n,64]' --constant scale=0.5 --check-size "
      "n=1,3 ";
  const std::string file = (folder_ / "codec.hgm").string();
  const Outcome made =
      run_shell("cd '" + kModels.string() + "' && " + tool() + methods + options + "-o " + file);
  ASSERT_EQ(made.exit, 0) << made.text;
  for (const char* line : {"input encode/x: f32[n, 64]", "input decode/code: f32[n, 64]",
                           "4096 parameters", "checked encode with n=3", "checked reset with"})
    EXPECT_NE(made.text.find(line), std::string::npos) << line << "\n" << made.text;
  const hg::Result<hg::Model> model = hg::Model::load(file);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->entries(), (std::vector<std::string>{"encode", "decode", "reset"}));
  EXPECT_LT(fs::file_size(file), 64u * 64 * 4 + 9000) << "the weights of both are written once";
  fs::remove(file);
  expect("codec.pt --method decode --input 'z:f32[n,64]'", 0, {"input z: f32[n, 64]"});
  expect("codec.pt --method reset", 0, {"it has no outputs"});
  expect(methods + options + "--sandbox", 0, {"input decode/code"});
  expect(methods + options + "--dim n=2", 1, {"--check-size n: no --input has a size n"});
  expect(methods + "--input 'x:f32[n,64]' --input 'z:f32[m,64]' --constant scale=1 --dim m=2", 0,
         {"input encode/x: f32[n, 64]", "input decode/z: f32[2, 64]"});
  expect(methods + options + "--dim q=2", 1, {"--dim q: no --input has a size q"});
  expect(methods + "--input 'f32[n,64]'", 1, {"with several entries an input needs a name"});
  expect(methods + "--input 'q:f32[n,64]'", 1,
         {"no entry has an input 'q'; `encode` takes (x: Tensor, scale: float); `decode` takes"});
  expect(methods + "--input 'encode/x:f32[n,64]' --constant scale=1", 0, {"decode/z: f32[n, 64]"});
  expect("codec.pt --method encode --method encode", 1, {"--method encode is given twice"});
  expect("codec.pt --method encode --method fly", 1, {"no method `fly`; it has "});
}

TEST_F(ConvertTest, LoopsBecomeStates) {
  if (!has_models()) GTEST_SKIP();
  const std::string decode = "codec.pt --method decode --input 'z:f32[2,64]' ";
  expect(decode + "--loop output_0=z", 0, {"1 of 1 outputs equal"});
  expect(decode + "--loop 'output_{i}=z'", 1, {"{i} stands on both sides or on none"});
  expect(decode + "--loop output_0", 1, {"write it like cache_out=cache_in"});
  expect(decode + "--loop output_0=x", 1, {"the output 'output_0' has no input 'x'"});
  expect(decode + "--loop 'y{i}=x{i}'", 1, {"there is no input 'x{i}'; the inputs are z"});
  expect(decode + "--loop y=z", 1, {"the input 'z' has no output 'y'"});
  expect(decode + "--capacity 3", 1, {"--capacity needs --loop"});
  expect(decode + "--loop auto", 1, {"--loop auto: no output has the name of an input"});
  expect(decode + "--loop auto --loop output_0=z", 0, {"1 of 1 outputs equal"});
  expect(decode + "--loop y=z --loop output_0=z", 1, {"there is no output 'y'"});
  expect("codec.pt --method decode --input 'z:f32[n,64]' --loop output_0=z", 1,
         {"a state has a fixed size, but dim 0 of 'z' is n; give it with --dim"});
  expect("codec.pt --method decode --input 'z:f32[n,64]' --loop output_0=z --dim n=2", 0,
         {"1 of 1 outputs equal"});
  expect("net.pt --input 'x:f32[2,4]' --loop output_0=x", 1,
         {"the output 'output_0' is not the input 'x' with something appended along dim 1"});
}

TEST_F(ConvertTest, FilesBecomeEntriesOfOneFile) {
  if (!has_models()) GTEST_SKIP();
  const std::string files = "--entry net=net.pt --entry script=scripted.pt ";
  const std::string options = "--input 'x:f32[n,4]' --check-size n=1,3 ";
  const std::string file = (folder_ / "nets.hgm").string();
  const Outcome made =
      run_shell("cd '" + kModels.string() + "' && " + tool() + files + options + "-o " + file);
  ASSERT_EQ(made.exit, 0) << made.text;
  for (const char* line : {"input net/x: f32[n, 4]", "input script/x: f32[n, 4]", "67 parameters",
                           "checked net with n=3", "checked script with n=3"})
    EXPECT_NE(made.text.find(line), std::string::npos) << line << "\n" << made.text;
  const hg::Result<hg::Model> model = hg::Model::load(file);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->entries(), (std::vector<std::string>{"net", "script"}));
  EXPECT_EQ(model->info().source_hash.size(), 129u) << model->info().source_hash;
  fs::remove(file);
  expect("--entry only=net.pt --input 'only/x:f32[n,4]'", 0, {"input only/x: f32[n, 4]"});
  expect(files + options + "--sandbox", 0, {"input script/x"});
  expect(files + "--input 'net/x:f32[n,4]' --input 'script/x:f32[m,4]' --dim m=2", 0,
         {"input script/x: f32[2, 4]"});
  expect(files + options + "--dim q=2", 1, {"--dim q: no --input has a size q"});
  expect(files + "--input 'q:f32[n,4]'", 1,
         {"no entry has an input 'q'; `net` takes (x: Tensor); `script` takes (x: Tensor)"});
  expect("--entry a=net.pt --entry a=scripted.pt", 1, {"--entry a is given twice"});
  expect("--entry net.pt", 1, {"--entry 'net.pt': write it like encode=encoder.pt2"});
  expect("--entry a=-", 1, {"entries are files"});
  expect("net.pt --entry a=scripted.pt", 1, {"either the model net.pt or files with --entry"});
  expect(files + "--method forward", 1, {"--method chooses methods of one module"});
  expect("--entry a=net.pt --entry b=no/such.pt", 2, {"no/such.pt: "});
  expect("--entry a=net.pt --entry b=unsupported.pt --input 'a/x:f32[2,4]' --input 'b/x:f32[2,2]'",
         3, {"unsupported.pt: ", "`b`"});
  const Outcome nowhere = run_shell("cd '" + kModels.string() + "' && " + tool() + files);
  EXPECT_EQ(nowhere.exit, 1);
  EXPECT_NE(nowhere.text.find("--entry needs -o"), std::string::npos) << nowhere.text;
}

TEST_F(ConvertTest, MethodsDoNotFreezeWhatOthersSet) {
  if (!has_models()) GTEST_SKIP();
  const std::string input = " --input 'x:f32[2]'";
  expect("frozen.pt --method add --method scaled" + input, 0, {"checked add with"});
  const std::vector<std::vector<std::string>> kPairs = {{"add", "read_calls", "calls"},
                                                        {"set_scale", "scaled", "scale"},
                                                        {"note_shape", "read_shapes", "shapes"},
                                                        {"keep", "read_cache", "cache"},
                                                        {"write_list", "read_list", "tensors"}};
  for (const std::vector<std::string>& pair : kPairs)
    expect(
        "frozen.pt --method " + pair[0] + " --method " + pair[1] + input, 3,
        {"`" + pair[1] + "` reads the attribute '" + pair[2] + "', which `" + pair[0] + "` sets"});
}

// Every op has one line with its signature and its text, and the CPU runs it.
TEST_F(ConvertTest, ListsEveryOp) {
  const Outcome text = run_shell(tool() + "--list-ops");
  const Outcome json = run_shell(tool() + "--list-ops --json -");
  EXPECT_EQ(text.exit, 0);
  EXPECT_EQ(json.exit, 0);
  size_t lines = 0;
  for (size_t at = 0; (at = text.text.find("\n| `", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, hg::Registry::built_in().ops().size());
  for (const hg::Op* op : hg::Registry::built_in().ops()) {
    const std::string begin = "\n| `" + std::string(op->def.signature) + "` | ";
    const size_t at = text.text.find(begin);
    ASSERT_NE(at, std::string::npos) << op->name();
    const size_t cpu = text.text.find(" | ", at + begin.size());
    EXPECT_NE(text.text[cpu + 3], ' ') << op->name() << " does not run on the CPU";
    EXPECT_NE(json.text.find("\"op\": \"" + std::string(op->name()) + "\""), std::string::npos)
        << op->name();
  }
  EXPECT_NE(text.text.find("| `logit(x, eps: float?) -> y` | log(x / (1 - x)). If eps is given"),
            std::string::npos);
  EXPECT_NE(json.text.find("\"text\": \"exp(x) / sum(exp(x)) along dim.\""), std::string::npos);
  for (const char* torchscript : {"aten::add", "aten::conv2d", "complex::abs"}) {
    EXPECT_NE(text.text.find("\n- `" + std::string(torchscript) + "`\n"), std::string::npos);
    EXPECT_NE(json.text.find("\"" + std::string(torchscript) + "\""), std::string::npos);
  }
}

TEST_F(ConvertTest, CommandLine) {
  EXPECT_EQ(run_shell(tool() + "--help").exit, 0);
  EXPECT_NE(run_shell(tool() + "--help").text.find("Examples:"), std::string::npos);
  EXPECT_EQ(run_shell(tool() + "--version").exit, 0);
  EXPECT_EQ(run_shell(tool()).exit, 1);
  EXPECT_EQ(run_shell(tool() + "--bogus").exit, 1);
  const std::pair<std::string, std::string> kSpecs[] = {
      {"x:f32", "no shape in brackets"},
      {"x:f33[2]", "did you mean 'f32'"},
      {"x:[2]", "no dtype"},
      {":f32[2]", "no name"},
      {"x:f32[2", "not closed"},
      {"x:f32[-1]", "negative"},
      {"x:f32[n!]", "neither a number"},
      {"x:f32[2]=5", "not a range"},
      {"x:f32[2]=5..1", "exceeds"},
      {"x:f32[2]=nan..nan", "finite numbers"},
      {"x:f32[2]=0..inf", "finite numbers"},
  };
  for (const auto& [spec, words] : kSpecs) {
    Outcome outcome = run_shell(tool() + "model.pt --input '" + spec + "'");
    EXPECT_EQ(outcome.exit, 1) << spec << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find(words), std::string::npos) << spec << "\n" << outcome.text;
  }
}

TEST_F(ConvertTest, KeepsTheFilesThatItReads) {
  const fs::path model = folder_ / "model.pt";
  write(model, "a model");
  write(folder_ / "other.onnx", "another model");
  fs::create_directory(folder_ / "deep");
  fs::create_symlink("model.pt", folder_ / "symbolic.pt");
  fs::create_hard_link(model, folder_ / "hard.pt");
  const std::string in_folder = "cd '" + folder_.string() + "' && " + tool();
  for (const std::string alias :
       {"model.pt", "./model.pt", "deep/../model.pt", "symbolic.pt", "hard.pt"})
    for (const std::string& arguments :
         {"model.pt -o " + alias, alias + " -o model.pt", "model.pt -o new.hgm --json " + alias,
          "--entry a=other.onnx --entry b=model.pt -o " + alias,
          "--entry a=model.pt --entry b=other.onnx -o new.hgm --json " + alias}) {
      const Outcome outcome = run_shell(in_folder + arguments);
      EXPECT_EQ(outcome.exit, 1) << arguments << "\n" << outcome.text;
      EXPECT_NE(outcome.text.find("would replace '"), std::string::npos) << outcome.text;
      EXPECT_EQ(read(model), "a model") << arguments;
    }
  EXPECT_EQ(run_shell(in_folder + "model.pt -o new.hgm --json deep/../new.hgm").exit, 1);
  // Jobs write model.hgm.
  fs::rename(model, folder_ / "model.hgm");
  write(
      folder_ / "jobs.json",
      R"([{"model": "model.hgm", "output_dir": "."}, {"model": "model.hgm", "output_dir": "deep/.."},
            {"entries": {"a": "model.hgm"}, "output_dir": ""},
            {"model": "model.hgm", "output": "deep"}])");
  const Outcome jobs = run_shell(in_folder + "--batch jobs.json");
  EXPECT_EQ(std::count(jobs.text.begin(), jobs.text.end(), '\n'), 4) << jobs.text;
  EXPECT_NE(jobs.text.find(R"(a job has no \"output\"; it has model, entries)"), std::string::npos)
      << jobs.text;
  for (size_t at = 0, k = 0; k < 3; ++k, ++at) {
    at = jobs.text.find("would replace 'model.hgm'", at);
    ASSERT_NE(at, std::string::npos) << jobs.text;
  }
  EXPECT_EQ(read(folder_ / "model.hgm"), "a model");
}

TEST_F(ConvertTest, KeepsConstants) {
  write(folder_ / "model.pt", "a model");
  write(folder_ / "sizes.npy", "numbers");
  const std::string convert =
      "cd '" + folder_.string() + "' && " + tool() + "model.pt --constant sizes=sizes.npy ";
  for (const std::string arguments : {"-o sizes.npy", "-o ./sizes.npy", "--json sizes.npy"}) {
    const Outcome outcome = run_shell(convert + arguments);
    EXPECT_EQ(outcome.exit, 1) << arguments << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find("which --constant sizes names"), std::string::npos) << outcome.text;
    EXPECT_EQ(read(folder_ / "sizes.npy"), "numbers") << arguments;
  }
}

TEST_F(ConvertTest, OtherFilesOfPyTorch) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  expect("state_dict.pt", 2, {"state_dict", "load_state_dict"});
  expect("checkpoint.pt", 2, {"state_dict"});
  expect("old_state_dict.pt", 2, {"state_dict"});
  expect("pickled.pt", 2, {"pickled nn.Module", "torch.jit.trace"});
  expect("truncated.pt", 2, {"cut off"});
  if (fs::exists(kModels / "exported.pt2")) expect("exported.pt2", 0, {"f32[2, 3]"});
}

TEST_F(ConvertTest, Converts) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  expect("net.pt --input 'x:f32[n,4]'", 0, {"checked with n=2", "checked with n=3", "f32[n, 3]"});
  expect("scripted.pt --input 'f32[n,4]' --check-size n=1,7", 0, {"n=1", "n=7"});
  expect("net.pt --input 'f32[n,4]' --dim n=5", 0, {"f32[5, 3]"});
  expect("net.pt", 0, {"no --input was given", "x:f32[n, 4]"});
  expect("two.pt --input 'right:f32[4]' --input 'left:f32[2,4]'", 0, {"left: f32[2, 4]"});
  expect("nan.pt --input 'f32[n,4]'", 0, {"warning", "first.weight", "NaN"});
}

TEST_F(ConvertTest, InputsGetNewNames) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  expect("two.pt --input 'b=right:f32[n,4]' --input 'a=f32[n,4]=0..1'", 0,
         {"input a: f32[n, 4]\n  input b: f32[n, 4]", "with n=2: 2 of 2 outputs equal"});
  expect("two.pt --input 'right=left:f32[2,4]' --input 'left=right:f32[4]'", 0,
         {"input right: f32[2, 4]\n  input left: f32[4]", "2 of 2 outputs equal"});
  expect("two.pt --input 'a=f32[n,4]' --input 'a=f32[n,4]'", 1, {"has a value named 'a' already"});
  expect("two.pt --input '=f32[n,4]'", 1, {"has no new name before '='"});
}

TEST_F(ConvertTest, WhatTheModelUses) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  expect("newer.pt --input 'f32[2]' --input 'f32[2]'", 3,
         {"aten::mul_of_the_future", "newer PyTorch", "libtorch"});
  expect("newer_argument.pt --input 'f32[2]' --input 'f32[2]'", 3, {"aten::mul", "newer PyTorch"});
  expect("custom.pt --input 'f32[2]' --input 'f32[2]'", 3,
         {"acme::wave", "--custom 'acme.wave(x, ...) -> like x'"});
  expect("unsupported.pt --input 'f32[4,4]'", 3,
         {"2 ops", "aten::special_airy_ai (2x)", "aten::binomial", "report: hg-convert"});
  // Names the node and module with a baked-in size, and the fix.
  expect("baked.pt --input 'f32[n,4]'", 4,
         {"n=3", "aten::view in module 'head' (", "make_models.py:", "baked in",
          "compute it there from x.size()"});
}

TEST_F(ConvertTest, GradientsEndWhereTorchEndsThem) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  const Outcome outcome = run_shell(tool() + "'" + (kModels / "detached.pt").string() +
                                    "' --input 'x:f64[n]' -o '" + output().string() + "'");
  ASSERT_EQ(outcome.exit, 0) << outcome.text;
  hg::Result<hg::Model> model = hg::Model::load(output().string());
  ASSERT_TRUE(model.ok()) << model.status().message();
  hg::Graph& graph = model->graph();
  const hg::Value x = graph.value(graph.inputs()[0]), y = graph.value(graph.outputs()[0].second);
  graph.output("dx", hg::grad(y, {x})[0]);
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  hg::Result<hg::Session> session = hg::Session::create(*model);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::vector<double> at = {1, -2, 0.5};
  ASSERT_TRUE(session->set_input("x", hg::view(at, {3})).ok());
  ASSERT_TRUE(session->run().ok());
  const hg::Tensor dx = *session->output("dx");
  for (int64_t i = 0; i < 3; ++i) {
    const double v = at[i];
    const double numbers = -0.5 / 3 - 0.5 + 1;  // mean, sum and max of at
    EXPECT_NEAR(dx.as<const double>()[i], v * v + 4 * v + 2 + numbers, 1e-12);
  }
}

TEST_F(ConvertTest, ParametersKeepWhetherTheyRequireAGradient) {
  if (!has_models()) GTEST_SKIP();
  const std::string command = "cd '" + kModels.string() + "' && " + tool() +
                              "tuned.pt --input 'f32[n,4]' -o '" + output().string() + "'";
  const Outcome outcome = run_shell(command);
  ASSERT_EQ(outcome.exit, 0) << outcome.text;
  const hg::Result<hg::Model> model = hg::Model::load(output().string());
  ASSERT_TRUE(model.ok()) << model.status().message();
  int frozen = 0, trained = 0;
  for (const hg::State& state : model->graph().states()) {
    if (state.kind != hg::State::Kind::parameter) continue;
    EXPECT_EQ(state.requires_grad, !state.name.starts_with("first.")) << state.name;
    ++(state.requires_grad ? trained : frozen);
  }
  EXPECT_GT(frozen, 0);
  EXPECT_GT(trained, 0);
}

TEST_F(ConvertTest, CustomOps) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  const std::string both = " --input 'f32[n,4]' --input 'f32[n,4]' --custom ";
  // wave(left, right, 2., gain=3)
  expect("custom.pt" + both + "'acme.wave(x, y, by: float, gain: int) -> like x'", 0,
         {"warning: acme.wave: checked with a stand-in that gives back 'x'", "n=2", "n=3"});
  expect("custom.pt" + both + "'acme::wave(x, y, by: float, gain: int) -> like y'", 0,
         {"gives back 'y'"});
  // wave(left, 2., other=right, gain=3)
  expect("custom_two.pt" + both + "'acme.wave(x, other, by: float, gain: int) -> like other'", 0,
         {"gives back 'other'", "2 of 2 outputs equal"});
  expect(
      "custom.pt" + both + "acme.wave", 3,
      {"argument 'argument_2' has no place", "acme.wave(x0, x1, a2: float, gain: int) -> like x0"});
  expect("custom.pt" + both + "'acme.wave(x, by: float, gain: int) -> like x'", 3,
         {"'argument_1' is one tensor too many"});
  expect("custom.pt" + both + "'acme.wave(x, y, by: float) -> like x'", 3, {"argument 'gain'"});
  expect("custom.pt" + both + "'acme.wave(x, y, by: bool, gain: int) -> like x'", 3,
         {"argument 'argument_2' is a float"});
  expect("custom.pt" + both + "'acme.wave(x, y, z, by: float, gain: int) -> like x'", 3,
         {"gives no input 'z'"});
  expect("net.pt --input 'f32[n,4]' --custom acme.wave", 1, {"the model calls no such op"});
  const std::pair<std::string, std::string> kWrong[] = {
      {"wave", "not one of the form acme.wave"},
      {"acme.wave(x)", "does not say what its results are like"},
      {"acme.wave(x) -> y", "names no input"},
      {"acme.wave(x) -> like y", "which is no input"},
      {"acme.wave(x?) -> like x", "may be missing"},
      {"acme.wave(x: what) -> like x", "unknown attribute type"},
      {"acme.wave_(x) -> like x", "writes to its input"},
  };
  for (const auto& [custom, words] : kWrong)
    expect("custom.pt" + both + "'" + custom + "'", 1, {words});
}

TEST_F(ConvertTest, WritesWholeFilesOnly) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  const std::string model = "'" + (kModels / "net.pt").string() + "' --input 'f32[n,4]' ";
  write(output(), "old");
  Outcome outcome =
      run_shell("ulimit -f 1; " + tool() + model + "--dim n=2 -o '" + output().string() + "'");
  EXPECT_EQ(outcome.exit, 2) << outcome.text;
  EXPECT_NE(outcome.text.find("cannot write"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("File too large"), std::string::npos) << outcome.text;
  EXPECT_EQ(read(output()), "old");
  // Every write fails, because the file size limit is 0.
  outcome = run_shell("(ulimit -f 0; " + tool() + model + "-o '" + output().string() + "') | cat");
  EXPECT_EQ(read(output()), "old") << outcome.text;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  if (fs::exists("/dev/full")) {
    outcome = run_shell(tool() + model + "-o /dev/full");
    EXPECT_EQ(outcome.exit, 2) << outcome.text;
    EXPECT_NE(outcome.text.find("/dev/full"), std::string::npos) << outcome.text;
  }
  outcome = run_shell(tool() + model + "-o '" + (folder_ / "no/such/out.hgm").string() + "'");
  EXPECT_EQ(outcome.exit, 2) << outcome.text;
  outcome = run_shell("cat '" + (kModels / "net.pt").string() + "' | " + tool() +
                      "- -o - --input 'f32[n,4]' 2>/dev/null > '" + output().string() + "'");
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_EQ(read(output()).substr(0, 8), "HGMODEL\n");
}

TEST_F(ConvertTest, Batch) {
  if (!has_models()) GTEST_SKIP() << "no Python with torch";
  std::string model = (kModels / "net.pt").string();
  write(folder_ / "list.json",
        "[{\"model\": \"" + model +
            "\", \"inputs\": [\"f32[n,4]\"], \"check_sizes\": {\"n\": [2, 5]}," +
            " \"output_dir\": \"" + folder_.string() +
            "\"}, {\"model\": \"/no/such.pt\", \"inputs\": []," +
            " \"check_sizes\": {}, \"output_dir\": \"" + folder_.string() + "\"}, 7]");
  Outcome outcome = run_shell(tool() + "--batch '" + (folder_ / "list.json").string() + "'");
  EXPECT_EQ(outcome.exit, 1);
  EXPECT_EQ(outcome.text.find("{\"status\":\"ok\",\"message\":\"\"}\n"), 0u) << outcome.text;
  EXPECT_NE(outcome.text.find("\"unreadable\""), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("\"usage\""), std::string::npos) << outcome.text;
  EXPECT_TRUE(fs::exists(folder_ / "model.hgm"));
}

}  // namespace
}  // namespace hg::convert_test
