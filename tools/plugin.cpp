// SPDX-License-Identifier: Apache-2.0
#include "tools/plugin.h"

#include "hg/plugin.h"
#include "lib/platform/shared_library.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

Status load_plugin(const std::string& file, Registry& registry) {
  // The system would search its own folders for a name without a folder, not the current one.
  const std::string path = !path_of(file).has_parent_path() ? "./" + file : file;
  void* const library = open_shared_library(path.c_str());
  if (library == nullptr) return not_found("--plugin ", file, ": ", shared_library_error());
  using Entry = const Plugin* (*)();
  const auto entry = reinterpret_cast<Entry>(find_function(library, "hg_plugin"));
  if (entry == nullptr) {
    close_shared_library(library);
    return unsupported("--plugin ", file, ": it has no HG_PLUGIN of hg/plugin.h");
  }
  const Plugin& plugin = *entry();
  if (version() != plugin.version) {
    const Status other = unsupported("--plugin ", file, ": it was made for Hologram ",
                                     plugin.version, "; this is ", version());
    close_shared_library(library);
    return other;
  }
  const Status added = plugin.add(registry);
  if (added.ok()) return {};
  return Status(added.code(), str_cat("--plugin ", file, ": ", added.message()));
}

}  // namespace

Status load_plugins(std::span<const std::string> files, Registry& registry) {
  for (const std::string& file : files) HG_TRY(load_plugin(file, registry));
  return {};
}

}  // namespace hg::tools
