// SPDX-License-Identifier: Apache-2.0
// Several named graphs in one .hgm file: a library of functions that share weights.
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
  // Load a file, as Model::load() and Model::read() do. Both reject files that hold a single model,
  // as those functions reject libraries.
  static Result<Library> load(const std::string& path,
                              const Registry& registry = Registry::built_in(),
                              const LoadOptions& options = {});
  static Result<Library> read(std::span<const std::byte> bytes,
                              const Registry& registry = Registry::built_in(),
                              const LoadOptions& options = {});

  // Adds a function. The graph's status() must be ok; the name must be new and not empty.
  Status add(std::string name, Graph function);
  // Returns the names, in the order of add().
  std::vector<std::string> functions() const;
  // Returns the function as a model that shares the weights. Fails with not_found, listing the
  // functions.
  Result<Model> function(std::string_view name) const;

  // As Model::save() and Model::serialize(). Weights that functions share are stored once.
  Status save(const std::string& path) const;
  Result<std::vector<std::byte>> serialize() const;

  const Model::Info& info() const { return info_; }
  void set_info(Model::Info info) { info_ = std::move(info); }

 private:
  std::vector<std::pair<std::string, Graph>> functions_;
  Model::Info info_;
};

}  // namespace hg
