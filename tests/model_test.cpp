// SPDX-License-Identifier: Apache-2.0
// The .hgm file: what is written is read back equal, and damaged bytes give a Status, never a
// crash. Run it with -DHG_SANITIZE=address,undefined to see that nothing outside the file is
// touched.
#include "hg/model.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>

namespace hg {
namespace {

// Symbols, weights tied by name, constants, attributes of several types, two outputs.
Model sample() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 3, "h"});
  const Value ids = g.input("ids", i64, {"n"});
  g.set_origin({"block.first", "model.py:12"});
  const Value w = g.parameter("block.first.weight", f32, {5, 3}, init::uniform(-1, 1, 7));
  const Value moved = g.call("permute", {x}, {{"dims", Attr({Dim(0), Dim(2), Dim(1)})}});
  const Value y = g.call("linear", {moved, w});
  g.set_origin({"block.second", "model.py:13"});
  const Value z = g.call("softmax", {g.call("mul", {y, g.scalar(0.5)})}, {{"dim", -1}});
  g.output("", z);
  g.output("ids_again", g.call("neg", {ids}));
  Result<Model> model = Model::from_graph(std::move(g));
  EXPECT_TRUE(model.ok()) << model.status().message();
  model->set_info({"hg-convert 0.1.0", "libtorch 2.13.0", "0123456789abcdef"});
  return *std::move(model);
}

std::vector<std::byte> bytes_of(const Model& model) {
  Result<std::vector<std::byte>> bytes = model.serialize();
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return *std::move(bytes);
}

TEST(ModelFile, ComesBackEqual) {
  const Model model = sample();
  const std::vector<std::byte> bytes = bytes_of(model);
  Result<Model> back = Model::read(bytes);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->graph().text(), model.graph().text());
  EXPECT_EQ(back->info().source_hash, "0123456789abcdef");
  EXPECT_EQ(back->graph().nodes()[0].origin, (Origin{"block.first", "model.py:12"}));
  const std::vector<State>& before = model.graph().states();
  const std::vector<State>& after = back->graph().states();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    EXPECT_EQ(before[i].kind, after[i].kind);
    const Tensor& a = before[i].data.tensor;
    const Tensor& b = after[i].data.tensor;
    ASSERT_EQ(a.bytes(), b.bytes());
    EXPECT_EQ(std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())), 0);
  }
  EXPECT_EQ(bytes_of(*back), bytes) << "two saves of one model differ";
}

TEST(ModelFile, LoadsFromDisk) {
  const std::string path = testing::TempDir() + "hg_model_test.hgm";
  const Model model = sample();
  ASSERT_TRUE(model.save(path).ok());
  Result<Model> back = Model::load(path);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->graph().text(), model.graph().text());
  std::remove(path.c_str());
  EXPECT_EQ(Model::load(path).status().code(), Code::not_found);
  EXPECT_FALSE(model.save("/nowhere/at/all/x.hgm").ok());
}

TEST(ModelFile, CutAnywhereItIsRefused) {
  const std::vector<std::byte> bytes = bytes_of(sample());
  for (size_t size = 0; size + 1 < bytes.size(); size += size < 256 ? 1 : 64) {
    Result<Model> cut = Model::read(std::span(bytes).first(size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_EQ(name(cut.status().code()), "corrupt_model") << cut.status().message();
  }
}

TEST(ModelFile, NoFileOfOurs) {
  const std::string words =
      "this is a text and no model, however long it may be: " + std::string(4096, 'x');
  Result<Model> model = Model::read(std::as_bytes(std::span(words)));
  EXPECT_EQ(name(model.status().code()), "corrupt_model");
}

// Damage that happens to give another valid file is read; all other damage is refused by a Status.
TEST(ModelFile, DamagedBytesNeverCrash) {
  const std::vector<std::byte> bytes = bytes_of(sample());
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
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int value : {0, 1, 0x7f, 0x80, 0xff}) {
      std::vector<std::byte> damaged = bytes;
      damaged[at] = static_cast<std::byte>(value);
      read(damaged);
    }
  }
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::byte> damaged = bytes;
    const int places = 1 + static_cast<int>(random() % 8);
    for (int k = 0; k < places; ++k) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    }
    read(damaged);
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace hg
