// SPDX-License-Identifier: Apache-2.0
#include "hg/block_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/graph/border.h"

namespace hg::nn {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kMostDepth = 200;

Json json_of(const Dim& dim) {
  return dim.is_constant() ? Json(dim.constant()) : Json(str_cat(dim));
}

Json json_of(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

Json json_of(const Attr& attr) {
  const Attr::Variant& value = attr.value;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* dim = std::get_if<Dim>(&value))
    return dim->is_constant() ? json_of(*dim) : Json{{"dim", json_of(*dim)}};
  if (const auto* number = std::get_if<double>(&value))
    return std::isfinite(*number) ? json_of(*number) : Json{{"real", json_of(*number)}};
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  if (const auto* dtype = std::get_if<DType>(&value))
    return Json{{"dtype", std::string(to_string(*dtype))}};
  if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) {
    Json list = Json::array();
    for (const Dim& dim : *dims) list.push_back(json_of(dim));
    return list;
  }
  if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    Json list = Json::array();
    for (const double number : *reals) list.push_back(json_of(number));
    return Json{{"reals", list}};
  }
  if (const auto* words = std::get_if<std::vector<std::string>>(&value))
    return Json{{"strings", *words}};
  return nullptr;
}

// The elements of a contiguous array as numbers.
template <class T>
Json numbers_of(const Tensor& tensor) {
  Json list = Json::array();
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const T value = tensor.as<T>()[i];
    if constexpr (std::is_integral_v<T>) {
      list.push_back(value);
    } else if constexpr (std::is_same_v<T, double>) {
      list.push_back(json_of(value));
    } else {
      list.push_back(json_of(static_cast<double>(static_cast<float>(value))));
    }
  }
  return list;
}

// Calls f(T()) for the element type.
template <class F>
auto with_type(DType dtype, const F& f) {
  switch (dtype) {
    case f64:
      return f(double());
    case f16:
      return f(Half());
    case bf16:
      return f(BFloat16());
    case i64:
      return f(int64_t());
    case i32:
      return f(int32_t());
    case i16:
      return f(int16_t());
    case i8:
      return f(int8_t());
    case u8:
      return f(uint8_t());
    case boolean:
      return f(bool());
    default:
      return f(float());
  }
}

Result<Json> json_of(const Array& array, const Block& block) {
  HG_CHECK(array, "the constant '", block.name, "' has no value, or one that was freed");
  HG_CHECK(!is_complex(array.dtype()), "the constant '", block.name, "' is ", array.dtype(),
           ", which JSON does not have");
  HG_TRY(array.to_host());
  HG_TRY_ASSIGN(const Array dense, array.contiguous());
  Json json = Json::object();
  json["dtype"] = std::string(to_string(array.dtype()));
  Json shape = Json::array();
  for (const int64_t size : array.shape()) shape.push_back(size);
  json["shape"] = std::move(shape);
  json["data"] =
      with_type(array.dtype(), [&]<class T>(T) { return numbers_of<T>(dense.tensor()); });
  return json;
}

Json json_of(const std::vector<Wire>& wires) {
  Json list = Json::array();
  for (const Wire& wire : wires)
    list.push_back(wire.inside.empty() ? Json(wire.outside)
                                       : Json{{"outside", wire.outside}, {"inside", wire.inside}});
  return list;
}

Result<Json> json_of(const Block& block) {
  Json json = Json::object();
  json["type"] = block.type;
  if (!block.name.empty()) json["name"] = block.name;
  if (!block.settings.empty()) {
    Json settings = Json::object();
    for (const auto& [name, value] : block.settings) {
      HG_CHECK(!settings.contains(name), "the setting '", name, "' of a ", block.type,
               " is there twice");
      settings[name] = json_of(value);
    }
    json["settings"] = std::move(settings);
  }
  if (!block.inputs.empty()) json["inputs"] = json_of(block.inputs);
  if (!block.outputs.empty()) json["outputs"] = json_of(block.outputs);
  if (!block.shared.empty()) json["shared"] = block.shared;
  if (!block.value.is_empty()) {
    HG_TRY_ASSIGN(json["value"], json_of(block.value, block));
  }
  if (!block.blocks.empty()) {
    Json inner = Json::array();
    for (const Block& other : block.blocks) {
      HG_TRY_ASSIGN(Json one, json_of(other));
      inner.push_back(std::move(one));
    }
    json["blocks"] = std::move(inner);
  }
  return json;
}

// -- Reading --------------------------------------------------------------------------------------

template <class... Parts>
Status wrong(const std::string& where, const Parts&... parts) {
  return invalid_argument("the JSON of a model, at ", where.empty() ? "its top" : where, ": ",
                          str_cat(parts...));
}

Result<std::string> word_at(const Json& json, const std::string& where) {
  if (!json.is_string()) return wrong(where, "a text is expected, not ", json.type_name());
  return *json.get_ptr<const std::string*>();
}

Result<Dim> dim_at(const Json& json, const std::string& where) {
  if (json.is_number_integer()) {
    if (json.is_number_unsigned() &&
        *json.get_ptr<const uint64_t*>() > uint64_t(std::numeric_limits<int64_t>::max()))
      return wrong(where, "the number is beyond 64 bits");
    return Dim(json.is_number_unsigned() ? static_cast<int64_t>(*json.get_ptr<const uint64_t*>())
                                         : *json.get_ptr<const int64_t*>());
  }
  if (!json.is_string()) return wrong(where, "a size is expected, not ", json.type_name());
  Result<Dim> dim = Dim::parse(*json.get_ptr<const std::string*>());
  if (!dim.ok()) return wrong(where, dim.status().message());
  return dim;
}

Result<double> real_at(const Json& json, const std::string& where) {
  if (json.is_number_float()) return *json.get_ptr<const double*>();
  if (json.is_number_integer()) {
    HG_TRY_ASSIGN(const Dim dim, dim_at(json, where));
    return static_cast<double>(dim.constant());
  }
  if (json.is_string()) {
    const std::string& word = *json.get_ptr<const std::string*>();
    if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (word == "inf") return std::numeric_limits<double>::infinity();
    if (word == "-inf") return -std::numeric_limits<double>::infinity();
  }
  return wrong(where, "a number is expected");
}

// Objects such as {"dim": ...}.
Result<Attr> marked_at(const Json& json, const std::string& where) {
  if (json.size() != 1) return wrong(where, "an object of one member is expected");
  const std::string& mark = json.begin().key();
  const Json& value = json.begin().value();
  if (mark == "dim") {
    HG_TRY_ASSIGN(Dim dim, dim_at(value, where));
    return Attr(std::move(dim));
  }
  if (mark == "real") {
    HG_TRY_ASSIGN(const double number, real_at(value, where));
    return Attr(number);
  }
  if (mark == "dtype") {
    HG_TRY_ASSIGN(const std::string name, word_at(value, where));
    const Result<DType> dtype = parse_dtype(name);
    if (!dtype.ok()) return wrong(where, dtype.status().message());
    return Attr(*dtype);
  }
  if (!value.is_array() || (mark != "reals" && mark != "strings"))
    return wrong(where, "'", mark, "' marks no value; there are dim, real, dtype, reals, strings");
  std::vector<double> reals;
  std::vector<std::string> words;
  for (const Json& item : value) {
    if (mark == "reals") {
      HG_TRY_ASSIGN(const double number, real_at(item, where));
      reals.push_back(number);
    } else {
      HG_TRY_ASSIGN(std::string word, word_at(item, where));
      words.push_back(std::move(word));
    }
  }
  return mark == "reals" ? Attr(std::move(reals)) : Attr(std::move(words));
}

Result<Attr> attr_at(const Json& json, const std::string& where) {
  if (json.is_null()) return Attr();
  if (json.is_boolean()) return Attr(*json.get_ptr<const bool*>());
  if (json.is_number_float()) return Attr(*json.get_ptr<const double*>());
  if (json.is_string()) return Attr(*json.get_ptr<const std::string*>());
  if (json.is_object()) return marked_at(json, where);
  if (!json.is_array()) {
    HG_TRY_ASSIGN(Dim dim, dim_at(json, where));
    return Attr(std::move(dim));
  }
  std::vector<Dim> dims;
  for (const Json& item : json) {
    HG_TRY_ASSIGN(Dim dim, dim_at(item, where));
    dims.push_back(std::move(dim));
  }
  return Attr(std::move(dims));
}

Status wires_at(const Json& json, const std::string& where, std::vector<Wire>& wires) {
  if (!json.is_array()) return wrong(where, "a list of names is expected");
  for (const Json& item : json) {
    Wire wire;
    if (item.is_string()) {
      wire.outside = *item.get_ptr<const std::string*>();
    } else if (item.is_object() && item.size() == 2 && item.contains("outside") &&
               item.contains("inside")) {
      HG_TRY_ASSIGN(wire.outside, word_at(item["outside"], where));
      HG_TRY_ASSIGN(wire.inside, word_at(item["inside"], where));
    } else {
      return wrong(where, "a name, or {\"outside\", \"inside\"}, is expected");
    }
    wires.push_back(std::move(wire));
  }
  return {};
}

template <class T>
Status fill(const Json& list, const std::string& where, const Tensor& tensor) {
  int64_t at = 0;
  for (const Json& item : list) {
    T& to = tensor.as<T>()[at++];
    if constexpr (std::is_same_v<T, bool>) {
      if (!item.is_boolean()) return wrong(where, "true or false is expected");
      to = *item.get_ptr<const bool*>();
    } else if constexpr (std::is_integral_v<T>) {
      HG_TRY_ASSIGN(const Dim number, dim_at(item, where));
      if (!number.is_constant() ||
          static_cast<int64_t>(static_cast<T>(number.constant())) != number.constant())
        return wrong(where, number, " does not fit ", tensor.dtype);
      to = static_cast<T>(number.constant());
    } else {
      HG_TRY_ASSIGN(const double number, real_at(item, where));
      if constexpr (std::is_same_v<T, double>)
        to = number;
      else
        to = T(static_cast<float>(number));
    }
  }
  return {};
}

Status value_at(const Json& json, const std::string& where, Array& array) {
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data") || !json["shape"].is_array() || !json["data"].is_array())
    return wrong(where, "a value is {\"dtype\", \"shape\", \"data\"}");
  HG_TRY_ASSIGN(const std::string name, word_at(json["dtype"], where));
  const Result<DType> dtype = parse_dtype(name);
  if (!dtype.ok() || is_complex(*dtype))
    return wrong(where, "'", name, "' is not a supported dtype");
  Sizes shape;
  for (const Json& item : json["shape"]) {
    HG_TRY_ASSIGN(const Dim size, dim_at(item, where));
    if (!size.is_constant() || size.constant() < 0)
      return wrong(where, size, " is not a valid size");
    shape.push_back(size.constant());
  }
  const Json& data = json["data"];
  int64_t count = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count)) return wrong(where, "the value is too large");
  if (shape.overflowed() || count != static_cast<int64_t>(data.size()))
    return wrong(where, "the shape ", shape, " does not have the ",
                 static_cast<int64_t>(data.size()), " elements of the data");
  HG_TRY_ASSIGN(array, Array::allocate(*dtype, shape));
  return with_type(*dtype, [&]<class T>(T) { return fill<T>(data, where, array.tensor()); });
}

Result<Block> block_at(const Json& json, const std::string& where, int depth) {
  if (!json.is_object()) return wrong(where, "a block is an object");
  if (depth > kMostDepth) return wrong(where, "blocks are nested more than ", kMostDepth, " deep");
  Block block;
  for (const auto& [member, value] : json.items()) {
    const std::string here = where.empty() ? member : where + "." + member;
    if (member == "type" || member == "name" || member == "shared") {
      std::string& to = member == "type"   ? block.type
                        : member == "name" ? block.name
                                           : block.shared;
      HG_TRY_ASSIGN(to, word_at(value, here));
    } else if (member == "settings") {
      if (!value.is_object()) return wrong(here, "settings are an object");
      for (const auto& [name, setting] : value.items()) {
        HG_TRY_ASSIGN(Attr attr, attr_at(setting, here + "." + name));
        block.settings.emplace_back(name, std::move(attr));
      }
    } else if (member == "inputs" || member == "outputs") {
      HG_TRY(wires_at(value, here, member == "inputs" ? block.inputs : block.outputs));
    } else if (member == "value") {
      HG_TRY(value_at(value, here, block.value));
    } else if (member == "blocks") {
      if (!value.is_array()) return wrong(here, "blocks are a list");
      for (const Json& inner : value) {
        HG_TRY_ASSIGN(
            Block one,
            block_at(inner, str_cat(here, "[", static_cast<int64_t>(block.blocks.size()), "]"),
                     depth + 1));
        block.blocks.push_back(std::move(one));
      }
    } else {
      return wrong(here, "a block has no such member");
    }
  }
  if (block.type.empty()) return wrong(where, "the block has no type");
  return block;
}

}  // namespace

Result<std::string> to_json(const Block& model) {
  return or_no_memory([&]() -> Result<std::string> {
    HG_TRY_ASSIGN(const Json json, json_of(model));
    return json.dump(2, ' ', false, Json::error_handler_t::replace);
  });
}

Result<Block> block_from_json(std::string_view text) {
  return or_no_memory([&]() -> Result<Block> {
    const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
    if (json.is_discarded()) return wrong("", "it is no JSON");
    return block_at(json, "", 0);
  });
}

}  // namespace hg::nn
