// SPDX-License-Identifier: Apache-2.0
// The model that a command line names: a file, or a function of a library file.
#pragma once

#include <string>

#include "hg/library.h"
#include "hg/model.h"

namespace hg::tools {

// `function` is empty for a file that is a model.
inline Result<Model> load_model(const std::string& path, const std::string& function,
                                const Registry& registry = Registry::built_in(),
                                const LoadOptions& options = {}) {
  if (function.empty()) return Model::load(path, registry, options);
  HG_TRY_ASSIGN(const Library library, Library::load(path, registry, options));
  return library.function(function);
}

}  // namespace hg::tools
