// SPDX-License-Identifier: Apache-2.0
// Errors as values. The library never throws: whatever can fail returns a Status or a Result<T>,
// and out_of_memory where the host's operator new fails, too. What was begun is undone then, and
// leaks nothing. Functions that return neither, such as those that give a text, let std::bad_alloc
// pass.
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
  invalid_argument,  // the caller passed something that does not fit
  not_found,         // no such file, name or index
  unsupported,       // meaningful, but this build, device or version cannot do it
  corrupt_model,     // the bytes are not a valid model
  out_of_memory,     // the host's memory, or the limit it set, does not suffice
  device_lost,       // the device stopped answering; make a new session
  cancelled,         // the caller asked for it while it ran
  internal,          // a defect of this library
  busy,              // no room in a queue at present; there may be later
};

// The code's own spelling, such as "invalid_argument".
std::string_view name_of(Code code);

// Success, or a code with one sentence that says what to do. One pointer wide, null when ok.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // Where there is no memory for it, as in a copy: no_memory().
  Status(Code code, std::string_view message) noexcept;
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  Status(const Status& other) noexcept;
  Status& operator=(const Status& other) noexcept;
  // That the host's memory does not suffice, said without taking any.
  static Status no_memory() noexcept;

  bool ok() const { return error_ == nullptr; }
  Code code() const { return error_ ? error_->code : Code::ok; }
  // Empty when ok. Valid as long as this Status.
  std::string_view message() const {
    return error_ ? std::string_view(error_->text, error_->size) : std::string_view();
  }
  // This one, or `internal` where it is ok: what a Result without a value holds.
  Status as_failure() &&;

 private:
  struct Error {
    Code code;
    size_t size;
    const char* text;  // ends with a 0
  };
  struct Free {
    void operator()(const Error* error) const noexcept;
  };
  static const Error kNoMemory;
  explicit Status(const Error* error) : error_(error) {}
  std::unique_ptr<const Error, Free> error_;
};

// A T, or the Status that says why there is none. Reading the value of a failed Result is
// undefined.
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

// Appends one part of a message. Types of this library add overloads beside their definition.
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

// The parts joined into one sentence: str_cat("inner sizes differ: ", 8, " and ", 32).
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

// Returns from the enclosing function when `expression` is a failed Status.
#define HG_TRY(expression)                  \
  do {                                      \
    ::hg::Status hg_status_ = (expression); \
    if (!hg_status_.ok()) [[unlikely]]      \
      return hg_status_;                    \
  } while (false)

// HG_TRY_ASSIGN(auto x, f()): declares or assigns the value of a Result, or returns its Status.
#define HG_TRY_ASSIGN(declaration, expression) \
  HG_TRY_ASSIGN_(HG_CONCAT(hg_result_, __LINE__), declaration, expression)
#define HG_TRY_ASSIGN_(result, declaration, expression) \
  auto result = (expression);                           \
  if (!result.ok()) [[unlikely]]                        \
    return result.status();                             \
  declaration = *std::move(result)

// HG_CHECK(condition, parts...): returns invalid_argument with the joined parts when it is false.
#define HG_CHECK(condition, ...)                  \
  do {                                            \
    if (!(condition)) [[unlikely]]                \
      return ::hg::invalid_argument(__VA_ARGS__); \
  } while (false)
