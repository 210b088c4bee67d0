// SPDX-License-Identifier: Apache-2.0
// Outputs in host memory: kernels write them there or they are copied, and nothing is written
// beyond them.
#include <gtest/gtest.h>

#include <cstring>

#include "hg/hg.h"
#include "hg/kernel.h"
#include "tests/support/allocation_count.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using Floats = std::vector<float>;

Model model_of(Graph graph) { return must(Model::from_graph(std::move(graph))); }

Floats floats(const Tensor& tensor) {
  Floats values(tensor.count());
  copy_elements(tensor, view(values, tensor.shape));
  return values;
}

// Memory with guards around it, `shift` bytes after a multiple of 64.
class Guarded {
 public:
  explicit Guarded(const Sizes& shape, int64_t shift = 0, DType dtype = f32)
      : bytes_(static_cast<size_t>(shape.count() * size_of(dtype))),
        all_(bytes_ + 256, std::byte{0xa5}) {
    const auto address = reinterpret_cast<uintptr_t>(all_.data()) + 64;
    begin_ = (64 - address % 64) % 64 + 64 + static_cast<size_t>(shift);
    tensor_ = view(all_.data() + begin_, dtype, shape);
  }
  const Tensor& tensor() const { return tensor_; }
  bool is_whole() const {
    for (size_t i = 0; i < all_.size(); ++i)
      if ((i < begin_ || i >= begin_ + bytes_) && all_[i] != std::byte{0xa5}) return false;
    return true;
  }

 private:
  size_t bytes_, begin_;
  std::vector<std::byte> all_;
  Tensor tensor_;
};

const void* last_written = nullptr;

// y = x + 1; the op remembers the address that it wrote to.
const OpDef kTold = {.signature = "test.told(x) -> y",
                     .infer = [](InferContext& c) -> Status {
                       c.out(0) = c.in(0);
                       return {};
                     },
                     .traits = kNoGradient};
const KernelDef kToldKernel = {
    .op = "test.told", .name = "plain", .run = [](const RunContext& c) noexcept {
      last_written = c.out(0).data;
      for (int64_t i = 0; i < c.out(0).count(); ++i)
        c.out(0).as<float>()[i] = c.in(0).as<float>()[i] + 1;
    }};

struct Told {
  Registry registry;
  Told() {
    EXPECT_TRUE(registry.add(kTold).ok());
    EXPECT_TRUE(registry.add(kToldKernel).ok());
  }
};

TEST(Outputs, TheLastKernelWritesToTheHost) {
  const Told told;
  Graph g(told.registry);
  const Value x = g.input("x", f32, {"n", 4});
  g.output("y", g.call("test.told", {relu(x)}));
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  const Floats in = {1, -2, 3, 4, 5, 6, 7, -8};
  ASSERT_TRUE(session.set_input("x", view(in, {2, 4})).ok());
  for (const int64_t shift : {0, 4}) {
    Guarded y({2, 4}, shift), later({2, 4});
    for (const Guarded* to : {&y, &later, &y}) {
      ASSERT_TRUE(session.set_output("y", to->tensor()).ok());
      must(session.run());
      EXPECT_EQ(floats(to->tensor()), (Floats{2, 1, 4, 5, 6, 7, 8, 1}));
      EXPECT_EQ(session.output("y")->data, to->tensor().data);
      EXPECT_TRUE(to->is_whole());
      const bool is_direct = last_written == to->tensor().data;
      EXPECT_EQ(is_direct, to == &later || shift == 0);  // memory must be aligned
    }
  }
  // Without the host's memory, the output is in the session's own memory again.
  ASSERT_TRUE(session.set_output("y", {}).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(session.output("y")->data, last_written);
  EXPECT_EQ(floats(*session.output("y")), (Floats{2, 1, 4, 5, 6, 7, 8, 1}));
}

TEST(Outputs, MayShareMemoryWithInputs) {
  Graph g;
  const Value x = g.input("x", f32, {4}), y = g.input("y", f32, {4});
  g.output("y", y);  // the names are swapped
  g.output("x", x);
  g.output("sum", x + y);
  g.output("difference", x - y);
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  Guarded a({4}), b({4}), c({4});
  const auto fill = [](const Guarded& to, Floats values) {
    std::memcpy(to.tensor().data, values.data(), sizeof(float) * values.size());
  };
  fill(a, {1, 2, 3, 4});
  fill(b, {10, 20, 30, 40});
  ASSERT_TRUE(session.set_input("x", a.tensor()).ok());
  ASSERT_TRUE(session.set_input("y", b.tensor()).ok());
  ASSERT_TRUE(session.set_output("y", a.tensor()).ok());
  ASSERT_TRUE(session.set_output("x", b.tensor()).ok());
  ASSERT_TRUE(session.set_output("difference", c.tensor()).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(floats(a.tensor()), (Floats{10, 20, 30, 40}));
  EXPECT_EQ(floats(b.tensor()), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(floats(*session.output("sum")), (Floats{11, 22, 33, 44}));
  EXPECT_EQ(floats(c.tensor()), (Floats{-9, -18, -27, -36}));
  // A result in the memory of an input that a later node still reads.
  ASSERT_TRUE(session.set_output("y", {}).ok());
  ASSERT_TRUE(session.set_output("x", {}).ok());
  ASSERT_TRUE(session.set_output("sum", b.tensor()).ok());
  ASSERT_TRUE(session.set_output("difference", a.tensor()).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(floats(b.tensor()), (Floats{11, 22, 33, 44}));
  EXPECT_EQ(floats(a.tensor()), (Floats{9, 18, 27, 36}));
  // The same memory with another order of dims.
  Guarded square({2, 2});
  Graph h;
  h.output("t", h.input("m", f32, {2, 2}));
  Session turned = *Session::create(model_of(std::move(h)));
  fill(square, {1, 2, 3, 4});
  Tensor columns = square.tensor();
  columns.strides = {1, 2};
  ASSERT_TRUE(turned.set_input("m", square.tensor()).ok());
  ASSERT_TRUE(turned.set_output("t", columns).ok());
  ASSERT_TRUE(turned.run().ok());
  EXPECT_EQ(floats(columns), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(floats(square.tensor()), (Floats{1, 3, 2, 4}));
  for (const Guarded* each : {&a, &b, &c, &square}) EXPECT_TRUE(each->is_whole());
}

TEST(Outputs, OneValueTwiceAStateAndAConstant) {
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  const Value total = g.buffer("total", *TensorData::allocate(f32, {2}));
  const Value y = relu(x), next = total + y;
  g.output("once", y);
  g.output("again", y);
  g.output("part", slice(y, 0, 1, 2));
  g.output("before", total);
  g.output("after", next);
  g.output("two", g.scalar(2.0) * g.scalar(1.0));
  g.assign(total, next);
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  const Floats in = {3, -1};
  ASSERT_TRUE(session.set_input("x", view(in, {2})).ok());
  std::vector<Guarded> to;
  for (int i = 0; i < session.output_count(); ++i)
    to.emplace_back(i == 5 ? Sizes() : i == 2 ? Sizes{1} : Sizes{2});
  for (int i = 0; i < session.output_count(); ++i)
    ASSERT_TRUE(session.set_output(i, to[i].tensor()).ok());
  for (int run = 0; run < 3; ++run) {
    must(session.run());
    const float r = static_cast<float>(run);
    const std::vector<Floats> expected = {{3, 0}, {3, 0}, {0}, {3 * r, 0}, {3 * r + 3, 0}, {2}};
    for (size_t i = 0; i < to.size(); ++i) {
      EXPECT_EQ(floats(to[i].tensor()), expected[i]) << session.output_name(static_cast<int>(i));
      EXPECT_TRUE(to[i].is_whole());
    }
  }
}

TEST(Outputs, OfASizeThatDataDecides) {
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  const Value where = g.call("nonzero", {x});
  g.output("where", where);
  g.output("twice", where + where);
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  Guarded where_to({6}, 0, i64), twice_to({3, 2}, 0, i64);
  ASSERT_TRUE(session.set_output("where", where_to.tensor()).ok());
  ASSERT_TRUE(session.set_output("twice", twice_to.tensor()).ok());
  for (int again = 0; again < 2; ++again)
    for (const Floats& in : {Floats{0, 5, 0, 7}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 2, 0}}) {
      ASSERT_TRUE(session.set_input("x", view(in, {4})).ok());
      must(session.run());
      std::vector<int64_t> expected;
      for (int64_t i = 0; i < 4; ++i)
        if (in[i] != 0) expected.push_back(i);
      const Tensor y = *session.output("where"), z = *session.output("twice");
      EXPECT_EQ(y.data, where_to.tensor().data);
      EXPECT_EQ(z.data, twice_to.tensor().data);
      ASSERT_EQ(y.shape, (Sizes{static_cast<int64_t>(expected.size()), 1}));
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(y.as<int64_t>()[i], expected[i]);
        EXPECT_EQ(z.as<int64_t>()[i], 2 * expected[i]);
      }
      EXPECT_TRUE(where_to.is_whole() && twice_to.is_whole());
    }
  Guarded small({3}, 0, i64);
  ASSERT_TRUE(session.set_output("where", small.tensor()).ok());
  const Floats in = {1, 1, 1, 1};
  ASSERT_TRUE(session.set_input("x", view(in, {4})).ok());
  EXPECT_EQ(session.run().message(), "output 'where' is [4, 1]; it was given memory of 3 elements");
  EXPECT_TRUE(small.is_whole());
}

TEST(Outputs, WhatDoesNotFitIsRefused) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  g.output("y", relu(x));
  g.output("z", x + x);
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  Floats in(8, 1), y(8), z(8);
  const auto refusal = [&](const char* name, const Tensor& tensor) {
    return std::string(session.set_output(name, tensor).message());
  };
  EXPECT_EQ(refusal("w", view(y, {2, 4})), "there is no output 'w'; the outputs are y, z");
  EXPECT_EQ(refusal("y", view(y, {4, 2})),
            "output 'y' is f32[n, 4], not of shape [4, 2]: dimension 1 is 2, not 4");
  EXPECT_EQ(refusal("y", view(y, {8})), "output 'y' is f32[n, 4], not of shape [8]");
  EXPECT_EQ(refusal("y", view(static_cast<void*>(y.data()), i64, {1, 4})),
            "output 'y' is f32[n, 4], not a tensor of i64");
  EXPECT_NE(refusal("y", {y.data(), f32, {2, 4}, {0, 1}}).find("overlap"), std::string::npos);
  ASSERT_TRUE(session.set_input("x", view(in, {2, 4})).ok());
  ASSERT_TRUE(session.set_output("y", view(static_cast<void*>(y.data()), f32, {1, 4})).ok());
  EXPECT_EQ(session.run().message(),
            "output 'y' is [2, 4] for these inputs; it was given memory of [1, 4]");
  EXPECT_FALSE(session.output("y").ok());
  ASSERT_TRUE(session.set_output("y", view(y, {2, 4})).ok());
  ASSERT_TRUE(session.set_output("z", view(static_cast<void*>(y.data() + 4), f32, {1, 4})).ok());
  EXPECT_FALSE(session.run().ok());
  ASSERT_TRUE(session.set_output("z", view(y, {2, 4})).ok());
  EXPECT_EQ(session.run().message(), "the outputs 'y' and 'z' are given memory that overlaps");
  session.forget_tensors();
  EXPECT_EQ(session.run().message(), "input 'x' is not set");
}

TEST(Outputs, BindingAndDataDependentSizesAllocateNothingInRun) {
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  const Value where = g.call("nonzero", {x});
  g.output("where", where);
  g.output("mean", mean(g.call("index_select", {x, reshape(where, {where.dim(0)})}, {{"dim", 0}})));
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  std::vector<Floats> in = {{0, 5, 0, 7}, {1, 1, 1, 1, 2}, {0, 0, 2, 0}, {3, 0, 2, 0}};
  Guarded a({8}, 0, i64), b({8}, 0, i64);
  int64_t before = 0;
  for (int again = 0; again < 4; ++again) {
    if (again == 2) before = test::allocation_count();
    for (const Floats& values : in) {
      const auto n = static_cast<int64_t>(values.size());
      ASSERT_TRUE(session.set_input("x", view(values, {n})).ok());
      ASSERT_TRUE(session.set_output("where", (again % 2 == 0 ? a : b).tensor()).ok());
      ASSERT_TRUE(session.run().ok());
      ASSERT_TRUE(session.output("mean").ok());
    }
  }
  EXPECT_EQ(test::allocation_count() - before, 0);
}

// The host may reuse an input's memory for another output: the old elements are saved first.
TEST(Outputs, AnInputThatIsAnOutputOutlivesItsMemory) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  g.output("doubled", x + x);
  g.output("x", x);
  g.output("middle", slice(x, 0, 1, 3));
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  Floats memory = {1, 2, 3, 4};
  ASSERT_TRUE(session.set_input("x", view(memory, {4})).ok());
  ASSERT_TRUE(session.set_output("doubled", view(memory, {4})).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(memory, (Floats{2, 4, 6, 8}));
  EXPECT_EQ(floats(*session.output("x")), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(floats(*session.output("middle")), (Floats{2, 3}));
  ASSERT_TRUE(session.set_output("doubled", Tensor()).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(floats(*session.output("x")), (Floats{2, 4, 6, 8}));
  EXPECT_EQ(session.output("x")->data, memory.data()) << "without a copy";
}

}  // namespace
}  // namespace hg
