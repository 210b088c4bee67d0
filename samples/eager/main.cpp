// SPDX-License-Identifier: Apache-2.0
// Eager ops: attention written by hand, one call after another, and the message of a mistake.
#include <cstdio>
#include <string>

#include "hg/create.h"
#include "hg/executor.h"

namespace {

// softmax(q k^T / sqrt(d)) v
hg::Result<hg::Array> attention(hg::Executor& ex, const hg::Array& q, const hg::Array& k,
                                const hg::Array& v) {
  HG_TRY_ASSIGN(const hg::Array keys, k.transpose(-2, -1));  // shares memory with k
  const double scale = 1 / __builtin_sqrt(static_cast<double>(q.shape().back()));
  return ex.matmul(ex.softmax(ex.mul(ex.matmul(q, keys), scale), -1), v);
}

hg::Status show(const std::string& device) {
  HG_TRY_ASSIGN(const hg::Device chosen, hg::parse_device(device));
  HG_TRY_ASSIGN(hg::Executor ex, hg::Executor::create({.device = chosen}));
  for (const std::string& note : ex.notes()) std::printf("%s\n", note.c_str());

  HG_TRY_ASSIGN(const hg::Array q, hg::randn({2, 5, 8}, 1));
  HG_TRY_ASSIGN(const hg::Array k, hg::randn({2, 5, 8}, 2));
  HG_TRY_ASSIGN(const hg::Array v, hg::randn({2, 5, 8}, 3));
  HG_TRY_ASSIGN(const hg::Array by_hand, attention(ex, q, k, v));
  HG_TRY_ASSIGN(const hg::Array by_op, ex.attention(q, k, v));
  HG_TRY_ASSIGN(const hg::Array error, ex.amax(ex.abs(ex.sub(by_hand, by_op))));
  HG_TRY(error.to_host());
  std::printf("the largest difference is %s\n", *error.as<float>() < 1e-6 ? "below 1e-6" : "large");

  // Later calls reuse the plans of earlier ones.
  const int64_t plans = ex.counters().plans;
  for (int i = 0; i < 100; ++i) HG_TRY(attention(ex, q, k, v).status());
  std::printf("100 times more: %lld new plans\n",
              static_cast<long long>(ex.counters().plans - plans));

  // In place, with a scalar.
  HG_TRY_ASSIGN(hg::Array x, hg::arange(0, 4));
  HG_TRY(ex.into(x).mul(x, 10).status());
  std::printf("%s\n", hg::to_text(x).c_str());

  const hg::Status wrong = ex.add(q, x).status();
  std::printf("%s\n", std::string(wrong.message()).c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const hg::Status status = show(argc > 1 ? argv[1] : "cpu");
  if (!status.ok()) std::fprintf(stderr, "eager: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
