// SPDX-License-Identifier: Apache-2.0
#include "hg/shared_states.h"

#include <algorithm>

#include "lib/graph/border.h"
#include "lib/graph/readable.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/same_bits.h"
#include "lib/graph/state_names.h"
#include "lib/run/states.h"

namespace hg {
namespace {

// A state of an entry that runs change.
struct Changing {
  std::string entry;
  const State* state;

  bool shares_name(const Changing& other) const {
    const std::vector<std::string_view> names = names_of(*other.state);
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return has_name(*state, name); });
  }
  std::string text() const {
    const Tensor& tensor = state->data.tensor;
    return str_cat("'", state->name, "' of the entry '", entry, "' is ", tensor.dtype,
                   tensor.shape);
  }
};

// Why two states of one name cannot be shared; empty if they can.
Status check_same(const Changing& a, const Changing& b) {
  const Tensor &x = a.state->data.tensor, &y = b.state->data.tensor;
  HG_CHECK(x.dtype == y.dtype && x.shape == y.shape, a.text(), " and ", b.text(),
           "; a state that entries share has one type");
  HG_CHECK(a.entry != b.entry, "'", a.state->name, "' and '", b.state->name,
           "' are two states of the entry '", a.entry, "' and one of another entry");
  HG_CHECK(have_same_bits(x, y), "the entries '", a.entry, "' and '", b.entry,
           "' have different values of '", a.state->name, "', which they share");
  return {};
}

}  // namespace

Result<std::shared_ptr<SharedStates>> SharedStates::create(const Model& model) {
  return or_no_memory([&]() -> Result<std::shared_ptr<SharedStates>> {
    std::vector<std::string> entries = model.entries();
    if (entries.empty()) entries.emplace_back();
    std::vector<Model> models;
    for (const std::string& name : entries) {
      HG_TRY_ASSIGN(Model entry, model.entry(name));
      models.push_back(std::move(entry));
    }
    std::vector<Changing> all;
    std::vector<bool> changes;
    for (size_t k = 0; k < entries.size(); ++k) {
      const Graph& graph = std::as_const(models[k]).graph();
      HG_TRY(graph.status());
      const std::vector<bool> changed = changed_states(graph);
      for (size_t i = 0; i < changed.size(); ++i) {
        if (graph.states()[i].kind == State::Kind::constant) continue;
        all.push_back({entries[k], &graph.states()[i]});
        changes.push_back(changed[i]);
      }
    }
    std::shared_ptr<SharedStates> states(new SharedStates());
    std::vector<bool> taken(all.size(), false);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!changes[i] || taken[i]) continue;
      std::vector<size_t> group = {i};
      taken[i] = true;
      for (size_t at = 0; at < group.size(); ++at)
        for (size_t k = 0; k < all.size(); ++k) {
          if (taken[k] || !all[group[at]].shares_name(all[k])) continue;
          for (const size_t member : group) HG_TRY(check_same(all[member], all[k]));
          group.push_back(k);
          taken[k] = true;
        }
      Shared shared;
      for (const size_t member : group) {
        const std::vector<std::string_view> names = names_of(*all[member].state);
        shared.names.insert(shared.names.end(), names.begin(), names.end());
      }
      std::sort(shared.names.begin(), shared.names.end());
      shared.names.erase(std::unique(shared.names.begin(), shared.names.end()), shared.names.end());
      shared.first = all[i].state->data;
      const Tensor& first = shared.first.tensor;
      const bool is_zero = has_only_zero_bytes(first);
      HG_TRY_ASSIGN(shared.now, is_zero ? TensorData::allocate(first.dtype, first.shape)
                                        : TensorData::copy_of(first));
      shared.first_written = shared.written = is_zero ? 0 : kAllWritten;
      states->all_.push_back(std::move(shared));
    }
    return states;
  });
}

std::vector<std::string> SharedStates::names() const {
  std::vector<std::string> names;
  for (const Shared& shared : all_)
    names.insert(names.end(), shared.names.begin(), shared.names.end());
  return names;
}

Result<const SharedStates::Shared*> SharedStates::find(std::string_view name) const {
  std::string known;
  for (const Shared& shared : all_)
    for (const std::string& each : shared.names) {
      if (each == name) return &shared;
      known += str_cat(known.empty() ? "" : ", ", each);
    }
  return not_found("there is no shared state '", name, "'; there are ",
                   known.empty() ? "none" : known);
}

Result<Tensor> SharedStates::value(std::string_view name) const {
  return or_no_memory([&]() -> Result<Tensor> {
    HG_TRY_ASSIGN(const Shared* const shared, find(name));
    shared->written = kAllWritten;
    return shared->now.tensor;
  });
}

Status SharedStates::set_value(std::string_view name, const ConstTensor& tensor) {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(const Shared* const shared, find(name));
    const Tensor& own = shared->now.tensor;
    HG_CHECK(tensor.dtype == own.dtype && tensor.shape == own.shape, "'", name, "' is ", own.dtype,
             own.shape, ", not ", tensor.dtype, tensor.shape);
    HG_CHECK(is_readable(tensor), "'", name, "' is given ", unreadable_part(tensor));
    copy_elements(tensor, own);
    shared->written = kAllWritten;
    return {};
  });
}

void SharedStates::reset() {
  for (const Shared& shared : all_) {
    copy_elements(shared.first.tensor, shared.now.tensor);
    shared.written = shared.first_written;
  }
}

}  // namespace hg
