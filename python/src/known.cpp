// SPDX-License-Identifier: Apache-2.0
#include "python/src/known.h"

namespace hg::python {

Known& known() {
  static Known& found = *new Known();
  if (!found.asarray.is_valid()) [[unlikely]] {
    found.requires_grad = nb::steal(PyUnicode_InternFromString("requires_grad"));
    found.is_neg = nb::steal(PyUnicode_InternFromString("is_neg"));
    found.is_conj = nb::steal(PyUnicode_InternFromString("is_conj"));
    found.out = nb::steal(PyUnicode_InternFromString("out"));
    found.asarray = nb::module_::import_("numpy").attr("asarray");
  }
  return found;
}

PyTypeObject* torch_tensor() {
  Known& k = known();
  if (k.torch_tensor != nullptr) return k.torch_tensor;
  const nb::dict modules = nb::borrow<nb::dict>(PyImport_GetModuleDict());
  if (!modules.contains("torch")) return nullptr;
  const nb::object torch = modules["torch"];
  if (!nb::hasattr(torch, "Tensor") || !nb::hasattr(torch, "from_dlpack")) return nullptr;
  nb::object type = torch.attr("Tensor");
  k.torch_from_dlpack = torch.attr("from_dlpack");
  k.is_grad_enabled = torch.attr("is_grad_enabled");
  if (nb::hasattr(type, "__dlpack_c_exchange_api__")) {
    const nb::object capsule = type.attr("__dlpack_c_exchange_api__");
    auto* table =
        static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (table == nullptr) PyErr_Clear();
    while (table != nullptr && table->major > 1) table = table->before;
    if (table != nullptr && table->major == 1 && table->minor >= 3) k.exchange = table;
  }
  k.torch_tensor = reinterpret_cast<PyTypeObject*>(type.release().ptr());
  return k.torch_tensor;
}

}  // namespace hg::python
