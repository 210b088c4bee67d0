// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/openblas.h"

#include "lib/platform/shared_library.h"

namespace hg::kernels {
namespace {

// Whether kernels can limit a call to one thread.
bool obeys(const OpenBlas& blas) {
  constexpr int kOwnThreads = 1, kOpenMp = 2;
  const int parallel = blas.openblas_get_parallel();
#ifdef HG_OPENMP
  if (parallel == kOpenMp) return true;
#endif
  return parallel == kOwnThreads && blas.openblas_get_num_threads() == 1;
}

// All functions, or none.
OpenBlas load() {
  // Its internal calls must not reach another BLAS, such as the one in libtorch.
  void* const file = open_shared_library_beside(HG_OPENBLAS_FILE, "dgemm_");
  if (file == nullptr) return {};
  OpenBlas blas;
#define HG_OPENBLAS_LOAD(name)                                                 \
  blas.name = reinterpret_cast<decltype(&::name)>(find_function(file, #name)); \
  if (blas.name == nullptr) return {};
  HG_OPENBLAS_FUNCTIONS(HG_OPENBLAS_LOAD)
#undef HG_OPENBLAS_LOAD
  if (!obeys(blas)) return {};
  return blas;
}

}  // namespace

const OpenBlas* openblas() {
  static const OpenBlas loaded = load();
  return loaded.dgemm_ != nullptr ? &loaded : nullptr;
}

}  // namespace hg::kernels
