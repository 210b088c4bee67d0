// SPDX-License-Identifier: Apache-2.0
// Errors as values. The library never throws. Functions that can fail return a Status or a
// Result<T>. They also return out_of_memory if the host's operator new throws. A failed call undoes
// its work and leaks nothing.
//
// Functions that return neither, such as those that return text, let std::bad_alloc propagate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace hg {

enum class Code : uint8_t {
  ok,
  invalid_argument,  // an argument is invalid or does not match the model
  not_found,         // the file, name or index does not exist
  unsupported,       // valid, but this build, device or version cannot do it
  corrupt_model,     // the bytes are not a valid model
  out_of_memory,     // host memory, or the limit set by the host, is exhausted
  device_lost,       // the device stopped responding; create a new session
  cancelled,         // the caller requested a stop
  internal,          // a bug in this library
  busy,              // a queue is full; retry later
};

// Returns the name of the code, such as "invalid_argument".
std::string_view to_string(Code code);

// Either success, or an error code with a one-sentence message. One pointer wide, null if ok.
// Copying never throws: if the copy cannot be allocated, the result is no_memory().
class [[nodiscard]] Status {
 public:
  Status() = default;
  // Becomes no_memory() if the message cannot be allocated.
  Status(Code code, std::string_view message) noexcept;
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  Status(const Status& other) noexcept;
  Status& operator=(const Status& other) noexcept;
  // Returns an out_of_memory error without allocating.
  static Status no_memory() noexcept;

  bool ok() const { return error_ == nullptr; }
  Code code() const { return error_ ? error_->code : Code::ok; }
  // Returns the message, empty if ok. Valid as long as this Status.
  std::string_view message() const {
    return error_ ? std::string_view(error_->text, error_->size) : std::string_view();
  }
  // Returns this error, or `internal` if this Status is ok. Result<T> uses it to store an error.
  Status as_failure() &&;

 private:
  struct Error {
    Code code;
    size_t size;
    const char* text;  // null-terminated
  };
  struct Free {
    void operator()(const Error* error) const noexcept;
  };
  static const Error kNoMemory;
  explicit Status(const Error* error) : error_(error) {}
  std::unique_ptr<const Error, Free> error_;
};

// Holds either a T or the error Status. Constructing it from an ok Status stores an `internal`
// error. Accessing the value of a failed Result is undefined.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::in_place_index<1>, std::move(value)) {}  // NOLINT: implicit
  Result(Status status)                                                  // NOLINT: implicit
      : value_(std::in_place_index<0>, std::move(status).as_failure()) {}

  bool ok() const { return value_.index() == 1; }
  Status status() const { return ok() ? Status() : *std::get_if<0>(&value_); }
  T& operator*() & { return *std::get_if<1>(&value_); }
  const T& operator*() const& { return *std::get_if<1>(&value_); }
  T&& operator*() && { return std::move(*std::get_if<1>(&value_)); }
  T* operator->() { return std::get_if<1>(&value_); }
  const T* operator->() const { return std::get_if<1>(&value_); }

 private:
  std::variant<Status, T> value_;
};

// Appends one part of a message. Other headers of the library add overloads for their types.
void append_text(std::string& out, std::string_view part);
void append_text(std::string& out, int64_t part);
void append_text(std::string& out, uint64_t part);
void append_text(std::string& out, double part);
inline void append_text(std::string& out, const char* part) {
  append_text(out, std::string_view(part));
}
inline void append_text(std::string& out, const std::string& part) {
  append_text(out, std::string_view(part));
}
inline void append_text(std::string& out, int part) { append_text(out, int64_t{part}); }
inline void append_text(std::string& out, unsigned part) { append_text(out, uint64_t{part}); }
inline void append_text(std::string& out, bool part) { append_text(out, part ? "true" : "false"); }

// Concatenates the parts, for example str_cat("inner sizes differ: ", 8, " and ", 32).
template <class... Parts>
std::string str_cat(const Parts&... parts) {
  std::string out;
  (append_text(out, parts), ...);
  return out;
}

template <class... Parts>
Status invalid_argument(const Parts&... parts) {
  return Status(Code::invalid_argument, str_cat(parts...));
}
template <class... Parts>
Status not_found(const Parts&... parts) {
  return Status(Code::not_found, str_cat(parts...));
}
template <class... Parts>
Status unsupported(const Parts&... parts) {
  return Status(Code::unsupported, str_cat(parts...));
}
template <class... Parts>
Status corrupt_model(const Parts&... parts) {
  return Status(Code::corrupt_model, str_cat(parts...));
}
template <class... Parts>
Status out_of_memory(const Parts&... parts) {
  return Status(Code::out_of_memory, str_cat(parts...));
}
template <class... Parts>
Status cancelled(const Parts&... parts) {
  return Status(Code::cancelled, str_cat(parts...));
}
template <class... Parts>
Status busy(const Parts&... parts) {
  return Status(Code::busy, str_cat(parts...));
}
template <class... Parts>
Status internal_error(const Parts&... parts) {
  return Status(Code::internal, str_cat(parts...));
}

}  // namespace hg

#define HG_CONCAT_(a, b) a##b
#define HG_CONCAT(a, b) HG_CONCAT_(a, b)

// Returns from the enclosing function if `expression` is a failed Status. That function must return
// a Status or a Result.
#define HG_TRY(expression)                  \
  do {                                      \
    ::hg::Status hg_status_ = (expression); \
    if (!hg_status_.ok()) [[unlikely]]      \
      return hg_status_;                    \
  } while (false)

// HG_TRY_ASSIGN(auto x, f()): declares or assigns the value of a Result, or returns its Status from
// the enclosing function. Expands to several statements: an `if` or a loop around it needs braces.
#define HG_TRY_ASSIGN(declaration, expression) \
  HG_TRY_ASSIGN_(HG_CONCAT(hg_result_, __LINE__), declaration, expression)
#define HG_TRY_ASSIGN_(result, declaration, expression) \
  auto result = (expression);                           \
  if (!result.ok()) [[unlikely]]                        \
    return result.status();                             \
  declaration = *std::move(result)

// HG_CHECK(condition, parts...): returns invalid_argument with the concatenated parts if the
// condition is false.
#define HG_CHECK(condition, ...)                  \
  do {                                            \
    if (!(condition)) [[unlikely]]                \
      return ::hg::invalid_argument(__VA_ARGS__); \
  } while (false)
