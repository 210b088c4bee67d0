// SPDX-License-Identifier: Apache-2.0
// Typed members of JSON objects from files. Every error contains the path in the file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "hg/status.h"

namespace hg {

using Json = nlohmann::json;

// A value of the file and its path, such as "tokenizer.json: model.vocab".
class JsonAt {
 public:
  JsonAt(const Json& json, std::string path) : json_(&json), path_(std::move(path)) {}

  const Json& operator*() const { return *json_; }
  const Json* operator->() const { return json_; }
  const std::string& path() const { return path_; }
  bool is_null() const { return json_->is_null(); }

  template <class... Parts>
  Status wrong(const Parts&... parts) const {
    return corrupt_model(path_, ": ", parts...);
  }
  template <class... Parts>
  Status unknown(const Parts&... parts) const {
    return unsupported(path_, ": ", parts...);
  }

  // The member; null if it is absent or this is not an object.
  JsonAt member(const std::string& name) const {
    static const Json kNull;
    const Json* found = &kNull;
    if (json_->is_object()) {
      const auto at = json_->find(name);
      if (at != json_->end()) found = &*at;
    }
    return JsonAt(*found, path_ + (path_.ends_with(": ") ? "" : ".") + name);
  }
  JsonAt item(size_t i) const { return JsonAt((*json_)[i], str_cat(path_, "[", uint64_t{i}, "]")); }

  Result<std::string> text() const {
    if (!json_->is_string()) return expected("a string");
    return *json_->get_ptr<const std::string*>();
  }
  Result<bool> flag() const {
    if (!json_->is_boolean()) return expected("true or false");
    return *json_->get_ptr<const bool*>();
  }
  // An integer from 0 to 2^31 - 2, so that its successor is also an int32_t.
  Result<int32_t> whole() const {
    if (json_->is_number_unsigned()) {
      const uint64_t number = *json_->get_ptr<const uint64_t*>();
      if (number <= 0x7ffffffeu) return static_cast<int32_t>(number);
    }
    return expected("an integer from 0 to 2147483646");
  }
  Result<double> number() const {
    if (!json_->is_number()) return expected("a number");
    return json_->get<double>();
  }
  // The member's value, or `otherwise` if it is absent or null.
  Result<std::string> text(const std::string& name, std::string otherwise) const {
    const JsonAt at = member(name);
    return at.is_null() ? Result<std::string>(std::move(otherwise)) : at.text();
  }
  Result<bool> flag(const std::string& name, bool otherwise) const {
    const JsonAt at = member(name);
    return at.is_null() ? Result<bool>(otherwise) : at.flag();
  }
  Result<int32_t> whole(const std::string& name, int32_t otherwise) const {
    const JsonAt at = member(name);
    return at.is_null() ? Result<int32_t>(otherwise) : at.whole();
  }
  // Fails unless this is an array.
  Status is_list() const { return json_->is_array() ? Status() : expected("an array"); }
  Status is_object() const { return json_->is_object() ? Status() : expected("an object"); }

 private:
  Status expected(std::string_view what) const {
    return wrong("expected ", what, ", got ", json_->type_name());
  }
  const Json* json_;
  std::string path_;
};

}  // namespace hg
