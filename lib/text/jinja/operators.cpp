// SPDX-License-Identifier: Apache-2.0
#include "lib/text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "lib/text/jinja/chars.h"
#include "lib/text/unicode.h"

namespace hg::jinja {

Status undefined_error(const Value& value) {
  const Undefined* undefined = value.as_undefined();
  return invalid_argument(undefined != nullptr && undefined->why ? std::string_view(*undefined->why)
                                                                 : "a value is undefined");
}

namespace {

Status too_large(std::string_view sign) {
  return unsupported("the result of '", sign, "' exceeds 64 bits");
}

Result<Value> binary_whole(std::string_view sign, int64_t a, int64_t b) {
  int64_t out = 0;
  if (sign == "+" || sign == "-" || sign == "*") {
    const bool overflows = sign == "+"   ? __builtin_add_overflow(a, b, &out)
                           : sign == "-" ? __builtin_sub_overflow(a, b, &out)
                                         : __builtin_mul_overflow(a, b, &out);
    if (overflows) return too_large(sign);
    return Value::whole(out);
  }
  if (sign == "**") {
    if (b < 0) {
      if (a == 0) return invalid_argument("division by zero");
      return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
    }
    out = 1;
    if (a == 0 || a == 1) return Value::whole(b == 0 ? 1 : a);
    if (a == -1) return Value::whole(b % 2 == 0 ? 1 : -1);
    for (int64_t i = 0; i < b; ++i)
      if (__builtin_mul_overflow(out, a, &out)) return too_large(sign);
    return Value::whole(out);
  }
  if (b == 0) return invalid_argument("division by zero");
  if (sign == "/") {
    constexpr int64_t kExact = int64_t{1} << 53;
    if (a > kExact || a < -kExact || b > kExact || b < -kExact) return too_large(sign);
    return Value::real(static_cast<double>(a) / static_cast<double>(b));
  }
  if (b == -1) {
    if (sign == "%") return Value::whole(0);
    if (__builtin_sub_overflow(int64_t{0}, a, &out)) return too_large(sign);
    return Value::whole(out);
  }
  // Rounded down; the remainder has the sign of the divisor.
  int64_t quotient = a / b, remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    --quotient;
    remainder += b;
  }
  return Value::whole(sign == "%" ? remainder : quotient);
}

Result<Value> binary_real(std::string_view sign, double a, double b) {
  if (sign == "+") return Value::real(a + b);
  if (sign == "-") return Value::real(a - b);
  if (sign == "*") return Value::real(a * b);
  if (sign == "**") {
    if (a == 0 && b < 0) return invalid_argument("division by zero");
    if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
      return unsupported("a negative number ** a fraction is not supported");
    const double out = std::pow(a, b);
    if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) return too_large(sign);
    return Value::real(out);
  }
  if (b == 0) return invalid_argument("division by zero");
  if (sign == "/") return Value::real(a / b);
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (sign == "%") return Value::real(remainder);
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  const double floor = std::floor(quotient);
  return Value::real(quotient - floor > 0.5 ? floor + 1 : floor);
}

Result<Value> repeated(Meter& meter, const Value& of, int64_t times) {
  const auto count = static_cast<uint64_t>(std::max<int64_t>(times, 0));
  if (const std::string* text = of.as_text()) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(text->size(), count, &bytes)) return too_large("*");
    HG_TRY(meter.grow(bytes));
    std::string out;
    for (uint64_t i = 0; i < count && !text->empty(); ++i) out += *text;
    return Value::text(std::move(out));
  }
  const Sequence& sequence = *of.as_sequence();
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(sequence.items.size() * sizeof(Value), count, &bytes))
    return too_large("*");
  HG_TRY(meter.grow(bytes));
  std::vector<Value> items;
  for (uint64_t i = 0; i < count && !sequence.items.empty(); ++i)
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  return make_sequence(meter, std::move(items), sequence.kind);
}

bool is_list_or_tuple(const Value& value) {
  const Sequence* sequence = value.as_sequence();
  return sequence != nullptr &&
         (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple);
}

}  // namespace

Result<Value> binary(Meter& meter, std::string_view sign, const Value& a, const Value& b) {
  for (const Value* one : {&a, &b}) {
    if (one->is_undefined()) return undefined_error(*one);
    if (one->is_safe()) return unsupported("a result of the filter 'safe' can only be printed");
  }
  if (a.is_number() && b.is_number()) {
    if (a.as_real() != nullptr || b.as_real() != nullptr)
      return binary_real(sign, *a.number(), *b.number());
    return binary_whole(sign, *a.integer(), *b.integer());
  }
  const std::string *text_a = a.as_text(), *text_b = b.as_text();
  if (sign == "+" && text_a != nullptr && text_b != nullptr) {
    HG_TRY(meter.grow(text_a->size() + text_b->size()));
    return Value::text(*text_a + *text_b);
  }
  if (sign == "+" && is_list_or_tuple(a) && is_list_or_tuple(b) &&
      a.as_sequence()->kind == b.as_sequence()->kind) {
    const auto &left = a.as_sequence()->items, &right = b.as_sequence()->items;
    HG_TRY(meter.grow((left.size() + right.size()) * sizeof(Value)));
    std::vector<Value> items = left;
    items.insert(items.end(), right.begin(), right.end());
    return make_sequence(meter, std::move(items), a.as_sequence()->kind);
  }
  if (sign == "*") {
    if ((text_a != nullptr || is_list_or_tuple(a)) && b.integer())
      return repeated(meter, a, *b.integer());
    if ((text_b != nullptr || is_list_or_tuple(b)) && a.integer())
      return repeated(meter, b, *a.integer());
  }
  if (sign == "%" && text_a != nullptr)
    return unsupported("formatting a text with '%' is not supported");
  return invalid_argument("'", sign, "' is not possible between ", type_name(a), " and ",
                          type_name(b));
}

Result<Value> unary(std::string_view sign, const Value& of) {
  if (of.is_undefined()) return undefined_error(of);
  if (const double* real = of.as_real()) return Value::real(sign == "-" ? -*real : *real);
  const auto whole = of.integer();
  if (!whole) return invalid_argument("'", sign, "' is not possible for ", type_name(of));
  if (sign == "+") return Value::whole(*whole);
  return binary_whole("-", 0, *whole);
}

namespace {

Result<bool> contains(Meter& meter, const Value& list, const Value& item) {
  if (list.is_undefined()) return false;
  if (const std::string* text = list.as_text()) {
    const std::string* part = item.as_text();
    if (part == nullptr) return invalid_argument("'in' a text needs a text, got ", type_name(item));
    HG_TRY(meter.spend(1 + text->size() * (1 + part->size() / 16) / 256));
    return text->find(*part) != std::string::npos;
  }
  if (const Dict* dict = list.as_dict()) {
    if (!item.is_none() && !item.is_number() && !item.is_text() && !item.is_undefined())
      return invalid_argument(type_name(item), " cannot be a key of a dict");
    HG_TRY_ASSIGN(const Value* found, find(meter, *dict, item));
    return found != nullptr;
  }
  const Sequence* sequence = list.as_sequence();
  if (sequence == nullptr) return invalid_argument("'in' is not possible for ", type_name(list));
  HG_TRY_ASSIGN(const std::vector<Value> items, items_of(meter, list));
  for (const Value& one : items) {
    HG_TRY_ASSIGN(const bool same, equal(meter, one, item));
    if (!same) continue;
    sequence->read = Sequence::Read::part;
    return true;
  }
  return false;
}

}  // namespace

Result<bool> compare(Meter& meter, std::string_view sign, const Value& a, const Value& b) {
  if (sign == "==") return equal(meter, a, b);
  if (sign == "in") return contains(meter, b, a);
  if (sign == "!=" || sign == "not in") {
    HG_TRY_ASSIGN(const bool is, sign == "!=" ? equal(meter, a, b) : contains(meter, b, a));
    return !is;
  }
  for (const Value* one : {&a, &b})
    if (one->is_undefined()) return undefined_error(*one);
  if (sign == "<") return less(meter, a, b);
  if (sign == ">") return less(meter, b, a);
  HG_TRY_ASSIGN(const bool is_less, sign == "<=" ? less(meter, a, b) : less(meter, b, a));
  if (is_less) return true;
  return equal(meter, a, b);
}

Result<Value> subscript(RunState& state, const Value& of, const Value& key) {
  HG_TRY(state.meter.spend(1));
  if (of.is_undefined()) return undefined_error(of);
  const auto index = key.integer();
  const auto place = [&](size_t count) -> std::optional<size_t> {
    const auto size = static_cast<int64_t>(count);
    const int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) return std::nullopt;
    return static_cast<size_t>(at);
  };
  if (const Sequence* sequence = of.as_sequence(); sequence != nullptr && index) {
    using Kind = Sequence::Kind;
    if (sequence->kind != Kind::generator && sequence->kind != Kind::view)
      if (const auto at = place(sequence->items.size())) return sequence->items[*at];
    return Value::undefined(str_cat(type_name(of), " has no item ", *index));
  }
  if (const std::string* text = of.as_text(); text != nullptr && index) {
    if (of.is_safe()) return unsupported("a result of the filter 'safe' can only be printed");
    HG_TRY(state.meter.spend(text->size() / 64));
    const std::vector<std::string_view> all = characters(*text);
    if (const auto at = place(all.size())) return Value::text(std::string(all[*at]));
    return Value::undefined(str_cat("a text has no character ", *index));
  }
  if (const Dict* dict = of.as_dict()) {
    if (key.is_none() || key.is_number() || key.is_text()) {
      HG_TRY_ASSIGN(const Value* found, find(state.meter, *dict, key));
      if (found != nullptr) return *found;
    }
  }
  if (const std::string* name = key.as_text()) return attribute(state, of, *name);
  return Value::undefined(str_cat(type_name(of), " has no item for ", type_name(key)));
}

namespace {

Result<std::optional<int64_t>> bound(const Value* value) {
  if (value == nullptr || value->is_none()) return std::optional<int64_t>();
  if (const auto whole = value->integer()) return std::optional<int64_t>(*whole);
  return invalid_argument("the bounds of a slice must be integers, got ", type_name(*value));
}

}  // namespace

Result<Value> slice(Meter& meter, const Value& of, const Value* begin, const Value* end,
                    const Value* step) {
  if (of.is_undefined()) return undefined_error(of);
  if (of.is_safe()) return unsupported("a result of the filter 'safe' can only be printed");
  const std::string* text = of.as_text();
  const Sequence* sequence = of.as_sequence();
  using Kind = Sequence::Kind;
  if (text == nullptr &&
      (sequence == nullptr || sequence->kind == Kind::generator || sequence->kind == Kind::view))
    return invalid_argument(type_name(of), " has no slices");
  HG_TRY_ASSIGN(const auto first, bound(begin));
  HG_TRY_ASSIGN(const auto last, bound(end));
  HG_TRY_ASSIGN(const auto given_step, bound(step));
  const int64_t by = given_step.value_or(1);
  if (by == 0) return invalid_argument("the step of a slice is 0");
  std::vector<std::string_view> parts;
  if (text != nullptr) {
    HG_TRY(meter.grow(text->size() * sizeof(std::string_view)));
    parts = characters(*text);
  }
  const auto size = static_cast<int64_t>(text != nullptr ? parts.size() : sequence->items.size());
  // As in Python: negative bounds count from the end; bounds are clamped.
  const auto clamp = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    const int64_t low = by < 0 ? -1 : 0, high = by < 0 ? size - 1 : size;
    return *at < 0 ? std::max(*at + size, low) : std::min(*at, high);
  };
  const int64_t from = clamp(first, by < 0 ? size - 1 : 0);
  const int64_t to = clamp(last, by < 0 ? -1 : size);
  std::string out;
  std::vector<Value> items;
  for (int64_t at = from; by < 0 ? at > to : at < to;) {
    if (text != nullptr)
      out += parts[static_cast<size_t>(at)];
    else
      items.push_back(sequence->items[static_cast<size_t>(at)]);
    if (__builtin_add_overflow(at, by, &at)) break;
  }
  if (text != nullptr) {
    HG_TRY(meter.grow(out.size()));
    return Value::text(std::move(out));
  }
  return make_sequence(meter, std::move(items), sequence->kind);
}

}  // namespace hg::jinja
