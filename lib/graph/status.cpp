// SPDX-License-Identifier: Apache-2.0
#include "hg/status.h"

#include <cstring>
#include <new>

#include "hg/version.h"
#include "lib/platform/chars.h"

namespace hg {

std::string_view version() { return HG_VERSION; }

std::string_view to_string(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::not_found:
      return "not_found";
    case Code::unsupported:
      return "unsupported";
    case Code::corrupt_model:
      return "corrupt_model";
    case Code::out_of_memory:
      return "out_of_memory";
    case Code::device_lost:
      return "device_lost";
    case Code::cancelled:
      return "cancelled";
    case Code::internal:
      return "internal";
    case Code::busy:
      return "busy";
  }
  return "unknown";
}

constinit const Status::Error Status::kNoMemory = {Code::out_of_memory, 25,
                                                   "the host is out of memory"};

// The text follows the Error in the same allocation.
Status::Status(Code code, std::string_view message) noexcept {
  void* memory = ::operator new(sizeof(Error) + message.size() + 1, std::nothrow);
  if (memory == nullptr) {
    error_.reset(&kNoMemory);
    return;
  }
  char* text = static_cast<char*>(memory) + sizeof(Error);
  if (!message.empty()) std::memcpy(text, message.data(), message.size());
  text[message.size()] = 0;
  error_.reset(new (memory) Error{code, message.size(), text});
}

Status::Status(const Status& other) noexcept {
  if (other.error_ != nullptr) *this = Status(other.code(), other.message());
}

Status& Status::operator=(const Status& other) noexcept {
  if (this != &other) *this = Status(other);
  return *this;
}

Status Status::no_memory() noexcept { return Status(&kNoMemory); }

void Status::Free::operator()(const Error* error) const noexcept {
  if (error != &kNoMemory) ::operator delete(const_cast<Error*>(error));
}

Status Status::as_failure() && {
  if (!ok()) return std::move(*this);
  return internal_error("a function gave neither a result nor an error");
}

namespace {

template <class Number>
void append_number(std::string& out, Number part) {
  char digits[32];
  const auto end = to_chars(digits, digits + sizeof digits, part).ptr;
  out.append(digits, static_cast<size_t>(end - digits));
}

}  // namespace

void append_text(std::string& out, std::string_view part) { out.append(part); }
void append_text(std::string& out, int64_t part) { append_number(out, part); }
void append_text(std::string& out, uint64_t part) { append_number(out, part); }
void append_text(std::string& out, double part) { append_number(out, part); }

}  // namespace hg
