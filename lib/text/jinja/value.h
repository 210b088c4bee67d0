// SPDX-License-Identifier: Apache-2.0
// Values of a template, with Python's semantics. All except namespaces are immutable, so values
// never refer to themselves. The run owns the namespaces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hg/status.h"

namespace hg::jinja {

// Limits the work of one run, because templates are untrusted.
class Meter {
 public:
  Status spend(uint64_t steps);  // one step is about one operation on a value
  Status grow(uint64_t bytes);   // of texts and lists that the run creates, even if freed

 private:
  uint64_t steps_ = 0, bytes_ = 0;
};

inline constexpr int kMostNestedValues = 100;

class Value;
struct None {};
struct Undefined {
  std::shared_ptr<const std::string> why;  // may be null
};
struct Text {
  std::shared_ptr<const std::string> text;  // valid UTF-8
  bool is_safe = false;                     // result of the filter `safe`: can only be printed
};
struct Sequence;
struct Dict;
struct Loop;
struct Namespace;
struct Function;
struct Call;

class Value {
 public:
  using Any =
      std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<const Sequence>,
                   std::shared_ptr<const Dict>, std::shared_ptr<const Loop>,
                   std::shared_ptr<const Function>, Namespace*>;

  Value() = default;  // undefined
  explicit Value(Any any) : any_(std::move(any)) {}
  static Value undefined(std::string why) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(why))});
  }
  static Value none() { return Value(Any(None())); }
  static Value flag(bool value) { return Value(Any(value)); }
  static Value whole(int64_t value) { return Value(Any(value)); }
  static Value real(double value) { return Value(Any(value)); }
  static Value text(std::string value, bool is_safe = false) {
    return Value(Any(Text{std::make_shared<const std::string>(std::move(value)), is_safe}));
  }

  bool is_undefined() const { return std::holds_alternative<Undefined>(any_); }
  bool is_none() const { return std::holds_alternative<None>(any_); }
  bool is_text() const { return std::holds_alternative<Text>(any_); }
  bool is_number() const { return as_bool() || as_int() || as_real(); }
  const bool* as_bool() const { return std::get_if<bool>(&any_); }
  const int64_t* as_int() const { return std::get_if<int64_t>(&any_); }
  const double* as_real() const { return std::get_if<double>(&any_); }
  const std::string* as_text() const {
    const Text* text = std::get_if<Text>(&any_);
    return text == nullptr ? nullptr : text->text.get();
  }
  bool is_safe() const {
    const Text* text = std::get_if<Text>(&any_);
    return text != nullptr && text->is_safe;
  }
  const Sequence* as_sequence() const { return get<Sequence>(); }
  const Dict* as_dict() const { return get<Dict>(); }
  const Loop* as_loop() const { return get<Loop>(); }
  const Function* as_function() const { return get<Function>(); }
  Namespace* as_namespace() const {
    const auto* found = std::get_if<Namespace*>(&any_);
    return found == nullptr ? nullptr : *found;
  }
  const Undefined* as_undefined() const { return std::get_if<Undefined>(&any_); }
  template <class T>
  std::shared_ptr<const T> share() const {
    const auto* found = std::get_if<std::shared_ptr<const T>>(&any_);
    return found == nullptr ? nullptr : *found;
  }
  // Python's int of a bool or an int.
  std::optional<int64_t> integer() const {
    if (const bool* b = as_bool()) return *b ? 1 : 0;
    if (const int64_t* i = as_int()) return *i;
    return std::nullopt;
  }
  std::optional<double> number() const {
    if (const double* d = as_real()) return *d;
    if (const auto i = integer()) return static_cast<double>(*i);
    return std::nullopt;
  }

 private:
  template <class T>
  const T* get() const {
    const auto* found = std::get_if<std::shared_ptr<const T>>(&any_);
    return found == nullptr ? nullptr : found->get();
  }
  Any any_;
};

struct Sequence {
  // A generator can be read once. A view shows a dict's keys, values or items.
  enum class Kind : uint8_t { list, tuple, range, generator, view };
  std::vector<Value> items;
  Kind kind = Kind::list;
  int depth = 1;
  std::string_view name;  // of a view
  // How much of a generator has been read: nothing, everything, or an unknown part.
  enum class Read : uint8_t { nothing, all, part };
  mutable Read read = Read::nothing;
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in insertion order; keys are unique
  int depth = 1;
};

struct Loop {
  std::vector<Value> items;
  mutable size_t at = 0;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> items;
};

// A macro, a method bound to its value, or a function.
struct Function {
  std::string name;
  std::function<Result<Value>(Call&)> call;
};

// Python's name of the type, such as "str", for messages.
std::string_view type_name(const Value& value);
bool is_true(const Value& value);

// Fails if values are nested too deeply.
Result<Value> make_sequence(Meter& meter, std::vector<Value> items,
                            Sequence::Kind kind = Sequence::Kind::list, std::string_view name = "");
// If keys are equal, the last value stays, at the position of the first. Fails if a key is a list.
Result<Value> make_dict(Meter& meter, std::vector<std::pair<Value, Value>> items);
// Null if the key does not exist or is of a type that cannot be a key.
Result<const Value*> find(Meter& meter, const Dict& dict, const Value& key);

// Python's ==.
Result<bool> equal(Meter& meter, const Value& a, const Value& b);
// Python's <; fails for values without an order.
Result<bool> less(Meter& meter, const Value& a, const Value& b);

// Appends str() or repr() of the value.
Status append_str(Meter& meter, std::string& out, const Value& value);
Status append_repr(Meter& meter, std::string& out, const Value& value);
Result<Value> text_of(Meter& meter, const Value& value);
std::string repr_of(double value);

// The items of a loop over the value: characters of a string, keys of a dict, none for an undefined
// value. Uses up a generator.
Result<std::vector<Value>> items_of(Meter& meter, const Value& value);

}  // namespace hg::jinja
