// SPDX-License-Identifier: Apache-2.0
// Loads models from files, from bytes, and from memory that the host keeps.
#include "hg/model.h"
#include "lib/graph/border.h"
#include "lib/model/entries.h"
#include "lib/model/header.h"
#include "lib/model/mapping.h"
#include "lib/model/reader.h"

namespace hg {
namespace {

Result<Contents> read_path(const std::string& path, const Registry& registry,
                           const LoadOptions& options) {
  HG_TRY_ASSIGN(const Mapping mapping, options.map ? map_file(path, options.max_bytes)
                                                   : read_file(path, options.max_bytes));
  return read_contents(mapping, registry, options);
}

Result<Contents> read_bytes(const Mapping& mapping, const Registry& registry,
                            const LoadOptions& options) {
  if (options.max_bytes > 0 && mapping.bytes.size() > static_cast<uint64_t>(options.max_bytes))
    return corrupt_model("the model has ", uint64_t{mapping.bytes.size()},
                         " bytes, more than max_bytes, ", options.max_bytes);
  return read_contents(mapping, registry, options);
}

Status in_file(const std::string& path, const Status& status) {
  return Status(status.code(), str_cat("'", path, "': ", status.message()));
}

}  // namespace

Result<Model> Model::from_contents(Contents contents) {
  Model model(std::move(contents.graph), std::move(contents.info));
  if (contents.functions.empty()) return model;
  const Graph& unnamed = model.graph_;
  if (!unnamed.nodes().empty() || unnamed.value_count() > 0)
    return unsupported("the file has ", uint64_t{contents.functions.size()},
                       " entries beside a graph without a name");
  model.entries_ = std::move(contents.functions);
  link_states(model.entries_);
  if (model.entries_.size() > 1) model.graph_ = no_single_graph(model.entries_);
  return model;
}

Result<Model> Model::load(const std::string& path, const Registry& registry,
                          const LoadOptions& options) {
  return or_no_memory([&]() -> Result<Model> {
    Result<Contents> read = read_path(path, registry, options);
    if (!read.ok()) return in_file(path, read.status());
    Result<Model> model = from_contents(*std::move(read));
    if (!model.ok()) return in_file(path, model.status());
    return model;
  });
}

Result<Model> Model::read(std::span<const std::byte> bytes, const Registry& registry,
                          const LoadOptions& options) {
  return or_no_memory([&]() -> Result<Model> {
    HG_TRY_ASSIGN(const Mapping mapping, copy_bytes(bytes));
    HG_TRY_ASSIGN(Contents read, read_bytes(mapping, registry, options));
    return from_contents(std::move(read));
  });
}

Result<Model> Model::borrow(std::span<const std::byte> bytes, const Registry& registry,
                            const LoadOptions& options) {
  return or_no_memory([&]() -> Result<Model> {
    const uint64_t address = reinterpret_cast<uintptr_t>(bytes.data());
    HG_CHECK(address % kBlobAlignment == 0, "the model to borrow lies ",
             uint64_t{address % kBlobAlignment}, " bytes after a multiple of ",
             uint64_t{kBlobAlignment}, ", where it must begin");
    // Never freed. The owner is set only to mark the data as present.
    void* const lent = const_cast<std::byte*>(bytes.data());
    const Mapping mapping{bytes, std::shared_ptr<void>(lent, [](void*) {})};
    HG_TRY_ASSIGN(Contents read, read_bytes(mapping, registry, options));
    return from_contents(std::move(read));
  });
}

}  // namespace hg
