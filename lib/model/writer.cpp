// SPDX-License-Identifier: Apache-2.0
// Writes a model. The graph is built in memory; weights are streamed from where they are.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "flatbuffers/flatbuffers.h"
#include "hg/model.h"
#include "lib/graph/access.h"
#include "lib/model/header.h"
#include "model_generated.h"

namespace hg {
namespace {

using flatbuffers::FlatBufferBuilder;
template <class T>
using Offsets = std::vector<flatbuffers::Offset<T>>;

uint64_t align_blob(uint64_t bytes) {
  return (bytes + kBlobAlignment - 1) / kBlobAlignment * kBlobAlignment;
}

class GraphWriter {
 public:
  // Without defaults -0.0, which equals the default 0, would come back without its sign.
  GraphWriter() { fbb_.ForceDefaults(true); }

  flatbuffers::Offset<file::Graph> write(const Graph& graph) {
    const GraphBody& body = GraphAccess::body(graph);
    Offsets<file::Value> values;
    for (const ValueInfo& value : body.values)
      values.push_back(file::CreateValueDirect(fbb_, value.name.c_str(),
                                               static_cast<uint8_t>(value.type.dtype),
                                               dims(value.type.shape)));
    Offsets<file::State> states;
    for (const State& state : body.states) {
      const Tensor& tensor = state.data.tensor;
      const uint64_t offset = add_blob(tensor);
      states.push_back(file::CreateState(fbb_, static_cast<uint8_t>(state.kind),
                                         fbb_.CreateString(state.name), state.value,
                                         strings(state.aliases), offset,
                                         static_cast<uint64_t>(tensor.bytes())));
    }
    Offsets<file::Node> nodes;
    for (const Node& node : body.nodes) nodes.push_back(write(node));
    Offsets<file::Output> outputs;
    for (const auto& [name, id] : body.outputs)
      outputs.push_back(file::CreateOutputDirect(fbb_, name.c_str(), id));
    Offsets<file::Assignment> assignments;
    for (const auto& [target, source] : body.assignments)
      assignments.push_back(file::CreateAssignment(fbb_, target, source));
    return file::CreateGraph(fbb_, fbb_.CreateVector(values), fbb_.CreateVector(body.inputs),
                             fbb_.CreateVector(states), fbb_.CreateVector(nodes),
                             fbb_.CreateVector(outputs), fbb_.CreateVector(assignments),
                             body.fresh_count);
  }

  void finish(flatbuffers::Offset<file::Graph> graph, const Model::Info& info) {
    file::FinishModelBuffer(
        fbb_, file::CreateModelDirect(fbb_, graph, info.producer.c_str(), info.source.c_str(),
                                      info.source_hash.c_str()));
  }

  const FlatBufferBuilder& buffer() const { return fbb_; }
  const std::vector<Tensor>& blobs() const { return blobs_; }
  uint64_t data_bytes() const { return data_bytes_; }

 private:
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> strings(
      const std::vector<std::string>& texts) {
    return fbb_.CreateVectorOfStrings(texts);
  }

  flatbuffers::Offset<file::Dim> write(const Dim& dim) {
    if (dim.is_constant()) return file::CreateDim(fbb_, dim.constant());
    return file::CreateDimDirect(fbb_, 0, text(dim).c_str());
  }

  // CreateXxxDirect takes a pointer to offsets; it lives in this buffer until the next call.
  const Offsets<file::Dim>* dims(const std::vector<Dim>& list) {
    dims_.clear();
    for (const Dim& dim : list) dims_.push_back(write(dim));
    return &dims_;
  }

  flatbuffers::Offset<file::Node> write(const Node& node) {
    Offsets<file::Graph> subgraphs;
    for (const auto& subgraph : node.subgraphs) subgraphs.push_back(write(*subgraph));
    Offsets<file::Attr> attrs;
    for (size_t i = 0; i < node.attrs.size(); ++i)
      attrs.push_back(write(node.op->signature.attributes[i].name, node.attrs[i]));
    return file::CreateNodeDirect(fbb_, std::string(node.op->name()).c_str(), &node.inputs,
                                  &node.outputs, &attrs, &subgraphs, node.origin.module.c_str(),
                                  node.origin.source.c_str());
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
      flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<file::Dim>>> integers{};
      flatbuffers::Offset<flatbuffers::Vector<double>> reals{};
      flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> texts{};

      void operator()(std::monostate) {}
      void operator()(bool v) { kind = file::AttrKind::boolean, boolean = v; }
      void operator()(const Dim& v) { kind = file::AttrKind::integer, integer = w.write(v); }
      void operator()(double v) { kind = file::AttrKind::real, real = v; }
      void operator()(const std::string& v) {
        kind = file::AttrKind::text, text = w.fbb_.CreateString(v);
      }
      void operator()(DType v) { kind = file::AttrKind::dtype, dtype = static_cast<uint8_t>(v); }
      void operator()(const std::vector<Dim>& v) {
        kind = file::AttrKind::integers, integers = w.fbb_.CreateVector(*w.dims(v));
      }
      void operator()(const std::vector<double>& v) {
        kind = file::AttrKind::reals, reals = w.fbb_.CreateVector(v);
      }
      void operator()(const std::vector<std::string>& v) {
        kind = file::AttrKind::texts, texts = w.strings(v);
      }
    } parts{*this};
    visit(attr, parts);
    return file::CreateAttr(fbb_, name_offset, parts.kind, parts.boolean, parts.integer, parts.real,
                            parts.text, parts.dtype, parts.integers, parts.reals, parts.texts);
  }

  // Tensors that share memory are written once.
  uint64_t add_blob(const Tensor& tensor) {
    const auto [entry, is_new] =
        offsets_.try_emplace({tensor.data, tensor.bytes()}, data_bytes_);
    if (is_new) {
      blobs_.push_back(tensor);
      data_bytes_ += align_blob(static_cast<uint64_t>(tensor.bytes()));
    }
    return entry->second;
  }

  FlatBufferBuilder fbb_;
  Offsets<file::Dim> dims_;
  std::vector<Tensor> blobs_;
  std::map<std::pair<const void*, int64_t>, uint64_t> offsets_;
  uint64_t data_bytes_ = 0;
};

// Calls sink(data, bytes) for the pieces of the file in order, until one fails.
template <class Sink>
Status write_file(const Model& model, const Sink& sink) {
  HG_TRY(model.graph().status());
  GraphWriter writer;
  writer.finish(writer.write(model.graph()), model.info());
  static constexpr char kZeros[kBlobAlignment] = {};
  FileHeader header{};
  std::memcpy(header.magic, kFileMagic, sizeof header.magic);
  header.version = kFileVersion;
  header.header_bytes = sizeof header;
  header.graph_offset = sizeof header;
  header.graph_bytes = writer.buffer().GetSize();
  header.data_offset = align_blob(header.graph_offset + header.graph_bytes);
  header.data_bytes = writer.data_bytes();
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

Status cannot_write(const std::string& path, int error) {
  return Status(error == ENOENT || error == ENOTDIR ? Code::not_found : Code::invalid_argument,
                text("cannot write '", path, "': ", std::strerror(error)));
}

}  // namespace

Result<Model> Model::from_graph(Graph graph) {
  HG_TRY(graph.status());
  Model model;
  model.graph_ = std::move(graph);
  return model;
}

Result<std::vector<std::byte>> Model::serialize() const {
  std::vector<std::byte> bytes;
  HG_TRY(write_file(*this, [&](const void* data, uint64_t count) -> Status {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + count);
    return {};
  }));
  return bytes;
}

Status Model::save(const std::string& path) const {
  const std::string temporary = path + ".partial";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return cannot_write(path, errno);
  Status status = write_file(*this, [&](const void* data, uint64_t count) -> Status {
    if (count > 0 && std::fwrite(data, 1, count, file) != count) return cannot_write(path, errno);
    return {};
  });
  if (std::fflush(file) != 0 && status.ok()) status = cannot_write(path, errno);
  if (std::fclose(file) != 0 && status.ok()) status = cannot_write(path, errno);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0)
    status = cannot_write(path, errno);
  if (!status.ok()) std::remove(temporary.c_str());
  return status;
}

}  // namespace hg
