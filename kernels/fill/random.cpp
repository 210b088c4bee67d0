// SPDX-License-Identifier: Apache-2.0
// rand and randn. The counter of Philox is (index, stream, run), the key is the seed.
#include <cmath>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "kernels/fill/philox.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// Two doubles in [0, 1) per block.
struct Pair {
  double a, b;
};

Pair uniform_pair(int64_t block, uint32_t stream, const RandomState& state) {
  const PhiloxCounter bits =
      philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), stream,
              static_cast<uint32_t>(state.run)},
             state.seed ^ (state.run >> 32 << 32));
  return {philox_unit(bits[0], bits[1]), philox_unit(bits[2], bits[3])};
}

// Rounds toward zero, so that 1 stays excluded in every dtype.
template <class T>
T below_one(double value) {
  if constexpr (std::is_same_v<T, double>) return value;
  constexpr double kSteps = std::is_same_v<T, float>  ? 0x1p24
                            : std::is_same_v<T, Half> ? 0x1p11
                                                      : 0x1p8;
  return static_cast<T>(static_cast<float>(std::floor(value * kSteps) / kSteps));
}

struct RandomParams {
  uint32_t stream;
};

Status prepare(PrepareContext& c) {
  c.make_state(RandomParams{static_cast<uint32_t>(c.attrs().integer("stream"))});
  return {};
}

template <bool kNormal>
void run(const RunContext& c) noexcept {
  const Tensor& y = c.out(0);
  const uint32_t stream = c.state<RandomParams>().stream;
  for_float(y.dtype, [&]<class T>() {
    T* out = y.as<T>();
    const int64_t count = y.count();
    c.parallel_for((count + 1) / 2, 1 << 12, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const Pair u = uniform_pair(block, stream, *c.random);
        T values[2];
        if constexpr (kNormal) {  // Box and Muller 1958
          const double radius = std::sqrt(-2 * std::log(1 - u.a));
          const double angle = 6.283185307179586 * u.b;
          values[0] = static_cast<T>(static_cast<Wide<T>>(radius * std::cos(angle)));
          values[1] = static_cast<T>(static_cast<Wide<T>>(radius * std::sin(angle)));
        } else {
          values[0] = below_one<T>(u.a);
          values[1] = below_one<T>(u.b);
        }
        out[2 * block] = values[0];
        if (2 * block + 1 < count) out[2 * block + 1] = values[1];
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "rand", .name = "philox", .prepare = prepare, .run = run<false>},
    {.op = "randn", .name = "philox", .prepare = prepare, .run = run<true>},
};

}  // namespace

std::span<const KernelDef> random() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
