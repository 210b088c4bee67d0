// SPDX-License-Identifier: Apache-2.0
// hologram._core: bindings of the public headers. Users call hologram/*.py.
#include <nanobind/nanobind.h>

#include <exception>
#include <typeinfo>

#include "hg/version.h"
#include "python/src/bind.h"
#include "python/src/calls.h"
#include "python/src/known.h"
#include "python/src/numpy.h"
#include "python/src/options.h"
#include "python/src/tensors.h"

NB_MODULE(_core, m) {
  namespace hp = hg::python;
  // Handles that live until the interpreter ends are not leaks.
  nanobind::set_leak_warnings(false);
  // Messages of failed casts are not for users.
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_cast&) {
      PyErr_SetString(PyExc_TypeError,
                      "a value has a type, or a size, that is not meant for its place");
    }
  });
  m.attr("version") = HG_VERSION;
  hp::find_numpy();
  hp::find_known();
  hp::make_memory_type();
  hp::bind_options(m);
  hp::bind_tensors(m);
  hp::bind_calls(m);
  hp::bind_graph(m);
  hp::bind_model(m);
  hp::bind_states(m);
  hp::bind_quantize(m);
  hp::bind_adapters(m);
  hp::bind_generator(m);
  hp::bind_devices(m);
  hp::bind_eager(m);
  hp::bind_functions(m);
  hp::bind_kernels(m);
  hp::bind_lazy(m);
  hp::bind_blocks(m);
  hp::bind_named(m);
  hp::bind_own_ops(m);
  hp::bind_train(m);
#ifdef HG_PYTHON_CONVERTER
  hp::bind_convert(m);
#endif
}
