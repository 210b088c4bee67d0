// SPDX-License-Identifier: Apache-2.0
// A graph with its weights and where they came from; the .hgm file. docs/format.md has the format.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hg/graph.h"
#include "hg/op.h"

namespace hg {

struct LoadOptions {
  // Reads all weights and holds them against the checksums in the file: corrupt_model names the
  // state that is damaged, unsupported a state without a checksum, as files of before 0.2 have.
  bool verify_weights = false;
  // Of load(): false reads the file into memory. A file that is mapped must keep its length and
  // bytes as long as the model lives: where another process cuts it off, using a weight that is
  // gone ends this one by SIGBUS.
  bool map = true;
  // Limits for files that nobody vouches for; what exceeds one is corrupt_model. 0: none but those
  // that the file's own length sets (docs/security.md).
  int64_t max_nodes = 0;  // of all graphs of the file together, bodies of control flow included
  int64_t max_bytes = 0;  // of the file
  int max_dims = 0;       // of one tensor, at most kMaxRank
};

class Model {
 public:
  Model() = default;  // of an empty graph
  // Maps the file; weights are used from the mapping, which lives as long as any copy of them.
  // Fails with not_found, corrupt_model (what and where), or unsupported (an op that the registry
  // lacks). The registry must outlive the model.
  static Result<Model> load(const std::string& path,
                            const Registry& registry = Registry::built_in(),
                            const LoadOptions& options = {});
  // The same from memory, which is copied.
  static Result<Model> read(std::span<const std::byte> bytes,
                            const Registry& registry = Registry::built_in(),
                            const LoadOptions& options = {});
  // The same from memory that is not copied: weights are used where they lie, so that a model may
  // be a part of the program, of flash or of shared memory. The bytes begin at a multiple
  // of 64, and stay as they are for as long as any copy of the model, or a session of it, lives.
  static Result<Model> borrow(std::span<const std::byte> bytes,
                              const Registry& registry = Registry::built_in(),
                              const LoadOptions& options = {});
  // Takes a graph whose status() is ok.
  static Result<Model> from_graph(Graph graph);

  // Writes to a temporary file beside `path` and renames it: the old file stays until the new one
  // is whole. Two saves of one model give the same bytes. `keep`, when given, is asked by the
  // calling thread once the temporary file, whose path it gets, has all bytes, and may wait for an
  // answer: false removes that file, and the old one stays, which is no error.
  Status save(const std::string& path,
              const std::function<bool(const std::string& temporary)>& keep = {}) const;
  Result<std::vector<std::byte>> serialize() const;

  const Graph& graph() const { return graph_; }
  Graph& graph() { return graph_; }

  // A state that quantize() made (hg/quantize.h), and its error.
  struct QuantizedState {
    std::string name;
    double error = 0;
  };
  struct Info {
    std::string producer;     // "hg-convert 0.2.0"
    std::string source;       // "libtorch 2.13.0"
    std::string source_hash;  // of the file it was converted from
    // What the proof of the conversion did not run: "the else of `if` at model.py:12".
    std::vector<std::string> not_exercised = {};
    std::vector<QuantizedState> quantized = {};
  };
  const Info& info() const { return info_; }
  void set_info(Info info) { info_ = std::move(info); }

 private:
  Model(Graph graph, Info info) : graph_(std::move(graph)), info_(std::move(info)) {}
  Graph graph_;
  Info info_;
};

}  // namespace hg
