// SPDX-License-Identifier: Apache-2.0
#include "converter/core/custom.h"

#include <algorithm>

#include "converter/core/failure.h"

namespace hg::convert {
namespace {

constexpr std::string_view kLike = "like_";  // prefix of a result's declaration
constexpr std::string_view kExample = "write it like 'acme.wave(x, gain: float = 1) -> like x'";

template <class... Parts>
[[noreturn]] void usage(std::string_view text_given, const Parts&... parts) {
  throw Failure{Exit::usage, str_cat("--custom '", text_given, "' ", parts...)};
}

std::string replaced(std::string_view from, std::string_view what, std::string_view by) {
  std::string out(from);
  if (const size_t at = out.find(what); at != std::string::npos) out.replace(at, what.size(), by);
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

int liked(const Op& op, size_t output) {
  return op.signature.find_input(op.signature.outputs[output].substr(kLike.size()));
}

Status infer(InferContext& c) {
  const Op& op = c.attrs().op();
  for (int i = 0; i < c.output_count(); ++i) c.out(i) = c.in(liked(op, static_cast<size_t>(i)));
  return {};
}

Status stand_in(ExpandContext& c) {
  const Op& op = c.attrs().op();
  for (size_t i = 0; i < op.signature.outputs.size(); ++i)
    c.set_out(static_cast<int>(i), c.in(liked(op, i)));
  return {};
}

}  // namespace

std::string CustomOp::kind() const { return replaced(name, ".", "::"); }

CustomOp parse_custom(std::string_view given) {
  const std::string whole = replaced(given, "::", ".");
  std::string_view rest = trim(whole);
  CustomOp custom;
  custom.bare = rest.find_first_of("(->") == std::string_view::npos;
  const size_t arrow = rest.find("->");
  if (!custom.bare && arrow == std::string_view::npos)
    usage(given, "does not say what its results are like; ", kExample);
  std::string head =
      custom.bare ? str_cat(rest, "(xs...)") : std::string(trim(rest.substr(0, arrow)));
  std::string_view results = custom.bare ? std::string_view("like xs") : rest.substr(arrow + 2);
  std::vector<std::string> names;
  for (size_t start = 0; start <= results.size();) {
    const size_t end = std::min(results.find(',', start), results.size());
    std::string_view result = trim(results.substr(start, end - start));
    start = end + 1;
    if (!result.starts_with("like "))
      usage(given, "has the result '", result, "', which names no input; ", kExample,
            "; an op whose result has a shape of its own cannot be declared");
    names.emplace_back(trim(result.substr(5)));
    head += str_cat(names.size() == 1 ? " -> " : ", ", kLike, names.back());
  }
  Result<Signature> signature = Signature::parse(head);
  if (!signature.ok()) usage(given, "is no signature: ", signature.status().message());
  custom.name = signature->name;
  custom.signature = head;
  const size_t dot = custom.name.find('.');
  if (dot == 0 || dot == std::string::npos || custom.name.find('.', dot + 1) != std::string::npos ||
      custom.name.ends_with('.'))
    usage(given, "has the name '", custom.name, "', not one of the form acme.wave");
  if (custom.name.ends_with('_'))
    usage(given, "is an op that writes to its input, which has no node; give it a result instead");
  for (const std::string& name : names) {
    const int input = signature->find_input(name);
    if (input < 0) usage(given, "has a result like '", name, "', which is no input");
    if (signature->inputs[input].optional)
      usage(given, "has a result like '", name, "', which may be missing");
    custom.likes.emplace_back(name, input);
  }
  return custom;
}

CustomRegistry::CustomRegistry(const std::vector<CustomOp>& ops) : ops_(ops.begin(), ops.end()) {
  for (const CustomOp& op : ops_) {
    OpDef row;
    row.name = op.name;
    row.signature = op.signature;
    row.infer = infer;
    row.expand = stand_in;
    if (Status status = registry_.add(row); !status.ok())
      throw Failure{Exit::usage, str_cat("--custom: ", status.message())};
  }
}

const Op* find_custom(const Registry& registry, std::string_view kind) {
  if (kind.find("::") == std::string_view::npos) return nullptr;
  return registry.find(replaced(kind, "::", "."));
}

}  // namespace hg::convert
