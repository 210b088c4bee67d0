// SPDX-License-Identifier: Apache-2.0
// The .hgm file: a written model reads back equal, and damaged bytes return a Status and never
// crash. -DHG_SANITIZE=address,undefined also checks that nothing outside the file is read.
#include "hg/model.h"

#include <gtest/gtest.h>
#ifdef __linux__
#include <sys/resource.h>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "flatbuffers/flatbuffers.h"
#include "lib/model/header.h"
#include "model_generated.h"
#include "tests/support/must.h"
#include "tests/support/unchecked_graph.h"

namespace hg {
namespace {

// Symbols, tied weights, a state that runs update, constants of every dtype, attributes of every
// type, a branch with subgraphs, two outputs.
Model sample() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 3, "h"});
  const Value ids = g.input("ids", i64, {"n"});
  g.set_origin({"block.first", "model.py:12"});
  const Value w = g.parameter("block.first.weight", f32, {5, 3}, init::uniform(-1, 1, 7));
  const Value moved = g.call("permute", {x}, {{"dims", Attr({Dim(0), Dim(2), Dim(1)})}});
  const Value y = g.call("linear", {moved, w});
  g.set_origin({"block.second", "model.py:13"});
  g.guard("n", Relation::ne, 1, "squeeze");
  g.guard(Dim("h") * 2, Relation::lt, Dim("n") + 100, "");
  const Value z = g.call("softmax", {g.call("mul", {y, g.scalar(0.5)})}, {{"dim", -1}});
  g.output("", z);
  g.add_alias(w, "head.weight");
  g.add_alias(w, "decoder.weight");
  const Value calls = g.buffer("calls", *TensorData::allocate(i64, {2}));
  g.assign(calls, g.call("add", {calls, g.scalar(int64_t{1}, i64)}));
  for (int dtype = 0; dtype < kDTypeCount; ++dtype)
    g.output("", g.constant(*TensorData::allocate(static_cast<DType>(dtype), {3})));
  g.output("flat", g.call("reshape", {x}, {{"shape", {Dim("n") * Dim("h"), 3}}}));
  const auto branch = [](std::string_view op) {
    auto graph = std::make_shared<Graph>();
    const Value v = graph->input("v", f32, {"n", 3, "h"});
    graph->output("", graph->call(op, {v}));
    graph->guard("h", Relation::le, 1000, "a branch");
    return graph;
  };
  const Value choice[] = {g.input("choice", boolean, {}), x};
  g.output("chosen", g.calls("if", choice, {}, {branch("neg"), branch("exp")})[0]);
  g.output("ids_again", g.call("neg", {ids}));
  Model model = must(Model::from_graph(std::move(g)));
  model.set_info({.producer = "hg-convert 0.1.0",
                  .source = "libtorch 2.13.0",
                  .source_hash = "0123456789abcdef",
                  .quantized = {{"block.first.weight", 0.25}, {"w", 0}}});
  return model;
}

// Any damage of the graph reaches the reader.
std::vector<std::byte> bytes_of(const Model& model) {
  return unchecked_graph(must(model.serialize()));
}

TEST(ModelFile, ComesBackEqual) {
  const Model model = sample();
  const std::vector<std::byte> bytes = bytes_of(model);
  Model back = must(Model::read(bytes));
  EXPECT_EQ(back.graph().text(), model.graph().text());
  EXPECT_EQ(back.info().source_hash, "0123456789abcdef");
  ASSERT_EQ(back.info().quantized.size(), 2u);
  EXPECT_EQ(back.info().quantized[0].name, "block.first.weight");
  EXPECT_EQ(back.info().quantized[0].error, 0.25);
  EXPECT_EQ(back.graph().nodes()[0].origin, (Origin{"block.first", "model.py:12"}));
  EXPECT_EQ(back.graph().guards().size(), 2u);
  EXPECT_EQ(back.graph().guards(), model.graph().guards());
  const std::vector<State>& before = model.graph().states();
  const std::vector<State>& after = back.graph().states();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    EXPECT_EQ(before[i].kind, after[i].kind);
    EXPECT_EQ(before[i].aliases, after[i].aliases);
    const Tensor& a = before[i].data.tensor;
    const Tensor& b = after[i].data.tensor;
    ASSERT_EQ(a.bytes(), b.bytes());
    EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes()), 0);
  }
  EXPECT_EQ(back.graph().assignments(), model.graph().assignments());
  const std::vector<Node>& nodes = back.graph().nodes();
  EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(),
                          [](const Node& node) { return node.subgraphs.size() == 2; }));
  EXPECT_EQ(bytes_of(back), bytes) << "two saves of one model differ";
}

TEST(ModelFile, LoadsFromDisk) {
  const std::string path = testing::TempDir() + "hg_model_test.hgm";
  const Model model = sample();
  ASSERT_TRUE(model.save(path).ok());
  Result<Model> back = Model::load(path);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->graph().text(), model.graph().text());
  EXPECT_TRUE(back->info().not_exercised.empty());
  Model::Info info;
  info.not_exercised = {"the else of `if`", "a loop"};
  back->set_info(info);
  EXPECT_EQ(Model::read(*back->serialize())->info().not_exercised, back->info().not_exercised);
  *back = Model();  // Windows cannot remove a mapped file
  std::remove(path.c_str());
  EXPECT_EQ(Model::load(path).status().code(), Code::not_found);
  EXPECT_FALSE(model.save("/nowhere/at/all/x.hgm").ok());
}

// If the file were mapped, the first use of a weight would end the process by SIGBUS.
TEST(ModelFile, AFileThatIsReadMayBeCutOffAfterwards) {
  const std::string path = testing::TempDir() + "hg_model_cut.hgm";
  ASSERT_TRUE(sample().save(path).ok());
  const Model model = must(Model::load(path, Registry::built_in(), {.map = false}));
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(bytes_of(model), bytes_of(sample()));
  std::filesystem::remove(path);
}

#ifdef __linux__
std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

// The limit on file sizes imitates a full disk.
TEST(ModelFile, AFullDiskLeavesTheOldFile) {
  const std::filesystem::path folder = testing::TempDir() + "hg_model_full";
  std::filesystem::create_directory(folder);
  const std::string path = folder / "model.hgm";
  const Model model = sample();
  ASSERT_TRUE(model.save(path).ok());
  const auto before = std::filesystem::file_size(path);

  Graph large;
  large.parameter("weight", f32, {1 << 18}, init::uniform(-1, 1, 1));
  large.output("y", large.call("neg", {large.value(0)}));
  const Model more = *Model::from_graph(std::move(large));
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small = {.rlim_cur = 1 << 16, .rlim_max = old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const Status status = more.save(path);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("cannot write"), std::string_view::npos) << status.message();
  EXPECT_EQ(files_in(folder), std::vector<std::string>{"model.hgm"});
  EXPECT_EQ(std::filesystem::file_size(path), before);
  EXPECT_FALSE(more.save("/dev/full").ok());
  EXPECT_TRUE(more.save("/dev/null").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(more.save(path).ok());
  EXPECT_GT(std::filesystem::file_size(path), before);
  std::filesystem::remove_all(folder);
}

TEST(ModelFile, ALinkIsFollowed) {
  const std::filesystem::path folder = testing::TempDir() + "hg_model_link";
  std::filesystem::create_directory(folder);
  ASSERT_TRUE(sample().save((folder / "real.hgm").string()).ok());
  std::filesystem::create_symlink("real.hgm", folder / "link.hgm");
  ASSERT_TRUE(sample().save((folder / "link.hgm").string()).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.hgm"));
  EXPECT_TRUE(Model::load((folder / "link.hgm").string()).ok());
  std::filesystem::create_symlink("new.hgm", folder / "early.hgm");  // to nothing yet
  ASSERT_TRUE(sample().save((folder / "early.hgm").string()).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "early.hgm"));
  EXPECT_TRUE(Model::load((folder / "new.hgm").string()).ok());
  std::filesystem::remove_all(folder);
}
#endif

TEST(ModelFile, ASavedFileMayBeGivenUpBeforeItTakesItsPlace) {
  const std::filesystem::path folder = testing::TempDir() + "hg_model_keep";
  std::filesystem::create_directory(folder);
  const std::string path = (folder / "x.hgm").string();
  ASSERT_TRUE(sample().save(path).ok());
  // Some file systems count in seconds.
  std::filesystem::last_write_time(path,
                                   std::filesystem::last_write_time(path) - std::chrono::hours(1));
  const auto before = std::filesystem::last_write_time(path);
  ASSERT_TRUE(sample()
                  .save(path,
                        [&](const std::string& temporary) {
                          EXPECT_EQ(std::filesystem::last_write_time(path), before);
                          EXPECT_TRUE(Model::load(temporary).ok());
                          return false;
                        })
                  .ok());
  EXPECT_EQ(std::filesystem::last_write_time(path), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  ASSERT_TRUE(sample().save(path, [](const std::string&) { return true; }).ok());
  EXPECT_NE(std::filesystem::last_write_time(path), before);
  std::filesystem::remove_all(folder);
}

// A model file around a hand-made graph.
std::vector<std::byte> file_of(
    flatbuffers::FlatBufferBuilder& fbb, flatbuffers::Offset<file::Graph> graph,
    flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<file::Text>>> sizes = {}) {
  file::FinishModelBuffer(fbb, file::CreateModel(fbb, graph, 0, 0, 0, 0, sizes));
  FileHeader header{};
  std::memcpy(header.magic, kFileMagic, sizeof header.magic);
  header.version = kFileVersion;
  header.header_bytes = header.graph_offset = sizeof header;
  header.graph_bytes = fbb.GetSize();
  header.data_offset = (header.graph_offset + header.graph_bytes + 63) / 64 * 64;
  std::vector<std::byte> bytes(header.data_offset);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, fbb.GetBufferPointer(), fbb.GetSize());
  return bytes;
}

// Half a million bytes would expand to ten gigabytes.
TEST(ModelFile, SharedStringsDoNotMultiply) {
  flatbuffers::FlatBufferBuilder fbb;
  const auto text = fbb.CreateString(std::string(1 << 19, 'x'));
  std::vector<flatbuffers::Offset<file::Value>> values;
  std::vector<flatbuffers::Offset<file::Node>> nodes;
  for (int32_t i = 0; i <= 10000; ++i)
    values.push_back(file::CreateValue(fbb, fbb.CreateString(str_cat("v", i))));
  for (int32_t i = 0; i < 10000; ++i)
    nodes.push_back(file::CreateNode(fbb, fbb.CreateString("neg"),
                                     fbb.CreateVector(std::vector(1, i)),
                                     fbb.CreateVector(std::vector(1, i + 1)), 0, 0, text, text));
  const auto graph =
      file::CreateGraph(fbb, fbb.CreateVector(values), fbb.CreateVector(std::vector(1, 0)), 0,
                        fbb.CreateVector(nodes));
  const Result<Model> model = Model::read(file_of(fbb, graph));
  EXPECT_EQ(model.status().message(), "the same bytes stand for many parts of the graph");
}

TEST(ModelFile, SharedListsDoNotMultiply) {
  flatbuffers::FlatBufferBuilder fbb;
  const auto entry = file::CreateText(fbb, fbb.CreateString(""));
  const auto texts = fbb.CreateVector(std::vector(50000, entry));
  const auto name = fbb.CreateString("x");
  std::vector<flatbuffers::Offset<file::Attr>> attrs;
  for (int i = 0; i < 10000; ++i)
    attrs.push_back(
        file::CreateAttr(fbb, name, file::AttrKind::texts, false, 0, 0, 0, 0, 0, 0, texts));
  const auto node = file::CreateNode(fbb, fbb.CreateString("neg"), 0, 0, fbb.CreateVector(attrs));
  const auto graph = file::CreateGraph(fbb, 0, 0, 0, fbb.CreateVector(std::vector(1, node)));
  const Result<Model> model = Model::read(file_of(fbb, graph));
  EXPECT_NE(model.status().message().find("the graph section is damaged"), std::string_view::npos)
      << model.status().message();
}

TEST(ModelFile, UnknownOpsAreListedWithTheirNumber) {
  flatbuffers::FlatBufferBuilder fbb;
  std::vector<flatbuffers::Offset<file::Node>> nodes;
  for (const char* op : {"acme.wave", "neg", "acme.fold", "acme.wave"})
    nodes.push_back(file::CreateNode(fbb, fbb.CreateString(op)));
  const auto graph = file::CreateGraph(fbb, 0, 0, 0, fbb.CreateVector(nodes));
  const Result<Model> model = Model::read(file_of(fbb, graph));
  EXPECT_EQ(model.status().message(),
            "the model uses ops that are not registered: acme.fold (1 node), acme.wave (2 nodes)");
}

// A network with strides, whose layers' sizes each use the previous size several times.
Model nested_sizes(int layers) {
  Graph g;
  Value x = g.input("x", f32, {"n"});
  for (int layer = 0; layer < layers; ++layer) {
    const Dim half = floordiv(x.dim(0) * 3 + 1, 5) + 1;
    const Value padded = g.call("pad", {x}, {{"pads", {Dim(layer), half}}});
    const Dim end = min(floordiv(x.dim(0), 3) + half, padded.dim(0) - floordiv(half, 7));
    x = g.call("slice", {padded}, {{"dim", 0}, {"start", 0}, {"end", end}, {"step", 1}});
  }
  g.output("y", x);
  return must(Model::from_graph(std::move(g)));
}

TEST(ModelFile, SizesAreWrittenOnce) {
  Graph g(nested_sizes(200).graph());
  const Dim last = g.value(g.outputs()[0].second).dim(0);
  g.guard(floordiv(last * last, Dim("n") + 1), Relation::ne, 7, "a test");
  Model made = must(Model::from_graph(std::move(g)));
  const Model& model = made;
  const std::vector<std::byte> bytes = bytes_of(model);
  EXPECT_LT(bytes.size(), 200u * 4000);
  const Model back = must(Model::read(bytes));
  EXPECT_EQ(back.graph().text(), model.graph().text());
  EXPECT_LT(model.graph().text().size(), 200u * 4000);
  EXPECT_EQ(bytes_of(back), bytes);
}

// The bytes with a shorter text, padded with spaces, at the last occurrence of `from`.
std::vector<std::byte> replaced(std::vector<std::byte> bytes, std::string_view from,
                                std::string to) {
  to.resize(from.size(), ' ');
  const auto pattern = std::as_bytes(std::span(from.data(), from.size()));
  const auto at = std::find_end(bytes.begin(), bytes.end(), pattern.begin(), pattern.end());
  EXPECT_TRUE(at != bytes.end()) << from;
  if (at != bytes.end()) std::memcpy(&*at, to.data(), to.size());
  return bytes;
}

TEST(ModelFile, NamesOfSizesAreChecked) {
  const std::vector<std::byte> bytes = bytes_of(nested_sizes(6));
  for (const auto& [from, to] : {std::pair{"3*@2 + 3*floor", "3*@3 + 3*floor"},
                                 {"3*@1 + 3*@0", "3*@9 + 3*@0"},
                                 {"3*@1 + 3*@0", "3*@x + 3*@0"},
                                 {"3*@1 + 3*@0", "3*@- + 3*@0"},
                                 {"3*@1 + 3*@0", "4*@1 + 3*@0"}}) {
    const Result<Model> model = Model::read(replaced(bytes, from, to));
    EXPECT_EQ(model.status().code(), Code::corrupt_model) << to;
  }
}

TEST(ModelFile, TextIsUtf8) {
  for (const auto& [from, to, shown] :
       {std::tuple{"chosen", "ch\xffsen", "ch\\xffsen"},
        std::tuple{"flat", "fl\xc0\x80", "fl\\xc0\\x80"},            // two bytes where one does
        std::tuple{"head.weight", "head\xed\xa0\x80ight", "\\xed"},  // two bytes for one character
        std::tuple{"model.py:12", "model.py:1\xc3", "\\xc3"}}) {
    const Result<Model> model = Model::read(replaced(bytes_of(sample()), from, to));
    EXPECT_EQ(model.status().code(), Code::corrupt_model) << shown;
    EXPECT_NE(model.status().message().find(shown), std::string_view::npos)
        << model.status().message();
  }
  EXPECT_TRUE(Model::read(replaced(bytes_of(sample()), "chosen", "ch\xc3\xb6se")).ok());
}

// Each sum has one term more than the previous one.
TEST(ModelFile, NamedSizesDoNotMultiply) {
  flatbuffers::FlatBufferBuilder fbb;
  std::vector<flatbuffers::Offset<file::Text>> sizes;
  for (int i = 0; i < 4000; ++i) {
    sizes.push_back(file::CreateText(
        fbb,
        fbb.CreateString(i == 0 ? "n" : str_cat("(@", i - 1, " + floordiv(h, ", i + 1, "))"))));
  }
  const auto graph = file::CreateGraph(fbb);
  const Result<Model> model = Model::read(file_of(fbb, graph, fbb.CreateVector(sizes)));
  EXPECT_NE(model.status().message().find("is too long"), std::string_view::npos)
      << model.status().message();
}

// The form of an older version, which kept mod and simplified less.
TEST(ModelFile, SizesOfOlderFilesAreTheSameNumbers) {
  Graph g;
  const Value x = g.input("x", f32, {"length"});
  const Dim up = Dim(0) - floordiv(Dim("length"), -8);
  g.output("y", g.call("pad", {x}, {{"pads", {Dim(0), up * 8 - Dim("length")}}}));
  const Model model = must(Model::from_graph(std::move(g)));
  const std::vector<std::byte> bytes = bytes_of(model);
  for (const auto& [from, to] :
       {std::pair{"8*floordiv(length + 7, 8) - length", "mod(7*length, 8)"},
        {"8*floordiv(length + 7, 8)", "length + mod(-length, 8)"}}) {
    must(Model::read(replaced(bytes, from, to)));
  }
}

TEST(ModelFile, CutAnywhereItIsRefused) {
  const std::vector<std::byte> bytes = bytes_of(sample());
  for (size_t size = 0; size + 1 < bytes.size(); size += size < 256 ? 1 : 64) {
    Result<Model> cut = Model::read(std::span(bytes).first(size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_EQ(to_string(cut.status().code()), "corrupt_model") << cut.status().message();
  }
}

TEST(ModelFile, EveryFlippedBitOfTheGraphIsFound) {
  const std::vector<std::byte> bytes = must(sample().serialize());
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (uint64_t at = 0; at < header.graph_offset + header.graph_bytes; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> damaged = bytes;
      damaged[at] ^= std::byte{1} << bit;
      const Status status = Model::read(damaged).status();
      ASSERT_FALSE(status.ok()) << "bit " << bit << " of byte " << at;
      if (at < header.graph_offset + 8) continue;  // the header, and the identifier of the graph
      EXPECT_EQ(status.message().find("the graph section is damaged: the checksum of its "), 0u)
          << status.message();
    }
  }
}

TEST(ModelFile, LimitsOfTheHostAreKeptAndNamed) {
  const Model model = sample();
  const std::vector<std::byte> bytes = bytes_of(model);
  const auto read = [&](const LoadOptions& limits) {
    const Status status = Model::read(bytes, Registry::built_in(), limits).status();
    EXPECT_EQ(status.code(), status.ok() ? Code::ok : Code::corrupt_model);
    return std::string(status.message());
  };
  const int64_t nodes = std::ssize(model.graph().nodes()) + 2;  // one node in each branch
  const int64_t size = std::ssize(bytes);
  EXPECT_EQ(read({.max_nodes = nodes, .max_bytes = size, .max_dims = 3}), "");
  EXPECT_EQ(read({.max_nodes = nodes - 1}),
            str_cat("the file has at least ", nodes, " nodes, more than max_nodes, ", nodes - 1));
  EXPECT_NE(read({.max_bytes = size - 1}).find(str_cat("more than max_bytes, ", size - 1)),
            std::string::npos);
  EXPECT_EQ(read({.max_dims = 2}), "value 'x' has 3 dims, more than max_dims, 2");
}

TEST(ModelFile, ErrorsOfQuantisedStatesAreNumbers) {
  std::vector<std::byte> bytes = bytes_of(sample());
  const double error = 0.25;
  std::byte pattern[sizeof error];
  std::memcpy(pattern, &error, sizeof error);
  const auto at = std::search(bytes.begin(), bytes.end(), pattern, pattern + sizeof error);
  ASSERT_NE(at, bytes.end());
  for (const double bad : {-0.25, std::nan("")}) {
    std::memcpy(&*at, &bad, sizeof bad);
    const Result<Model> model = Model::read(bytes);
    EXPECT_EQ(model.status().code(), Code::corrupt_model);
    EXPECT_EQ(
        model.status().message().find("the quantized state 'block.first.weight' has the error"),
        0u);
    Model written = sample();
    Model::Info info;
    info.quantized = {{"w", bad}};
    written.set_info(info);
    EXPECT_EQ(written.serialize().status().code(), Code::invalid_argument);
  }
}

TEST(ModelFile, AttachmentsComeBack) {
  Model model = sample();
  const std::vector<std::byte> without = bytes_of(model);
  Model::Info info = model.info();
  const std::string bytes("\0\xff{\n", 4);
  info.attachments = {{"tokenizer.json", "{}"}, {"\xc3\xa9", ""}, {"a/b", bytes}, {"c", "{}"}};
  model.set_info(info);
  const Model back = must(Model::read(bytes_of(model)));
  ASSERT_EQ(back.info().attachments.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(back.info().attachments[i].name, info.attachments[i].name);
    EXPECT_EQ(back.info().attachments[i].content, info.attachments[i].content);
  }
  ASSERT_NE(back.attachment("a/b"), nullptr);
  EXPECT_EQ(back.attachment("a/b")->content, bytes);
  EXPECT_EQ(back.attachment("a"), nullptr);
  EXPECT_EQ(bytes_of(back), bytes_of(model));
  EXPECT_EQ(must(back.entry("")).info().attachments.size(), 4u);
  info.attachments.clear();
  model.set_info(info);
  EXPECT_EQ(bytes_of(model), without);
}

TEST(ModelFile, NamesOfAttachmentsAreUniqueTexts) {
  const std::pair<std::vector<Model::Attachment>, const char*> cases[] = {
      {{{"a", "1"}, {"b", "2"}, {"a", "3"}}, "there are two attachments 'a'"},
      {{{"", "1"}}, "an attachment has no name"},
      {{{"\xff", "1"}}, "the name of the attachment '\\xff' is not UTF-8"},
  };
  for (const auto& [attachments, message] : cases) {
    Model model = sample();
    Model::Info info;
    info.attachments = attachments;
    model.set_info(std::move(info));
    const Status status = model.serialize().status();
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_EQ(status.message(), message);
  }
}

// Names and checksums are in the graph, bytes in the data; any difference is rejected.
TEST(ModelFile, DamagedAttachmentsAreRefused) {
  Model model = sample();
  Model::Info info;
  info.attachments = {{"other.json", std::string(70000, 'o')}, {"first.json", "0123456789"}};
  model.set_info(std::move(info));
  const std::vector<std::byte> whole = bytes_of(model);
  const auto place = [&](std::string_view text) {
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    const auto at = std::search(whole.begin(), whole.end(), first, first + text.size());
    EXPECT_NE(at, whole.end());
    return static_cast<size_t>(at - whole.begin());
  };
  const auto read = [&](const std::vector<std::byte>& bytes) {
    const Status status = Model::read(bytes).status();
    EXPECT_EQ(status.code(), Code::corrupt_model);
    return std::string(status.message());
  };
  std::vector<std::byte> bytes = whole;
  bytes[place("0123456789") + 4] = std::byte{'x'};
  EXPECT_EQ(
      read(bytes).find("the attachment 'first.json' is damaged: the checksum of its 10 bytes"), 0u);
  bytes = whole;
  std::memcpy(&bytes[place("first.json")], "other.json", 10);
  EXPECT_EQ(read(bytes), "there are two attachments 'other.json'");
  bytes = whole;
  bytes[place("first.json")] = std::byte{0xff};
  EXPECT_NE(read(bytes).find("is not UTF-8"), std::string::npos);
  // Its offset, 64-bit, is a multiple of 64 that is found only once in the graph.
  const uint64_t offset = place("0123456789") - [&] {
    uint64_t data = 0;
    std::memcpy(&data, whole.data() + 32, sizeof data);
    return data;
  }();
  const auto* pattern = reinterpret_cast<const char*>(&offset);
  const size_t at = place({pattern, sizeof offset});
  for (const uint64_t bad : {offset + 1, uint64_t{1} << 40, ~uint64_t{0} - 63}) {
    bytes = whole;
    std::memcpy(&bytes[at], &bad, sizeof bad);
    EXPECT_EQ(
        read(bytes).find(str_cat("the attachment 'first.json' has 10 bytes at ", bad, " of ")), 0u);
  }
}

// Attachments, scales and small states come before large ones.
TEST(ModelFile, LargeStatesComeLast) {
  Graph graph;
  graph.constant(*TensorData::allocate(i8, {1000, 4096}), "levels");
  graph.constant(*TensorData::allocate(f16, {1000, 128}), "scales");
  graph.output("y", graph.input("x", f32, {}));
  Model model = must(Model::from_graph(std::move(graph)));
  Model::Info info;
  info.attachments = {{"tokenizer.json", "{}"}};
  model.set_info(std::move(info));
  const std::vector<std::byte> bytes = bytes_of(model);
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const file::Model* const read = file::GetModel(bytes.data() + header.graph_offset);
  const auto& states = *read->graph()->states();
  EXPECT_LT(read->attachments()->Get(0)->offset(), states.Get(1)->offset());
  EXPECT_LT(states.Get(1)->offset(), states.Get(0)->offset());
}

TEST(ModelFile, NoFileOfOurs) {
  const std::string words =
      "this is a text and no model, however long it may be: " + std::string(4096, 'x');
  Result<Model> model = Model::read(std::as_bytes(std::span(words)));
  EXPECT_EQ(to_string(model.status().code()), "corrupt_model");
}

// Damage that gives another valid file is read; other damage is rejected with a Status. Files named
// run_* are valid, but their runs failed: run_model_fuzz runs them.
TEST(ModelFile, WhatTheFuzzerFoundIsRefused) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HG_FUZZ_FOUND)) {
    if (entry.path().extension() != ".hgm") continue;
    const bool valid = entry.path().filename().string().starts_with("run_");
    EXPECT_EQ(Model::load(entry.path().string()).status().code(),
              valid ? Code::ok : Code::corrupt_model)
        << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(ModelFile, DamagedBytesNeverCrash) {
  std::mt19937 random(1);
  int refused = 0;
  const auto read = [&](const std::vector<std::byte>& damaged) {
    Result<Model> model = Model::read(damaged);
    if (!model.ok()) {
      ++refused;
      EXPECT_FALSE(model.status().message().empty());
      return;
    }
    EXPECT_FALSE(model->graph().text().empty());
  };
  for (const Model& model : {sample(), nested_sizes(3)}) {
    const std::vector<std::byte> bytes = bytes_of(model);
    for (size_t at = 0; at < bytes.size(); ++at) {
      const int values[] = {0, 1, 0x7f, 0x80, 0xff, static_cast<int>(random() % 256)};
      std::vector<std::byte> damaged = bytes;
      damaged[at] = static_cast<std::byte>(values[random() % std::size(values)]);
      read(damaged);
    }
    for (int round = 0; round < 2000; ++round) {
      std::vector<std::byte> damaged = bytes;
      const int places = 1 + static_cast<int>(random() % 8);
      for (int k = 0; k < places; ++k) {
        damaged[random() % damaged.size()] = static_cast<std::byte>(random());
      }
      read(damaged);
    }
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace hg
