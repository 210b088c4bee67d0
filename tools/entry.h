// SPDX-License-Identifier: Apache-2.0
// Loads the model that a command line names: a file, or an entry of a file with several.
#pragma once

#include <string>

#include "hg/model.h"

namespace hg::tools {

inline Result<Model> entry_of(const Model& model, const std::string& path,
                              const std::string& entry) {
  Result<Model> chosen = model.entry(entry);
  if (chosen.ok()) return chosen;
  return Status(chosen.status().code(), str_cat("'", path, "': ", chosen.status().message()));
}

// `entry` may be empty if the file has only one. The option is --entry; --function is its name in
// 0.2.
inline Result<Model> load_model(const std::string& path, const std::string& entry,
                                const Registry& registry = Registry::built_in(),
                                const LoadOptions& options = {}) {
  HG_TRY_ASSIGN(const Model model, Model::load(path, registry, options));
  return entry_of(model, path, entry);
}

}  // namespace hg::tools
