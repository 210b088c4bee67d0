// SPDX-License-Identifier: Apache-2.0
// Several graphs by name in one .hgm file: a library of functions, which share their weights.
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
  // As Model::load() and Model::read(), which refuse a library and name what it holds; a model is
  // no library.
  static Result<Library> load(const std::string& path,
                              const Registry& registry = Registry::built_in(),
                              const LoadOptions& options = {});
  static Result<Library> read(std::span<const std::byte> bytes,
                              const Registry& registry = Registry::built_in(),
                              const LoadOptions& options = {});

  // Takes a graph whose status() is ok. A name is not empty, and new.
  Status add(std::string name, Graph function);
  // In the order in which they were added.
  std::vector<std::string> functions() const;
  // The function, to make a session of or to change; weights are shared. not_found names those that
  // there are.
  Result<Model> function(std::string_view name) const;

  // As those of Model. Weights that functions share are one in the file.
  Status save(const std::string& path) const;
  Result<std::vector<std::byte>> serialize() const;

  const Model::Info& info() const { return info_; }
  void set_info(Model::Info info) { info_ = std::move(info); }

 private:
  std::vector<std::pair<std::string, Graph>> functions_;
  Model::Info info_;
};

}  // namespace hg
