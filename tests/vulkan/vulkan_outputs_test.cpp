// SPDX-License-Identifier: Apache-2.0
// Outputs in host memory that a device computes: the same bits as in the session's own memory,
// wherever the host's memory is, and no write outside of it.
#include <random>

#include "tests/support/must.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace hg::test {
namespace {

// Memory for an output with guards around it; its rows have gaps of `gap` elements.
class Guarded {
 public:
  Guarded(const Sizes& shape, int64_t shift, int64_t gap) {
    int64_t step = 1;
    Sizes strides = contiguous_strides(shape);
    if (shape.rank() > 0) step = shape.back() + gap;
    for (int i = shape.rank() - 1; i-- > 0;) {
      strides[i] = step;
      step *= shape[i];
    }
    all_.assign(step + shift + 64, kGuard);
    tensor_ = {all_.data() + 32 + shift, f32, shape, strides};
  }
  const Tensor& tensor() const { return tensor_; }
  std::vector<float> values() const {
    std::vector<float> values(tensor_.count());
    copy_elements(tensor_, view(values, tensor_.shape));
    return values;
  }
  // Whether the guards and gaps are unchanged.
  bool is_whole() const {
    std::vector<float> copy = all_;
    Tensor inside = tensor_;
    inside.data = copy.data() + (tensor_.as<float>() - all_.data());
    const std::vector<float> guards(tensor_.count(), kGuard);
    copy_elements(view(guards, tensor_.shape), inside);
    return std::all_of(copy.begin(), copy.end(), [](float value) { return value == kGuard; });
  }

 private:
  static constexpr float kGuard = -12345.5f;
  std::vector<float> all_;
  Tensor tensor_;
};

// Outputs of every kind: from a kernel, a view, one value twice, a kernel on the CPU, an input, a
// state and a constant.
Graph many_outputs() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 8});
  const Value w = g.parameter("w", f32, {8, 8}, init::uniform(-1, 1, 3));
  const Value total = g.buffer("total", *TensorData::allocate(f32, {8}));
  const Value y = relu(linear(x, w));
  const Value moved = total + sum(y, {0});
  g.assign(total, moved);
  g.output("kernel", y);
  g.output("view", transpose(y, 0, 1));
  g.output("again", y);
  g.output("cpu", bessel_i0(y));
  g.output("input", x);
  g.output("state", total);
  g.output("moved", moved);
  g.output("constant", w);
  return g;
}

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values(tensor.count());
  copy_elements(tensor, view(values, tensor.shape));
  return values;
}

TEST_F(Vulkan, BoundOutputsHaveTheSameBits) {
  Result<Session> plain = session(many_outputs(), options());
  Result<Session> bound = session(many_outputs(), options());
  ASSERT_TRUE(plain.ok() && bound.ok()) << bound.status().message();
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    const auto n = static_cast<int64_t>(random() % 5);
    std::vector<float> x(8 * n);
    for (float& value : x) value = static_cast<float>(random() % 1000) / 250 - 2;
    const Tensor input = view(x, {n, 8});
    ASSERT_TRUE(plain->set_input("x", input).ok() && bound->set_input("x", input).ok());
    must(plain->run());
    std::vector<std::unique_ptr<Guarded>> homes;
    for (int i = 0; i < plain->output_count(); ++i) {
      homes.emplace_back();
      Status set;
      if (random() % 4 == 0) {  // in the session's own memory
        set = bound->set_output(i, Tensor());
      } else {
        homes.back() =
            std::make_unique<Guarded>(plain->output(i)->shape, static_cast<int64_t>(random() % 20),
                                      static_cast<int64_t>(random() % 3));
        set = bound->set_output(i, homes.back()->tensor());
      }
      ASSERT_TRUE(set.ok()) << set.message();
    }
    must(bound->run());
    for (int i = 0; i < plain->output_count(); ++i) {
      const Tensor y = *bound->output(i);
      EXPECT_EQ(values_of(y), values_of(*plain->output(i))) << plain->output_name(i);
      const Guarded* const home = homes[i].get();
      if (home == nullptr) continue;
      EXPECT_EQ(y.data, home->tensor().data);
      EXPECT_EQ(home->values(), values_of(*plain->output(i))) << plain->output_name(i);
      EXPECT_TRUE(home->is_whole()) << plain->output_name(i);
    }
    if (HasFailure()) FAIL() << "in round " << round << ", n is " << n;
  }
  EXPECT_NE(bound->report().find("bessel_i0"), std::string::npos) << bound->report();
}

// Memory of another shape is rejected before anything runs; earlier results stay.
TEST_F(Vulkan, ABoundOutputOfAnotherShapeIsRefused) {
  Session made = must(session(many_outputs(), options()));
  const std::vector<float> x(16, 1);
  ASSERT_TRUE(made.set_input("x", view(x, {2, 8})).ok());
  Guarded home({3, 8}, 0, 0);
  ASSERT_TRUE(made.set_output("kernel", home.tensor()).ok());
  const Status status = made.run();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("[2, 8]"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("[3, 8]"), std::string::npos) << status.message();
  EXPECT_TRUE(home.is_whole());
  ASSERT_TRUE(made.set_output("kernel", Tensor()).ok());
  EXPECT_TRUE(made.run().ok());
  EXPECT_EQ(values_of(*made.value("total")), values_of(*made.output("moved")));
}

// Outputs that stay on the device are not copied to the host, bound or not.
TEST_F(Vulkan, ABoundOutputAndOutputsThatStayOnTheDevice) {
  SessionOptions o = options();
  o.device_outputs = true;
  Result<Session> made = session(layer(), o);
  Result<Session> plain = session(layer(), options());
  ASSERT_TRUE(made.ok() && plain.ok());
  const std::vector<float> x(32, 0.5f);
  for (Session* each : {&*made, &*plain}) ASSERT_TRUE(each->set_input(0, view(x, {4, 8})).ok());
  Guarded home({4, 8}, 3, 1);
  const Status set = made->set_output(0, home.tensor());
  const Status status = set.ok() ? made->run() : set;
  ASSERT_TRUE(plain->run().ok());
  if (!status.ok()) {
    EXPECT_TRUE(home.is_whole());
    return;
  }
  EXPECT_EQ(home.values(), values_of(*plain->output(0)));
  EXPECT_TRUE(home.is_whole());
}

}  // namespace
}  // namespace hg::test
