// SPDX-License-Identifier: Apache-2.0
// Objects of numpy and torch that are looked up once.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "hg/dlpack.h"

namespace hg::python {

namespace nb = nanobind;

// The part of DLPack's function table that is used (DLPack 1.3, DLPackExchangeAPI).
struct Exchange {
  uint32_t major, minor;
  const Exchange* before;
  void* allocate;
  void* from_object;
  int (*to_object)(dlpack::ManagedTensorVersioned* managed, void** out);
  int (*borrow)(void* object, dlpack::DataTensor* out);
};

// Functions of torch's libraries that tell within nanoseconds what functions of Python tell within
// tenths of microseconds. They are found by name; null if they are not there, or on other systems.
struct TorchCalls {
  bool (*is_grad_enabled)() = nullptr;        // c10::GradMode::is_enabled
  const void* const* (*tracing)() = nullptr;  // torch::jit::tracer::getTracingState: a shared_ptr
  const void* const* (*layers)() = nullptr;   // at::functorch::getDynamicLayerStack: a vector
  bool (*requires_grad)(const void* impl) = nullptr;  // c10::TensorImpl::requires_grad
  bool (*is_neg)(void* const* tensor) = nullptr;      // at::native::is_neg of an at::Tensor
  int64_t (*modes)() = nullptr;                       // c10::impl::TorchDispatchModeTLS::stack_len
};

// Objects are never freed, because the interpreter may end earlier. Objects of numpy are found when
// the module is imported, those of torch before `torch_tensor` is set.
struct Known {
  std::atomic<PyTypeObject*> torch_tensor = nullptr;
  PyTypeObject* parameter = nullptr;      // torch.nn.Parameter
  PyTypeObject* device_tensor = nullptr;  // torch tensors whose elements are a Tensor of hologram
  nb::object resident;                    // finds device copies of torch tensors on the host
  const Exchange* exchange = nullptr;     // torch's; null for versions without one
  nb::object asarray, torch_from_dlpack, is_grad_enabled;
  nb::object forward_ad;                         // the names of torch's module
  nb::object are_transforms_active, is_wrapped;  // of torch.func
  nb::object tracing_state;                      // of torch.jit.trace
  nb::object increment_version;                  // tells autograd; null before torch 2.1
  nb::object count_modes;                        // of torch's dispatch; null before torch 2.0
  nb::object dispatch_of_tensors;                // __torch_dispatch__ of torch.Tensor
  TorchCalls calls;
  // Where objects of torch.Tensor and torch.nn.Parameter hold their at::Tensor, a pointer; 0:
  // unknown.
  size_t tensor_offset = 0;
  nb::object requires_grad, array, followed, is_neg, is_conj, out, current_level, base,
      executors;                               // names, interned
  nb::object chosen;                           // the context's hg.Executor
  std::array<nb::object, kDTypeCount> dtypes;  // numpy's; that of bf16 is added on first use
  nb::ft_mutex mutex;                          // guards objects that are found later
};
Known& known();
void find_known();  // called when the module is imported

// Imports torch tensors on devices; false without torch.
bool knows_device_tensors();

// The type torch.Tensor; null until torch has been imported.
PyTypeObject* torch_tensor();

}  // namespace hg::python
