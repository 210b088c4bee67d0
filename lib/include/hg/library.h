// SPDX-License-Identifier: Apache-2.0
// Functions of a library file. New code should use the entries of a Model (hg/model.h), which this
// class wraps.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/model.h"

namespace hg {

class Library {
 public:
  // Load a file, as Model::load() and Model::read() do. Both reject files without entries.
  static Result<Library> load(const std::string& path,
                              const Registry& registry = Registry::built_in(),
                              const LoadOptions& options = {});
  static Result<Library> read(std::span<const std::byte> bytes,
                              const Registry& registry = Registry::built_in(),
                              const LoadOptions& options = {});

  // As Model::add_entry(), Model::entries() and Model::entry().
  Status add(std::string name, Graph function) {
    return model_.add_entry(std::move(name), std::move(function));
  }
  std::vector<std::string> functions() const { return model_.entries(); }
  Result<Model> function(std::string_view name) const;

  // As Model::save() and Model::serialize(). Fail for a library without functions.
  Status save(const std::string& path) const;
  Result<std::vector<std::byte>> serialize() const;

  // The same file as a model.
  const Model& model() const { return model_; }
  const Model::Info& info() const { return model_.info(); }
  void set_info(Model::Info info) { model_.set_info(std::move(info)); }

 private:
  Model model_;
};

}  // namespace hg
