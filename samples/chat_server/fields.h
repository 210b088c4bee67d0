// SPDX-License-Identifier: Apache-2.0
// Typed members of a request. Keeps the first error. A member that nothing reads is an error, so no
// parameter is ignored by accident.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "hg/status.h"

// An answer in the form of OpenAI's errors.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {}, code = {};  // empty: null
};

class Fields {
 public:
  using Json = nlohmann::json;

  // `object` must outlive the fields. `path` begins the names in errors, such as "messages[2].".
  explicit Fields(const Json& object, std::string path = {})
      : object_(object), path_(std::move(path)) {}

  // The member; null if it is absent or null.
  const Json* find(const std::string& name);
  // These functions leave `out` unchanged if the member is absent or null. Bounds are inclusive.
  void get(const std::string& name, bool& out);
  void get(const std::string& name, std::string& out);
  void get(const std::string& name, int64_t& out, int64_t least, int64_t most);
  void get(const std::string& name, double& out, double least, double most);
  // Accepts the member only with one of these values, which change nothing.
  void accept(const std::string& name, std::initializer_list<Json> values);
  // Accepts any value: the member has no effect on answers.
  void skip(const std::string& name) { find(name); }

  template <class... Parts>
  void fail(const std::string& name, const Parts&... parts) {
    refuse({400, hg::str_cat(path_, name, ": ", parts...), path_ + name});
  }
  void refuse(ApiError error) {
    if (!error_) error_ = std::move(error);
  }
  bool ok() const { return !error_; }
  // The first error. Refuses members that nothing has read.
  std::optional<ApiError> finish();

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string> read_;
  std::optional<ApiError> error_;
};
