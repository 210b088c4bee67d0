// SPDX-License-Identifier: Apache-2.0
// Arrays: memory ownership, views, other libraries' tensors, creation, printing.
#include "hg/array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "hg/create.h"
#include "hg/dlpack.h"
#include "hg/executor.h"
#include "tests/support/must.h"

namespace hg {
namespace {

template <class T>
std::vector<T> values_of(const Result<Array>& array) {
  EXPECT_TRUE(array.ok()) << array.status().message();
  if (!array.ok()) return {};
  EXPECT_EQ(array->dtype(), dtype_of<T>());
  const Result<Array> dense = Array::copy_of(*array);
  return std::vector<T>(dense->as<T>(), dense->as<T>() + dense->count());
}
std::vector<float> floats_of(const Result<Array>& array) { return values_of<float>(array); }

template <class T>
std::string refusal(const Result<T>& result, Code code = Code::invalid_argument) {
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), code) << result.status().message();
  return std::string(result.status().message());
}

using Floats = std::vector<float>;

// ---- Memory ----

TEST(Array, WrapsMemoryOfTheCallerWithoutCopying) {
  Floats mine = {1, 2, 3, 4, 5, 6};
  Array a = *Array::wrap(std::span(mine), {2, 3});
  EXPECT_EQ(a.as<float>(), mine.data());
  EXPECT_EQ(a.tensor().data, mine.data());
  mine[5] = 60;
  EXPECT_EQ(a.as<float>()[5], 60);
  a.write<float>()[0] = 10;
  EXPECT_EQ(mine[0], 10);
  EXPECT_FALSE(a.is_read_only());
  EXPECT_NE(refusal(Array::wrap(std::span(mine), {2, 2})).find("[2, 2]"), std::string::npos);
  const Floats constant = {1, 2};
  Array read_only = *Array::wrap(std::span(constant), {2});
  EXPECT_TRUE(read_only.is_read_only());
  EXPECT_EQ(read_only.write<float>(), nullptr);
  EXPECT_FALSE(read_only.span<float>().ok());
  EXPECT_EQ(read_only.span<const float>()->data(), constant.data());
}

TEST(Array, OwnsMemoryWhenAsked) {
  std::vector<float> mine = {1, 2};
  const Array copy = *Array::copy_of(view(mine, {2}));
  mine[0] = 5;
  EXPECT_EQ(copy.as<float>()[0], 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copy.as<float>()) % 64, 0u);
  auto owned = std::make_shared<std::vector<float>>(3, 7.0f);
  const std::weak_ptr<std::vector<float>> watch = owned;
  {
    const Array a = Array::wrap(view(*owned, {3}), owned);
    owned.reset();
    const Array part = *a.narrow(0, 1, 1);
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(part.as<float>()[0], 7);
  }
  EXPECT_TRUE(watch.expired());
  EXPECT_FALSE(Array::allocate(f32, {int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_FALSE(Array::allocate(f32, {-1}).ok());
}

TEST(Array, FreedMemoryIsGoneForAllThatShareIt) {
  auto owned = std::make_shared<std::vector<float>>(3, 7.0f);
  const std::weak_ptr<std::vector<float>> watch = owned;
  Array a = Array::wrap(view(*owned, {3}), owned);
  owned.reset();
  Array part = *a.narrow(0, 1, 2);
  a.free();
  EXPECT_TRUE(watch.expired());
  EXPECT_TRUE(part.is_freed());
  EXPECT_EQ(part.as<float>(), nullptr);
  EXPECT_EQ(part.write<float>(), nullptr);
  EXPECT_FALSE(part.span<float>().ok());
  EXPECT_FALSE(part.reshape({1, 2}).ok());
  EXPECT_FALSE(part.contiguous().ok());
  EXPECT_FALSE(part.data().ok());
  EXPECT_FALSE(dlpack::to_dlpack(part).ok());
  EXPECT_EQ(to_text(part), "tensor(freed)");
  EXPECT_EQ(to_text(Array()), "tensor(empty)");
}

TEST(Array, TurnsIntoTheDataOfAModel) {
  const Array a = *arange(0, 6);
  EXPECT_EQ(a.data()->tensor.data, a.as<float>());
  const Array turned = *a.reshape({2, 3})->transpose(0, 1);
  EXPECT_TRUE(turned.data()->tensor.is_contiguous());
  Floats mine = {1, 2};
  EXPECT_NE(Array::wrap(view(mine, {2})).data()->tensor.data, mine.data());  // it is a copy
  const TensorData back = *TensorData::copy_of(view(mine, {2}));
  EXPECT_EQ(Array(back).as<float>(), back.tensor.data);
}

// ---- Views ----

TEST(Array, ViewsShareMemory) {
  const Array a = *arange(0, 24)->reshape({2, 3, 4});
  const auto shares = [&](const Result<Array>& view) {
    EXPECT_TRUE(view.ok()) << view.status().message();
    if (!view.ok()) return Array();
    EXPECT_TRUE(view->shares_memory_with(a));
    return *view;
  };
  EXPECT_EQ(shares(a.reshape({4, -1})).shape(), (Sizes{4, 6}));
  EXPECT_EQ(shares(a.permute({2, 0, 1})).strides(), (Sizes{1, 12, 4}));
  EXPECT_EQ(shares(a.permute({-1, 0, 1})).shape(), (Sizes{4, 2, 3}));
  EXPECT_EQ(shares(a.transpose(0, -1)).strides(), (Sizes{1, 4, 12}));
  EXPECT_EQ(floats_of(shares(a.select(1, 1))), (Floats{4, 5, 6, 7, 16, 17, 18, 19}));
  EXPECT_EQ(floats_of(shares(a.select(-1, -1))), (Floats{3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(floats_of(shares(a.select(0, 1)->select(0, 2)->narrow(0, 1, 2))), (Floats{21, 22}));
  EXPECT_EQ(floats_of(shares(a.slice(2, 0, 4, 3))),
            (Floats{0, 3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 23}));
  EXPECT_EQ(floats_of(shares(a.slice(2, -1, 100))), (Floats{3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(shares(a.slice(0, 5, 1)).shape(), (Sizes{0, 3, 4}));
  const Array wide = shares(a.select(2, 0)->reshape({2, 3, 1})->expand({5, -1, 3, 2}));
  EXPECT_EQ(wide.strides(), (Sizes{0, 12, 4, 0}));
  EXPECT_EQ(shares(a.contiguous()).as<float>(), a.as<float>());
  // If no strides fit, the result has its own memory.
  const Array flat = *a.transpose(0, 2)->reshape({24});
  EXPECT_FALSE(flat.shares_memory_with(a));
  EXPECT_EQ(flat.as<float>()[1], 12);
  EXPECT_FALSE(a.transpose(0, 2)->contiguous()->shares_memory_with(a));
  // A write through one array is visible in the other.
  Array row = *a.select(0, 0)->select(0, 0);
  row.write<float>()[3] = -1;
  EXPECT_EQ(a.as<float>()[3], -1);
}

TEST(Array, ViewsThatDoNotFitAreRefused) {
  const Array a = *zeros({2, 3});
  for (const std::string& why :
       {refusal(a.reshape({4})), refusal(a.reshape({4, -1})), refusal(a.reshape({-1, -1})),
        refusal(a.permute({0, 0})), refusal(a.transpose(0, 2)), refusal(a.select(0, 2)),
        refusal(a.select(0, -3)), refusal(a.narrow(1, 2, 2)), refusal(a.narrow(1, 0, -1)),
        refusal(a.expand({2, 4})), refusal(a.expand({3})), refusal(a.slice(0, 0, 1, 0)),
        refusal(a.select(2, 0)), refusal(zeros({})->select(0, 0))})
    EXPECT_GT(why.size(), 10u);
  EXPECT_NE(refusal(a.select(0, 2)).find("index 2"), std::string::npos);
  EXPECT_NE(refusal(a.reshape({4})).find("[2, 3]"), std::string::npos);
}

TEST(Array, SpansAreOfTheRightTypeAndContiguous) {
  Array a = *arange(0, 6)->reshape({2, 3});
  EXPECT_EQ(a.span<float>()->size(), 6u);
  EXPECT_EQ(a.span<const float>()->data(), a.as<float>());
  EXPECT_NE(refusal(a.span<double>()).find("f64"), std::string::npos);
  Array turned = *a.transpose(0, 1);
  EXPECT_NE(refusal(turned.span<float>()).find("[1, 3]"), std::string::npos);
}

// ---- DLPack ----

TEST(DlPack, TheStructsAreThoseOfDlPack) {
  constexpr bool is_wide = sizeof(void*) == 8;  // or 4, where integers of 64 bits are aligned to 8
  static_assert(sizeof(dlpack::DataTensor) == (is_wide ? 48 : 40) &&
                offsetof(dlpack::DataTensor, rank) == (is_wide ? 16 : 12) &&
                offsetof(dlpack::DataTensor, dtype) == (is_wide ? 20 : 16) &&
                offsetof(dlpack::DataTensor, shape) == (is_wide ? 24 : 20) &&
                offsetof(dlpack::DataTensor, byte_offset) == (is_wide ? 40 : 32));
  static_assert(offsetof(dlpack::ManagedTensor, context) == (is_wide ? 48 : 40) &&
                offsetof(dlpack::ManagedTensor, deleter) == (is_wide ? 56 : 44));
  static_assert(offsetof(dlpack::ManagedTensorVersioned, context) == 8 &&
                offsetof(dlpack::ManagedTensorVersioned, flags) == (is_wide ? 24 : 16) &&
                offsetof(dlpack::ManagedTensorVersioned, tensor) == (is_wide ? 32 : 24));
}

TEST(DlPack, GivesAwayAndTakesBackTheSameMemory) {
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    Array a = *zeros({2, 3}, dtype)->transpose(0, 1);
    const void* const memory = a.tensor().data;
    dlpack::ManagedTensor* const given = *dlpack::to_dlpack(a);
    a = Array();  // the struct keeps the memory alive
    EXPECT_EQ(given->tensor.data, memory);
    const Array back = must(dlpack::from_dlpack(given));
    EXPECT_EQ(back.tensor().data, memory);
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.shape(), (Sizes{3, 2}));
    EXPECT_EQ(back.strides(), (Sizes{1, 3}));
  }
}

int deleted = 0;

TEST(DlPack, CallsTheDeleterWithTheLastView) {
  deleted = 0;
  Floats memory = {0, 1, 2, 3, 4, 5, 6};
  int64_t shape[] = {2, 3};
  dlpack::ManagedTensor foreign{
      {memory.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, sizeof(float)},
      nullptr,
      [](dlpack::ManagedTensor*) { ++deleted; }};
  {
    Array part;
    {
      const Array a = *dlpack::from_dlpack(&foreign);
      EXPECT_EQ(floats_of(a), (Floats{1, 2, 3, 4, 5, 6}));
      EXPECT_EQ(a.as<float>(), memory.data() + 1);
      part = *a.select(0, 1);
    }
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);
  Array freed = *dlpack::from_dlpack(&foreign);
  const Array other = freed;
  freed.free();
  EXPECT_EQ(deleted, 2);
  foreign.deleter = nullptr;
  EXPECT_TRUE(dlpack::from_dlpack(&foreign).ok());
}

TEST(DlPack, WhatItCannotTakeStaysTheCallers) {
  deleted = 0;
  float value = 0;
  int64_t shape[20] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  dlpack::ManagedTensor foreign{{&value, {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0},
                                nullptr,
                                [](dlpack::ManagedTensor*) { ++deleted; }};
  auto other = foreign;
  other.tensor.device.type = 2;
  EXPECT_NE(refusal(dlpack::from_dlpack(&other), Code::unsupported).find("type 2"),
            std::string::npos);
  other = foreign;
  other.tensor.dtype.lanes = 4;
  EXPECT_NE(refusal(dlpack::from_dlpack(&other), Code::unsupported).find("4 lanes"),
            std::string::npos);
  other = foreign;
  other.tensor.dtype.bits = 8;
  EXPECT_FALSE(dlpack::from_dlpack(&other).ok());
  other = foreign;
  other.tensor.rank = 13;
  EXPECT_NE(refusal(dlpack::from_dlpack(&other), Code::unsupported).find("13"), std::string::npos);
  other = foreign;
  shape[0] = -1;
  EXPECT_FALSE(dlpack::from_dlpack(&other).ok());
  shape[0] = 1;
  other.tensor.data = nullptr;
  EXPECT_FALSE(dlpack::from_dlpack(&other).ok());
  EXPECT_FALSE(dlpack::from_dlpack(static_cast<dlpack::ManagedTensor*>(nullptr)).ok());
  EXPECT_EQ(deleted, 0);
  // Only the versioned struct has a read-only flag.
  const Floats constant = {1, 2};
  const Array read_only = Array::wrap(view(constant, {2}));
  EXPECT_FALSE(dlpack::to_dlpack(read_only).ok());
  dlpack::ManagedTensorVersioned* const versioned = *dlpack::to_dlpack_versioned(read_only);
  versioned->major = 2;
  EXPECT_NE(refusal(dlpack::from_dlpack(versioned), Code::unsupported).find("2.0"),
            std::string::npos);
  versioned->major = 1;
  EXPECT_TRUE(dlpack::from_dlpack(versioned)->is_read_only());
}

// ---- From nothing ----

TEST(Create, GivesWhatPyTorchGives) {
  EXPECT_EQ(floats_of(zeros({2})), (Floats{0, 0}));
  EXPECT_EQ(values_of<int64_t>(ones({2}, i64)), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(values_of<double>(full({2}, 2.5, f64)), (std::vector<double>{2.5, 2.5}));
  EXPECT_EQ(floats_of(full({}, 3)), Floats{3});
  EXPECT_EQ(floats_of(full({0}, 3)), Floats{});
  EXPECT_EQ(floats_of(arange(0, 4)), (Floats{0, 1, 2, 3}));
  EXPECT_EQ(floats_of(arange(1, 2.25, 0.5)), (Floats{1, 1.5, 2}));
  EXPECT_EQ(floats_of(arange(3, 0, -1)), (Floats{3, 2, 1}));
  EXPECT_EQ(values_of<int32_t>(arange(5, -1, -3, i32)), (std::vector<int32_t>{5, 2}));
  EXPECT_EQ(arange(2, 2)->shape(), (Sizes{0}));
  EXPECT_NE(refusal(arange(0, 4, -1)).find("-1"), std::string::npos);
  EXPECT_FALSE(arange(0, 4, 0).ok());
  EXPECT_FALSE(arange(0, 4, 0.5, i64).ok());
  EXPECT_EQ(floats_of(linspace(0, 1, 5)), (Floats{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(floats_of(linspace(3, 9, 1)), Floats{3});
  EXPECT_EQ(floats_of(eye(2)), (Floats{1, 0, 0, 1}));
  EXPECT_EQ(floats_of(eye(2, 3)), (Floats{1, 0, 0, 0, 1, 0}));
}

TEST(Create, RandomNumbersFollowTheSeed) {
  for (const DType dtype : {f32, f64}) {
    const Array a = *rand({5000}, 3, dtype), b = *rand({5000}, 3, dtype),
                c = *rand({5000}, 4, dtype);
    EXPECT_EQ(std::memcmp(a.tensor().data, b.tensor().data, size_t(a.bytes())), 0);
    EXPECT_NE(std::memcmp(a.tensor().data, c.tensor().data, size_t(a.bytes())), 0);
  }
  const Floats unit = floats_of(rand({20000}, 1)), normal = floats_of(randn({20000}, 1));
  const auto moment = [](const Floats& x, int power) {
    double sum = 0;
    for (const float v : x) sum += std::pow(static_cast<double>(v), power);
    return sum / static_cast<double>(x.size());
  };
  EXPECT_TRUE(std::all_of(unit.begin(), unit.end(), [](float v) { return v >= 0 && v < 1; }));
  EXPECT_NEAR(moment(unit, 1), 0.5, 0.01);
  EXPECT_NEAR(moment(unit, 2), 1.0 / 3, 0.01);
  EXPECT_NEAR(moment(normal, 1), 0, 0.03);
  EXPECT_NEAR(moment(normal, 2), 1, 0.05);
  EXPECT_NEAR(moment(normal, 4), 3, 0.3);
  std::map<int64_t, int> counts;
  for (const int64_t v : values_of<int64_t>(randint(-2, 3, {10000}, 5))) ++counts[v];
  ASSERT_EQ(counts.size(), 5u);
  EXPECT_EQ(counts.begin()->first, -2);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 2000, 200) << value;
  EXPECT_EQ(values_of<uint8_t>(randint(7, 8, {3}, 5, u8)), (std::vector<uint8_t>{7, 7, 7}));
  EXPECT_NE(refusal(randint(3, 3, {1}, 0)).find("from 3"), std::string::npos);
}

TEST(Create, DTypesConvert) {
  Floats mine = {-1.75, 0, 2.5};
  const Array a = Array::wrap(view(mine, {3}));
  EXPECT_TRUE(cast(a, f32)->shares_memory_with(a));
  EXPECT_EQ(values_of<int64_t>(cast(a, i64)), (std::vector<int64_t>{-1, 0, 2}));
  EXPECT_EQ(values_of<bool>(cast(a, boolean)), (std::vector<bool>{true, false, true}));
  for (const DType wide : {f64, f16, bf16}) EXPECT_EQ(floats_of(cast(*cast(a, wide), f32)), mine);
  for (const DType narrow : {i32, i16, i8})
    EXPECT_EQ(floats_of(cast(*cast(a, narrow), f32)), (Floats{-1, 0, 2}));
}

// ---- Text ----

// python/tests/test_everyday.py compares texts of random tensors with PyTorch's.
TEST(ArrayText, IsPyTorchs) {
  const auto text = [](const std::vector<double>& values, const Sizes& shape, DType dtype) {
    return to_text(*cast(Array::wrap(view(values, shape)), dtype));
  };
  EXPECT_EQ(text({}, {2, 0, 3}, i64), "tensor([], size=(2, 0, 3), dtype=i64)");
  EXPECT_EQ(text({1}, {}, boolean), "tensor(True)");
  EXPECT_EQ(text({0, 1, 2, 3, 4, 10}, {1, 2, 3}, bf16),
            "tensor([[[ 0.,  1.,  2.],\n         [ 3.,  4., 10.]]], dtype=bf16)");
  EXPECT_EQ(text({HUGE_VAL, -HUGE_VAL, NAN}, {3}, f32), "tensor([inf, -inf, nan])");
  EXPECT_EQ(text({1e-5, 1, 1000}, {3}, f32), "tensor([1.0000e-05, 1.0000e+00, 1.0000e+03])");
  EXPECT_EQ(to_text(*arange(0, 1001)), "tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.])");
  EXPECT_EQ(str_cat(*arange(0, 2)), "tensor([0., 1.])");
  EXPECT_EQ(to_text(*full({8}, -0.5, f64)),
            "tensor([-0.5000, -0.5000, -0.5000, -0.5000, -0.5000, -0.5000, -0.5000, -0.5000],\n"
            "       dtype=f64)");
}

TEST(Array, AsStridedSharesMemory) {
  Array a = *arange(0, 12);
  const Array diagonal = *a.as_strided({3}, {5}, 1);  // of the 3 x 4 matrix, shifted
  EXPECT_TRUE(diagonal.shares_memory_with(a));
  a.write<float>()[6] = -1;
  const Array copy = *Array::copy_of(diagonal);
  EXPECT_EQ(std::vector<float>(copy.as<float>(), copy.as<float>() + 3),
            (std::vector<float>{1, -1, 11}));
  EXPECT_EQ(diagonal.as_strided({1}, {1}, -1)->as<float>()[0], 0);
  EXPECT_FALSE(a.as_strided({3}, {6}).ok());
  EXPECT_FALSE(a.as_strided({2}, {1}, -1).ok());
  EXPECT_FALSE(a.as_strided({2, 2}, {1}).ok());
}

}  // namespace
}  // namespace hg
