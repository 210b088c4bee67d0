// SPDX-License-Identifier: Apache-2.0
// A graph with its weights and their origin, or several named graphs that share weights. Reads and
// writes .hgm files (docs/format.md).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/registry.h"

namespace hg {

struct LoadOptions {
  // Reads all weights and verifies their checksums. Fails with corrupt_model, naming the damaged
  // state, or with unsupported if a state has no checksum (files written before 0.2).
  bool verify_weights = false;
  // Used by load(): maps the file instead of reading it into memory. A mapped file must not change
  // while the model lives. If another process truncates it, access to a missing weight raises
  // SIGBUS.
  bool map = true;
  // Limits for untrusted files; exceeding one fails with corrupt_model. 0: no limit beyond those
  // that the file length implies (docs/security.md).
  int64_t max_nodes = 0;  // of all graphs in the file, including control-flow bodies
  int64_t max_bytes = 0;  // of the file
  int max_dims = 0;       // of one tensor, at most kMaxRank
};

struct Contents;  // lib/model/reader.h

class Model {
 public:
  Model() = default;  // an empty graph
  // Loads a file. By default it is mapped, and the mapping lives as long as any copy of the
  // weights; a thread reads a large file that is not in memory while sessions are created. Fails
  // with not_found, corrupt_model (naming the position), or unsupported (an op that is not in the
  // registry). The registry must outlive the model.
  static Result<Model> load(const std::string& path,
                            const Registry& registry = Registry::built_in(),
                            const LoadOptions& options = {});
  // Loads from memory, which is copied.
  static Result<Model> read(std::span<const std::byte> bytes,
                            const Registry& registry = Registry::built_in(),
                            const LoadOptions& options = {});
  // Loads from memory without copying it: the program image, flash or shared memory. `bytes` must
  // be 64-byte aligned, and must stay valid and unchanged while any copy of the model or a session
  // of it lives.
  static Result<Model> borrow(std::span<const std::byte> bytes,
                              const Registry& registry = Registry::built_in(),
                              const LoadOptions& options = {});
  // Wraps a graph. Fails if its status() is not ok.
  static Result<Model> from_graph(Graph graph);

  // Writes a temporary file next to `path` and renames it, so that `path` always holds a complete
  // file. Saving the same model twice writes identical bytes. `keep`, if given, is called with the
  // path of the complete temporary file. If it returns false, that file is removed, `path` is
  // unchanged, and save() succeeds.
  Status save(const std::string& path,
              const std::function<bool(const std::string& temporary)>& keep = {}) const;
  Result<std::vector<std::byte>> serialize() const;

  // The model's graph. A model with several entries has an empty one, whose status() lists them.
  const Graph& graph() const { return entries_.size() == 1 ? entries_[0].second : graph_; }
  Graph& graph() { return entries_.size() == 1 ? entries_[0].second : graph_; }

  // Entries are named graphs in one file, such as the methods `encode` and `decode` of a module.
  // Returns their names, in the order of add_entry(); empty if the graph has no name.
  std::vector<std::string> entries() const;
  // Returns the entry as a model that shares the weights. An empty name is the graph() of a model
  // with at most one entry. Fails with not_found, listing the entries.
  Result<Model> entry(std::string_view name) const;
  // Adds an entry to a model without an unnamed graph. The graph's status() must be ok; the name
  // must be new and not empty. Entries share the memory of states with equal types and bits. A
  // state that one entry assigns becomes one that runs may change in the others, if name, dtype and
  // shape are equal (hg/shared_states.h).
  Status add_entry(std::string name, Graph graph);

  // A state quantized by quantize() (hg/quantize.h), and its error.
  struct QuantizedState {
    std::string name;
    double error = 0;
  };
  // A file that belongs to the model and that programs read by name, such as `tokenizer.json`.
  struct Attachment {
    std::string name;     // UTF-8, not empty; each name once
    std::string content;  // any bytes
  };
  struct Info {
    std::string producer;     // "hg-convert 0.2.0"
    std::string source;       // "libtorch 2.13.0"
    std::string source_hash;  // hash of the source file
    // Paths that the converter's check did not run: "the else of `if` at model.py:12".
    std::vector<std::string> not_exercised = {};
    std::vector<QuantizedState> quantized = {};
    std::vector<Attachment> attachments = {};
  };
  const Info& info() const { return info_; }
  // save() and serialize() check the names of attachments and the errors of quantized states.
  void set_info(Info info) { info_ = std::move(info); }
  // Returns the attachment with this name, or null. Valid until set_info().
  const Attachment* attachment(std::string_view name) const;

 private:
  static Result<Model> from_contents(Contents contents);
  Model(Graph graph, Info info) : graph_(std::move(graph)), info_(std::move(info)) {}
  Graph graph_;
  std::vector<std::pair<std::string, Graph>> entries_;
  Info info_;
};

}  // namespace hg
