// SPDX-License-Identifier: Apache-2.0
#include "protocol.h"

#include <algorithm>
#include <cstring>

#include "elements.h"

namespace {

using nlohmann::json;

json describe(const std::string& name, const hg::TensorType& type) {
  json shape = json::array();
  for (const hg::Dim& dim : type.shape) shape.push_back(dim.is_constant() ? dim.constant() : -1);
  return {{"name", name}, {"datatype", datatype_of(type.dtype)}, {"shape", shape}};
}

// Typed access to JSON. Errors contain the path.
hg::Result<const json*> member(const json& object, const char* key, json::value_t type,
                               const std::string& where) {
  const auto found = object.find(key);
  const bool fits = found != object.end() &&
                    (found->type() == type || (type == json::value_t::number_unsigned &&
                                               found->is_number_integer() && *found >= 0));
  HG_CHECK(fits, where, " has no '", key, "', or not as ", json(type).type_name());
  return &*found;
}

bool flag(const json& object, const char* key) {
  const auto parameters = object.find("parameters");
  if (parameters == object.end() || !parameters->is_object()) return false;
  const auto found = parameters->find(key);
  return found != parameters->end() && found->is_boolean() && found->get<bool>();
}

hg::Result<hg::Sizes> read_shape(const json& given, const std::string& name) {
  HG_CHECK(given.size() <= size_t{hg::kMaxRank}, "input '", name, "' has ", uint64_t{given.size()},
           " dims; the limit is ", hg::kMaxRank);
  hg::Sizes shape;
  int64_t count = 1;
  for (const json& size : given) {
    HG_CHECK(size.is_number_integer() && size.get<int64_t>() >= 0, "input '", name, "' has a size ",
             shown(size));
    HG_CHECK(!__builtin_mul_overflow(count, size.get<int64_t>(), &count) && count < (1LL << 40),
             "input '", name, "' has 2^40 elements or more");
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

// One input, from the JSON or from the bytes at `binary`, which advances.
hg::Status read_input(const json& given, const hg::TensorType& type, const std::string& name,
                      std::string_view& binary, InferRequest& request, size_t index) {
  const std::string where = "input '" + name + "'";
  HG_TRY_ASSIGN(const json* dims, member(given, "shape", json::value_t::array, where));
  HG_TRY_ASSIGN(const json* datatype, member(given, "datatype", json::value_t::string, where));
  HG_CHECK(*datatype == datatype_of(type.dtype), where, " is ", datatype->get<std::string>(),
           "; the model takes ", datatype_of(type.dtype));
  HG_TRY_ASSIGN(const hg::Sizes shape, read_shape(*dims, name));
  const int64_t bytes = shape.count() * hg::size_of(type.dtype);
  const auto parameters = given.find("parameters");
  if (parameters != given.end() && parameters->is_object() &&
      parameters->contains("binary_data_size")) {
    HG_TRY_ASSIGN(const json* size,
                  member(*parameters, "binary_data_size", json::value_t::number_unsigned, where));
    HG_CHECK(*size == bytes, where, " has ", shown(*size), " bytes; its shape needs ", bytes);
    HG_CHECK(binary.size() >= static_cast<size_t>(bytes), where, " needs ", bytes, " bytes of ",
             uint64_t{binary.size()}, " that are left in the body");
    // The bytes may be unaligned; elements need alignment.
    HG_TRY_ASSIGN(request.owned[index], hg::TensorData::allocate(type.dtype, shape));
    if (bytes > 0)
      std::memcpy(request.owned[index].tensor.data, binary.data(), static_cast<size_t>(bytes));
    if (type.dtype == hg::boolean)
      for (int64_t i = 0; i < bytes; ++i)
        HG_CHECK(static_cast<unsigned char>(binary[static_cast<size_t>(i)]) <= 1, where,
                 " has a byte, ", i, ", that is neither 0 nor 1");
    binary.remove_prefix(static_cast<size_t>(bytes));
  } else {
    HG_TRY_ASSIGN(const json* data, member(given, "data", json::value_t::array, where));
    // Bounds the memory by the body's size: an element takes at least two bytes.
    HG_CHECK(data->size() > 0 || bytes == 0, where, " has no elements; its shape is ", shape);
    HG_CHECK(shape.count() <= static_cast<int64_t>(request.body_bytes), where, " has the shape ",
             shape, " and less data");
    HG_TRY_ASSIGN(request.owned[index], hg::TensorData::allocate(type.dtype, shape));
    HG_TRY(read_elements(*data, request.owned[index].tensor, where));
  }
  request.inputs[index] = request.owned[index].tensor;
  return {};
}

hg::Result<int> index_of(const hg::Graph& graph, const std::string& output) {
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    if (graph.outputs()[i].first == output) return static_cast<int>(i);
  return hg::not_found("the model has no output '", output, "'");
}

hg::Status read_outputs(const json& given, const hg::Graph& graph, bool binary,
                        InferRequest& request) {
  const auto wanted = given.find("outputs");
  if (wanted == given.end() || wanted->empty()) {
    for (size_t i = 0; i < graph.outputs().size(); ++i)
      request.outputs.push_back({static_cast<int>(i), binary});
    return {};
  }
  HG_CHECK(wanted->is_array(), "'outputs' is no array");
  for (const json& output : *wanted) {
    HG_CHECK(output.is_object(), "an element of 'outputs' is no object");
    HG_TRY_ASSIGN(const json* name, member(output, "name", json::value_t::string, "an output"));
    HG_TRY_ASSIGN(const int index, index_of(graph, name->get<std::string>()));
    for (const InferRequest::Output& other : request.outputs)
      HG_CHECK(other.index != index, "the output ", shown(*name), " is wanted twice");
    const bool says = output.contains("parameters") && output["parameters"].is_object() &&
                      output["parameters"].contains("binary_data");
    request.outputs.push_back({index, says ? flag(output, "binary_data") : binary});
  }
  return {};
}

}  // namespace

std::string describe(const std::string& name, const hg::Graph& graph) {
  json all = {{"name", name},
              {"versions", {"1"}},
              {"platform", "hologram"},
              {"inputs", json::array()},
              {"outputs", json::array()}};
  for (const hg::ValueId id : graph.inputs())
    all["inputs"].push_back(describe(graph.value_info(id).name, graph.value_info(id).type));
  for (const auto& [output, id] : graph.outputs())
    all["outputs"].push_back(describe(output, graph.value_info(id).type));
  return all.dump();
}

hg::Result<InferRequest> read_request(std::string_view body, int64_t json_bytes,
                                      const hg::Graph& graph) {
  HG_CHECK(json_bytes <= static_cast<int64_t>(body.size()), "the body has ", uint64_t{body.size()},
           " bytes; Inference-Header-Content-Length is ", json_bytes);
  const std::string_view text = json_bytes < 0 ? body : body.substr(0, json_bytes);
  std::string_view binary = json_bytes < 0 ? "" : body.substr(json_bytes);
  const json given = json::parse(text, nullptr, false);
  HG_CHECK(given.is_object(), "the request is no JSON object");
  InferRequest request;
  request.body_bytes = body.size();
  if (given.contains("id") && given["id"].is_string()) request.id = given["id"];
  if (given.contains("parameters") && given["parameters"].is_object() &&
      given["parameters"].contains("timeout")) {
    HG_TRY_ASSIGN(const json* timeout, member(given["parameters"], "timeout",
                                              json::value_t::number_unsigned, "the request"));
    request.timeout = std::chrono::microseconds(
        std::min<uint64_t>(timeout->get<uint64_t>(), 24ull * 3600 * 1000000));
  }
  HG_TRY_ASSIGN(const json* inputs, member(given, "inputs", json::value_t::array, "the request"));
  const size_t count = graph.inputs().size();
  HG_CHECK(inputs->size() == count, "the request has ", uint64_t{inputs->size()},
           " inputs; the model takes ", uint64_t{count});
  request.owned.resize(count);
  request.inputs.resize(count);
  for (const json& input : *inputs) {
    HG_CHECK(input.is_object(), "an element of 'inputs' is no object");
    HG_TRY_ASSIGN(const json* name, member(input, "name", json::value_t::string, "an input"));
    size_t at = 0;
    while (at < count && graph.value_info(graph.inputs()[at]).name != *name) ++at;
    HG_CHECK(at < count, "the model has no input ", shown(*name));
    HG_CHECK(request.owned[at].empty(), "the input ", shown(*name), " is given twice");
    const hg::ValueInfo& info = graph.value_info(graph.inputs()[at]);
    HG_TRY(read_input(input, info.type, info.name, binary, request, at));
  }
  HG_CHECK(binary.empty(), uint64_t{binary.size()}, " bytes of the body belong to no input");
  HG_TRY(read_outputs(given, graph, flag(given, "binary_data_output"), request));
  return request;
}

hg::Result<std::string> write_answer(const std::string& name, const InferRequest& request,
                                     const hg::Graph& graph,
                                     const std::vector<hg::TensorData>& outputs,
                                     int64_t& json_bytes) {
  json answer = {{"model_name", name}, {"model_version", "1"}, {"outputs", json::array()}};
  if (!request.id.empty()) answer["id"] = request.id;
  std::string bytes;
  bool any_binary = false;
  for (const auto& [index, binary] : request.outputs) {
    const hg::Tensor& tensor = outputs[static_cast<size_t>(index)].tensor;
    HG_CHECK(!hg::is_complex(tensor.dtype), "the protocol has no complex numbers");
    json shape = json::array();
    for (int d = 0; d < tensor.rank(); ++d) shape.push_back(tensor.shape[d]);
    json output = {{"name", graph.outputs()[static_cast<size_t>(index)].first},
                   {"datatype", datatype_of(tensor.dtype)},
                   {"shape", shape}};
    if (binary) {
      output["parameters"] = {{"binary_data_size", tensor.bytes()}};
      bytes.append(tensor.as<char>(), static_cast<size_t>(tensor.bytes()));
      any_binary = true;
    } else {
      output["data"] = write_elements(tensor);
    }
    answer["outputs"].push_back(std::move(output));
  }
  // Names and ids are returned unchanged, whatever their bytes.
  std::string text = answer.dump(-1, ' ', false, json::error_handler_t::replace);
  json_bytes = any_binary ? static_cast<int64_t>(text.size()) : -1;
  return text + bytes;
}

std::string error_text(std::string_view message) {
  return json{{"error", message}}.dump(-1, ' ', false, json::error_handler_t::replace);
}
