// SPDX-License-Identifier: Apache-2.0
// Exceptions that pass through the library, keyed by the number in their message.
#include "python/src/callbacks.h"

#include <charconv>
#include <list>
#include <mutex>
#include <optional>

#include "python/src/errors.h"

namespace hg::python {
namespace {

constexpr std::string_view kMark = "Python's exception ";
constexpr size_t kMost = 256;  // kept exceptions; beyond this, the oldest is dropped

struct Kept {
  int64_t number;
  std::string message;
  nb::python_error error;
};

struct Store {
  std::mutex mutex;
  std::list<Kept> all;  // a list, so that messages stay in place
  int64_t count = 0;
};
Store& store() {
  static Store& made = *new Store();  // never freed, because the interpreter may have ended
  return made;
}

}  // namespace

const char* keep_exception(nb::python_error&& error) {
  Store& s = store();
  std::string what = error.what();
  // what() contains the whole traceback; its last line is the message.
  while (!what.empty() && what.back() == '\n') what.pop_back();
  what = what.substr(what.rfind('\n') + 1);
  std::optional<Kept> oldest;  // freed after the lock is released
  const std::scoped_lock lock(s.mutex);
  const int64_t number = ++s.count;
  s.all.push_back({number, str_cat(kMark, number, ": ", what), std::move(error)});
  if (s.all.size() > kMost) {
    oldest.emplace(std::move(s.all.front()));
    s.all.pop_front();
  }
  return s.all.back().message.c_str();
}

void raise_kept(std::string_view message) {
  const size_t at = message.find(kMark);
  if (at == std::string_view::npos) return;
  int64_t number = 0;
  const std::string_view rest = message.substr(at + kMark.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), number);
  std::optional<Kept> found;
  {
    Store& s = store();
    const std::scoped_lock lock(s.mutex);
    for (auto each = s.all.begin(); each != s.all.end(); ++each)
      if (each->number == number) {
        found.emplace(std::move(*each));
        s.all.erase(each);
        break;
      }
  }
  if (!found) return;
  // The callback's origin, in addition to the traceback: "acme.wave 'node'".
  std::string_view where = message.substr(0, at);
  while (!where.empty() && (where.back() == ' ' || where.back() == ':')) where.remove_suffix(1);
  nb::object value = nb::borrow(found->error.value());
  if (!where.empty() && nb::hasattr(value, "add_note"))
    value.attr("add_note")(str_cat("in ", where).c_str());
  throw std::move(found->error);
}

std::shared_ptr<nb::object> shared_object(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* last) {
            if (Py_IsInitialized() == 0) return;
            const nb::gil_scoped_acquire acquired;
            delete last;
          }};
}

}  // namespace hg::python
