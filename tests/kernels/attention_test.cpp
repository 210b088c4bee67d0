// SPDX-License-Identifier: Apache-2.0
// Attention kernels that pass over blocks of keys, compared with the plain loops.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg {
namespace {

// q, k and v in f32 with a mask of bools whose blocks are shown, hidden or mixed.
TEST(Attention, MasksThatHideOrShowWholeBlocks) {
  std::mt19937 random(3);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % uint64_t(n)); };
  for (int i = 0; i < 40; ++i) {
    const int64_t times = i % 2 == 0 ? 1 + below(3) : 1 + below(300), keys = 1 + below(700);
    const bool per_query = below(4) > 0, per_head = below(2) == 0;
    const int64_t heads = 4, key_heads = below(2) == 0 ? 2 : 4, dim = 16;
    const Sizes mask_shape = {1, per_head ? heads : 1, per_query ? times : 1, keys};
    SCOPED_TRACE(str_cat("case ", i, ": times ", times, ", keys ", keys, ", mask ", mask_shape));
    std::vector<char> mask(static_cast<size_t>(mask_shape.count()));
    const int64_t rows = mask_shape.count() / keys;
    const int64_t kind = below(4);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t key = 0; key < keys; ++key)
        mask[static_cast<size_t>(row * keys + key)] =
            kind == 0   ? 1
            : kind == 1 ? key <= row % times + keys - times  // causal, after a past
            : kind == 2 ? key >= keys / 2                    // padding on the left
                        : (key / 128 + row / 100) % 3 > 0 && (key / 128 % 2 == 0 || below(9) > 0);
    Graph g;
    const Value q = g.input("q", f32, {1, heads, times, dim}),
                k = g.input("k", f32, {1, key_heads, keys, dim}),
                v = g.input("v", f32, {1, key_heads, keys, dim}),
                m = g.input("m", boolean, to_shape(mask_shape));
    g.output("y", g.call("attention", {q, k, v, m}));
    const Model model = must(Model::from_graph(std::move(g)));
    const auto draw = [&](int64_t count) {
      std::vector<float> values(static_cast<size_t>(count));
      for (float& value : values) value = static_cast<float>(below(2000)) * 1e-3f - 1;
      return values;
    };
    std::vector<float> qs = draw(heads * times * dim), ks = draw(key_heads * keys * dim),
                       vs = draw(key_heads * keys * dim);
    const auto answer = [&](std::vector<std::string> kernels) {
      Session session = must(Session::create(model, {.kernels = std::move(kernels)}));
      must(session.set_input("q", view(qs, {1, heads, times, dim})));
      must(session.set_input("k", view(ks, {1, key_heads, keys, dim})));
      must(session.set_input("v", view(vs, {1, key_heads, keys, dim})));
      must(session.set_input("m", view(mask.data(), boolean, mask_shape)));
      must(session.run());
      std::vector<float> y(static_cast<size_t>(heads * times * dim));
      copy_elements(must(session.output("y")), view(y, {1, heads, times, dim}));
      return y;
    };
    const std::vector<float> want = answer({"attention=plain"}), got = answer({});
    for (size_t at = 0; at < want.size(); ++at) ASSERT_NEAR(got[at], want[at], 2e-6) << at;
  }
}

// All dims, and numbers of queries and keys, that the loops divide into vectors and blocks. Keys
// and values are in f32, or in 16 bits as a past may be.
TEST(Attention, FewQueriesOfAnySizes) {
  std::mt19937 random(4);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % uint64_t(n)); };
  for (int i = 0; i < 120; ++i) {
    constexpr DType kStored[] = {f32, f16, bf16, i8};
    const DType stored = kStored[i % 4];
    const int64_t shared = 1 + below(4), key_heads = 1 + below(2), times = 1 + below(8 / shared);
    const int64_t dim = 1 + below(140), value_dim = 1 + below(140), keys = 1 + below(1200);
    const int64_t heads = shared * key_heads;
    SCOPED_TRACE(str_cat("case ", i, ": ", stored, ", heads ", heads, " of ", key_heads, ", times ",
                         times, ", keys ", keys, ", dims ", dim, " and ", value_dim));
    Graph g;
    const Value q = g.input("q", f32, {1, heads, times, dim}),
                k = g.input("k", stored, {1, key_heads, keys, dim}),
                v = g.input("v", stored, {1, key_heads, keys, value_dim});
    const auto wide = [&](const Value& x, const char* name) {
      if (stored != i8) return cast(x, f32);
      return cast(x, f32) * g.input(name, f32, {1, key_heads, keys, 1});
    };
    g.output("y", g.call("attention", {q, wide(k, "ks"), wide(v, "vs")}));
    const Model model = must(Model::from_graph(std::move(g)));
    const auto draw = [&](DType dtype, const Sizes& shape) {
      TensorData data = must(TensorData::allocate(dtype, shape));
      for (int64_t at = 0; at < shape.count(); ++at) {
        const float x = static_cast<float>(below(2000)) * 1e-3f - 1;
        if (dtype == f32) data.tensor.as<float>()[at] = x;
        if (dtype == f16) data.tensor.as<Half>()[at] = Half(x);
        if (dtype == bf16) data.tensor.as<BFloat16>()[at] = BFloat16(x);
        if (dtype == i8) data.tensor.as<int8_t>()[at] = static_cast<int8_t>(127 * x);
      }
      return data;
    };
    const TensorData qs = draw(f32, {1, heads, times, dim}),
                     ks = draw(stored, {1, key_heads, keys, dim}),
                     vs = draw(stored, {1, key_heads, keys, value_dim});
    TensorData scales[2];
    for (TensorData& each : scales) {
      each = draw(f32, {1, key_heads, keys, 1});
      for (int64_t at = 0; at < each.tensor.count(); ++at) each.tensor.as<float>()[at] *= 0.01f;
    }
    const auto answer = [&](SessionOptions options) {
      Session session = must(Session::create(model, std::move(options)));
      must(session.set_input("q", qs.tensor));
      must(session.set_input("k", ks.tensor));
      must(session.set_input("v", vs.tensor));
      if (stored == i8) {
        must(session.set_input("ks", scales[0].tensor));
        must(session.set_input("vs", scales[1].tensor));
      }
      must(session.run());
      const Tensor y = must(session.output("y"));
      return std::vector<float>(y.as<float>(), y.as<float>() + y.count());
    };
    const std::vector<float> want =
        answer({.disabled_passes = {"mixed_attention"}, .kernels = {"attention=plain"}});
    const std::vector<float> got = answer({.threads = 1}), threaded = answer({.threads = 3}),
                             blocks = answer(
                                 {.kernels = {"attention=blocks", "mixed_attention=blocks"}});
    EXPECT_EQ(got, threaded);
    for (size_t at = 0; at < want.size(); ++at) {
      ASSERT_NEAR(got[at], want[at], 3e-6) << at;
      ASSERT_NEAR(blocks[at], want[at], 3e-6) << at;
    }
  }
}

}  // namespace
}  // namespace hg
