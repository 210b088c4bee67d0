// SPDX-License-Identifier: Apache-2.0
// JSON schemas as rules of a grammar. Keywords that would restrict values further are refused, so
// that each generated value fits the schema.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "hg/text/grammar.h"
#include "lib/graph/border.h"
#include "lib/text/text_file.h"

namespace hg {
namespace {

using SchemaJson = nlohmann::ordered_json;

constexpr int kMostDepth = 100;

constexpr std::string_view kCommon = R"(
ws ::= (" " | "\n" [ \t]{0,20})?
hex ::= [0-9a-fA-F]
char ::= [^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" ([0-9a-cefA-CEF] hex{3} | [dD] [0-7] hex{2}))
string ::= "\"" char* "\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?
boolean ::= "true" | "false"
null ::= "null"
value ::= object | array | string | number | boolean | null
pair ::= string ws ":" ws value
object ::= "{" ws (pair (ws "," ws pair)*)? ws "}"
array ::= "[" ws (value (ws "," ws value)*)? ws "]"
)";

// How deep lists and objects of a JSON text are nested.
int64_t nesting(std::string_view text) {
  int64_t depth = 0, most = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{'))
      most = std::max(most, ++depth);
    else if (!in_string && (c == ']' || c == '}'))
      --depth;
  }
  return most;
}

// A text of the grammar language.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += str_cat("\\", std::string_view(&c, 1));
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

// A part of a JSON pointer in a URI: %41 is 'A', ~1 is '/' and ~0 is '~'.
std::string pointer_key(std::string_view text) {
  std::string key;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view hex = text.substr(std::min(i + 1, text.size()), 2);
    unsigned byte = 0;
    if (text[i] == '%' && hex.size() == 2 &&
        std::from_chars(hex.data(), hex.data() + 2, byte, 16).ptr == hex.data() + 2) {
      key += static_cast<char>(byte);
      i += 2;
    } else {
      key += text[i];
    }
  }
  std::string out;
  for (size_t i = 0; i < key.size(); ++i) {
    const bool escaped =
        key[i] == '~' && i + 1 < key.size() && (key[i + 1] == '0' || key[i + 1] == '1');
    out += escaped ? (key[++i] == '1' ? '/' : '~') : key[i];
  }
  return out;
}

// Whether a value holds a number that was rounded when it was read: a whole one beyond 64 bits.
bool has_rounded_number(const SchemaJson& value) {
  if (value.is_structured()) return std::any_of(value.begin(), value.end(), has_rounded_number);
  return value.is_number_float() && std::abs(value.get<double>()) >= 0x1p53;
}

class SchemaReader {
 public:
  explicit SchemaReader(const SchemaJson& schema) : schema_(schema) {}

  Result<std::string> read() {
    HG_TRY_ASSIGN(const std::string root, rule_of(schema_, "#", 0));
    return str_cat("root ::= ", root, "\n", rules_, kCommon);
  }

 private:
  template <class... Words>
  static Status refused(const std::string& place, const Words&... words) {
    return unsupported("JSON schema, ", place, ": ", words...);
  }
  template <class... Words>
  static Status wrong(const std::string& place, const Words&... words) {
    return invalid_argument("JSON schema, ", place, ": ", words...);
  }

  std::string add_rule(const std::string& body) {
    const std::string name = str_cat("r", ++count_);
    rules_ += str_cat(name, " ::= ", body, "\n");
    return name;
  }

  // Accepts these keywords, and keywords that restrict nothing.
  static Status check_keywords(const SchemaJson& schema, const std::string& place,
                               std::initializer_list<std::string_view> known) {
    constexpr std::string_view kNotes[] = {
        "$schema", "$id",      "$comment", "$defs",     "definitions", "title", "description",
        "default", "examples", "readOnly", "writeOnly", "deprecated",  "format"};
    for (const auto& [name, value] : schema.items()) {
      const auto is = [&](std::string_view other) { return name == other; };
      if (std::any_of(known.begin(), known.end(), is) ||
          std::any_of(std::begin(kNotes), std::end(kNotes), is))
        continue;
      return refused(place, "the keyword '", name, "' is not supported here");
    }
    return {};
  }

  static Result<int64_t> count_at(const SchemaJson& schema, const std::string& place,
                                  const char* name, int64_t otherwise) {
    const auto found = schema.find(name);
    if (found == schema.end()) return otherwise;
    if (!found->is_number_integer() || found->get<int64_t>() < 0 || found->get<int64_t>() > 100000)
      return wrong(place, name, " is ", found->dump(), ", expected 0 to 100000");
    return found->get<int64_t>();
  }

  // The text of a rule, which may stand in a sequence.
  Result<std::string> rule_of(const SchemaJson& schema, const std::string& place, int depth) {
    if (depth > kMostDepth) return refused(place, "schemas are nested too deeply");
    if (schema.is_boolean() && schema.get<bool>()) return std::string("value");
    if (!schema.is_object()) return wrong(place, "expected a schema, which is an object");
    if (schema.contains("$ref")) {
      HG_TRY(check_keywords(schema, place, {"$ref"}));
      return rule_at(schema["$ref"], place, depth);
    }
    if (schema.contains("const")) {
      HG_TRY(check_keywords(schema, place, {"const", "type"}));
      return values_rule(SchemaJson::array({schema["const"]}), schema, place);
    }
    if (schema.contains("enum")) {
      HG_TRY(check_keywords(schema, place, {"enum", "type"}));
      return values_rule(schema["enum"], schema, place);
    }
    if (schema.contains("anyOf")) {
      HG_TRY(check_keywords(schema, place, {"anyOf"}));
      return union_rule(schema["anyOf"], place, depth);
    }
    const auto type = schema.find("type");
    if (type == schema.end()) {
      if (schema.contains("properties")) return typed_rule("object", schema, place, depth);
      HG_TRY(check_keywords(schema, place, {}));
      return std::string("value");
    }
    if (type->is_string()) return typed_rule(type->get<std::string>(), schema, place, depth);
    if (!type->is_array() || type->empty()) return wrong(place, "type is ", type->dump());
    std::string all;
    for (const SchemaJson& each : *type) {
      if (!each.is_string()) return wrong(place, "type is ", type->dump());
      SchemaJson one = SchemaJson::object();  // the keywords of this type
      const std::string name = each.get<std::string>();
      for (const auto& [key, value] : schema.items())
        if (belongs(key, name)) one[key] = value;
      HG_TRY(check_keywords(schema, place,
                            {"type", "properties", "required", "additionalProperties", "items",
                             "minItems", "maxItems", "minLength", "maxLength"}));
      HG_TRY_ASSIGN(const std::string rule, typed_rule(name, one, place, depth));
      all += str_cat(all.empty() ? "" : " | ", rule);
    }
    return add_rule(all);
  }

  static bool belongs(const std::string& key, const std::string& type) {
    if (key == "properties" || key == "required" || key == "additionalProperties")
      return type == "object";
    if (key == "items" || key == "minItems" || key == "maxItems") return type == "array";
    if (key == "minLength" || key == "maxLength") return type == "string";
    return key != "type";
  }

  Result<std::string> rule_at(const SchemaJson& reference, const std::string& place, int depth) {
    if (!reference.is_string() || !reference.get<std::string>().starts_with("#"))
      return refused(place, "$ref is ", reference.dump(),
                     ", expected a place in this schema, #/...");
    const std::string target = reference.get<std::string>();
    const auto known = references_.find(target);
    if (known != references_.end()) return known->second;
    const std::string name = references_[target] = str_cat("ref", references_.size());
    const SchemaJson* found = nullptr;
    if (target == "#") {
      found = &schema_;
    } else {
      // Members with names of objects: JSON pointers as schemas use them.
      found = &schema_;
      std::string rest = target.substr(1);
      while (found != nullptr && !rest.empty()) {
        if (rest[0] != '/') return wrong(place, "$ref '", target, "' is no place");
        const size_t end = std::min(rest.find('/', 1), rest.size());
        const std::string key = pointer_key(std::string_view(rest).substr(1, end - 1));
        rest.erase(0, end);
        const auto member = found->is_object() ? found->find(key) : found->end();
        found = found->is_object() && member != found->end() ? &*member : nullptr;
      }
    }
    if (found == nullptr) return wrong(place, "there is no '", target, "'");
    HG_TRY_ASSIGN(const std::string rule, rule_of(*found, target, depth + 1));
    rules_ += str_cat(name, " ::= ", rule, "\n");
    return name;
  }

  Result<std::string> values_rule(const SchemaJson& values, const SchemaJson& schema,
                                  const std::string& place) {
    if (!values.is_array() || values.empty()) return wrong(place, "enum is ", values.dump());
    std::string all;
    for (const SchemaJson& value : values) {
      if (has_rounded_number(value))
        return refused(place, "the constant ", value.dump(),
                       " has a number of more than 64 bits, or a fraction above 2^53");
      if (const auto type = schema.find("type"); type != schema.end() && !has_type(value, *type))
        return wrong(place, value.dump(), " has not the type ", type->dump());
      all += str_cat(all.empty() ? "" : " | ", quoted(value.dump()));
    }
    return add_rule(all);
  }

  static bool has_type(const SchemaJson& value, const SchemaJson& type) {
    if (type.is_array())
      return std::any_of(type.begin(), type.end(),
                         [&](const SchemaJson& t) { return has_type(value, t); });
    return (type == "string" && value.is_string()) || (type == "null" && value.is_null()) ||
           (type == "boolean" && value.is_boolean()) || (type == "array" && value.is_array()) ||
           (type == "object" && value.is_object()) ||
           (type == "integer" && value.is_number_integer()) ||
           (type == "number" && value.is_number());
  }

  Result<std::string> union_rule(const SchemaJson& schemas, const std::string& place, int depth) {
    if (!schemas.is_array() || schemas.empty()) return wrong(place, "anyOf is ", schemas.dump());
    std::string all;
    for (size_t i = 0; i < schemas.size(); ++i) {
      HG_TRY_ASSIGN(const std::string rule,
                    rule_of(schemas[i], str_cat(place, "/anyOf/", uint64_t{i}), depth + 1));
      all += str_cat(all.empty() ? "" : " | ", rule);
    }
    return add_rule(all);
  }

  Result<std::string> typed_rule(const std::string& type, const SchemaJson& schema,
                                 const std::string& place, int depth) {
    if (type == "object") return object_rule(schema, place, depth);
    if (type == "array") return array_rule(schema, place, depth);
    if (type == "string") {
      HG_TRY(check_keywords(schema, place, {"type", "minLength", "maxLength"}));
      HG_TRY_ASSIGN(const int64_t least, count_at(schema, place, "minLength", 0));
      HG_TRY_ASSIGN(const int64_t most, count_at(schema, place, "maxLength", -1));
      if (most < 0 && least == 0) return std::string("string");
      if (most >= 0 && most < least) return wrong(place, "maxLength is below minLength");
      return add_rule(
          str_cat(R"("\"" char{)", least, ",", most < 0 ? "" : str_cat(most), R"(} "\"")"));
    }
    if (type != "integer" && type != "number" && type != "boolean" && type != "null")
      return wrong(place, "there is no type '", type, "'");
    HG_TRY(check_keywords(schema, place, {"type"}));
    return type;
  }

  Result<std::string> array_rule(const SchemaJson& schema, const std::string& place, int depth) {
    HG_TRY(check_keywords(schema, place, {"type", "items", "minItems", "maxItems"}));
    HG_TRY_ASSIGN(const int64_t least, count_at(schema, place, "minItems", 0));
    HG_TRY_ASSIGN(const int64_t most, count_at(schema, place, "maxItems", -1));
    if (most >= 0 && most < least) return wrong(place, "maxItems is below minItems");
    std::string item = "value";
    if (schema.contains("items")) {
      HG_TRY_ASSIGN(item, rule_of(schema["items"], place + "/items", depth + 1));
    }
    if (most == 0) return add_rule(R"("[" ws "]")");
    const std::string more = str_cat(R"((ws "," ws )", item, "){", std::max<int64_t>(least - 1, 0),
                                     ",", most < 0 ? "" : str_cat(most - 1), "}");
    const std::string items = str_cat(item, " ", more);
    return add_rule(
        str_cat(R"("[" ws )", least == 0 ? str_cat("(", items, ")?") : items, R"( ws "]")"));
  }

  Result<std::string> object_rule(const SchemaJson& schema, const std::string& place, int depth) {
    HG_TRY(
        check_keywords(schema, place, {"type", "properties", "required", "additionalProperties"}));
    const SchemaJson properties = schema.value("properties", SchemaJson::object());
    const SchemaJson required = schema.value("required", SchemaJson::array());
    const SchemaJson others = schema.value("additionalProperties", SchemaJson(true));
    if (!properties.is_object()) return wrong(place, "properties is no object");
    if (!required.is_array()) return wrong(place, "required is no list");
    for (const SchemaJson& name : required)
      if (!name.is_string() || !properties.contains(name.get<std::string>()))
        return refused(place, "required has ", name.dump(), ", which properties lacks");
    if (properties.empty()) {
      if (others == false) return add_rule(R"("{" ws "}")");
      HG_TRY_ASSIGN(const std::string value,
                    rule_of(others, place + "/additionalProperties", depth + 1));
      const std::string pair = str_cat(R"(string ws ":" ws )", value);
      return add_rule(str_cat(R"("{" ws ()", pair, R"( (ws "," ws )", pair, R"()*)? ws "}")"));
    }
    if (!others.is_boolean())
      return refused(place, "additionalProperties beside properties must be true or false");
    // Rules from the last property to the first: what may follow it, with and without a comma.
    std::string first = add_rule("\"\""), later = first;
    std::vector<std::pair<std::string, const SchemaJson*>> all;
    for (const auto& [name, value] : properties.items()) all.emplace_back(name, &value);
    for (size_t i = all.size(); i-- > 0;) {
      const auto& [name, value] = all[i];
      HG_TRY_ASSIGN(const std::string rule,
                    rule_of(*value, str_cat(place, "/properties/", name), depth + 1));
      const std::string pair =
          add_rule(str_cat(quoted(SchemaJson(name).dump()), R"( ws ":" ws )", rule));
      const bool is_required =
          std::find(required.begin(), required.end(), SchemaJson(name)) != required.end();
      const auto with = [&](const std::string& begin, const std::string& without) {
        return add_rule(
            str_cat(begin, pair, " ", later, is_required ? "" : str_cat(" | ", without)));
      };
      const std::string next_first = with("", first), next_later = with(R"(ws "," ws )", later);
      first = next_first;
      later = next_later;
    }
    return add_rule(str_cat(R"("{" ws )", first, R"( ws "}")"));
  }

  const SchemaJson& schema_;
  std::string rules_;
  std::map<std::string, std::string> references_;
  int64_t count_ = 0;
};

}  // namespace

Result<Grammar> Grammar::from_json_schema(std::string_view schema) {
  return or_no_memory([&]() -> Result<Grammar> {
    // Values are read and written by recursion.
    if (nesting(schema) > 4 * kMostDepth)
      return unsupported("JSON schema: the text is nested too deeply");
    const SchemaJson json = SchemaJson::parse(schema, nullptr, false);
    HG_CHECK(!json.is_discarded(), "JSON schema: the text is not JSON");
    HG_TRY_ASSIGN(const std::string rules, SchemaReader(json).read());
    return parse(rules);
  });
}

Result<Grammar> Grammar::load_json_schema(const std::string& path) {
  HG_TRY_ASSIGN(const std::string text, read_text_file(path));
  return from_json_schema(text);
}

}  // namespace hg
