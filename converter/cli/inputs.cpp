// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/inputs.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "converter/core/failure.h"
#include "converter/core/input_paths.h"
#include "converter/core/type_names.h"
#include "lib/graph/access.h"

namespace hg::convert {
namespace {

// Returns the replacement of the symbol; null if there is none yet.
const Dim* find(const Renamed& renamed, std::string_view symbol) {
  const auto found = std::find_if(renamed.begin(), renamed.end(),
                                  [&](const auto& each) { return each.first == symbol; });
  return found == renamed.end() ? nullptr : &found->second;
}

// If one symbol of an expression has no replacement yet, and replacing it by the only new symbol of
// the other expression makes both equal, records the replacement.
void rename_inside(const Dim& from, const Dim& to, Renamed& renamed) {
  std::vector<std::string> old, fresh;
  from.collect_symbols(old);
  to.collect_symbols(fresh);
  std::erase_if(old, [&](const std::string& symbol) { return find(renamed, symbol) != nullptr; });
  std::erase_if(fresh, [&](const std::string& symbol) {
    return std::any_of(renamed.begin(), renamed.end(),
                       [&](const auto& each) { return each.second.symbol() == symbol; });
  });
  if (old.size() != 1 || fresh.size() != 1) return;
  renamed.emplace_back(old[0], Dim(std::string_view(fresh[0])));
  const Result<Dim> want = renamed_dim(from, renamed);
  if (!want.ok() || !(*want == to)) renamed.pop_back();
}

// A tensor argument of forward. Lists and dicts accept any number, and are `open`.
struct Leaf {
  std::string name, type;
  bool optional = false, open = false;
  ScriptId id = -1;                    // for a plain tensor argument
  const ScriptInput* input = nullptr;  // the input, if it is this tensor alone
};

void add_leaves(const std::string& name, const std::string& type, bool optional, ScriptId id,
                std::vector<Leaf>& out) {
  if (const auto inner = inside_of(type, "Optional"))
    return add_leaves(name, *inner, true, id, out);
  if (const auto inner = inside_of(type, "Tuple")) {
    int64_t k = 0;
    for (const NamedType& element : split_types(*inner)) {
      add_leaves(element.name.empty() ? str_cat(name, "_", k) : element.name, element.type,
                 optional, -1, out);
      ++k;
    }
    return;
  }
  const bool open = type.starts_with("List[") || type.starts_with("Dict[");
  out.push_back({name, type, optional, open, id});
}

std::vector<Leaf> leaves_of(const ScriptProgram& program) {
  std::vector<Leaf> leaves;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ScriptInput& input = program.inputs[i];
    if (input.is_constant) continue;
    add_leaves(input.name, input.type, input.has_default, program.body.inputs.at(i + 1), leaves);
    if (input.known) leaves.back().input = &input;
  }
  return leaves;
}

// Infers shapes from the first layer that uses an input.
class Guess {
 public:
  explicit Guess(const ScriptProgram& program) : program_(program) {
    items_[program.body.inputs.at(0)] = Item(program.root);
    collect(program.body);
  }

  std::optional<TensorType> of(ScriptId input) const { return search(program_.body, input); }

 private:
  void collect(const ScriptBlock& block) {
    for (const ScriptNode& node : block.nodes) {
      if (node.kind == "prim::Constant") items_[node.outputs[0]] = node.constant;
      if (node.kind == "prim::GetAttr") {
        auto owner = items_.find(node.inputs[0]);
        if (owner != items_.end() && owner->second.is_object())
          for (const auto& [name, item] :
               std::get<std::shared_ptr<Object>>(owner->second.value)->attributes)
            if (name == node.attribute) items_[node.outputs[0]] = item;
      }
      for (const ScriptBlock& inner : node.blocks) collect(inner);
    }
  }

  const Item* argument(const ScriptNode& node, std::string_view name) const {
    for (size_t i = 0; i < node.argument_names.size() && i < node.inputs.size(); ++i)
      if (node.argument_names[i] == name) {
        auto found = items_.find(node.inputs[i]);
        return found == items_.end() ? nullptr : &found->second;
      }
    return nullptr;
  }

  std::optional<TensorType> search(const ScriptBlock& block, ScriptId input) const {
    for (const ScriptNode& node : block.nodes) {
      if (std::find(node.inputs.begin(), node.inputs.end(), input) != node.inputs.end()) {
        if (auto type = from(node)) return type;
        // The same values and shape.
        if ((node.kind == "aten::to" || node.kind == "aten::contiguous") && node.inputs[0] == input)
          if (auto type = search(program_.body, node.outputs[0])) return type;
      }
      for (const ScriptBlock& inner : node.blocks)
        if (auto type = search(inner, input)) return type;
    }
    return std::nullopt;
  }

  std::optional<TensorType> from(const ScriptNode& node) const {
    const Item* item = argument(node, "weight");
    const auto* tensor = item ? std::get_if<ScriptTensorIndex>(&item->value) : nullptr;
    if (!tensor || tensor->index < 0) return std::nullopt;
    const Tensor& weight = program_.tensors[tensor->index].data.tensor;
    if (node.kind == "aten::embedding") return TensorType{i64, {"n", "s"}};
    if (node.kind == "aten::linear" && weight.rank() == 2)
      return TensorType{weight.dtype, {"n", weight.shape[1]}};
    bool conv = node.kind == "aten::_convolution" || node.kind == "aten::conv1d" ||
                node.kind == "aten::conv2d" || node.kind == "aten::conv3d";
    if (!conv || weight.rank() < 3 || weight.rank() > 5) return std::nullopt;
    const Item* transposed = argument(node, "transposed");
    if (transposed && transposed->is_bool() && std::get<bool>(transposed->value))
      return std::nullopt;
    const Item* groups = argument(node, "groups");
    Dim count = groups && groups->is_int() ? std::get<Dim>(groups->value) : Dim(1);
    Shape shape = {"n", Dim(weight.shape[1]) * count};
    if (weight.rank() == 3) shape.push_back("t");
    if (weight.rank() == 5) shape.push_back("d");
    if (weight.rank() >= 4) shape.insert(shape.end(), {"h", "w"});
    return TensorType{weight.dtype, shape};
  }

  const ScriptProgram& program_;
  std::unordered_map<ScriptId, Item> items_;
};

std::string option_text(const Leaf& leaf, const std::optional<TensorType>& type) {
  if (!type && takes_constant(leaf.type)) {
    const std::string_view dtype = leaf.type == "float"  ? "f64"
                                   : leaf.type == "int"  ? "i64"
                                   : leaf.type == "bool" ? "bool"
                                                         : "";
    const std::string constant = str_cat("--constant ", leaf.name, "=...");
    return dtype.empty() ? constant
                         : str_cat(constant, " or --input '", leaf.name, ":", dtype, "[]'");
  }
  return str_cat("--input '", leaf.name, ":", type ? str_cat(*type) : std::string("f32[...]"), "'");
}

std::vector<InputOption> infer(const ScriptProgram& program, const std::vector<Leaf>& leaves,
                               std::string& note) {
  Guess guess(program);
  std::vector<InputOption> result;
  std::string options;
  bool all = true, guessed = false;
  for (const Leaf& leaf : leaves) {
    if (leaf.optional) continue;
    std::optional<TensorType> type;
    if (leaf.input) type = leaf.input->known;
    guessed = guessed || !type;
    if (!type && leaf.type == "Tensor" && leaf.id >= 0) type = guess.of(leaf.id);
    if (!type && leaf.type == "int") type = TensorType{i64, {}};
    all = all && type;
    options += str_cat(" ", option_text(leaf, type));
    if (type)
      result.push_back(
          {{leaf.name, *type}, leaf.input ? checked_numbers(*leaf.input) : std::nullopt});
  }
  if (!all)
    throw Failure{Exit::usage, str_cat("the model takes (", describe_inputs(program),
                                       "), and the file does not say their shapes; add", options,
                                       ", with names such as n for sizes that may vary")};
  if (guessed && !options.empty())
    note = str_cat("no --input was given; from the first layers:", options);
  return result;
}

}  // namespace

Result<Dim> renamed_dim(const Dim& dim, const Renamed& renamed) {
  const std::string from = str_cat(dim);
  std::string to;
  const auto part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (size_t at = 0; at < from.size();) {
    size_t end = at;
    while (end < from.size() && part(from[end])) ++end;
    const std::string word = from.substr(at, std::max<size_t>(end - at, 1));
    const Dim* found = find(renamed, word);
    to += found ? str_cat("(", *found, ")") : word;
    at += word.size();
  }
  return Dim::parse(to);
}

std::string suggested_inputs(const ScriptProgram& program) {
  Guess guess(program);
  std::string out;
  for (const Leaf& leaf : leaves_of(program)) {
    std::optional<TensorType> type;
    if (leaf.type == "Tensor" && leaf.id >= 0) type = guess.of(leaf.id);
    if (type) out += str_cat(out.empty() ? "" : " ", option_text(leaf, type));
  }
  return out;
}

std::string describe_inputs(const ScriptProgram& program) {
  std::string out;
  for (const ScriptInput& input : program.inputs)
    out += str_cat(out.empty() ? "" : ", ", input.name, ": ", input.type);
  return out;
}

std::vector<InputOption> fit_inputs(const ScriptProgram& program, std::vector<InputOption> options,
                                    std::string& note) {
  std::vector<Leaf> leaves = leaves_of(program);
  // The user chooses names of entries in lists and dicts, and paths into arguments.
  const bool open =
      std::any_of(leaves.begin(), leaves.end(), [](const Leaf& l) { return l.open; }) ||
      std::any_of(options.begin(), options.end(), [](const InputOption& option) {
        return option.spec.name.find('.') != std::string::npos;
      });
  if (options.empty()) return leaves.empty() ? options : infer(program, leaves, note);
  if (open) return options;

  std::vector<std::optional<InputOption>> placed(leaves.size());
  std::vector<std::string> names;
  for (const Leaf& leaf : leaves) names.push_back(leaf.name);
  // The elements of a tuple may have any names, in order.
  const bool own_names =
      std::any_of(leaves.begin(), leaves.end(), [](auto& l) { return l.id < 0; }) &&
      options.size() <= leaves.size() &&
      std::any_of(options.begin(), options.end(), [&](const auto& option) {
        return !option.spec.name.empty() &&
               std::find(names.begin(), names.end(), option.spec.name) == names.end();
      });
  for (InputOption& option : options) {
    const std::string& name = option.spec.name;
    if (name.empty() || own_names) continue;
    size_t at = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size()) {
      std::string close = closest_name(name, names);
      throw Failure{Exit::usage, str_cat("the model has no input '", name, "'",
                                         close.empty() ? "" : ", did you mean '" + close + "'",
                                         "; it takes (", describe_inputs(program), ")")};
    }
    if (placed[at]) throw Failure{Exit::usage, str_cat("--input '", name, "' is given twice")};
    placed[at] = option;
  }
  size_t next = 0;
  for (InputOption& option : options) {
    if (!option.spec.name.empty() && !own_names) continue;
    while (next < placed.size() && placed[next]) ++next;
    if (next == placed.size())
      throw Failure{Exit::usage, str_cat(static_cast<int64_t>(options.size()),
                                         " --input options are given, but the model takes ",
                                         static_cast<int64_t>(leaves.size()), ": (",
                                         describe_inputs(program), ")")};
    placed[next] = option;
  }
  std::vector<InputOption> result;
  Renamed renamed;
  for (size_t i = 0; i < placed.size(); ++i) {
    if (const ScriptInput* input = leaves[i].input) {
      if (!placed[i]) placed[i] = InputOption{{input->name, *input->known}, std::nullopt};
      require_narrower(*placed[i], *input, renamed);
    }
    if (placed[i]) {
      // The name identifies the argument if optional arguments before it are omitted.
      if (leaves[i].id >= 0 && placed[i]->spec.name.empty()) placed[i]->spec.name = leaves[i].name;
      result.push_back(*placed[i]);
    } else if (!leaves[i].optional) {
      Guess guess(program);
      std::optional<TensorType> type;
      if (leaves[i].id >= 0) type = guess.of(leaves[i].id);
      throw Failure{Exit::usage, str_cat("the input '", leaves[i].name, "' (", leaves[i].type,
                                         ") has no --input; add ", option_text(leaves[i], type))};
    }
  }
  return result;
}

void rename_inputs(Graph& graph, std::vector<InputOption>& options) {
  std::vector<std::pair<ValueId, std::string>> renamed;
  for (size_t i = 0; i < options.size(); ++i) {
    InputOption& option = options[i];
    if (option.new_name.empty()) continue;
    const ValueId id = graph.inputs()[i];
    option.spec.name = graph.value_info(id).name;
    GraphAccess::rename(graph, id, "renamed");  // two inputs may exchange names
    renamed.emplace_back(id, option.new_name);
  }
  for (const auto& [id, name] : renamed) {
    GraphAccess::rename(graph, id, name);
    if (graph.value_info(id).name != name)
      throw Failure{Exit::usage, str_cat("--input '", name, "=...': the model has a value named '",
                                         name, "' already")};
  }
}

std::optional<std::pair<double, double>> checked_numbers(const ScriptInput& input) {
  if (!input.numbers) return std::nullopt;
  constexpr int64_t kFurther = 62;  // length of a range without an end
  const auto [smallest, largest] = *input.numbers;
  const int64_t from = std::max(smallest, -kFurther);
  const int64_t to = std::max(from, std::min(largest, from + kFurther));
  return std::pair(static_cast<double>(from), static_cast<double>(to));
}

void require_narrower(InputOption& option, const ScriptInput& input, Renamed& renamed) {
  const TensorType &given = option.spec.type, &known = *input.known;
  const auto fail = [&](const std::string& why) {
    return Failure{Exit::usage,
                   str_cat("--input '", input.name, "': ", why, "; the program takes ", known)};
  };
  if (given.dtype != known.dtype)
    throw fail(str_cat("the program's dtype is ", known.dtype, ", not ", given.dtype));
  if (given.rank() != known.rank())
    throw fail(str_cat("the program's rank is ", known.rank(), ", not ", given.rank()));
  for (int d = 0; d < given.rank(); ++d) {
    const Dim& from = known.shape[d];
    const Dim& to = given.shape[d];
    const std::string symbol(from.symbol());
    if (!symbol.empty() && !find(renamed, symbol)) {
      renamed.emplace_back(symbol, to);
      continue;
    }
    rename_inside(from, to, renamed);
    const Result<Dim> want = renamed_dim(from, renamed);
    if (!want.ok()) throw fail(std::string(want.status().message()));
    // A name for a size that other sizes determine, such as that of a mask, is this size.
    const bool is_other_name = symbol.empty() && !from.is_constant() && !to.symbol().empty() &&
                               std::none_of(renamed.begin(), renamed.end(),
                                            [&](const auto& each) { return each.second == to; });
    if (is_other_name) option.spec.type.shape[static_cast<size_t>(d)] = *want;
    if (!is_other_name && !(*want == to))
      throw fail(str_cat("size ", d, " is ", *want, " in the program, not ", to));
  }
  if (!option.range) option.range = checked_numbers(input);
}

}  // namespace hg::convert
