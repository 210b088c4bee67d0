// SPDX-License-Identifier: Apache-2.0
// Eager ops: known values, where results go, what is cached, and what is rejected.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "hg/create.h"
#include "hg/executor.h"
#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg {
namespace {

Executor cpu(const ExecutorOptions& options = {}) { return must(Executor::create(options)); }

Array of(std::vector<float> values, const Sizes& shape) {
  return must(Array::copy_of(view(values, shape)));
}

template <class T>
Array of_type(std::vector<T> values, const Sizes& shape) {
  return must(Array::copy_of(view(values, shape)));
}

template <class T = float>
std::vector<T> values_of(const Result<Array>& array) {
  EXPECT_TRUE(array.ok()) << array.status().message();
  if (!array.ok()) return {};
  EXPECT_EQ(array->dtype(), dtype_of<T>());
  const Result<Array> dense = Array::copy_of(*array);
  const T* const data = dense->as<T>();
  return std::vector<T>(data, data + dense->count());
}

using Floats = std::vector<float>;

void expect_near(const Result<Array>& got, const Floats& expected) {
  const Floats values = values_of(got);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 2e-6) << i;
}

// Expects that the call failed, and returns its message.
template <class T>
std::string refusal(const Result<T>& result, Code code = Code::invalid_argument) {
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), code);
  return std::string(result.status().message());
}

TEST(Eager, ArithmeticBroadcastsAndTakesNumbers) {
  Executor ex = cpu();
  const Array a = of({1, 2, 3, 4, 5, 6}, {2, 3}), b = of({10, 20, 30}, {3}), c = of({2, 4}, {2, 1});
  EXPECT_EQ(values_of(ex.add(a, b)), (Floats{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(values_of(ex.sub(b, a)), (Floats{9, 18, 27, 6, 15, 24}));
  EXPECT_EQ(values_of(ex.mul(a, c)), (Floats{2, 4, 6, 16, 20, 24}));
  EXPECT_EQ(values_of(ex.div(a, 2)), (Floats{0.5, 1, 1.5, 2, 2.5, 3}));
  EXPECT_EQ(values_of(ex.sub(2.0, a)), (Floats{1, 0, -1, -2, -3, -4}));
  EXPECT_EQ(values_of(ex.add(ex.mul(a, a), 0.5)), (Floats{1.5, 4.5, 9.5, 16.5, 25.5, 36.5}));
  EXPECT_EQ(values_of<int64_t>(ex.mul(of_type<int64_t>({1, 2}, {2}), 3)),
            (std::vector<int64_t>{3, 6}));
  EXPECT_EQ(ex.add(c, b)->shape(), (Sizes{2, 3}));
  EXPECT_EQ(ex.add(of({}, {0, 3}), b)->shape(), (Sizes{0, 3}));
}

TEST(Eager, DTypesArePromotedAsInPyTorch) {
  Executor ex = cpu();
  const auto sum = [&](DType a, const Sizes& shape_a, DType b, const Sizes& shape_b) {
    return ex.add(*ones(shape_a, a), *full(shape_b, 2, b))->dtype();
  };
  EXPECT_EQ(sum(f32, {2}, f64, {2}), f64);
  EXPECT_EQ(sum(i64, {2}, f32, {2}), f32);
  EXPECT_EQ(sum(f16, {2}, bf16, {2}), f32);
  EXPECT_EQ(sum(u8, {2}, i8, {2}), i16);
  EXPECT_EQ(sum(boolean, {2}, u8, {2}), u8);
  EXPECT_EQ(sum(f16, {2}, i64, {2}), f16);
  EXPECT_EQ(sum(f32, {2}, f64, {}), f32);  // a number without dims counts only by its kind
  EXPECT_EQ(sum(i64, {2}, f16, {}), f16);
  EXPECT_EQ(sum(u8, {2}, i64, {}), u8);
  EXPECT_EQ(sum(f32, {}, f64, {}), f64);
  EXPECT_EQ(values_of<double>(ex.mul(of({1.5, 2}, {2}), *full({2, 1}, 3, f64))),
            (std::vector<double>{4.5, 6, 4.5, 6}));
  EXPECT_EQ(ex.where(*ones({2}, boolean), *ones({2}, i32), *ones({2}))->dtype(), f32);
  EXPECT_EQ(ex.lt(*ones({2}, i32), *ones({2}))->dtype(), boolean);
  EXPECT_EQ(ex.concat({*ones({2}, i32), *ones({3})})->dtype(), f32);
  const Array whole = of_type<int64_t>({1, 2}, {2}), flags = *cast(of({0, 1}, {2}), boolean);
  EXPECT_EQ(values_of(ex.mul(whole, 0.5)), (Floats{0.5, 1}));
  EXPECT_EQ(values_of(ex.div(whole, 2)), (Floats{0.5, 1}));
  EXPECT_EQ(ex.mul(*ones({2}, u8), 3)->dtype(), u8);
  EXPECT_EQ(ex.add(flags, true)->dtype(), boolean);
  EXPECT_EQ(ex.add(flags, 1)->dtype(), i64);
  EXPECT_EQ(values_of<int64_t>(ex.where(flags, whole, 7)), (std::vector<int64_t>{7, 2}));
  EXPECT_EQ(values_of(ex.where(flags, whole, 7.5)), (Floats{7.5, 2}));
  EXPECT_EQ(values_of<int64_t>(ex.add(whole, int64_t{1} << 60)),
            (std::vector<int64_t>{(int64_t{1} << 60) + 1, (int64_t{1} << 60) + 2}));
  EXPECT_FALSE(ex.sub(flags, flags).ok());                          // PyTorch rejects it too
  EXPECT_FALSE(ex.matmul(*ones({2, 2}), *ones({2, 2}, f64)).ok());  // PyTorch rejects it too
  EXPECT_NE(refusal(ex.add(*ones({2}), *ones({3}, f64))).find("[3]"), std::string::npos);
}

TEST(Eager, ActivationsHaveTheirFormulas) {
  Executor ex = cpu();
  const Array x = of({-2, -0.5, 0, 1, 3}, {5});
  EXPECT_EQ(values_of(ex.relu(x)), (Floats{0, 0, 0, 1, 3}));
  Floats sigmoid, tanh, erf, approximate;
  for (const float v : {-2.0f, -0.5f, 0.0f, 1.0f, 3.0f}) {
    sigmoid.push_back(1 / (1 + std::exp(-v)));
    tanh.push_back(std::tanh(v));
    erf.push_back(0.5f * v * (1 + std::erf(v / std::sqrt(2.0f))));
    approximate.push_back(
        0.5f * v * (1 + std::tanh(std::sqrt(2 / 3.14159265f) * (v + 0.044715f * v * v * v))));
  }
  expect_near(ex.sigmoid(x), sigmoid);
  expect_near(ex.tanh(x), tanh);
  expect_near(ex.gelu(x), erf);
  expect_near(ex.gelu(x, "tanh"), approximate);
  expect_near(ex.gelu(x, GeluApproximation::tanh), approximate);
}

// f(-0) is -0 for odd functions and for others that are about x near 0, in vectors and alone.
TEST(Eager, ZeroKeepsItsSign) {
  Executor ex = cpu();
  for (const char* op : {"tanh", "expm1", "elu", "gelu", "silu", "mish", "sin", "tan", "asin",
                         "atan", "sinh", "asinh", "atanh", "erf", "sqrt", "log1p", "round", "ceil"})
    for (const DType dtype : {f32, f64, f16, bf16}) {
      const Result<Array> x = ex.cast(of(Floats(37, -0.f), {37}), dtype);
      const Array y = must(ex.call(op, {*x}));
      for (const float each : values_of(ex.cast(y, f32)))
        EXPECT_TRUE(each == 0 && std::signbit(each))
            << op << " in " << to_string(dtype) << " gives " << each;
    }
}

TEST(Eager, SoftmaxGoesAlongAnyDim) {
  Executor ex = cpu();
  const Array x = of({0, 1, 2, 3, 4, 5, 6, 7}, {2, 2, 2});
  const auto two = [](float distance) { return 1 / (1 + std::exp(-distance)); };
  for (const auto& [dim, distance] :
       {std::pair{0, 4.0f}, {1, 2.0f}, {2, 1.0f}, {-1, 1.0f}, {-2, 2.0f}, {-3, 4.0f}}) {
    const Floats values = values_of(ex.softmax(x, dim));
    const int64_t stride = dim == 0 || dim == -3 ? 4 : dim == 1 || dim == -2 ? 2 : 1;
    for (int64_t i = 0; i < 8; ++i)
      EXPECT_NEAR(values[size_t(i)], (i / stride) % 2 == 1 ? two(distance) : 1 - two(distance),
                  1e-6);
  }
  EXPECT_EQ(values_of(ex.softmax(of({7}, {}), 0)), Floats{1});
  EXPECT_NE(refusal(ex.softmax(x, 3)).find("3"), std::string::npos);
}

TEST(Eager, LinearTakesInputsOfAnyRank) {
  Executor ex = cpu();
  const Array weight = of({1, 2, 3, 4, 5, 6}, {2, 3}), bias = of({10, 20}, {2});
  EXPECT_EQ(values_of(ex.linear(of({1, 1, 1}, {3}), weight, bias)), (Floats{16, 35}));
  EXPECT_EQ(ex.linear(of({1, 1, 1}, {3}), weight)->shape(), (Sizes{2}));
  EXPECT_EQ(values_of(ex.linear(of({1, 0, 0, 0, 1, 0}, {2, 3}), weight)), (Floats{1, 4, 2, 5}));
  EXPECT_EQ(ex.linear(of(Floats(24, 1), {2, 2, 2, 3}), weight, bias)->shape(), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(values_of(ex.linear(of(Floats(6, 1), {1, 2, 3}), weight, bias)),
            (Floats{16, 35, 16, 35}));
}

TEST(Eager, LossesReduce) {
  Executor ex = cpu();
  const Array x = of({1, 2, 3, 4}, {2, 2}), target = of({1, 0, 0, 0}, {2, 2});
  EXPECT_EQ(values_of(ex.mse_loss(x, target)), Floats{7.25});
  EXPECT_EQ(values_of(ex.mse_loss(x, target, "sum")), Floats{29});
  EXPECT_EQ(values_of(ex.mse_loss(x, target, Reduction::none)), (Floats{0, 4, 9, 16}));
  const Array classes = of_type<int64_t>({1, 0}, {2});
  const float expected = (std::log(1 + std::exp(-1.0f)) + std::log(1 + std::exp(1.0f))) / 2;
  expect_near(ex.cross_entropy(x, classes), {expected});
}

TEST(Eager, SeveralOutputsAndListsOfInputs) {
  Executor ex = cpu();
  const Array x = of({3, 1, 2}, {3});
  const auto top = must(ex.topk(x, 2));
  const auto& [values, indices] = top;
  EXPECT_EQ(values_of(values), (Floats{3, 2}));
  EXPECT_EQ(values_of<int64_t>(indices), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(values_of(ex.concat({x, x}, 0)), (Floats{3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(values_of<int64_t>(ex.nonzero(of({0, 5, 0, 7}, {4}))), (std::vector<int64_t>{1, 3}));
}

TEST(Eager, CallIsTheSame) {
  Executor ex = cpu();
  const Array x = of({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(values_of(ex.call("softmax", {x}, {{"dim", 0}})), values_of(ex.softmax(x, 0)));
  EXPECT_EQ(ex.counters().plans, 1);
  EXPECT_EQ(ex.counters().hits, 1);
  EXPECT_EQ(ex.calls("sort", {x})->size(), 2u);
  EXPECT_NE(refusal(ex.call("sort", {x})).find("2 outputs"), std::string::npos);
  EXPECT_NE(refusal(ex.call("sofmax", {x}), Code::unsupported).find("softmax"), std::string::npos);
  EXPECT_NE(refusal(ex.call("softmax", {x}, {{"dmi", 0}})).find("dmi"), std::string::npos);
  EXPECT_NE(refusal(ex.call("if", {x}), Code::unsupported).find("subgraphs"), std::string::npos);
}

TEST(Eager, ResultsGoWhereTheyAreAsked) {
  Executor ex = cpu();
  const Array a = of({1, 2, 3, 4}, {2, 2}), b = of({10, 20, 30, 40}, {2, 2});
  Array out = *Array::allocate(f32, {2, 2});
  const void* const place = out.tensor().data;
  const Result<Array> y = ex.into(out).add(a, b);
  EXPECT_EQ(values_of(y), (Floats{11, 22, 33, 44}));
  EXPECT_EQ(y->tensor().data, place);
  // Into one of the inputs.
  Array x = *Array::copy_of(a);
  EXPECT_EQ(values_of(ex.into(x).mul(x, b)), (Floats{10, 40, 90, 160}));
  EXPECT_EQ(values_of(ex.into(x).add(x, x)), (Floats{20, 80, 180, 320}));
  EXPECT_EQ(values_of(x), (Floats{20, 80, 180, 320}));
  // Into an input, for an op that cannot run in place: as if it read all elements first.
  Array m = *Array::copy_of(a);
  EXPECT_EQ(values_of(ex.into(m).matmul(m, m)), (Floats{7, 10, 15, 22}));
  // Into the one row that is compared with several.
  Array rows = *Array::allocate(f32, {4, 256}), row = *Array::allocate(f32, {256});
  for (int64_t i = 0; i < 1024; ++i) rows.write<float>()[i] = static_cast<float>(i % 7);
  for (int64_t i = 0; i < 256; ++i) row.write<float>()[i] = 3;
  Array above = Array::wrap(Tensor{row.tensor().data, boolean, {4, 256}, {256, 1}});
  ASSERT_TRUE(ex.into(above).gt(rows, row).ok());
  for (int64_t i = 0; i < 1024; ++i) ASSERT_EQ(above.as<bool>()[i], i % 7 > 3) << i;
  // Into memory with gaps, and into the transpose of an input.
  Floats wide(8, -1);
  Array gaps = Array::wrap(Tensor{wide.data(), f32, {2, 2}, {4, 2}});
  EXPECT_TRUE(ex.into(gaps).add(a, b).ok());
  EXPECT_EQ(wide, (Floats{11, -1, 22, -1, 33, -1, 44, -1}));
  Array square = *Array::copy_of(a);
  Array turned = *ex.permute(square, {1, 0});
  EXPECT_TRUE(ex.into(turned).add(square, b).ok());
  EXPECT_EQ(values_of(turned), (Floats{11, 22, 33, 44}));
  // Into several outputs.
  Array outs[] = {*Array::allocate(f32, {2, 2}), *Array::allocate(i64, {2, 2})};
  EXPECT_TRUE(ex.into(outs).sort(a, -1, true).ok());
  EXPECT_EQ(values_of(outs[0]), (Floats{2, 1, 4, 3}));
}

TEST(Eager, WhatCannotBeWrittenToIsRefused) {
  Executor ex = cpu();
  const Array a = of({1, 2, 3, 4}, {2, 2});
  Array wrong_shape = of(Floats(4, 0), {4}), wrong_dtype = of_type<double>({0, 0, 0, 0}, {2, 2});
  std::string why = refusal(ex.into(wrong_shape).relu(a));
  EXPECT_NE(why.find("[2, 2]"), std::string::npos) << why;
  EXPECT_NE(why.find("[4]"), std::string::npos) << why;
  why = refusal(ex.into(wrong_dtype).relu(a));
  EXPECT_NE(why.find("f64"), std::string::npos) << why;
  const Floats constant(4, 0);
  Array read_only = Array::wrap(view(constant, {2, 2}));
  EXPECT_NE(refusal(ex.into(read_only).relu(a)).find("read only"), std::string::npos);
  Array empty;
  EXPECT_NE(refusal(ex.into(empty).relu(a)).find("empty"), std::string::npos);
  Array sizes = *Array::allocate(i64, {4, 2});
  EXPECT_NE(refusal(ex.into(sizes).nonzero(a)).find("data"), std::string::npos);
}

TEST(Eager, ErrorsNameBothShapes) {
  Executor ex = cpu();
  const Array a = of(Floats(6, 1), {2, 3}), b = of(Floats(8, 1), {2, 4});
  for (const std::string& why :
       {refusal(ex.add(a, b)), refusal(ex.matmul(a, b)), refusal(ex.linear(a, b))}) {
    EXPECT_NE(why.find("[2, 3]"), std::string::npos) << why;
    EXPECT_NE(why.find("[2, 4]"), std::string::npos) << why;
  }
  std::string why = refusal(ex.matmul(a, of_type<int64_t>({1, 2, 3}, {3, 1})));
  EXPECT_NE(why.find("f32"), std::string::npos) << why;
  EXPECT_NE(why.find("i64"), std::string::npos) << why;
  why = refusal(ex.bitwise_and(of_type<int64_t>({1}, {1}), 0.5));
  EXPECT_NE(why.find("f32"), std::string::npos) << why;
  const Array byte = of_type<uint8_t>({1}, {1});
  EXPECT_NE(refusal(ex.where(ex.gt(byte, 0), byte, 300)).find("300"), std::string::npos);
  EXPECT_EQ(ex.add(byte, 300)->as<uint8_t>()[0], 45);  // wraps, as in torch
  EXPECT_EQ(ex.div(byte, 300)->as<float>()[0], 1 / 300.0f);
  EXPECT_NE(refusal(ex.pow(byte, -1)).find("-1"), std::string::npos);
  EXPECT_NE(refusal(ex.sub(byte, true)).find("bool"), std::string::npos);
  EXPECT_NE(refusal(ex.add(a, Array())).find("'b'"), std::string::npos);
  EXPECT_NE(refusal(ex.add(a, Tensor{nullptr, f32, {3}, {1}})).find("null"), std::string::npos);
  // If a call among the inputs failed, this call fails with the same message.
  EXPECT_EQ(refusal(ex.relu(ex.add(a, b))), refusal(ex.add(a, b)));
}

TEST(Eager, FreedMemoryIsAnError) {
  Executor ex = cpu();
  Array a = of({1, 2}, {2});
  const Array alias = a, row = *ex.reshape(a, {1, 2});
  EXPECT_TRUE(ex.relu(row).ok());
  a.free();
  EXPECT_TRUE(alias.is_freed());
  for (const Array* array : std::initializer_list<const Array*>{&a, &alias, &row}) {
    const std::string why = refusal(ex.relu(*array));
    EXPECT_NE(why.find("'x'"), std::string::npos) << why;
    EXPECT_NE(why.find("freed"), std::string::npos) << why;
    EXPECT_EQ(array->as<float>(), nullptr);
  }
  Array out = alias;
  EXPECT_NE(refusal(ex.into(out).relu(of({1, 2}, {2}))).find("freed"), std::string::npos);
}

TEST(Eager, AClosedExecutorRefuses) {
  Executor ex = cpu();
  const Array a = of({1, 2}, {2});
  EXPECT_TRUE(ex.relu(a).ok());
  ex.close();
  EXPECT_NE(refusal(ex.relu(a)).find("closed"), std::string::npos);
  EXPECT_NE(refusal(ex.call("relu", {a})).find("closed"), std::string::npos);
  ex.close();
  Executor other = cpu();
  const Executor moved = std::move(other);
  EXPECT_NE(refusal(other.relu(a)).find("closed"), std::string::npos);  // NOLINT: moved from
}

TEST(Eager, ViewsShareAndReadTheirInputs) {
  Executor ex = cpu();
  const Array x = of({1, 2, 3, 4, 5, 6}, {2, 3});
  const Array turned = *ex.permute(x, {1, 0});
  EXPECT_TRUE(turned.shares_memory_with(x));
  EXPECT_EQ(turned.strides(), (Sizes{1, 3}));
  EXPECT_EQ(values_of(ex.relu(turned)), (Floats{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(values_of(ex.sum(turned, {0})), (Floats{6, 15}));
  // A dense input of the same shape has a plan of its own.
  const Array dense = of({1, 2, 3, 4, 5, 6}, {3, 2});
  EXPECT_EQ(values_of(ex.relu(dense)), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values_of(ex.relu(turned)), (Floats{1, 4, 2, 5, 3, 6}));
  const Array last = *ex.slice(turned, 0, 1, 3);
  EXPECT_EQ(values_of(last), (Floats{2, 5, 3, 6}));
  EXPECT_EQ(last.tensor().data, x.as<float>() + 1);
  const Array flipped = *ex.flip(x, {1});
  EXPECT_EQ(values_of(ex.add(flipped, x)), (Floats{4, 4, 4, 10, 10, 10}));
  const Array wide = *ex.expand(of({1, 2}, {2, 1}), {2, 3});
  EXPECT_EQ(values_of(ex.add(wide, x)), (Floats{2, 3, 4, 6, 7, 8}));
  EXPECT_EQ(values_of(ex.reshape(turned, {6})), (Floats{1, 4, 2, 5, 3, 6}));
  Floats mine = {1, 2, 3};
  EXPECT_EQ(ex.reshape(view(mine, {3}), {3, 1})->tensor().data, mine.data());
  const Floats constant = {1, 2, 3};
  EXPECT_TRUE(ex.reshape(view(constant, {3}), {3, 1})->is_read_only());
}

TEST(Eager, PlansAreKeptAndBounded) {
  Executor ex = cpu({.most_plans = 4});
  const auto relu = [&](int64_t n) { return ex.relu(of(Floats(size_t(n), -1), {n})); };
  for (int round = 0; round < 3; ++round)
    for (int64_t n = 1; n <= 4; ++n) EXPECT_EQ(values_of(relu(n)), Floats(size_t(n), 0));
  EXPECT_EQ(ex.counters().plans, 4);
  EXPECT_EQ(ex.counters().hits, 8);
  EXPECT_TRUE(relu(1).ok());  // 2 is now the least recently used
  EXPECT_TRUE(relu(5).ok());
  EXPECT_EQ(ex.counters().evicted, 1);
  EXPECT_TRUE(relu(1).ok());
  EXPECT_EQ(ex.counters().plans, 5);
  EXPECT_TRUE(relu(2).ok());
  EXPECT_EQ(ex.counters().plans, 6);
  for (int64_t n = 1; n < 200; ++n) EXPECT_EQ(values_of(relu(n % 37)).size(), size_t(n % 37));
  EXPECT_EQ(ex.counters().plans - ex.counters().evicted, 4);
}

TEST(Eager, RandomOpsFollowTheSeed) {
  Executor a = cpu({.seed = 7}), b = cpu({.seed = 7, .most_plans = 1}), c = cpu({.seed = 8});
  Floats first, second, third;
  for (int round = 0; round < 3; ++round)
    for (const int64_t n : {3, 5}) {
      for (const float v : values_of(a.rand({n}))) first.push_back(v);
      for (const float v : values_of(b.rand({n}))) second.push_back(v);
      for (const float v : values_of(c.rand({n}))) third.push_back(v);
    }
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
  std::sort(second.begin(), second.end());
  EXPECT_EQ(std::unique(second.begin(), second.end()), second.end());  // no number is drawn twice
  a.seed(7);
  EXPECT_EQ(values_of(a.rand({3})), Floats(first.begin(), first.begin() + 3));
  const Array x = of(Floats(1000, 1), {1000});
  const Floats dropped = values_of(a.dropout(x, 0.5, true));
  EXPECT_NEAR(static_cast<double>(std::count(dropped.begin(), dropped.end(), 0.0f)), 500, 100);
  EXPECT_EQ(values_of(a.dropout(x, 0.5)), Floats(1000, 1));
}

TEST(Eager, DevicesGoByName) {
  EXPECT_EQ(*parse_device("cpu"), Device::cpu);
  EXPECT_EQ(*parse_device("vulkan"), Device::vulkan);
  EXPECT_EQ(*parse_device("automatic"), Device::automatic);
  EXPECT_EQ(*parse_device("auto"), Device::automatic);
  EXPECT_NE(refusal(parse_device("cuda")).find("'cuda'"), std::string::npos);
  const Result<Executor> none =
      Executor::create({.device = Device::vulkan, .gpu_name = "no such device"});
  ASSERT_FALSE(none.ok());
  EXPECT_FALSE(none.status().message().empty());
  Executor ex = cpu({.device = Device::automatic, .gpu_name = "no such device"});
  EXPECT_EQ(ex.device(), Device::cpu);
  ASSERT_EQ(ex.notes().size(), 1u);
  EXPECT_NE(ex.notes()[0].find("on the CPU: "), std::string::npos) << ex.notes()[0];
  EXPECT_EQ(values_of(ex.relu(of({-1, 1}, {2}))), (Floats{0, 1}));
}

TEST(Eager, AUsersOpIsCalledByName) {
  Registry registry;
  constexpr OpDef kTwice = {.signature = "acme.twice(x) -> y",
                            .expand = [](ExpandContext& c) -> Status {
                              c.set_out(0, c.graph().call("add", {c.in(0), c.in(0)}));
                              return {};
                            }};
  ASSERT_TRUE(registry.add(kTwice).ok());
  Executor ex = cpu({.registry = &registry});
  EXPECT_EQ(values_of(ex.call("acme.twice", {of({1, 2}, {2})})), (Floats{2, 4}));
}

}  // namespace
}  // namespace hg
