// SPDX-License-Identifier: Apache-2.0
#include "hg/pointwise_program.h"

#include <algorithm>

#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/platform/chars.h"

namespace hg {
namespace {

// Removes and returns the text up to the separator, which is also removed.
std::string_view take(std::string_view& rest, std::string_view separator) {
  const size_t end = rest.find(separator);
  const std::string_view taken = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + separator.size());
  return taken;
}

template <class T>
bool parse_number(std::string_view text, T& to) {
  const auto [end, error] = from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size();
}

std::string text_of(const Attr& attr) {
  if (const double* number = std::get_if<double>(&attr.value)) {
    char digits[40];
    return std::string(digits, to_chars(digits, digits + sizeof digits, *number).ptr);
  }
  if (const bool* flag = std::get_if<bool>(&attr.value)) return *flag ? "true" : "false";
  if (const Dim* dim = std::get_if<Dim>(&attr.value)) return str_cat(dim->constant());
  if (const DType* dtype = std::get_if<DType>(&attr.value)) return std::string(to_string(*dtype));
  if (const std::string* word = std::get_if<std::string>(&attr.value)) return *word;
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value)) {
    std::string numbers;
    for (const Dim& dim : *dims) numbers += str_cat(numbers.empty() ? "" : ",", dim.constant());
    return numbers;
  }
  return "none";
}

bool parse_attr(AttrType type, std::string_view word, Attr& to) {
  switch (type) {
    case AttrType::boolean:
      to = Attr(word == "true");
      return word == "true" || word == "false";
    case AttrType::integer: {
      int64_t number = 0;
      const bool ok = parse_number(word, number);
      to = Attr(number);
      return ok;
    }
    case AttrType::real: {
      double number = 0;
      const bool ok = parse_number(word, number);
      to = Attr(number);
      return ok;
    }
    case AttrType::string:
      to = Attr(std::string(word));
      return true;
    case AttrType::dtype:
      for (int i = 0; i < kDTypeCount; ++i)
        if (to_string(static_cast<DType>(i)) == word) {
          to = Attr(static_cast<DType>(i));
          return true;
        }
      return false;
    case AttrType::integers: {
      std::vector<Dim> dims;
      while (!word.empty()) {
        int64_t number = 0;
        if (!parse_number(take(word, ","), number)) return false;
        dims.emplace_back(number);
      }
      to = Attr(std::move(dims));
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

bool PointwiseProgram::can_hold(const Attr& attr) {
  if (const Dim* dim = std::get_if<Dim>(&attr.value)) return dim->is_constant();
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value))
    return std::all_of(dims->begin(), dims->end(), [](const Dim& d) { return d.is_constant(); });
  if (const std::string* word = std::get_if<std::string>(&attr.value))
    return !word->empty() && word->find_first_of(" ;=") == std::string::npos && *word != "none";
  return attr.is_none() || std::holds_alternative<bool>(attr.value) ||
         std::holds_alternative<double>(attr.value) || std::holds_alternative<DType>(attr.value);
}

Result<PointwiseProgram> PointwiseProgram::parse(std::string_view text, int input_count,
                                                 const Registry& registry) {
  return or_no_memory([&]() -> Result<PointwiseProgram> {
    PointwiseProgram program;
    program.input_count = input_count;
    HG_CHECK(input_count >= 1 && input_count <= kMostInputs, "pointwise_program: it has ",
             input_count, " inputs, 1 to ", kMostInputs, " are allowed");
    while (!text.empty()) {
      std::string_view line = take(text, "; ");
      const auto count = static_cast<int>(program.steps.size());
      HG_CHECK(count < kMostSteps, "pointwise_program: it has more than ", kMostSteps, " steps");
      Step step;
      const std::string_view op = take(line, " ");
      step.op = registry.find(op);
      HG_CHECK(step.op != nullptr, "pointwise_program: step ", count, " is the unknown op '", op,
               "'");
      const Signature& signature = step.op->signature;
      for (const Signature::Attribute& attribute : signature.attributes)
        step.attrs.push_back(attribute.fallback);
      while (!line.empty()) {
        std::string_view word = take(line, " ");
        const size_t equals = word.find('=');
        if (equals != std::string_view::npos) {
          const int index = signature.find_attribute(word.substr(0, equals));
          HG_CHECK(index >= 0, "pointwise_program: step ", count, ", ", op,
                   ", has no attribute in '", word, "'");
          const auto at = static_cast<size_t>(index);
          const std::string_view value = word.substr(equals + 1);
          if (value == "none")
            step.attrs[at] = Attr();
          else
            HG_CHECK(parse_attr(signature.attributes[at].type, value, step.attrs[at]),
                     "pointwise_program: step ", count, ", ", op, ", cannot have '", word, "'");
          continue;
        }
        int arg = kAbsent;
        if (word != "-") {
          const bool is_step = word.substr(0, 1) == "s";
          HG_CHECK((is_step || word.substr(0, 1) == "x") && parse_number(word.substr(1), arg) &&
                       arg >= 0 && arg < (is_step ? count : input_count),
                   "pointwise_program: step ", count, ", ", op, ", reads '", word, "' of ",
                   input_count, " inputs and ", count, " steps before it");
          if (is_step) arg += input_count;
        }
        step.args.push_back(arg);
      }
      HG_CHECK(step.args.size() == signature.inputs.size(), "pointwise_program: step ", count, ", ",
               op, ", has ", static_cast<int64_t>(step.args.size()), " inputs, not ",
               static_cast<int64_t>(signature.inputs.size()));
      program.steps.push_back(std::move(step));
    }
    HG_CHECK(!program.steps.empty(), "pointwise_program: it has no step");
    return program;
  });
}

std::string PointwiseProgram::text() const {
  std::string out;
  for (const Step& step : steps) {
    if (!out.empty()) out += "; ";
    out += step.op->name();
    for (const int arg : step.args) {
      if (arg == kAbsent)
        out += " -";
      else
        out += arg < input_count ? str_cat(" x", arg) : str_cat(" s", arg - input_count);
    }
    for (size_t i = 0; i < step.attrs.size(); ++i) {
      const Signature::Attribute& attribute = step.op->signature.attributes[i];
      if (attribute.required || !(step.attrs[i] == attribute.fallback))
        out += str_cat(" ", attribute.name, "=", text_of(step.attrs[i]));
    }
  }
  return out;
}

Status PointwiseProgram::infer_dtypes(std::span<const DType> inputs) {
  return or_no_memory([&]() -> Status {
    std::vector<TensorType> types;
    for (const DType dtype : inputs) types.push_back({dtype, {Dim(1)}});
    for (const Step& step : steps) types.push_back({step.dtype, {Dim(1)}});
    const Origin origin;
    for (size_t k = 0; k < steps.size(); ++k) {
      Step& step = steps[k];
      GraphAccess::InferCall call;
      call.op = step.op;
      call.attrs = step.attrs;
      call.origin = &origin;
      for (const int arg : step.args) call.inputs.push_back(arg == kAbsent ? nullptr : &types[arg]);
      call.constants.resize(call.inputs.size());
      HG_TRY_ASSIGN(const std::vector<TensorType> result, GraphAccess::infer(call));
      HG_CHECK(result.size() == 1, "pointwise_program: step ", static_cast<int64_t>(k), ", ",
               step.op->name(), ", has ", static_cast<int64_t>(result.size()), " results, not 1");
      step.dtype = result[0].dtype;
      types[inputs.size() + k].dtype = step.dtype;
    }
    return {};
  });
}

}  // namespace hg
