// SPDX-License-Identifier: Apache-2.0
#include "converter/load/onnx/graph.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "converter/core/allocated.h"
#include "converter/core/failure.h"
#include "converter/load/onnx/onnx.h"

namespace hg::convert::onnx {
namespace {

constexpr int kMostCalls = 64;  // nested function calls; the specification forbids recursion

std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::string function_key(const std::string& domain, const std::string& name,
                         const std::string& overload) {
  return str_cat(domain_of(domain), "::", name, ":", overload);
}

Item list_of(std::vector<Item> items) {
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  return Item(std::move(list));
}

// Returns whether a is the transpose of b, bit by bit. Returns false for weights that are probably
// equal by accident, as after initialization: constant off the diagonal, such as an identity, or
// symmetric.
bool is_transposed(const Tensor& a, const Tensor& b) {
  if (a.rank() != 2 || b.rank() != 2 || a.dtype != b.dtype) return false;
  if (a.shape[0] != b.shape[1] || a.shape[1] != b.shape[0]) return false;
  const int64_t rows = a.shape[0], columns = a.shape[1], bytes = size_of(a.dtype);
  const char *p = a.as<const char>(), *q = b.as<const char>();
  const char* aside = nullptr;  // the first number off the diagonal
  bool differ = false, is_symmetric = rows == columns;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const char* const each = p + (i * columns + j) * bytes;
      if (std::memcmp(each, q + (j * rows + i) * bytes, bytes) != 0) return false;
      if (i == j) continue;
      if (aside == nullptr) aside = each;
      differ = differ || std::memcmp(each, aside, bytes) != 0;
      is_symmetric = is_symmetric && std::memcmp(each, p + (j * columns + i) * bytes, bytes) == 0;
    }
  return differ && !is_symmetric;
}

// Returns the symbol that an input's size determines if it depends on no other symbol, as n in 2*n
// + 1.
std::string told_by(const Dim& size) {
  std::vector<std::string> symbols;
  size.collect_symbols(symbols);
  if (symbols.size() != 1) return "";
  int64_t at[3] = {0, 0, 0};
  for (int64_t i = 0; i < 3; ++i) {
    Bindings trial;
    const Result<int64_t> value = trial.bind(symbols[0], i).ok() ? size.evaluate(trial) : 0;
    if (!value.ok()) return "";
    at[i] = *value;
  }
  return at[1] != at[0] && at[2] - at[1] == at[1] - at[0] ? symbols[0] : "";
}

// The open sizes of a model's inputs, by the names that the file gives them.
class OpenSizes {
 public:
  // Notes a name in the file. Must be called for all sizes before dim_of().
  void note(const std::string& param) {
    const Result<Dim> parsed = Dim::parse(param);
    if (!parsed.ok()) return;
    told_.insert(told_by(*parsed));
    if (!parsed->symbol().empty()) symbol_of(param);
  }

  Dim dim_of(const file::TensorShapeProto::Dimension& dim) {
    // Some exporters write -1 or a question mark for an unknown size.
    if (dim.has_dim_value() && dim.dim_value() >= 0) return dim.dim_value();
    const std::string& param = dim.dim_param();
    if (param.empty() || param == "?" || param == "-1")
      return Dim(std::string_view(symbol_of(str_cat(" unnamed ", unnamed_++))));
    // torch.onnx.export writes sums and products of names. batch-size is a name.
    if (const Result<Dim> parsed = Dim::parse(param); parsed.ok() && parsed->symbol().empty()) {
      std::vector<std::string> names;
      parsed->collect_symbols(names);
      const auto is_told = [&](const std::string& name) { return told_.contains(name); };
      if (std::all_of(names.begin(), names.end(), is_told)) return *parsed;
    }
    return Dim(std::string_view(symbol_of(param)));
  }

 private:
  // The name as an identifier that no other name has.
  std::string symbol_of(const std::string& param) {
    const auto known = symbols_.find(param);
    if (known != symbols_.end()) return known->second;
    std::string symbol;
    for (const char c : param)
      symbol +=
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
    if (symbol.empty() || (symbol[0] >= '0' && symbol[0] <= '9')) symbol.insert(0, "d_");
    const auto is_taken = [&] {
      return symbol == "min" || symbol == "max" || symbol == "mod" || symbol == "floordiv" ||
             std::any_of(symbols_.begin(), symbols_.end(),
                         [&](const auto& each) { return each.second == symbol; });
    };
    constexpr size_t kMostAlike = 64;
    while (is_taken()) {
      symbol += '_';
      if (symbol.size() > param.size() + kMostAlike)
        throw Failure{Exit::unsupported,
                      str_cat("too many open sizes have names like '", param, "'")};
    }
    symbols_[param] = symbol;
    return symbol;
  }

  std::set<std::string> told_;                  // symbols that a size determines
  std::map<std::string, std::string> symbols_;  // by name
  int64_t unnamed_ = 0;
};

}  // namespace

GraphReader::GraphReader(const file::ModelProto& model, Weights& weights,
                         const std::set<std::string>& opened, ScriptProgram& program)
    : model_(model), weights_(weights), program_(program), roles_(model) {
  for (const file::FunctionProto& function : model.functions())
    functions_[function_key(function.domain(), function.name(), function.overload())] = &function;
  for (const file::ValueInfoProto& input : model.graph().input())
    if (opened.contains(input.name())) opened_.insert(input.name());
}

std::unordered_map<std::string, ScriptId> GraphReader::read() {
  program_.root = std::make_shared<Object>();
  program_.body.inputs.push_back(fresh());
  scopes_.emplace_back();
  read_inputs();
  read_initializers(model_.graph(), program_.body);
  const Place place{&model_.opset_import(), nullptr, "", 0};
  read_nodes(model_.graph().node(), program_.body, place);
  std::vector<ScriptId> named;
  for (const file::ValueInfoProto& output : model_.graph().output()) {
    named.push_back(constant(program_.body, Item(output.name())));
    named.push_back(find(output.name()));
    const file::TypeProto& type = output.type();
    program_.output_ranks.emplace_back();
    if (type.has_tensor_type() && type.tensor_type().has_shape())
      program_.output_ranks.back() = type.tensor_type().shape().dim_size();
  }
  program_.body.outputs.push_back(fresh());
  add(program_.body, "prim::DictConstruct", std::move(named), program_.body.outputs, {});
  return std::move(scopes_.front());
}

ScriptId GraphReader::find(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->find(name); found != scope->end()) return found->second;
  throw Failure{Exit::unreadable,
                str_cat("the graph uses a value '", name,
                        "' that nothing before it gives; export the model again")};
}

ScriptNode& GraphReader::add(ScriptBlock& block, std::string kind, std::vector<ScriptId> inputs,
                             std::vector<ScriptId> outputs, const Origin& origin) {
  ScriptNode node;
  node.kind = std::move(kind);
  node.inputs = std::move(inputs);
  node.output_types.assign(outputs.size(), "Tensor");
  node.outputs = std::move(outputs);
  node.origin = origin;
  block.nodes.push_back(std::move(node));
  return block.nodes.back();
}

ScriptId GraphReader::constant(ScriptBlock& block, Item item) {
  const ScriptId id = fresh();
  add(block, "prim::Constant", {}, {id}, {}).constant = std::move(item);
  return id;
}

ScriptId GraphReader::number(ScriptBlock& block, ScriptId tensor, const Origin& origin) {
  const ScriptId id = fresh();
  add(block, "onnx.control::number", {tensor}, {id}, origin);
  return id;
}

// Makes a name unique: two branches may each have a "weight".
std::string GraphReader::state_name(const std::string& name) {
  uint64_t& count = state_names_[name];
  std::string unique = name;
  for (; count > 0 && state_names_.contains(unique); ++count) unique = str_cat(name, "_", count);
  count = std::max<uint64_t>(count, 1);
  state_names_.try_emplace(unique, 1);
  return unique;
}

Item GraphReader::tensor_item(const file::TensorProto& tensor, State::Kind kind) {
  std::optional<TensorData> data = weights_.read(tensor);
  if (!data) {
    // Only a node that uses the tensor is rejected, unless it accepts integers without a Hologram
    // dtype.
    auto missing = std::make_shared<Object>();
    missing->type = str_cat("a tensor of ", describe_onnx_dtype(tensor.data_type()));
    if (std::optional<TensorData> numbers = weights_.read_small_integers(tensor)) {
      missing->attributes = {{kSmallType, Item(int64_t{tensor.data_type()})},
                             {kSmallNumbers, constant_item(*std::move(numbers))}};
    }
    return Item(std::move(missing));
  }
  ScriptTensor made;
  if (!is_float(data->tensor.dtype)) kind = State::Kind::constant;
  if (kind != State::Kind::constant) made.names.push_back(state_name(tensor.name()));
  made.kind = kind;
  made.data = std::move(*data);
  made.requires_grad = kind == State::Kind::parameter;
  program_.tensors.push_back(std::move(made));
  return Item(ScriptTensorIndex{static_cast<int32_t>(program_.tensors.size() - 1)});
}

Item GraphReader::constant_item(TensorData data) {
  ScriptTensor made;
  made.data = std::move(data);
  program_.tensors.push_back(std::move(made));
  return Item(ScriptTensorIndex{static_cast<int32_t>(program_.tensors.size() - 1)});
}

// Converts a sparse tensor to the dense tensor that it represents.
Item GraphReader::sparse_item(const file::SparseTensorProto& sparse) {
  const std::optional<TensorData> values = weights_.read(sparse.values());
  const std::optional<TensorData> indices = weights_.read(sparse.indices());
  Sizes shape;
  for (const int64_t size : sparse.dims()) shape.push_back(size);
  const auto fail = [&] {
    return Failure{Exit::unreadable,
                   str_cat("the sparse tensor '", sparse.values().name(), "' is damaged")};
  };
  if (!values || !indices || indices->tensor.dtype != i64 || shape.overflowed()) throw fail();
  constexpr int64_t kMostDense = int64_t{1} << 30;  // total bytes of all
  int64_t dense_bytes = size_of(values->tensor.dtype);
  for (const int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(dense_bytes, size, &dense_bytes)) throw fail();
  if (dense_bytes > kMostDense - dense_)
    throw Failure{Exit::unsupported,
                  str_cat("the sparse tensors up to '", sparse.values().name(), "' have more than ",
                          kMostDense, " bytes as dense ones")};
  dense_ += dense_bytes;
  TensorData dense = allocated(values->tensor.dtype, shape);
  const int64_t count = values->tensor.count(), bytes = size_of(values->tensor.dtype);
  const bool flat = indices->tensor.rank() == 1;
  if (indices->tensor.count() != (flat ? count : count * shape.rank())) throw fail();
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    const int64_t* index = indices->tensor.as<int64_t>();
    if (flat) at = index[i];
    for (int d = 0; d < shape.rank() && !flat; ++d) {
      const int64_t along = index[i * shape.rank() + d];
      if (along < 0 || along >= shape[d]) throw fail();
      at = at * shape[d] + along;
    }
    if (at < 0 || at >= shape.count()) throw fail();
    std::copy_n(values->tensor.as<const char>() + i * bytes, bytes,
                dense.tensor.as<char>() + at * bytes);
  }
  return constant_item(std::move(dense));
}

bool GraphReader::bind_transposed(const std::string& name, const Item& item, ScriptBlock& block) {
  const auto* index = std::get_if<ScriptTensorIndex>(&item.value);
  if (index == nullptr || program_.tensors[index->index].kind != State::Kind::parameter)
    return false;
  const Tensor copy = program_.tensors[index->index].data.tensor;
  for (const auto& [id, at] : matrices_) {
    if (!is_transposed(program_.tensors[at].data.tensor, copy)) continue;
    program_.tensors.pop_back();  // the copy
    const ScriptId turned = fresh();
    add(block, "aten::t", {id}, {turned}, {}).argument_names = {"self"};
    bind(name, turned);
    return true;
  }
  return false;
}

void GraphReader::read_inputs() {
  // Before IR version 4, inputs include all initializers.
  std::set<std::string> has_value;
  for (const file::TensorProto& tensor : model_.graph().initializer())
    if (!opened_.contains(tensor.name())) has_value.insert(tensor.name());
  for (const file::SparseTensorProto& tensor : model_.graph().sparse_initializer())
    if (!opened_.contains(tensor.values().name())) has_value.insert(tensor.values().name());
  OpenSizes sizes;
  for (const file::ValueInfoProto& input : model_.graph().input()) {
    if (has_value.contains(input.name())) continue;
    for (const auto& dim : input.type().tensor_type().shape().dim()) sizes.note(dim.dim_param());
  }
  for (const file::ValueInfoProto& input : model_.graph().input()) {
    if (has_value.contains(input.name())) continue;
    ScriptInput made;
    made.name = input.name();
    made.type = "Tensor";
    // An optional input of the model is always given.
    const file::TypeProto& outer = input.type();
    const file::TypeProto& whole =
        outer.has_optional_type() ? outer.optional_type().elem_type() : outer;
    if (!whole.has_tensor_type())
      throw Failure{Exit::unsupported,
                    str_cat("the input '", input.name(), "' is ",
                            whole.has_sequence_type() ? "a sequence" : "of another kind",
                            "; hg-convert supports tensors only")};
    const auto& type = whole.tensor_type();
    const std::optional<DType> dtype = dtype_of_onnx(type.elem_type());
    if (!dtype)
      throw Failure{Exit::unsupported, str_cat("the input '", input.name(), "' is ",
                                               describe_onnx_dtype(type.elem_type()),
                                               ", a dtype that Hologram lacks")};
    if (type.has_shape()) {
      TensorType known{*dtype, {}};
      for (const auto& dim : type.shape().dim()) known.shape.push_back(sizes.dim_of(dim));
      made.known = std::move(known);
    }
    program_.body.inputs.push_back(fresh());
    bind(input.name(), program_.body.inputs.back());
    program_.inputs.push_back(std::move(made));
  }
}

void GraphReader::read_initializers(const file::GraphProto& graph, ScriptBlock& block) {
  const bool inner = &graph != &model_.graph();
  for (const bool computed : {false, true})  // copies after their originals
    for (const file::TensorProto& tensor : graph.initializer()) {
      if ((!inner && roles_.is_computed(tensor.name())) != computed) continue;
      if (!inner && opened_.contains(tensor.name())) continue;
      const State::Kind kind = roles_.of(tensor);
      // The body of a function is read for each call, but its weights are read once.
      const auto [known, is_new] = items_.try_emplace(&tensor);
      if (is_new) known->second = tensor_item(tensor, kind);
      const Item item = known->second;
      if (computed && bind_transposed(tensor.name(), item, block)) continue;
      bind(tensor.name(), constant(block, item));
      const auto* index = std::get_if<ScriptTensorIndex>(&item.value);
      if (!inner && !computed && kind == State::Kind::parameter && index != nullptr)
        matrices_.emplace_back(find(tensor.name()), index->index);
    }
  for (const file::SparseTensorProto& sparse : graph.sparse_initializer())
    if (inner || !opened_.contains(sparse.values().name()))
      bind(sparse.values().name(), constant(block, sparse_item(sparse)));
}

Item GraphReader::attribute_item(const file::AttributeProto& attribute) {
  std::vector<Item> items;
  switch (attribute.type()) {
    case file::AttributeProto::INT:
      return Item(int64_t{attribute.i()});
    case file::AttributeProto::FLOAT:
      return Item(double{attribute.f()});
    case file::AttributeProto::STRING:
      return Item(attribute.s());
    case file::AttributeProto::TENSOR:
      return tensor_item(attribute.t(), State::Kind::constant);
    case file::AttributeProto::SPARSE_TENSOR:
      return sparse_item(attribute.sparse_tensor());
    case file::AttributeProto::INTS:
      for (const int64_t value : attribute.ints()) items.emplace_back(value);
      return list_of(std::move(items));
    case file::AttributeProto::FLOATS:
      for (const float value : attribute.floats()) items.emplace_back(double{value});
      return list_of(std::move(items));
    case file::AttributeProto::STRINGS:
      for (const std::string& value : attribute.strings()) items.emplace_back(value);
      return list_of(std::move(items));
    default:
      return Item();
  }
}

GraphReader::Attributes GraphReader::attributes_of(const file::NodeProto& node,
                                                   const Place& place) const {
  Attributes result;
  for (const file::AttributeProto& attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      result[attribute.name()] = &attribute;
      continue;
    }
    if (place.given == nullptr) continue;
    const auto given = place.given->find(attribute.ref_attr_name());
    if (given != place.given->end()) result[attribute.name()] = given->second;
  }
  return result;
}

int64_t GraphReader::version_of(const std::string& domain, const Place& place) const {
  for (const auto* opsets : {place.opsets, &model_.opset_import()})
    for (const file::OperatorSetIdProto& each : *opsets)
      if (domain_of(each.domain()) == domain_of(domain)) return each.version();
  return 1;
}

void GraphReader::read_nodes(const google::protobuf::RepeatedPtrField<file::NodeProto>& nodes,
                             ScriptBlock& block, const Place& place) {
  // Functions that call others several times grow exponentially. A node needs about a kilobyte.
  constexpr int64_t kMostInlined = int64_t{1} << 28, kNode = 1024;
  for (const file::NodeProto& node : nodes) {
    if (place.depth > 0) inlined_ += kNode + static_cast<int64_t>(node.ByteSizeLong());
    if (inlined_ > kMostInlined)
      throw Failure{Exit::unsupported, str_cat("the model's functions take more than ",
                                               kMostInlined, " bytes where they are called")};
    read_node(node, block, place);
  }
}

std::vector<ScriptId> GraphReader::outputs_of(const file::NodeProto& node) {
  std::vector<ScriptId> ids;
  for (const std::string& name : node.output()) {
    ids.push_back(fresh());
    if (!name.empty()) bind(name, ids.back());
  }
  return ids;
}

void GraphReader::read_node(const file::NodeProto& node, ScriptBlock& block, const Place& place) {
  std::string module = node.name();
  if (module.empty() && node.output_size() > 0) module = node.output(0);
  const Origin origin{place.path.empty() ? module : str_cat(place.path, "/", module), ""};
  const auto function =
      functions_.find(function_key(node.domain(), node.op_type(), node.overload()));
  if (function != functions_.end()) return read_call(node, *function->second, block, place);
  const Attributes attributes = attributes_of(node, place);
  const std::string domain = domain_of(node.domain());
  if (domain.empty()) {
    if (node.op_type() == "Constant") return read_constant(node, attributes, block, origin);
    if (node.op_type() == "If") return read_if(node, attributes, block, place, origin);
    if (node.op_type() == "Loop") return read_loop(node, attributes, block, place, origin);
    if (node.op_type() == "Scan") return read_scan(node, attributes, block, place, origin);
  }
  std::vector<ScriptId> inputs;
  for (const std::string& name : node.input())
    inputs.push_back(name.empty() ? constant(block, Item()) : find(name));
  auto dict = std::make_shared<Dict>();
  dict->items.emplace_back(Item(std::string(kOpset)), Item(version_of(domain, place)));
  for (const auto& [name, attribute] : attributes)
    dict->items.emplace_back(Item(name), attribute_item(*attribute));
  std::vector<ScriptId> outputs = outputs_of(node);
  ScriptNode& made = add(block, str_cat(domain.empty() ? "onnx" : domain, "::", node.op_type()),
                         std::move(inputs), std::move(outputs), origin);
  made.constant = Item(std::move(dict));
}

void GraphReader::read_call(const file::NodeProto& node, const file::FunctionProto& function,
                            ScriptBlock& block, const Place& place) {
  if (place.depth >= kMostCalls)
    throw Failure{Exit::unreadable, str_cat("the function ", function.name(), " calls itself")};
  if (node.output_size() > function.output_size())
    throw Failure{Exit::unreadable, str_cat("the function ", function.name(), " gives ",
                                            int64_t{function.output_size()}, " results, its call '",
                                            node.name(), "' takes ", int64_t{node.output_size()})};
  Attributes given = attributes_of(node, place);
  for (const file::AttributeProto& fallback : function.attribute_proto())
    given.emplace(fallback.name(), &fallback);
  Scope scope;
  for (int i = 0; i < function.input_size(); ++i)
    scope[function.input(i)] = i < node.input_size() && !node.input(i).empty()
                                   ? find(node.input(i))
                                   : constant(block, Item());
  std::vector<Scope> around = std::exchange(scopes_, {});
  scopes_.push_back(std::move(scope));
  const std::string name = node.name().empty() ? function.name() : node.name();
  const Place inside{&function.opset_import(), &given,
                     place.path.empty() ? name : str_cat(place.path, "/", name), place.depth + 1};
  read_nodes(function.node(), block, inside);
  std::vector<ScriptId> results;
  for (int i = 0; i < node.output_size(); ++i)
    results.push_back(node.output(i).empty() ? -1 : find(function.output(i)));
  scopes_ = std::move(around);
  for (int i = 0; i < node.output_size(); ++i)
    if (!node.output(i).empty()) bind(node.output(i), results[i]);
}

}  // namespace hg::convert::onnx
