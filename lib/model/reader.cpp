// SPDX-License-Identifier: Apache-2.0
// Reads a model from untrusted bytes. Checks every index, size, offset and name before first use.
// Allocations are bounded by the size of the file: flatbuffers may share strings and vectors, so
// that a small file could request the same bytes repeatedly. A budget of the file's own size
// prevents this.
#include "lib/model/reader.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "lib/graph/access.h"
#include "lib/graph/dim_text.h"
#include "lib/graph/lacks.h"
#include "lib/model/attachments.h"
#include "lib/model/blobs.h"
#include "lib/model/crc32c.h"
#include "lib/model/header.h"

namespace hg {
namespace {

constexpr size_t kMaxNesting = 64;      // of tables in the flatbuffer
constexpr size_t kLeastTableBytes = 8;  // a table and the offset that refers to it

// Turns an error of a graph rule into corrupt_model. Running out of memory is not an error of the
// file.
template <class... Parts>
Status corrupt(const Status& why, const Parts&... where) {
  const bool is_memory = why.code() == Code::out_of_memory;
  return Status(is_memory ? Code::out_of_memory : Code::corrupt_model,
                str_cat(where..., why.message()));
}

class Reader {
 public:
  Reader(const Mapping& mapping, const Registry& registry, const LoadOptions& options)
      : mapping_(mapping), registry_(registry), options_(options) {
    if (mapping.is_file) file_ = std::make_shared<DataFile>(DataFile{mapping.owner, mapping.ahead, {}});
  }

  Result<Contents> read() {
    HG_TRY(read_header());
    const auto* bytes =
        reinterpret_cast<const uint8_t*>(mapping_.bytes.data() + header_.graph_offset);
    const size_t size = header_.graph_bytes;
    if (size < 8 || !file::ModelBufferHasIdentifier(bytes))
      return corrupt_model("the graph section does not start with the identifier HGM1");
    const uint32_t checksum = header_.graph_crc32c == 0 ? 0 : crc32c(bytes, size);
    if (checksum != header_.graph_crc32c)
      return corrupt_model("the graph section is damaged: the checksum of its ", uint64_t{size},
                           " bytes is ", checksum, ", the file says ", header_.graph_crc32c);
    const size_t tables = size / kLeastTableBytes + 16;
    flatbuffers::Verifier verifier(bytes, size, kMaxNesting,
                                   static_cast<flatbuffers::uoffset_t>(tables));
    if (!file::VerifyModelBuffer(verifier))
      return corrupt_model("the graph section is damaged: a table or an offset is out of bounds");
    const file::Model& model = *file::GetModel(bytes);
    HG_TRY(check_ops(model, Budget(size)));
    budget_ = Budget(size);
    blobs_ = Blobs(mapping_.bytes.subspan(header_.data_offset, header_.data_bytes),
                   options_.verify_weights);
    HG_TRY(read_sizes(model.sizes()));
    Contents contents{.graph = Graph(registry_), .info = {}, .functions = {}};
    HG_TRY(read_graph(*model.graph(), contents.graph));
    if (const Status status = contents.graph.verify(); !status.ok())
      return corrupt(status, "the graph is not valid: ");
    for (size_t i = 0; i < size_of_vector(model.functions()); ++i)
      HG_TRY(read_function(*model.functions()->Get(static_cast<flatbuffers::uoffset_t>(i)),
                           contents.functions));
    HG_TRY_ASSIGN(const std::string_view producer, budget_.read(model.producer()));
    HG_TRY_ASSIGN(const std::string_view origin, budget_.read(model.source()));
    HG_TRY_ASSIGN(const std::string_view hash, budget_.read(model.source_hash()));
    HG_TRY_ASSIGN(std::vector<std::string> not_exercised, read_texts(model.not_exercised()));
    contents.info = {std::string(producer), std::string(origin), std::string(hash),
                     std::move(not_exercised)};
    for (size_t i = 0; i < size_of_vector(model.quantized()); ++i)
      HG_TRY(read_quantized(*model.quantized()->Get(static_cast<flatbuffers::uoffset_t>(i)),
                            contents.info));
    for (size_t i = 0; i < size_of_vector(model.attachments()); ++i)
      HG_TRY(read_attachment(*model.attachments()->Get(static_cast<flatbuffers::uoffset_t>(i)),
                             contents.info));
    if (const Status status = check_attachments(contents.info.attachments); !status.ok())
      return corrupt(status);
    return contents;
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
    const bool sound = header_.header_bytes == sizeof header_ &&
                       header_.graph_offset == sizeof header_ &&
                       in_range(header_.graph_offset, header_.graph_bytes, size) &&
                       in_range(header_.data_offset, header_.data_bytes, size) &&
                       header_.graph_bytes <= FLATBUFFERS_MAX_BUFFER_SIZE &&
                       header_.data_offset >= header_.graph_offset + header_.graph_bytes &&
                       header_.data_offset % kBlobAlignment == 0 &&
                       header_.data_offset + header_.data_bytes == size &&
                       std::ranges::count(header_.reserved, 0u) == 3;
    if (!sound)
      return corrupt_model("the header does not fit the file of ", size,
                           " bytes; it may have been cut off");
    return {};
  }

  Status read_function(const file::Function& source,
                       std::vector<std::pair<std::string, Graph>>& functions) {
    HG_TRY_ASSIGN(const std::string_view name, budget_.read(source.name()));
    for (const auto& [taken, graph] : functions)
      if (taken == name) return corrupt_model("there are two entries '", name, "'");
    if (name.empty()) return corrupt_model("an entry has no name");
    Graph graph(registry_);
    HG_TRY(read_graph(*source.graph(), graph));
    if (const Status status = graph.verify(); !status.ok())
      return corrupt(status, "the entry '", name, "' is not valid: ");
    functions.emplace_back(name, std::move(graph));
    return {};
  }

  Status read_quantized(const file::QuantizedState& source, Model::Info& info) {
    HG_TRY_ASSIGN(const std::string_view name, budget_.read(source.name()));
    if (!(source.error() >= 0))
      return corrupt_model("the quantized state '", name, "' has the error ", source.error());
    info.quantized.push_back({std::string(name), source.error()});
    return {};
  }

  Status read_attachment(const file::Attachment& source, Model::Info& info) {
    HG_TRY_ASSIGN(const std::string_view name, budget_.read(source.name()));
    HG_TRY_ASSIGN(std::string content, blobs_.read(name, source));
    info.attachments.push_back({std::string(name), std::move(content)});
    return {};
  }

  // All unknown ops, with the number of their nodes.
  Status check_ops(const file::Model& model, Budget budget) {
    std::map<std::string, int64_t, std::less<>> unknown;
    HG_TRY(count_unknown_ops(*model.graph(), 0, budget, unknown));
    for (size_t i = 0; i < size_of_vector(model.functions()); ++i)
      HG_TRY(count_unknown_ops(
          *model.functions()->Get(static_cast<flatbuffers::uoffset_t>(i))->graph(), 0, budget,
          unknown));
    if (unknown.empty()) return {};
    std::string names;
    for (const auto& [name, count] : unknown)
      names +=
          str_cat(names.empty() ? "" : ", ", name, " (", count, count == 1 ? " node)" : " nodes)");
    if (!kHoldsAll) return lacks(str_cat(unknown.size() == 1 ? "the op " : "the ops ", names));
    return unsupported("the model uses ops that are not registered: ", names);
  }

  Status count_unknown_ops(const file::Graph& graph, int depth, Budget& budget,
                           std::map<std::string, int64_t, std::less<>>& unknown) {
    if (depth > kMaxSubgraphs) return corrupt_model("subgraphs are nested too deeply");
    nodes_ += static_cast<int64_t>(size_of_vector(graph.nodes()));
    if (options_.max_nodes > 0 && nodes_ > options_.max_nodes)
      return corrupt_model("the file has at least ", nodes_, " nodes, more than max_nodes, ",
                           options_.max_nodes);
    for (size_t i = 0; i < size_of_vector(graph.nodes()); ++i) {
      const file::Node& node = *graph.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i));
      HG_TRY_ASSIGN(const std::string_view op, budget.read(node.op()));
      if (registry_.find(op) == nullptr) ++unknown.try_emplace(std::string(op)).first->second;
      for (size_t k = 0; k < size_of_vector(node.subgraphs()); ++k)
        HG_TRY(count_unknown_ops(*node.subgraphs()->Get(static_cast<flatbuffers::uoffset_t>(k)),
                                 depth + 1, budget, unknown));
    }
    return {};
  }

  Result<std::string_view> read_expression(const flatbuffers::String* text) {
    HG_TRY_ASSIGN(const std::string_view expression, budget_.read(text));
    if (expression.size() > kMaxExpression)
      return corrupt_model("a size has an expression of ", uint64_t{expression.size()},
                           " characters");
    return expression;
  }

  using TextVector = flatbuffers::Vector<flatbuffers::Offset<file::Text>>;
  Status read_sizes(const TextVector* list) {
    if (size_of_vector(list) > kMaxNamedSizes)
      return corrupt_model("there are ", uint64_t{size_of_vector(list)}, " named sizes");
    sizes_.summands_left = header_.graph_bytes;  // most uses are one summand, of two characters
    for (size_t i = 0; i < size_of_vector(list); ++i) {
      const auto* entry = list->Get(static_cast<flatbuffers::uoffset_t>(i));
      HG_TRY_ASSIGN(const std::string_view expression, read_expression(entry->value()));
      if (const Status status = define_size(expression, sizes_); !status.ok())
        return corrupt(status);
    }
    return {};
  }

  Result<Dim> read_dim(const file::Dim* dim) {
    if (dim == nullptr) return corrupt_model("a size is missing");
    if (dim->expression() == nullptr) return Dim(dim->constant());
    HG_TRY_ASSIGN(const std::string_view expression, read_expression(dim->expression()));
    Result<Dim> parsed = parse_size(expression, sizes_);
    if (!parsed.ok()) return corrupt(parsed.status());
    return parsed;
  }

  using DimVector = flatbuffers::Vector<flatbuffers::Offset<file::Dim>>;
  Result<std::vector<Dim>> read_dims(const DimVector* list) {
    std::vector<Dim> dims;
    for (size_t i = 0; i < size_of_vector(list); ++i) {
      HG_TRY_ASSIGN(Dim dim, read_dim(list->Get(static_cast<flatbuffers::uoffset_t>(i))));
      dims.push_back(std::move(dim));
    }
    return dims;
  }

  Result<std::vector<std::string>> read_texts(const TextVector* list) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < size_of_vector(list); ++i) {
      HG_TRY_ASSIGN(const std::string_view entry,
                    budget_.read(list->Get(static_cast<flatbuffers::uoffset_t>(i))->value()));
      texts.emplace_back(entry);
    }
    return texts;
  }

  static Result<DType> read_dtype(uint8_t dtype, std::string_view where) {
    if (dtype >= kDTypeCount)
      return corrupt_model(where, " has the dtype ", int{dtype}, ", which does not exist");
    return static_cast<DType>(dtype);
  }

  Status read_graph(const file::Graph& source, Graph& graph) {
    GraphBody& body = GraphAccess::body(graph);
    body.file = file_;
    body.fresh_count = source.fresh_symbols();
    for (size_t i = 0; i < size_of_vector(source.values()); ++i) {
      const file::Value& value = *source.values()->Get(static_cast<flatbuffers::uoffset_t>(i));
      HG_TRY_ASSIGN(const std::string_view name_view, budget_.read(value.name()));
      const std::string name(name_view);
      if (name.empty() || body.names.contains(name))
        return corrupt_model("value ", int64_t(i), " has the name '", name,
                             "', which is empty or taken");
      HG_TRY_ASSIGN(const DType dtype, read_dtype(value.dtype(), str_cat("value '", name, "'")));
      HG_TRY_ASSIGN(Shape shape, read_dims(value.shape()));
      if (shape.size() > kMaxRank)
        return corrupt_model("value '", name, "' has rank ", int64_t(shape.size()));
      if (options_.max_dims > 0 && shape.size() > static_cast<size_t>(options_.max_dims))
        return corrupt_model("value '", name, "' has ", int64_t(shape.size()),
                             " dims, more than max_dims, ", options_.max_dims);
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
      HG_TRY_ASSIGN(const std::string_view name, budget_.read(output.name()));
      body.outputs.emplace_back(name, output.value());
    }
    for (size_t i = 0; i < size_of_vector(source.assignments()); ++i) {
      const file::Assignment& assignment =
          *source.assignments()->Get(static_cast<flatbuffers::uoffset_t>(i));
      HG_TRY(check_id(assignment.target(), body, "an assignment"));
      HG_TRY(check_id(assignment.source(), body, "an assignment"));
      body.assignments.emplace_back(assignment.target(), assignment.source());
    }
    for (size_t i = 0; i < size_of_vector(source.guards()); ++i) {
      HG_TRY_ASSIGN(Guard guard,
                    read_guard(*source.guards()->Get(static_cast<flatbuffers::uoffset_t>(i))));
      body.guards.push_back(std::move(guard));
    }
    return {};
  }

  Result<Guard> read_guard(const file::Guard& source) {
    Guard guard;
    HG_TRY_ASSIGN(guard.left, read_dim(source.left()));
    HG_TRY_ASSIGN(guard.right, read_dim(source.right()));
    if (source.relation() > static_cast<uint8_t>(Relation::le))
      return corrupt_model("a guard has the relation ", int{source.relation()},
                           ", which does not exist");
    guard.relation = static_cast<Relation>(source.relation());
    HG_TRY_ASSIGN(guard.reason, budget_.read(source.reason()));
    HG_TRY_ASSIGN(guard.origin.module, budget_.read(source.module_path()));
    HG_TRY_ASSIGN(guard.origin.source, budget_.read(source.source()));
    return guard;
  }

  static Status check_id(ValueId id, const GraphBody& body, std::string_view where) {
    if (id < 0 || static_cast<size_t>(id) >= body.values.size())
      return corrupt_model(where, " refers to value ", id, " of ", int64_t(body.values.size()));
    return {};
  }

  Result<std::vector<ValueId>> read_ids(const flatbuffers::Vector<int32_t>* list,
                                        const GraphBody& body, std::string_view where) {
    HG_TRY_ASSIGN(std::vector<ValueId> ids, budget_.read(list));
    for (const ValueId id : ids)
      if (id != kNoValue) HG_TRY(check_id(id, body, where));
    return ids;
  }

  Status read_state(const file::State& source, GraphBody& body) {
    State state;
    HG_TRY_ASSIGN(state.name, budget_.read(source.name()));
    if (source.kind() > static_cast<uint8_t>(State::Kind::constant))
      return corrupt_model("state '", state.name, "' has the kind ", int{source.kind()});
    state.kind = static_cast<State::Kind>(source.kind());
    state.value = source.value();
    HG_TRY(check_id(state.value, body, "a state"));
    ValueInfo& info = body.values[state.value];
    if (info.state >= 0) return corrupt_model("value '", info.name, "' has two states");
    const Result<Sizes> shape = evaluate(info.type.shape, Bindings());
    if (!shape.ok()) return corrupt(shape.status(), "state '", state.name, "': ");
    HG_TRY_ASSIGN(const Tensor tensor, blobs_.read(state.name, source, info.type.dtype, *shape));
    state.requires_grad = source.requires_grad();
    state.data = {tensor, mapping_.owner};
    if (file_ != nullptr && source.crc32c().has_value())
      file_->sums.emplace(std::pair(tensor.data, tensor.bytes()), *source.crc32c());
    HG_TRY_ASSIGN(state.aliases, read_texts(source.aliases()));
    info.state = static_cast<int32_t>(body.states.size());
    body.states.push_back(std::move(state));
    return {};
  }

  Status read_node(const file::Node& source, Graph& graph) {
    GraphBody& body = GraphAccess::body(graph);
    HG_TRY_ASSIGN(const std::string_view op, budget_.read(source.op()));
    const std::string where = str_cat("node ", int64_t(body.nodes.size()), " (", op, ")");
    Node node;
    node.op = registry_.find(op);
    HG_TRY_ASSIGN(node.inputs, read_ids(source.inputs(), body, where));
    // Older files lack optional inputs that the op gained later. These count as not given.
    const auto& slots = node.op->signature.inputs;
    while (node.inputs.size() < slots.size() && slots[node.inputs.size()].optional)
      node.inputs.push_back(kNoValue);
    HG_TRY_ASSIGN(node.outputs, read_ids(source.outputs(), body, where));
    if (node.outputs.empty() ||
        std::find(node.outputs.begin(), node.outputs.end(), kNoValue) != node.outputs.end())
      return corrupt_model(where, " has no output");
    NamedAttrs attrs;
    for (size_t i = 0; i < size_of_vector(source.attrs()); ++i) {
      const file::Attr& attr = *source.attrs()->Get(static_cast<flatbuffers::uoffset_t>(i));
      HG_TRY_ASSIGN(Attr value, read_attr(attr, where));
      HG_TRY_ASSIGN(const std::string_view name, budget_.read(attr.name()));
      attrs.push_back({name, std::move(value)});
    }
    Result<std::vector<Attr>> normal = GraphAccess::normalize_attrs(*node.op, attrs);
    if (!normal.ok()) return corrupt(normal.status(), where, ": ");
    node.attrs = *std::move(normal);
    for (size_t i = 0; i < size_of_vector(source.subgraphs()); ++i) {
      auto subgraph = std::make_shared<Graph>(registry_);
      HG_TRY(
          read_graph(*source.subgraphs()->Get(static_cast<flatbuffers::uoffset_t>(i)), *subgraph));
      node.subgraphs.push_back(std::move(subgraph));
    }
    HG_TRY_ASSIGN(node.origin.module, budget_.read(source.module_path()));
    HG_TRY_ASSIGN(node.origin.source, budget_.read(source.source()));
    GraphAccess::push_node(graph, std::move(node));
    return {};
  }

  Result<Attr> read_attr(const file::Attr& attr, std::string_view where) {
    switch (attr.kind()) {
      case file::AttrKind::none:
        return Attr();
      case file::AttrKind::boolean:
        return Attr(attr.boolean());
      case file::AttrKind::integer: {
        HG_TRY_ASSIGN(Dim dim, read_dim(attr.integer()));
        return Attr(std::move(dim));
      }
      case file::AttrKind::real:
        return Attr(attr.real());
      case file::AttrKind::text: {
        HG_TRY_ASSIGN(const std::string_view value, budget_.read(attr.text()));
        return Attr(std::string(value));
      }
      case file::AttrKind::dtype: {
        HG_TRY_ASSIGN(const DType dtype, read_dtype(attr.dtype(), where));
        return Attr(dtype);
      }
      case file::AttrKind::integers: {
        HG_TRY_ASSIGN(std::vector<Dim> dims, read_dims(attr.integers()));
        return Attr(std::move(dims));
      }
      case file::AttrKind::reals: {
        HG_TRY_ASSIGN(std::vector<double> reals, budget_.read(attr.reals()));
        return Attr(std::move(reals));
      }
      case file::AttrKind::texts: {
        HG_TRY_ASSIGN(std::vector<std::string> texts, read_texts(attr.texts()));
        return Attr(std::move(texts));
      }
    }
    return corrupt_model(where, " has an attribute of kind ", static_cast<int>(attr.kind()),
                         ", which does not exist");
  }

  const Mapping& mapping_;
  const Registry& registry_;
  const LoadOptions options_;
  FileHeader header_{};
  Budget budget_{0};
  int64_t nodes_ = 0;  // of all graphs so far
  NamedSizes sizes_;
  Blobs blobs_;
  std::shared_ptr<DataFile> file_;  // null for memory
};

}  // namespace

Result<Contents> read_contents(const Mapping& mapping, const Registry& registry,
                               const LoadOptions& options) {
  return Reader(mapping, registry, options).read();
}

}  // namespace hg
