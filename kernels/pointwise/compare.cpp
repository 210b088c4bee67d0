// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic: results are bool.
#include "kernels/pointwise/pointwise.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct Eq {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Ne {
  template <class T>
  bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Lt {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct Le {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct Ge {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct And {
  template <class T>
  bool operator()(T a, T b) const {
    return (a != T(0)) & (b != T(0));
  }
};
struct Or {
  template <class T>
  bool operator()(T a, T b) const {
    return (a != T(0)) | (b != T(0));
  }
};
struct Xor {
  template <class T>
  bool operator()(T a, T b) const {
    return (a != T(0)) != (b != T(0));
  }
};

constexpr KernelDef kKernels[] = {
    pointwise_kernel<test_binary<Eq>>("eq"),
    pointwise_kernel<test_binary<Ne>>("ne"),
    pointwise_kernel<test_binary<Lt>>("lt"),
    pointwise_kernel<test_binary<Le>>("le"),
    pointwise_kernel<test_binary<Gt>>("gt"),
    pointwise_kernel<test_binary<Ge>>("ge"),
    pointwise_kernel<test_binary<And>>("logical_and"),
    pointwise_kernel<test_binary<Or>>("logical_or"),
    pointwise_kernel<test_binary<Xor>>("logical_xor"),
};

}  // namespace

std::span<const KernelDef> compare() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
