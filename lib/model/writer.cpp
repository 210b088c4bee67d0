// SPDX-License-Identifier: Apache-2.0
// Writes a model. Builds the graph in memory and streams weights from where they are stored.
#include <algorithm>
#include <cstring>
#include <map>

#include "flatbuffers/flatbuffers.h"
#include "hg/model.h"
#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/graph/dim_text.h"
#include "lib/model/attachments.h"
#include "lib/model/crc32c.h"
#include "lib/model/destination.h"
#include "lib/model/header.h"
#include "model_generated.h"

namespace hg {
namespace {

using flatbuffers::FlatBufferBuilder;
template <class T>
using Offsets = std::vector<flatbuffers::Offset<T>>;
template <class T>
using Tables = flatbuffers::Vector<flatbuffers::Offset<T>>;

uint64_t align_blob(uint64_t bytes) {
  return (bytes + kBlobAlignment - 1) / kBlobAlignment * kBlobAlignment;
}

class GraphWriter {
 public:
  GraphWriter(std::span<const Graph* const> graphs, const Model::Info& info) {
    // Without this, -0.0, which equals the default 0, would lose its sign.
    fbb_.ForceDefaults(true);
    for (const Graph* graph : graphs) sizes_.add(*graph);
    if (sizes_.definitions().size() > kMaxNamedSizes)
      status_ = unsupported("the sizes have ", uint64_t{sizes_.definitions().size()},
                            " long parts; a file takes ", uint64_t{kMaxNamedSizes}, " at most");
    // What programs read before the first run comes first: attachments, and what the compiler looks
    // at, such as scales and biases. The disk can read the rest in the meantime.
    for (const Model::Attachment& each : info.attachments) add_blob(bytes_of(each));
    constexpr int64_t kSmall = 1 << 16;
    const int64_t scales = largest_levels(graphs) / 4;
    for (const Graph* graph : graphs)
      for (const State& state : graph->states()) {
        const Tensor& tensor = state.data.tensor;
        if (tensor.bytes() <= std::max(kSmall, is_float(tensor.dtype) ? scales : 0))
          add_blob(tensor);
      }
  }

  flatbuffers::Offset<file::Graph> write(const Graph& graph) {
    const GraphBody& body = GraphAccess::body(graph);
    Offsets<file::Value> values;
    for (const ValueInfo& value : body.values)
      values.push_back(file::CreateValue(fbb_, fbb_.CreateString(value.name),
                                         static_cast<uint8_t>(value.type.dtype),
                                         dims(value.type.shape)));
    Offsets<file::State> states;
    for (const State& state : body.states) {
      const Tensor& tensor = state.data.tensor;
      const uint64_t offset = add_blob(tensor);
      states.push_back(file::CreateState(
          fbb_, static_cast<uint8_t>(state.kind), fbb_.CreateString(state.name), state.value,
          texts(state.aliases), offset, static_cast<uint64_t>(tensor.bytes()),
          crc32c(tensor.data, static_cast<size_t>(tensor.bytes())), state.requires_grad));
    }
    Offsets<file::Node> nodes;
    for (const Node& node : body.nodes) nodes.push_back(write(node));
    Offsets<file::Output> outputs;
    for (const auto& [name, id] : body.outputs)
      outputs.push_back(file::CreateOutput(fbb_, fbb_.CreateString(name), id));
    Offsets<file::Assignment> assignments;
    for (const auto& [target, source] : body.assignments)
      assignments.push_back(file::CreateAssignment(fbb_, target, source));
    Offsets<file::Guard> guards;
    for (const Guard& guard : body.guards) guards.push_back(write(guard));
    return file::CreateGraph(fbb_, fbb_.CreateVector(values), fbb_.CreateVector(body.inputs),
                             fbb_.CreateVector(states), fbb_.CreateVector(nodes),
                             fbb_.CreateVector(outputs), fbb_.CreateVector(assignments),
                             body.fresh_count, fbb_.CreateVector(guards));
  }

  flatbuffers::Offset<file::Function> write(const std::string& name, const Graph& function) {
    const auto graph = write(function);
    return file::CreateFunction(fbb_, fbb_.CreateString(name), graph);
  }

  void finish(flatbuffers::Offset<file::Graph> graph, const Offsets<file::Function>& functions,
              const Model::Info& info) {
    const auto not_exercised = texts(info.not_exercised), sizes = texts(sizes_.definitions());
    // A model without functions, quantized weights and attachments has the format of older
    // versions.
    const auto listed = functions.empty() ? 0 : fbb_.CreateVector(functions);
    Offsets<file::QuantizedState> states;
    for (const Model::QuantizedState& state : info.quantized)
      states.push_back(
          file::CreateQuantizedState(fbb_, fbb_.CreateString(state.name), state.error));
    const auto quantized = states.empty() ? 0 : fbb_.CreateVector(states);
    Offsets<file::Attachment> files;
    for (const Model::Attachment& each : info.attachments) files.push_back(write(each));
    const auto attachments = files.empty() ? 0 : fbb_.CreateVector(files);
    file::FinishModelBuffer(
        fbb_, file::CreateModel(fbb_, graph, fbb_.CreateString(info.producer),
                                fbb_.CreateString(info.source), fbb_.CreateString(info.source_hash),
                                not_exercised, sizes, listed, quantized, attachments));
  }

  const Status& status() const { return status_; }
  const FlatBufferBuilder& buffer() const { return fbb_; }
  const std::vector<Tensor>& blobs() const { return blobs_; }
  uint64_t data_bytes() const { return data_bytes_; }

 private:
  static Tensor bytes_of(const Model::Attachment& attachment) {
    const std::string& content = attachment.content;
    return view(const_cast<char*>(content.data()), u8, {static_cast<int64_t>(content.size())});
  }

  // The bytes of the largest state of integers.
  static int64_t largest_levels(std::span<const Graph* const> graphs) {
    int64_t most = 0;
    for (const Graph* graph : graphs)
      for (const State& state : graph->states())
        if (!is_float(state.data.tensor.dtype)) most = std::max(most, state.data.tensor.bytes());
    return most;
  }

  flatbuffers::Offset<Tables<file::Text>> texts(const std::vector<std::string>& list) {
    Offsets<file::Text> offsets;
    for (const std::string& entry : list)
      offsets.push_back(file::CreateText(fbb_, fbb_.CreateString(entry)));
    return fbb_.CreateVector(offsets);
  }

  flatbuffers::Offset<file::Attachment> write(const Model::Attachment& attachment) {
    const std::string& content = attachment.content;
    return file::CreateAttachment(fbb_, fbb_.CreateString(attachment.name),
                                  add_blob(bytes_of(attachment)), content.size(),
                                  crc32c(content.data(), content.size()));
  }

  flatbuffers::Offset<file::Dim> write(const Dim& dim) {
    if (dim.is_constant()) return file::CreateDim(fbb_, dim.constant());
    std::string expression;
    sizes_.append(expression, dim);
    if (expression.size() > kMaxExpression && status_.ok())
      status_ = unsupported("a size has an expression of ", uint64_t{expression.size()},
                            " characters; a file takes ", uint64_t{kMaxExpression}, " at most");
    return file::CreateDim(fbb_, 0, fbb_.CreateString(expression));
  }

  flatbuffers::Offset<Tables<file::Dim>> dims(const std::vector<Dim>& list) {
    Offsets<file::Dim> offsets;
    for (const Dim& dim : list) offsets.push_back(write(dim));
    return fbb_.CreateVector(offsets);
  }

  flatbuffers::Offset<file::Guard> write(const Guard& guard) {
    const auto left = write(guard.left), right = write(guard.right);
    return file::CreateGuard(
        fbb_, left, static_cast<uint8_t>(guard.relation), right, fbb_.CreateString(guard.reason),
        fbb_.CreateString(guard.origin.module), fbb_.CreateString(guard.origin.source));
  }

  flatbuffers::Offset<file::Node> write(const Node& node) {
    Offsets<file::Graph> subgraphs;
    for (const auto& subgraph : node.subgraphs) subgraphs.push_back(write(*subgraph));
    Offsets<file::Attr> attrs;
    for (size_t i = 0; i < node.attrs.size(); ++i)
      attrs.push_back(write(node.op->signature.attributes[i].name, node.attrs[i]));
    return file::CreateNode(
        fbb_, fbb_.CreateString(node.op->name()), fbb_.CreateVector(node.inputs),
        fbb_.CreateVector(node.outputs), fbb_.CreateVector(attrs), fbb_.CreateVector(subgraphs),
        fbb_.CreateString(node.origin.module), fbb_.CreateString(node.origin.source));
  }

  flatbuffers::Offset<file::Attr> write(const std::string& name, const Attr& attr) {
    const auto name_offset = fbb_.CreateString(name);
    struct Parts {
      GraphWriter& w;
      file::AttrKind kind = file::AttrKind::none;
      bool boolean = false;
      double real = 0;
      uint8_t dtype = 0;
      flatbuffers::Offset<file::Dim> integer{};
      flatbuffers::Offset<flatbuffers::String> text{};
      flatbuffers::Offset<Tables<file::Dim>> integers{};
      flatbuffers::Offset<flatbuffers::Vector<double>> reals{};
      flatbuffers::Offset<Tables<file::Text>> texts{};

      void operator()(std::monostate) {}
      void operator()(bool v) { kind = file::AttrKind::boolean, boolean = v; }
      void operator()(const Dim& v) { kind = file::AttrKind::integer, integer = w.write(v); }
      void operator()(double v) { kind = file::AttrKind::real, real = v; }
      void operator()(const std::string& v) {
        kind = file::AttrKind::text, text = w.fbb_.CreateString(v);
      }
      void operator()(DType v) { kind = file::AttrKind::dtype, dtype = static_cast<uint8_t>(v); }
      void operator()(const std::vector<Dim>& v) {
        kind = file::AttrKind::integers, integers = w.dims(v);
      }
      void operator()(const std::vector<double>& v) {
        kind = file::AttrKind::reals, reals = w.fbb_.CreateVector(v);
      }
      void operator()(const std::vector<std::string>& v) {
        kind = file::AttrKind::texts, texts = w.texts(v);
      }
    } parts{*this};
    visit(attr, parts);
    return file::CreateAttr(fbb_, name_offset, parts.kind, parts.boolean, parts.integer, parts.real,
                            parts.text, parts.dtype, parts.integers, parts.reals, parts.texts);
  }

  // Writes tensors that share memory once.
  uint64_t add_blob(const Tensor& tensor) {
    const auto [entry, is_new] = offsets_.try_emplace({tensor.data, tensor.bytes()}, data_bytes_);
    if (is_new) {
      blobs_.push_back(tensor);
      data_bytes_ += align_blob(static_cast<uint64_t>(tensor.bytes()));
    }
    return entry->second;
  }

  FlatBufferBuilder fbb_;
  SizeNames sizes_;
  Status status_;
  std::vector<Tensor> blobs_;
  std::map<std::pair<const void*, int64_t>, uint64_t> offsets_;
  uint64_t data_bytes_ = 0;
};

// Calls sink(data, bytes) for the pieces of the file in order, until a call fails.
template <class Sink>
Status write_file(const Graph& graph, std::span<const std::pair<std::string, Graph>> functions,
                  const Model::Info& info, const Sink& sink) {
  HG_TRY(graph.verify());
  for (const Model::QuantizedState& state : info.quantized)
    HG_CHECK(state.error >= 0, "the quantized state '", state.name, "' has the error ",
             state.error);
  HG_TRY(check_attachments(info.attachments));
  std::vector<const Graph*> graphs = {&graph};
  for (const auto& [name, function] : functions) {
    if (const Status status = function.verify(); !status.ok())
      return Status(status.code(), str_cat("entry '", name, "': ", status.message()));
    graphs.push_back(&function);
  }
  GraphWriter writer(graphs, info);
  const auto own = writer.write(graph);
  Offsets<file::Function> written;
  for (const auto& [name, function] : functions) written.push_back(writer.write(name, function));
  writer.finish(own, written, info);
  HG_TRY(writer.status());
  static constexpr char kZeros[kBlobAlignment] = {};
  FileHeader header{};
  std::memcpy(header.magic, kFileMagic, sizeof header.magic);
  header.version = kFileVersion;
  header.header_bytes = sizeof header;
  header.graph_offset = sizeof header;
  header.graph_bytes = writer.buffer().GetSize();
  header.data_offset = align_blob(header.graph_offset + header.graph_bytes);
  header.data_bytes = writer.data_bytes();
  header.graph_crc32c = crc32c(writer.buffer().GetBufferPointer(), header.graph_bytes);
  HG_TRY(sink(&header, sizeof header));
  HG_TRY(sink(writer.buffer().GetBufferPointer(), header.graph_bytes));
  HG_TRY(sink(kZeros, header.data_offset - header.graph_offset - header.graph_bytes));
  for (const Tensor& blob : writer.blobs()) {
    const auto bytes = static_cast<uint64_t>(blob.bytes());
    HG_TRY(sink(blob.data, bytes));
    HG_TRY(sink(kZeros, align_blob(bytes) - bytes));
  }
  return {};
}

}  // namespace

Result<Model> Model::from_graph(Graph graph) {
  return or_no_memory([&]() -> Result<Model> {
    HG_TRY(graph.status());
    return Model(std::move(graph), {});
  });
}

namespace {

Result<std::vector<std::byte>> bytes_of(const Graph& graph,
                                        std::span<const std::pair<std::string, Graph>> functions,
                                        const Model::Info& info) {
  std::vector<std::byte> bytes;
  HG_TRY(write_file(graph, functions, info, [&](const void* data, uint64_t count) -> Status {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + count);
    return {};
  }));
  return bytes;
}

Status save_file(const std::string& path, const Graph& graph,
                 std::span<const std::pair<std::string, Graph>> functions, const Model::Info& info,
                 const std::function<bool(const std::string& temporary)>& keep) {
  HG_TRY_ASSIGN(Destination destination, Destination::open(path));
  HG_TRY(write_file(graph, functions, info, [&](const void* data, uint64_t count) -> Status {
    return destination.write(data, count);
  }));
  return destination.finish(keep);
}

}  // namespace

Result<std::vector<std::byte>> Model::serialize() const {
  return or_no_memory([&]() -> Result<std::vector<std::byte>> {
    return bytes_of(entries_.empty() ? graph_ : Graph(), entries_, info_);
  });
}

Status Model::save(const std::string& path,
                   const std::function<bool(const std::string& temporary)>& keep) const {
  return or_no_memory([&]() -> Status {
    return save_file(path, entries_.empty() ? graph_ : Graph(), entries_, info_, keep);
  });
}

}  // namespace hg
