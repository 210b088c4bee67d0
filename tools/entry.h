// SPDX-License-Identifier: Apache-2.0
// Loads the model that a command line names: a file, or an entry of a file with several, with the
// adapters of other files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/adapter.h"
#include "hg/model.h"

namespace hg::tools {

inline Result<Model> entry_of(Model model, const std::string& path, const std::string& entry) {
  if (entry.empty() && model.entries().empty()) return model;
  Result<Model> chosen = model.entry(entry);
  if (chosen.ok()) return chosen;
  return Status(chosen.status().code(), str_cat("'", path, "': ", chosen.status().message()));
}

// The model with the adapters of these files.
inline Result<Model> with_adapters(Model model, const std::vector<std::string>& files,
                                   const Registry& registry = Registry::built_in()) {
  if (files.empty()) return model;
  std::vector<Model> all;
  for (const std::string& file : files) {
    HG_TRY_ASSIGN(all.emplace_back(), Model::load(file, registry));
  }
  Result<Model> adapted = apply_adapters(model, all);
  if (adapted.ok()) return adapted;
  std::string names;
  for (const std::string& file : files) names += str_cat(names.empty() ? "" : ", ", file);
  return Status(adapted.status().code(), str_cat(names, ": ", adapted.status().message()));
}
inline Result<Model> load_adapted(const std::string& path, const std::vector<std::string>& adapters,
                                  const Registry& registry = Registry::built_in()) {
  HG_TRY_ASSIGN(Model model, Model::load(path, registry));
  return with_adapters(std::move(model), adapters, registry);
}

// `entry` may be empty if the file has only one. The option is --entry; --function is its name in
// 0.2.
inline Result<Model> load_model(const std::string& path, const std::string& entry,
                                const Registry& registry = Registry::built_in(),
                                const std::vector<std::string>& adapters = {}) {
  HG_TRY_ASSIGN(Model model, load_adapted(path, adapters, registry));
  return entry_of(std::move(model), path, entry);
}

}  // namespace hg::tools
