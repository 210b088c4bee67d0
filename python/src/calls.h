// SPDX-License-Identifier: Apache-2.0
// Sessions of one model with equal options, lent to calls. Any number of threads may call, each
// with its own session, which caches the plans of the sizes it has seen.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "hg/session.h"
#include "python/src/states.h"
#include "python/src/tensors.h"

namespace hg::python {

class Calls {
 public:
  // `states` may be null: each session has its own.
  Calls(const Model& model, SessionOptions options, std::shared_ptr<LockedStates> states = nullptr);

  // Creates the first session, so that invalid options fail before a call.
  void open();
  // y = calls(x): arguments in order and by name, with lists, tuples and dicts flattened. `out`: an
  // array, or a sequence of arrays and None, one per output.
  // `named` may be null.
  nb::object call(nb::handle arguments, nb::handle named);
  // The same for tensors in the order of the inputs; returns outputs as a list. `seed`: for random
  // numbers. `there`: arrays on a device that replace inputs, and empty ones; the outputs then stay
  // on that device.
  std::vector<nb::object> run(std::span<const Tensor> inputs, nb::handle out, Kind kind,
                              std::optional<uint64_t> seed = {}, std::span<const Array> there = {});
  // Whether a run draws random numbers.
  bool draws() const;
  // As Session::seed, for calls that start from now on.
  void seed(uint64_t seed);
  // As set_adapters, for calls that start from now on.
  void set_adapters(std::vector<Model> adapters);

  // The memory of a run, before it runs: for these sizes, or for those of the last call.
  Memory memory(const nb::dict& dims);
  double flops(const nb::dict& dims);
  std::string report(const nb::dict& dims);
  std::vector<ArenaBlock> arena_blocks(const nb::dict& dims);
  // Rows of the last call; requires a session with profile=True.
  std::vector<ProfileRow> profile();
  nb::bytes tuning();
  void save_packed();
  Graph compiled_graph(const nb::dict& dims);
  // Converts outputs, as a list, to the result of a call. None: a single output, or a tuple.
  void set_rebuild(nb::object rebuild) { rebuild_ = std::move(rebuild); }
  // Reorders nested arguments to the order in which the model was created. Returns None for
  // arguments of another structure.
  void set_order(nb::object order) { order_ = std::move(order); }
  const SessionOptions& options() const { return options_; }

 private:
  // A session, and what is known about its last call.
  struct Lent {
    Session session;
    std::vector<Sizes> inputs, outputs;  // shapes of the last call; empty outputs: unknown
    std::vector<bool> is_bound;          // by output: the session writes to memory of the last call
    bool is_short = false;               // too short for Ctrl-C to matter
    Gpu gpu = {};                        // where the outputs stay; empty: on the host
    uint64_t adapters = 0;               // how often set_adapters() was called before
  };
  std::unique_ptr<Lent> acquire(std::span<const Tensor> inputs, const Gpu& gpu = {});
  std::unique_ptr<Lent> free_or_new(std::span<const Tensor> inputs, const Gpu& gpu);
  void adapt(Lent& lent);
  // Whether a run may take an array from the device where it is.
  bool takes(const Array& array) const;
  std::vector<nb::object> run_there(std::span<const Tensor> inputs, std::span<const Array> there,
                                    Kind kind, std::optional<uint64_t> seed);
  void release(std::unique_ptr<Lent> lent);
  // Calls use(session) without the GIL, on a session that ran.
  template <class Use>
  void use_one(const Use& use);
  // Takes the turn at the shared states, if there are any.
  void take_turn(std::optional<Turn::Held>& held) const;
  // Lends the most recently used session that is planned for these sizes.
  std::unique_ptr<Lent> planned(const nb::dict& dims);
  bool see_all(nb::handle arguments, nb::handle named, std::span<Tensor> seen, Kind& kind,
               nb::object& out) const;
  // With `stays`, inputs may stay on a device.
  std::vector<Borrowed> arrange(const nb::tuple& arguments, const nb::dict& named, bool stays);

  Model model_;
  SessionOptions options_;
  std::shared_ptr<LockedStates> states_;
  std::vector<nb::object> input_names_;  // interned
  std::vector<bool> is_open_;            // by output: the shape depends on data
  nb::object rebuild_, order_;
  bool has_control_ = false;
  std::mutex mutex_;                                    // guards what follows
  std::shared_ptr<const std::vector<Model>> adapters_;  // null: those of the model
  uint64_t adapters_set_ = 0;
  std::vector<std::unique_ptr<Lent>> free_;  // the most recently used is last
};

void bind_calls(nb::module_& m);

// Calls `function` for a type slot. Converts exceptions to Python exceptions and returns null.
template <class Function>
PyObject* guarded(const Function& function) noexcept {
  try {
    return function().release().ptr();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace hg::python
