// SPDX-License-Identifier: Apache-2.0
// Text kernels, called on tensors, with their gradients.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <mutex>
#include <optional>

#include "hg/expression.h"
#include "python/src/bind.h"
#include "python/src/interrupt.h"
#include "python/src/options.h"
#include "python/src/own_ops.h"
#include "python/src/tensors.h"

namespace hg::python {
namespace {

nb::object number_to_python(const Number& number) {
  if (number.kind == f64) return nb::float_(number.real);
  if (number.kind == boolean) return nb::bool_(number.whole != 0);
  return nb::int_(number.whole);
}

// A kernel that threads use in turn.
class LockedKernel {
 public:
  LockedKernel(const std::string& name, const std::string& words, bool strict,
               const std::string& backward, const nb::dict& options)
      : kernel_(take(kernel(name, words,
                            {.strict = strict,
                             .backward = backward,
                             .session = session_options(options),
                             .registry = &registry()}))) {}

  const TextKernel& kernel_of() const { return kernel_; }

  nb::object call(const nb::dict& named, nb::handle out, nb::handle shape) {
    Given given(kernel_.name(), named);
    CallOptions options = call_options(shape);
    std::vector<Borrowed> places;
    std::vector<Tensor> tensors;
    if (!out.is_none()) {
      const bool is_list = PyTuple_Check(out.ptr()) || PyList_Check(out.ptr());
      if (is_list)
        for (const nb::handle each : out)
          places.push_back(Borrowed::from(each, kernel_.name() + ": out", true));
      else
        places.push_back(Borrowed::from(out, kernel_.name() + ": out", true));
      for (const Borrowed& place : places) tensors.push_back(place.tensor);
      Status status;
      {
        const Unlocked unlocked(mutex_);
        status = kernel_.call_into(tensors, given.arguments, options);
      }
      check(status);
      return nb::borrow(out);
    }
    std::optional<Result<std::vector<TensorData>>> made;
    {
      const Unlocked unlocked(mutex_);
      made.emplace(kernel_.call(given.arguments, options));
    }
    return results(take(*std::move(made)), given.kind);
  }

  nb::object grad(const nb::dict& named, const std::vector<std::string>& parameters,
                  nb::handle output_gradients, nb::handle shape) {
    Given given(kernel_.name(), named);
    BackwardOptions options;
    options.call = call_options(shape);
    std::deque<Borrowed> seeds;
    if (!output_gradients.is_none())
      for (const nb::handle each : output_gradients) {
        seeds.push_back(Borrowed::from(each, kernel_.name() + ": a gradient"));
        options.output_gradients.emplace_back(seeds.back().tensor);
      }
    std::optional<Result<std::vector<TensorData>>> made;
    {
      const Unlocked unlocked(mutex_);
      made.emplace(kernel_.grad(given.arguments, parameters, options));
    }
    nb::list out;
    for (TensorData& data : take(*std::move(made)))
      out.append(give(Array(std::move(data)), given.kind));
    return out;
  }

 private:
  // Releases the GIL before it waits for the lock.
  struct Unlocked {
    explicit Unlocked(std::mutex& mutex) : lock(mutex) {}
    nb::gil_scoped_release released;
    std::scoped_lock<std::mutex> lock;
  };

  struct Given {
    Given(const std::string& kernel, const nb::dict& named) {
      for (const auto& [key, value] : named) {
        names.push_back(words(key));
        arguments.push_back(argument(kernel, names.back(), value));
      }
    }
    KernelArgument argument(const std::string& kernel, const std::string& name, nb::handle value) {
      if (PyDict_Check(value.ptr())) {
        std::vector<KernelArgument> members;
        for (const auto& [key, member] : nb::borrow<nb::dict>(value)) {
          names.push_back(words(key));
          members.push_back(argument(kernel, names.back(), member));
        }
        KernelArgument out(int64_t{0});
        out.value = std::move(members);
        out.name = name;
        return out;
      }
      KernelArgument out(int64_t{0});
      out.name = name;
      int64_t whole = 0;
      if (PyBool_Check(value.ptr())) {
        out.value = value.ptr() == Py_True;
      } else if (PyLong_Check(value.ptr())) {
        if (!nb::try_cast(value, whole))
          raise(PyExc_ValueError,
                str_cat(kernel, ": ", name, " is ", nb::cast<std::string>(nb::repr(value)),
                        ", which int64 does not hold"));
        out.value = whole;
      } else if (PyFloat_Check(value.ptr())) {
        out.value = nb::cast<double>(value);
      } else {
        tensors.push_back(Borrowed::from(value, kernel + ": " + name));
        out.value = ConstTensor(tensors.back().tensor);
        if (tensors.back().kind == Kind::torch) kind = Kind::torch;
      }
      return out;
    }
    std::deque<std::string> names;
    std::deque<Borrowed> tensors;
    std::vector<KernelArgument> arguments;
    Kind kind = Kind::numpy;
  };

  static CallOptions call_options(nb::handle shape) {
    CallOptions options;
    if (!shape.is_none())
      for (const int64_t size : sizes_from(shape, "shape")) options.shape.emplace_back(size);
    return options;
  }

  static nb::object results(std::vector<TensorData> made, Kind kind) {
    if (made.size() == 1) return give(Array(std::move(made[0])), kind);
    nb::list out;
    for (TensorData& data : made) out.append(give(Array(std::move(data)), kind));
    return nb::tuple(out);
  }

  TextKernel kernel_;
  std::mutex mutex_;
};

}  // namespace

void bind_kernels(nb::module_& m) {
  nb::class_<LockedKernel>(m, "KernelBase")
      .def(nb::init<const std::string&, const std::string&, bool, const std::string&,
                    const nb::dict&>())
      .def_prop_ro("name", [](const LockedKernel& k) { return k.kernel_of().name(); })
      .def_prop_ro(
          "parameters", [](const LockedKernel& k) { return k.kernel_of().parameters(); },
          "names, in the order of their first use in the text")
      .def_prop_ro("outputs", [](const LockedKernel& k) { return k.kernel_of().outputs(); })
      .def_prop_ro("defaults_",
                   [](const LockedKernel& k) {
                     nb::dict out;
                     const std::vector<std::string> names = k.kernel_of().parameters();
                     const std::vector<std::optional<Number>> numbers = k.kernel_of().defaults();
                     for (size_t i = 0; i < names.size(); ++i)
                       if (numbers[i]) out[names[i].c_str()] = number_to_python(*numbers[i]);
                     return out;
                   })
      .def_prop_ro("sessions_made",
                   [](const LockedKernel& k) { return k.kernel_of().sessions_made(); });
  // Functions instead of methods, because torch.compile loses the object of methods not defined in
  // Python.
  m.def("kernel_call", &LockedKernel::call, nb::arg("kernel"), nb::arg("named"),
        nb::arg("out").none(), nb::arg("shape").none());
  m.def("kernel_grad", &LockedKernel::grad, nb::arg("kernel"), nb::arg("named"),
        nb::arg("parameters"), nb::arg("output_gradients").none(), nb::arg("shape").none());
}

}  // namespace hg::python
