// SPDX-License-Identifier: Apache-2.0
#include "lib/text/jinja/functions.h"

#include <cstdio>

#include "lib/text/jinja/operators.h"

namespace hg::jinja {
namespace {

constexpr int64_t kMostOfRange = 100000;  // limit of jinja2's sandbox

Result<Value> make_range(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"start", "stop", "step"}, 1));
  if (!call.named.empty()) return invalid_argument("range() takes no named arguments");
  int64_t bounds[] = {0, 0, 1};
  for (size_t i = 0; i < call.in_order.size(); ++i) {
    HG_TRY_ASSIGN(bounds[i], whole_argument(*given[i], "range"));
  }
  auto [begin, end, step] = bounds;
  if (call.in_order.size() == 1) std::swap(begin, end);
  if (step == 0) return invalid_argument("the step of range() is 0");
  std::vector<Value> items;
  for (int64_t at = begin; step < 0 ? at > end : at < end;) {
    if (static_cast<int64_t>(items.size()) == kMostOfRange)
      return invalid_argument("range() has more than ", kMostOfRange, " items");
    HG_TRY(call.meter().spend(1));
    items.push_back(Value::whole(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return make_sequence(call.meter(), std::move(items), Sequence::Kind::range);
}

// Items from the arguments of dict() and namespace().
Result<std::vector<std::pair<Value, Value>>> items_of_call(Call& call) {
  std::vector<std::pair<Value, Value>> items;
  if (call.in_order.size() > 1) return invalid_argument("it takes at most one value");
  if (!call.in_order.empty()) {
    const Dict* dict = call.in_order[0].as_dict();
    if (dict == nullptr)
      return unsupported("it supports a dict as its value, got ", type_name(call.in_order[0]));
    HG_TRY(call.meter().grow(dict->items.size() * 2 * sizeof(Value)));
    items = dict->items;
  }
  for (const auto& [name, value] : call.named) items.emplace_back(Value::text(name), value);
  return items;
}

Result<Value> make_dict_of_call(Call& call) {
  HG_TRY_ASSIGN(auto items, items_of_call(call));
  return make_dict(call.meter(), std::move(items));
}

Result<Value> make_namespace(Call& call) {
  HG_TRY_ASSIGN(auto items, items_of_call(call));
  HG_TRY_ASSIGN(const Value dict, make_dict(call.meter(), std::move(items)));
  auto made = std::make_unique<Namespace>();
  for (const auto& [key, value] : dict.as_dict()->items) {
    if (!key.is_text()) return invalid_argument("the names of a namespace must be texts");
    made->items.emplace_back(*key.as_text(), value);
  }
  Namespace* const space = made.get();
  HG_TRY(call.meter().grow(sizeof(Namespace)));
  call.state.namespaces.push_back(std::move(made));
  return Value(Value::Any(space));
}

// The template rejects the conversation.
Result<Value> raise_exception(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"message"}, 1));
  std::string message;
  HG_TRY(append_str(call.meter(), message, *given[0]));
  return invalid_argument("the template rejects the messages: ", message);
}

Result<Value> strftime_now(Call& call) {
  constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
  constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};
  HG_TRY_ASSIGN(const auto given, call.take({"format"}, 1));
  HG_TRY_ASSIGN(const std::string* format, text_argument(*given[0], "format"));
  const std::tm* now = call.state.now;
  if (now == nullptr)
    return invalid_argument("the template asks for the date, which the caller did not give");
  if (now->tm_wday < 0 || now->tm_wday > 6 || now->tm_mon < 0 || now->tm_mon > 11)
    return invalid_argument("the date that the caller gave is invalid");
  std::string out;
  const auto digits = [&](int number, int count) {
    char buffer[16];
    std::snprintf(buffer, sizeof buffer, "%0*d", count, number);
    out += buffer;
  };
  for (size_t i = 0; i < format->size(); ++i) {
    const char c = (*format)[i];
    if (c != '%') {
      out += c;
      continue;
    }
    const std::string_view kind = std::string_view(*format).substr(i + 1, 1);
    ++i;
    const std::string_view day = kDays[now->tm_wday], month = kMonths[now->tm_mon];
    if (kind == "d")
      digits(now->tm_mday, 2);
    else if (kind == "m")
      digits(now->tm_mon + 1, 2);
    else if (kind == "Y")
      digits(now->tm_year + 1900, 4);
    else if (kind == "y")
      digits(now->tm_year % 100, 2);
    else if (kind == "H")
      digits(now->tm_hour, 2);
    else if (kind == "I")
      digits(now->tm_hour % 12 == 0 ? 12 : now->tm_hour % 12, 2);
    else if (kind == "M")
      digits(now->tm_min, 2);
    else if (kind == "S")
      digits(now->tm_sec, 2);
    else if (kind == "j")
      digits(now->tm_yday + 1, 3);
    else if (kind == "p")
      out += now->tm_hour < 12 ? "AM" : "PM";
    else if (kind == "A")
      out += day;
    else if (kind == "a")
      out += day.substr(0, 3);
    else if (kind == "B")
      out += month;
    else if (kind == "b")
      out += month.substr(0, 3);
    else if (kind == "%")
      out += '%';
    else
      return unsupported("'%", kind, "' of strftime_now() is not supported");
    HG_TRY(call.meter().grow(16));
  }
  return Value::text(std::move(out));
}

using Run = Result<Value> (*)(Call&);
constexpr std::pair<std::string_view, Run> kFunctions[] = {
    {"dict", make_dict_of_call},          {"namespace", make_namespace},
    {"raise_exception", raise_exception}, {"range", make_range},
    {"strftime_now", strftime_now},
};

}  // namespace

Result<Value> find_function(std::string_view name) {
  for (const auto& [known, run] : kFunctions)
    if (known == name)
      return Value(Value::Any(std::make_shared<const Function>(Function{std::string(name), run})));
  for (const std::string_view other : {"cycler", "joiner", "lipsum", "self"})
    if (other == name) return unsupported("the function '", name, "' is not supported");
  return Value::undefined(str_cat("'", name, "' is undefined"));
}

}  // namespace hg::jinja
