// SPDX-License-Identifier: Apache-2.0
// Reads a model from bytes that nobody vouches for: every index, size, offset and name is checked
// before its first use. What is allocated is bounded by the size of the file.
#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "flatbuffers/flatbuffers.h"
#include "hg/model.h"
#include "lib/graph/access.h"
#include "lib/model/header.h"
#include "lib/model/mapping.h"
#include "model_generated.h"

namespace hg {
namespace {

constexpr size_t kMaxNesting = 64;          // of tables in the flatbuffer
constexpr int kMaxSubgraphs = 16;           // of graphs in graphs
constexpr size_t kMaxExpression = 4096;     // characters of one size
constexpr size_t kLeastTableBytes = 8;      // a table and the offset that leads to it

bool in_range(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

// A flatbuffers vector that may be absent.
template <class T>
size_t size_of_vector(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

std::string_view view_of(const flatbuffers::String* text) {
  return text == nullptr ? std::string_view() : std::string_view(text->c_str(), text->size());
}

class Reader {
 public:
  Reader(const Mapping& mapping, const Registry& registry)
      : mapping_(mapping), registry_(registry) {}

  Result<std::pair<Graph, Model::Info>> read() {
    HG_TRY(read_header());
    const auto* bytes =
        reinterpret_cast<const uint8_t*>(mapping_.bytes.data() + header_.graph_offset);
    const size_t size = header_.graph_bytes;
    if (size < 8 || !file::ModelBufferHasIdentifier(bytes))
      return corrupt_model("the graph section does not start with the identifier HGM1");
    const size_t tables = size / kLeastTableBytes + 16;
    flatbuffers::Verifier verifier(bytes, size, kMaxNesting,
                                   static_cast<flatbuffers::uoffset_t>(tables));
    if (!file::VerifyModelBuffer(verifier))
      return corrupt_model("the graph section is damaged: a table or an offset is out of bounds");
    const file::Model& model = *file::GetModel(bytes);
    HG_TRY(list_unknown_ops(*model.graph(), 0));
    if (!unknown_.empty()) {
      std::string names;
      for (const std::string& name : unknown_) names += text(names.empty() ? "" : ", ", name);
      return unsupported("the model uses ops that are not registered: ", names);
    }
    Graph graph(registry_);
    HG_TRY(read_graph(*model.graph(), graph));
    if (const Status status = graph.verify(); !status.ok())
      return corrupt_model("the graph is not valid: ", status.message());
    return std::pair(std::move(graph),
                     Model::Info{std::string(view_of(model.producer())),
                                 std::string(view_of(model.source())),
                                 std::string(view_of(model.source_hash()))});
  }

 private:
  Status read_header() {
    const uint64_t size = mapping_.bytes.size();
    if (size < sizeof header_)
      return corrupt_model("the file has ", size, " bytes, less than its header of ",
                           uint64_t{sizeof header_});
    std::memcpy(&header_, mapping_.bytes.data(), sizeof header_);
    if (std::memcmp(header_.magic, kFileMagic, sizeof header_.magic) != 0)
      return corrupt_model("this is not a .hgm file: it does not start with HGMODEL");
    if (header_.version != kFileVersion)
      return unsupported("the file has layout version ", header_.version, "; this library reads ",
                         kFileVersion);
    const bool sound =
        header_.header_bytes == sizeof header_ && header_.graph_offset == sizeof header_ &&
        in_range(header_.graph_offset, header_.graph_bytes, size) &&
        in_range(header_.data_offset, header_.data_bytes, size) &&
        header_.graph_bytes <= FLATBUFFERS_MAX_BUFFER_SIZE &&
        header_.data_offset >= header_.graph_offset + header_.graph_bytes &&
        header_.data_offset % kBlobAlignment == 0 &&
        header_.data_offset + header_.data_bytes == size && header_.reserved[0] == 0 &&
        header_.reserved[1] == 0;
    if (!sound)
      return corrupt_model("the header does not fit the file of ", size,
                           " bytes; it may have been cut off");
    return {};
  }

  Status list_unknown_ops(const file::Graph& graph, int depth) {
    if (depth > kMaxSubgraphs) return corrupt_model("subgraphs are nested too deeply");
    for (size_t i = 0; i < size_of_vector(graph.nodes()); ++i) {
      const file::Node& node = *graph.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i));
      if (registry_.find(view_of(node.op())) == nullptr) unknown_.insert(node.op()->str());
      for (size_t k = 0; k < size_of_vector(node.subgraphs()); ++k)
        HG_TRY(list_unknown_ops(*node.subgraphs()->Get(static_cast<flatbuffers::uoffset_t>(k)),
                                depth + 1));
    }
    return {};
  }

  // The writer prints sizes in their normal form, which has parentheses only behind a name: other
  // texts could grow beyond measure when they are multiplied out.
  static Result<Dim> read_dim(const file::Dim* dim) {
    if (dim == nullptr) return corrupt_model("a size is missing");
    if (dim->expression() == nullptr) return Dim(dim->constant());
    const std::string_view expression = view_of(dim->expression());
    bool plain = expression.size() <= kMaxExpression;
    for (size_t i = 0; i < expression.size() && plain; ++i)
      if (expression[i] == '(') plain = i > 0 && expression[i - 1] >= 'a' && expression[i - 1] <= 'z';
    if (!plain) return corrupt_model("a size is not in its normal form");
    Result<Dim> parsed = Dim::parse(expression);
    if (!parsed.ok()) return corrupt_model(parsed.status().message());
    return parsed;
  }

  using DimVector = flatbuffers::Vector<flatbuffers::Offset<file::Dim>>;
  static Result<std::vector<Dim>> read_dims(const DimVector* list) {
    std::vector<Dim> dims;
    for (size_t i = 0; i < size_of_vector(list); ++i) {
      HG_TRY_ASSIGN(Dim dim, read_dim(list->Get(static_cast<flatbuffers::uoffset_t>(i))));
      dims.push_back(std::move(dim));
    }
    return dims;
  }

  static Result<DType> read_dtype(uint8_t dtype, std::string_view where) {
    if (dtype >= kDTypeCount)
      return corrupt_model(where, " has the dtype ", int{dtype}, ", which does not exist");
    return static_cast<DType>(dtype);
  }

  Status read_graph(const file::Graph& source, Graph& graph) {
    GraphBody& body = GraphAccess::body(graph);
    body.fresh_count = source.fresh_symbols();
    for (size_t i = 0; i < size_of_vector(source.values()); ++i) {
      const file::Value& value = *source.values()->Get(static_cast<flatbuffers::uoffset_t>(i));
      const std::string name = value.name()->str();
      if (name.empty() || body.names.contains(name))
        return corrupt_model("value ", int64_t(i), " has the name '", name,
                             "', which is empty or taken");
      HG_TRY_ASSIGN(const DType dtype, read_dtype(value.dtype(), text("value '", name, "'")));
      HG_TRY_ASSIGN(Shape shape, read_dims(value.shape()));
      if (shape.size() > kMaxRank)
        return corrupt_model("value '", name, "' has rank ", int64_t(shape.size()));
      GraphAccess::add_value(graph, {dtype, std::move(shape)}, name);
    }
    HG_TRY_ASSIGN(body.inputs, read_ids(source.inputs(), body, "an input"));
    for (const ValueId id : body.inputs)
      if (id == kNoValue) return corrupt_model("an input has no value");
    for (size_t i = 0; i < size_of_vector(source.states()); ++i)
      HG_TRY(read_state(*source.states()->Get(static_cast<flatbuffers::uoffset_t>(i)), body));
    for (size_t i = 0; i < size_of_vector(source.nodes()); ++i)
      HG_TRY(read_node(*source.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i)), graph));
    for (size_t i = 0; i < size_of_vector(source.outputs()); ++i) {
      const file::Output& output = *source.outputs()->Get(static_cast<flatbuffers::uoffset_t>(i));
      HG_TRY(check_id(output.value(), body, "an output"));
      body.outputs.emplace_back(output.name()->str(), output.value());
    }
    for (size_t i = 0; i < size_of_vector(source.assignments()); ++i) {
      const file::Assignment& assignment =
          *source.assignments()->Get(static_cast<flatbuffers::uoffset_t>(i));
      HG_TRY(check_id(assignment.target(), body, "an assignment"));
      HG_TRY(check_id(assignment.source(), body, "an assignment"));
      body.assignments.emplace_back(assignment.target(), assignment.source());
    }
    return {};
  }

  static Status check_id(ValueId id, const GraphBody& body, std::string_view where) {
    if (id < 0 || static_cast<size_t>(id) >= body.values.size())
      return corrupt_model(where, " refers to value ", id, " of ", int64_t(body.values.size()));
    return {};
  }

  static Result<std::vector<ValueId>> read_ids(const flatbuffers::Vector<int32_t>* list,
                                               const GraphBody& body, std::string_view where) {
    std::vector<ValueId> ids;
    for (size_t i = 0; i < size_of_vector(list); ++i) {
      ids.push_back(list->Get(static_cast<flatbuffers::uoffset_t>(i)));
      if (ids.back() != kNoValue) HG_TRY(check_id(ids.back(), body, where));
    }
    return ids;
  }

  Status read_state(const file::State& source, GraphBody& body) {
    State state;
    state.name = source.name()->str();
    if (source.kind() > static_cast<uint8_t>(State::Kind::constant))
      return corrupt_model("state '", state.name, "' has the kind ", int{source.kind()});
    state.kind = static_cast<State::Kind>(source.kind());
    state.value = source.value();
    HG_TRY(check_id(state.value, body, "a state"));
    ValueInfo& info = body.values[static_cast<size_t>(state.value)];
    if (info.state >= 0) return corrupt_model("value '", info.name, "' has two states");
    const Result<Sizes> shape = evaluate(info.type.shape, Bindings());
    if (!shape.ok()) return corrupt_model("state '", state.name, "': ", shape.status().message());
    Tensor tensor = view(static_cast<void*>(nullptr), info.type.dtype, *shape);
    if (static_cast<uint64_t>(tensor.bytes()) != source.bytes() ||
        source.offset() % kBlobAlignment != 0 ||
        !in_range(source.offset(), source.bytes(), header_.data_bytes))
      return corrupt_model("state '", state.name, "' needs ", tensor.bytes(), " bytes; the file has ",
                           source.bytes(), " at ", source.offset(), " of ", header_.data_bytes);
    tensor.data = const_cast<std::byte*>(mapping_.bytes.data() + header_.data_offset +
                                         source.offset());
    if (tensor.dtype == boolean &&
        std::any_of(tensor.as<const uint8_t>(), tensor.as<const uint8_t>() + tensor.count(),
                    [](uint8_t byte) { return byte > 1; }))
      return corrupt_model("state '", state.name, "' is bool, but holds bytes other than 0 and 1");
    state.data = {tensor, mapping_.owner};
    for (size_t i = 0; i < size_of_vector(source.aliases()); ++i)
      state.aliases.push_back(source.aliases()->Get(static_cast<flatbuffers::uoffset_t>(i))->str());
    info.state = static_cast<int32_t>(body.states.size());
    body.states.push_back(std::move(state));
    return {};
  }

  Status read_node(const file::Node& source, Graph& graph) {
    GraphBody& body = GraphAccess::body(graph);
    const std::string where = text("node ", int64_t(body.nodes.size()), " (", view_of(source.op()), ")");
    Node node;
    node.op = registry_.find(view_of(source.op()));
    HG_TRY_ASSIGN(node.inputs, read_ids(source.inputs(), body, where));
    HG_TRY_ASSIGN(node.outputs, read_ids(source.outputs(), body, where));
    if (node.outputs.empty() ||
        std::find(node.outputs.begin(), node.outputs.end(), kNoValue) != node.outputs.end())
      return corrupt_model(where, " has no output");
    NamedAttrs attrs;
    for (size_t i = 0; i < size_of_vector(source.attrs()); ++i) {
      const file::Attr& attr = *source.attrs()->Get(static_cast<flatbuffers::uoffset_t>(i));
      HG_TRY_ASSIGN(Attr value, read_attr(attr, where));
      attrs.push_back({view_of(attr.name()), std::move(value)});
    }
    Result<std::vector<Attr>> normal = GraphAccess::normalize_attrs(*node.op, attrs);
    if (!normal.ok()) return corrupt_model(where, ": ", normal.status().message());
    node.attrs = *std::move(normal);
    for (size_t i = 0; i < size_of_vector(source.subgraphs()); ++i) {
      auto subgraph = std::make_shared<Graph>(registry_);
      HG_TRY(read_graph(*source.subgraphs()->Get(static_cast<flatbuffers::uoffset_t>(i)), *subgraph));
      node.subgraphs.push_back(std::move(subgraph));
    }
    node.origin = {std::string(view_of(source.module_path())), std::string(view_of(source.source()))};
    GraphAccess::push_node(graph, std::move(node));
    return {};
  }

  static Result<Attr> read_attr(const file::Attr& attr, std::string_view where) {
    switch (attr.kind()) {
      case file::AttrKind::none: return Attr();
      case file::AttrKind::boolean: return Attr(attr.boolean());
      case file::AttrKind::integer: {
        HG_TRY_ASSIGN(Dim dim, read_dim(attr.integer()));
        return Attr(std::move(dim));
      }
      case file::AttrKind::real: return Attr(attr.real());
      case file::AttrKind::text: return Attr(std::string(view_of(attr.text())));
      case file::AttrKind::dtype: {
        HG_TRY_ASSIGN(const DType dtype, read_dtype(attr.dtype(), where));
        return Attr(dtype);
      }
      case file::AttrKind::integers: {
        HG_TRY_ASSIGN(std::vector<Dim> dims, read_dims(attr.integers()));
        return Attr(std::move(dims));
      }
      case file::AttrKind::reals: {
        std::vector<double> reals;
        if (attr.reals() != nullptr) reals.assign(attr.reals()->begin(), attr.reals()->end());
        return Attr(std::move(reals));
      }
      case file::AttrKind::texts: {
        std::vector<std::string> texts;
        for (size_t i = 0; i < size_of_vector(attr.texts()); ++i)
          texts.push_back(attr.texts()->Get(static_cast<flatbuffers::uoffset_t>(i))->str());
        return Attr(std::move(texts));
      }
    }
    return corrupt_model(where, " has an attribute of kind ", static_cast<int>(attr.kind()),
                         ", which does not exist");
  }

  const Mapping& mapping_;
  const Registry& registry_;
  FileHeader header_{};
  std::set<std::string> unknown_;
};

}  // namespace

Result<Model> Model::load(const std::string& path, const Registry& registry) {
  HG_TRY_ASSIGN(const Mapping mapping, map_file(path));
  Result<std::pair<Graph, Info>> read = Reader(mapping, registry).read();
  if (!read.ok())
    return Status(read.status().code(), text("'", path, "': ", read.status().message()));
  Model model;
  std::tie(model.graph_, model.info_) = *std::move(read);
  return model;
}

Result<Model> Model::read(std::span<const std::byte> bytes, const Registry& registry) {
  HG_TRY_ASSIGN(const Mapping mapping, copy_bytes(bytes));
  HG_TRY_ASSIGN(auto read, Reader(mapping, registry).read());
  Model model;
  std::tie(model.graph_, model.info_) = std::move(read);
  return model;
}

}  // namespace hg
