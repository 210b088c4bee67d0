// SPDX-License-Identifier: Apache-2.0
// What of numpy and torch is looked up once.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>

#include "hg/dlpack.h"

namespace hg::python {

namespace nb = nanobind;

// The part of DLPack's exchange table of functions that is used (DLPack 1.3, DLPackExchangeAPI).
struct Exchange {
  uint32_t major, minor;
  const Exchange* before;
  void* allocate;
  void* from_object;
  int (*to_object)(dlpack::ManagedTensorVersioned* managed, void** out);
  int (*borrow)(void* object, dlpack::DataTensor* out);
};

// Objects are never freed: the interpreter may be gone before this is.
struct Known {
  PyTypeObject* torch_tensor = nullptr;
  const Exchange* exchange = nullptr;  // torch's; null of versions that have none
  nb::object asarray, torch_from_dlpack, is_grad_enabled;
  nb::object requires_grad, is_neg, is_conj, out;  // names, interned
  std::array<nb::object, kDTypeCount> dtypes;
};
Known& known();

// The type torch.Tensor; null until somebody has imported torch.
PyTypeObject* torch_tensor();

}  // namespace hg::python
