// SPDX-License-Identifier: Apache-2.0
#include "python/src/known.h"

#include <algorithm>
#include <cstring>
#include <vector>

#if defined(__linux__)
#include <dlfcn.h>
#endif

#include "python/src/tensors.h"

namespace hg::python {
namespace {

#if defined(__linux__)
template <class Function>
void find(Function*& function, const char* library, const char* name) {
  if (void* const loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD))
    function = reinterpret_cast<Function*>(dlsym(loaded, name));
}

// The place in the object where all of the tensors hold what their _cdata says; 0 if there is not
// exactly one.
size_t offset_of_impl(const std::vector<nb::object>& tensors) {
  const auto size = nb::cast<size_t>(tensors[0].type().attr("__basicsize__"));
  size_t found = 0;
  for (size_t at = 2 * sizeof(void*); at + sizeof(void*) <= size; at += sizeof(void*)) {
    const bool is_here = std::all_of(tensors.begin(), tensors.end(), [&](const nb::object& each) {
      void* held = nullptr;
      std::memcpy(&held, reinterpret_cast<const char*>(each.ptr()) + at, sizeof held);
      return held == PyLong_AsVoidPtr(nb::object(each.attr("_cdata")).ptr());
    });
    if (is_here && found != 0) return 0;
    if (is_here) found = at;
  }
  return found;
}

// A function is kept only if it tells what Python's function tells, in both cases.
void find_calls(Known& k, const nb::object& torch) try {
  TorchCalls found;
  find(found.is_grad_enabled, "libc10.so", "_ZN3c108GradMode10is_enabledEv");
  find(found.tracing, "libtorch_cpu.so", "_ZN5torch3jit6tracer15getTracingStateEv");
  find(found.layers, "libtorch_cpu.so", "_ZN2at9functorch20getDynamicLayerStackEv");
  find(found.is_neg, "libtorch_cpu.so", "_ZN2at6native6is_negERKNS_6TensorE");
  const nb::object set = torch.attr("_C").attr("_set_grad_enabled");
  const bool is_enabled = nb::cast<bool>(k.is_grad_enabled());
  for (const bool value : {!is_enabled, is_enabled}) {
    set(value);
    if (found.is_grad_enabled != nullptr && found.is_grad_enabled() != value)
      found.is_grad_enabled = nullptr;
  }
  find(found.requires_grad, "libc10.so", "_ZNK3c1010TensorImpl13requires_gradEv");
  const nb::object one = torch.attr("ones")(1, nb::arg("device") = "cpu");
  const nb::object tracked =
      torch.attr("ones")(1, nb::arg("device") = "cpu", nb::arg("requires_grad") = true);
  const std::vector<nb::object> tensors = {one, torch.attr("_neg_view")(one), tracked};
  for (size_t i = 0; i < tensors.size(); ++i) {
    void* impl = PyLong_AsVoidPtr(nb::object(tensors[i].attr("_cdata")).ptr());
    if (found.is_neg != nullptr && found.is_neg(&impl) != (i == 1)) found.is_neg = nullptr;
    if (found.requires_grad != nullptr && found.requires_grad(impl) != (i == 2))
      found.requires_grad = nullptr;
  }
  k.tensor_offset = offset_of_impl(tensors);
  find(found.modes, "libc10.so", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv");
  if (!k.count_modes.is_valid()) found.modes = nullptr;
  if (found.modes != nullptr) {
    const auto count = nb::cast<int64_t>(k.count_modes());
    const nb::object mode =
        nb::module_::import_("torch.utils._python_dispatch").attr("TorchDispatchMode")();
    const bool is_so = found.modes() == count;
    mode.attr("__enter__")();
    if (!is_so || found.modes() != count + 1) found.modes = nullptr;
    mode.attr("__exit__")(nb::none(), nb::none(), nb::none());
  }
  k.calls = found;
} catch (const nb::python_error&) {  // under a mode of torch that changes what is called here
}
#else
void find_calls(Known&, const nb::object&) {}
#endif

}  // namespace

Known& known() {
  static Known& found = *new Known();
  return found;
}

void find_known() {
  Known& k = known();
  k.requires_grad = nb::steal(PyUnicode_InternFromString("requires_grad"));
  k.array = nb::steal(PyUnicode_InternFromString("_array"));
  k.followed = nb::steal(PyUnicode_InternFromString("_followed"));
  k.is_neg = nb::steal(PyUnicode_InternFromString("is_neg"));
  k.is_conj = nb::steal(PyUnicode_InternFromString("is_conj"));
  k.current_level = nb::steal(PyUnicode_InternFromString("_current_level"));
  k.out = nb::steal(PyUnicode_InternFromString("out"));
  k.base = nb::steal(PyUnicode_InternFromString("_base"));
  k.executors = nb::steal(PyUnicode_InternFromString("hologram_executors"));
  k.chosen = nb::steal(PyContextVar_New("hologram_executor", Py_None));
  if (!k.chosen.is_valid()) throw nb::python_error();
  const nb::module_ numpy = nb::module_::import_("numpy");
  k.asarray = numpy.attr("asarray");
  for (int i = 0; i < kDTypeCount; ++i)
    if (const auto dtype = static_cast<DType>(i); dtype != bf16)
      k.dtypes[static_cast<size_t>(i)] = numpy.attr("dtype")(python_name(dtype));
}

bool knows_device_tensors() {
  if (known().device_tensor == nullptr && torch_tensor() != nullptr)
    nb::module_::import_("hologram._autograd._device");
  return known().device_tensor != nullptr;
}

PyTypeObject* torch_tensor() {
  Known& k = known();
  if (PyTypeObject* found = k.torch_tensor.load(std::memory_order_acquire)) return found;
  const nb::dict modules = nb::borrow<nb::dict>(PyImport_GetModuleDict());
  if (!modules.contains("torch")) return nullptr;
  const nb::object torch = modules["torch"];
  for (const char* name : {"Tensor", "from_dlpack", "is_grad_enabled", "autograd"})
    if (!nb::hasattr(torch, name)) return nullptr;  // it is being imported
  const nb::ft_lock_guard lock(k.mutex);
  if (PyTypeObject* found = k.torch_tensor.load(std::memory_order_acquire)) return found;
  nb::object type = torch.attr("Tensor");
  k.torch_from_dlpack = torch.attr("from_dlpack");
  k.is_grad_enabled = torch.attr("is_grad_enabled");
  k.forward_ad = torch.attr("autograd").attr("forward_ad").attr("__dict__");
  k.are_transforms_active = torch.attr("_C").attr("_are_functorch_transforms_active");
  k.is_wrapped = torch.attr("_C").attr("_functorch").attr("is_functorch_wrapped_tensor");
  k.tracing_state = torch.attr("_C").attr("_get_tracing_state");
  if (nb::hasattr(torch.attr("_C"), "_len_torch_dispatch_stack"))
    k.count_modes = torch.attr("_C").attr("_len_torch_dispatch_stack");
  if (nb::hasattr(torch.attr("autograd"), "graph") &&
      nb::hasattr(torch.attr("autograd").attr("graph"), "increment_version"))
    k.increment_version = torch.attr("autograd").attr("graph").attr("increment_version");
  k.dispatch_of_tensors = type.attr("__torch_dispatch__");
  find_calls(k, torch);
  if (nb::hasattr(torch, "nn") && nb::hasattr(torch.attr("nn"), "Parameter"))
    k.parameter = reinterpret_cast<PyTypeObject*>(
        nb::object(torch.attr("nn").attr("Parameter")).release().ptr());
  if (nb::hasattr(type, "__dlpack_c_exchange_api__")) {
    const nb::object capsule = type.attr("__dlpack_c_exchange_api__");
    auto* table =
        static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (table == nullptr) PyErr_Clear();
    while (table != nullptr && table->major > 1) table = table->before;
    if (table != nullptr && table->major == 1 && table->minor >= 3) k.exchange = table;
  }
  auto* found = reinterpret_cast<PyTypeObject*>(type.release().ptr());
  k.torch_tensor.store(found, std::memory_order_release);
  return found;
}

}  // namespace hg::python
