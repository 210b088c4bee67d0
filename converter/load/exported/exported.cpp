// SPDX-License-Identifier: Apache-2.0
// Reads an exported program's archive and signature: which graph inputs are parameters, buffers,
// constants or user inputs, and which outputs are written back to buffers.
#include "converter/load/exported/exported.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "converter/aten/table.h"
#include "converter/core/failure.h"
#include "converter/core/json_error.h"
#include "converter/load/exported/affine.h"
#include "converter/load/exported/archive.h"
#include "converter/load/exported/graph.h"
#include "converter/load/exported/guards.h"
#include "converter/load/exported/leaves.h"
#include "converter/load/exported/size_expression.h"
#include "converter/load/exported/unused_numbers.h"
#include "converter/load/exported/weights.h"
#include "converter/load/levels.h"
#include "converter/rows/rows.h"

namespace hg::convert {
namespace {

using Json = nlohmann::json;
using Value = ExportedGraph::Value;

// PyTorch before 2.7 writes Infinity and NaN unquoted, which is not JSON. Returns the JSON with
// these quoted, as newer versions write them.
std::string quoted(const std::string& json) {
  if (json.find("Infinity") == json.npos && json.find("NaN") == json.npos) return json;
  std::string result;
  bool inside = false;
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (inside && c == '\\' && at + 1 < json.size()) {
      result += c;
      result += json[++at];
      continue;
    }
    if (c == '"') inside = !inside;
    size_t length = 0;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
      if (!inside && length == 0 && json.compare(at, word.size(), word) == 0) length = word.size();
    if (length == 0) {
      result += c;
      continue;
    }
    result += '"' + json.substr(at, length) + '"';
    at += length - 1;
  }
  return result;
}

// Returns the name from "models/NAME.json". If an archive has several programs, returns "model" if
// one has that name, and fails otherwise. Returns "" for an archive of PyTorch 2.5 to 2.7, which
// contains one program without a name.
std::string model_name(const Archive& archive) {
  if (archive.has(kProgramBefore28)) return "";
  std::vector<std::string> names;
  for (const auto& [record, size] : archive.sizes())
    if (record.starts_with("models/") && record.ends_with(".json"))
      names.push_back(record.substr(7, record.size() - 12));
  if (names.size() == 1) return names[0];
  if (std::find(names.begin(), names.end(), "model") != names.end()) return "model";
  const auto& all = archive.sizes();
  const auto starts = [&](const char* folder) {
    const auto at = all.lower_bound(folder);
    return at != all.end() && at->first.starts_with(folder);
  };
  if (names.empty() && starts("data/aotinductor/"))
    throw Failure{Exit::unreadable,
                  str_cat(archive.label(),
                          " holds a library that AOTInductor compiled, which has no "
                          "graph; save the program itself: "
                          "torch.export.save(torch.export.export(model, inputs), "
                          "\"model.pt2\")")};
  if (names.empty())
    throw Failure{Exit::unreadable,
                  str_cat(archive.label(), " holds no program (models/*.json); save it again")};
  std::string listed;
  for (const std::string& name : names) listed += (listed.empty() ? "'" : ", '") + name + "'";
  throw Failure{Exit::unreadable, str_cat(archive.label(), " holds several programs (", listed,
                                          "); save one of them as a file of its own")};
}

class ProgramReader {
 public:
  ProgramReader(const Archive& archive, const std::string& model, ScriptProgram& program)
      : archive_(archive),
        all_(Json::parse(quoted(archive.text_of(
            model.empty() ? kProgramBefore28 : str_cat("models/", model, ".json"))))),
        program_(program),
        weights_(archive, model, program),
        graph_(program) {}

  void read() {
    check_version();
    program_.root = std::make_shared<Object>();
    program_.root->type = "exported program";
    program_.body.inputs.push_back(graph_.fresh("module").id);
    const Json& module = all_.at("graph_module");
    const Json& graph = module.at("graph");
    const Json& signature = module.at("signature");
    leaves_ = leaves_of(module);
    read_ranges(all_.at("range_constraints"));
    read_inputs(graph, signature.at("input_specs"));
    list_sizes(graph);
    read_guards(graph);
    graph_.read_nodes(graph, scope_, program_.body);
    read_outputs(graph, signature.at("output_specs"));
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (!cache_[i].suffix.empty()) program_.inputs[i].name = "past_key_values" + cache_[i].suffix;
    drop_unused_numbers(program_.body);
  }

  const std::vector<std::string>& foreign_ops() const { return graph_.foreign_ops(); }

 private:
  void check_version() const {
    const int64_t major = all_.at("schema_version").at("major").get<int64_t>();
    const std::string by = all_.value("torch_version", "");
    if (major < 7 || major > 8)
      throw Failure{Exit::unsupported,
                    str_cat(archive_.label(), " has version ", major, " of the schema, by PyTorch ",
                            by.empty() ? "of another version" : by,
                            "; 7 and 8 are read: save it with PyTorch 2.5 to 2.13")};
    if (archive_.has("byteorder") && archive_.text_of("byteorder") != "little")
      throw Failure{Exit::unsupported,
                    str_cat(archive_.label(), " was saved on a machine of another byte order")};
  }

  void read_ranges(const Json& ranges) {
    const auto bound = [](const Json& value, int64_t open) {
      return value.is_number_integer() ? value.get<int64_t>() : open;
    };
    for (const auto& [symbol, range] : ranges.items())
      program_.ranges.push_back(
          {symbol, bound(range.at("min_val"), 0), bound(range.at("max_val"), INT64_MAX)});
  }

  Value state(const std::string& name, State::Kind kind) {
    program_.root->attributes.emplace_back(name,
                                           Item(ScriptTensorIndex{weights_.index_of(name, kind)}));
    const Value module{program_.body.inputs[0], "module"};
    const Value value =
        graph_.emit({"prim::GetAttr", "", {}, {module}, {"Tensor"}}, program_.body)[0];
    program_.body.nodes.back().attribute = name;
    states_[name] = value;
    return value;
  }

  // A tensor, or an object of a class that consists of tensors: scope_ then has its parts.
  void read_state(const std::string& value, const std::string& name, State::Kind kind) {
    const std::vector<std::string> parts = weights_.parts_of(name);
    if (parts.empty()) scope_[value] = state(name, kind);
    for (const std::string& part : parts)
      scope_[str_cat(value, ".", part)] = state(str_cat(name, ".", part), kind);
  }

  // Reads the size that a symbol had in the program's example inputs.
  void read_example(const Json& size) {
    if (!size.contains("as_expr")) return;
    const Json& hint = size.at("as_expr").value("hint", Json());
    if (!hint.is_object() || !hint.contains("as_int")) return;
    const Dim of = parse_size_expression(size.at("as_expr").at("expr_str").get<std::string>());
    for (SymbolRange& range : program_.ranges)
      if (of.symbol() == range.symbol) range.example = hint.at("as_int").get<int64_t>();
  }

  TensorType type_of(const Json& graph, const std::string& name) {
    const Json& meta = graph.at("tensor_values").at(name);
    TensorType type;
    try {
      constexpr int64_t kComplexFloat = 9, kComplexDouble = 10;
      const int64_t dtype = torch_dtype_of_schema(meta.at("dtype").get<int64_t>());
      type.dtype = dtype == kComplexFloat    ? c64
                   : dtype == kComplexDouble ? c128
                                             : dtype_of_torch(dtype);
      for (const Json& size : meta.at("sizes")) read_example(size);
      for (const Json& size : meta.at("sizes"))
        type.shape.push_back(
            size.contains("as_int")
                ? Dim(size.at("as_int").get<int64_t>())
                : parse_size_expression(size.at("as_expr").at("expr_str").get<std::string>()));
    } catch (const Refusal& refusal) {
      throw Failure{Exit::unsupported, str_cat(archive_.label(), ": the input '", name,
                                               "': ", refusal.reason, refusal.suggestion)};
    }
    return type;
  }

  ScriptInput& add_input(const std::string& name, const std::string& type, TensorType known) {
    const Value value = graph_.fresh(type);
    ScriptInput input;
    input.name = name;
    input.type = type;
    input.known = std::move(known);
    program_.inputs.push_back(std::move(input));
    program_.body.inputs.push_back(value.id);
    cache_.emplace_back();
    scope_[name] = value;
    return program_.inputs.back();
  }

  // Reads the range of the symbol that an input number stands for.
  void read_numbers(const Json& graph, ScriptInput& input) {
    const Json& size = graph.at("sym_int_values").at(input.name);
    if (!size.contains("as_expr")) return;
    const Dim value = parse_size_expression(size.at("as_expr").at("expr_str").get<std::string>());
    for (const SymbolRange& range : program_.ranges) {
      if (value.symbol() != range.symbol) continue;
      input.numbers = {range.smallest, range.largest};
      numbers_[range.symbol] = {scope_.at(input.name), input.name};
    }
  }

  void read_user_input(const Json& graph, const Json& argument) {
    const auto& [kind, value] = kind_of(argument);
    arguments_.emplace_back();
    if (kind == "as_tensor") {
      const std::string name = value.at("name").get<std::string>();
      arguments_.back() = name;
      add_input(name, "Tensor", type_of(graph, name));
    } else if (value.is_object() && value.contains("as_name")) {  // otherwise a constant
      const std::string name = value.at("as_name").get<std::string>();
      arguments_.back() = name;
      if (kind == "as_sym_int") read_numbers(graph, add_input(name, "int", {i64, {}}));
      if (kind == "as_sym_float") add_input(name, "float", {f64, {}});
      if (kind == "as_sym_bool") add_input(name, "bool", {boolean, {}});
    }
  }

  void read_inputs(const Json& graph, const Json& specs) {
    for (const Json& spec : specs) {
      const std::pair<std::string, const Json&> given = kind_of(spec);
      const std::string& kind = given.first;
      const Json& value = given.second;
      const auto name = [&] { return value.at("arg").at("name").get<std::string>(); };
      const auto is = [&](const char* what) { return value.at(what).get<std::string>(); };
      if (kind == "parameter")
        read_state(name(), is("parameter_name"), State::Kind::parameter);
      else if (kind == "buffer")
        read_state(name(), is("buffer_name"), State::Kind::buffer);
      else if (kind == "tensor_constant")
        scope_[name()] = state(is("tensor_constant_name"), State::Kind::constant);
      else if (kind == "constant_input")
        scope_[arguments_.emplace_back(is("name"))] =
            graph_.argument(value.at("value"), scope_, program_.body);
      else if (kind == "user_input")
        read_user_input(graph, value.at("arg"));
      else if (kind != "token")  // a token orders effects and has no data
        throw Failure{
            Exit::unsupported,
            str_cat(archive_.label(), " takes an input of the kind '", kind,
                    "', which has no place in a .hgm file; keep tensors in the model only")};
    }
    name_cache();
  }

  // Gives the inputs of a cache their suffixes.
  void name_cache() {
    if (!leaves_.has_cache) return;
    if (arguments_.size() != leaves_.inputs.size()) {
      leaves_ = leaves_of(all_.at("graph_module"), false);
      return;
    }
    for (size_t k = 0; k < arguments_.size(); ++k)
      for (size_t i = 0; i < program_.inputs.size(); ++i)
        if (program_.inputs[i].name == arguments_[k]) cache_[i] = leaves_.inputs[k];
  }

  // Whether an argument of a node is the value of this name, or holds it.
  static bool refers_to(const Json& argument, const std::string& name) {
    if (!argument.is_structured()) return false;
    for (const auto& [key, value] : argument.items()) {
      const bool is_name = key == "name" || key == "as_name";
      if (is_name ? value == name : key != "as_graph" && refers_to(value, name)) return true;
    }
    return false;
  }
  static bool is_read(const Json& graph, const std::string& name) {
    for (const Json& node : graph.at("nodes"))
      for (const Json& input : node.at("inputs"))
        if (refers_to(input.at("arg"), name)) return true;
    return false;
  }

  // Whether runs can continue from the cache.
  bool is_cache_usable(const Json& graph) {
    for (size_t k = 0; k < arguments_.size(); ++k) {
      const Leaf& leaf = leaves_.inputs[k];
      if (leaf.suffix.empty()) continue;
      std::string trouble = leaf.trouble;
      for (size_t i = 0; i < cache_.size(); ++i) {
        const TensorType& type = *program_.inputs[i].known;
        if (cache_[i].suffix == leaf.suffix && leaf.is_past &&
            (type.rank() <= leaf.grows || type.shape[leaf.grows].symbol().empty()))
          trouble = str_cat(" is ", type);
      }
      if (leaf.is_constant && is_read(graph, arguments_[k]))
        trouble = " has the size of its window as an input";
      if (trouble.empty()) continue;
      program_.notes.push_back(str_cat(
          "layer ", leaf.suffix.substr(1, leaf.suffix.find('.', 1) - 1), " of the cache", trouble,
          ", so no run can continue from another number of tokens than that of "
          "the example; export keys and values whose length is a symbol, for sliding "
          "windows with transformers' DynamoExporter"));
      return false;
    }
    return true;
  }

  // Reads the ranges of the inputs' symbols, and the assumptions that tracing made about sizes and
  // numbers. PyTorch states for every open size that it is at least 2, but does not enforce it.
  void read_guards(const Json& graph) {
    constexpr int64_t kSmallestOpen = 2;
    std::vector<std::string> lines, in_symbols;
    for (const Json& each : all_.value("guards_code", Json::array())) {
      const std::string line = with_input_names(each.get<std::string>());
      if (asks_for_one(line)) continue;
      if (leaves_.has_cache) in_symbols.push_back(with_symbols(line).value_or(""));
      lines.push_back(line);
    }
    if (leaves_.has_cache) {
      join_sizes(program_, cache_, in_symbols);
      if (!is_cache_usable(graph)) {
        leaves_ = leaves_of(all_.at("graph_module"), false);
        std::fill(cache_.begin(), cache_.end(), Leaf());
      }
    }
    for (const SymbolRange& range : program_.ranges) {
      const KnownSize size = size_with(range.symbol);
      if (size.value.id < 0) continue;  // data decides it, and the graph asserts its range
      graph_.set_origin({"", str_cat("torch.export's range of ", size.name)});
      const auto bound = [&](const char* relation, int64_t of) {
        int64_t times = 0;
        if (__builtin_mul_overflow(of, size.times, &times))
          throw Failure{Exit::unreadable,
                        str_cat(archive_.label(), ": the range of ", size.name,
                                " begins or ends at ", of, " times ", size.times)};
        const Value limit = graph_.constant(times, "int", program_.body);
        graph_.require(graph_.compute(relation, {size.value, limit}, "bool", program_.body),
                       str_cat(size.name, " is out of its range"), program_.body);
      };
      if (range.smallest > kSmallestOpen) bound("_operator.ge", range.smallest);
      if (range.largest < INT64_MAX / size.times) bound("_operator.le", range.largest);
    }
    for (const std::string& line : lines) read_guard_line(line);
    graph_.set_origin({});
  }

  // Replaces L['flat_args'][0], which strict exports write, by L['x'].
  std::string with_input_names(const std::string& line) const {
    constexpr std::string_view kFlat = "L['flat_args'][";
    std::string result;
    size_t at = 0;
    for (size_t next; (next = line.find(kFlat, at)) != line.npos;) {
      const size_t digits = next + kFlat.size(), end = line.find(']', digits);
      size_t k = arguments_.size();
      if (end != line.npos) std::from_chars(line.data() + digits, line.data() + end, k);
      if (k >= arguments_.size() ||
          scope_.contains("flat_args_" + str_cat(static_cast<int64_t>(k))))
        return line;
      result += line.substr(at, next - at) + "L['" + arguments_[k] + "']";
      at = end + 1;
    }
    return result + line.substr(at);
  }

  void read_guard_line(const std::string& line) {
    graph_.set_origin({"", "torch.export's guard " + guard_in_words(line)});
    const auto input = [&](const std::string& name) -> const Value* {
      std::string lower = name;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const auto found = scope_.find(lower);
      return found != scope_.end() ? &found->second : nullptr;
    };
    try {
      read_guard(line, input, graph_, program_.body);
    } catch (const Refusal& refusal) {
      graph_.emit({"torch.export", "", {}, {}, {}}, program_.body);
      program_.body.nodes.back().trouble = refusal.reason;
    }
  }

  // Returns whether the guard states that a size of some tensor in the program is not 1. PyTorch
  // states this for all open sizes. It is ignored: images may be so small that a feature map has
  // one pixel.
  bool asks_for_one(const std::string& line) const {
    constexpr std::string_view kEnd = " != 1";
    if (!line.ends_with(kEnd)) return false;
    const std::optional<std::string> left = with_symbols(line.substr(0, line.size() - kEnd.size()));
    if (!left) return false;
    try {
      return sizes_.contains(str_cat(parse_size_expression(*left)));
    } catch (const Refusal&) {
      return false;
    }
  }

  // Replaces L['x'].size()[1] by (s1). Returns nullopt if an input or a dim is not known.
  std::optional<std::string> with_symbols(const std::string& line) const {
    constexpr size_t kLongest = 4096;  // std::regex uses stack for each character
    if (line.size() > kLongest) return std::nullopt;
    static const std::regex kSize(R"(L((?:\[[^\]]*\]|\.\w+)+)\.size\(\)\[(\d)\])");
    std::string left, rest = line;
    for (std::smatch match; std::regex_search(rest, match, kSize); rest = match.suffix()) {
      std::string name;
      for (const char c : match[1].str())
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
          name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        else if ((c == '[' || c == '.') && !name.empty())
          name += '_';
      const auto input = std::find_if(program_.inputs.begin(), program_.inputs.end(),
                                      [&](const ScriptInput& each) { return each.name == name; });
      const size_t dim = static_cast<size_t>(match[2].str()[0] - '0');
      if (input == program_.inputs.end() || dim >= input->known->shape.size()) return std::nullopt;
      left += match.prefix().str() + "(" + str_cat(input->known->shape[dim]) + ")";
    }
    return left + rest;
  }

  // Collects the sizes of all tensors of the program.
  void list_sizes(const Json& graph) {
    for (const auto& [name, meta] : graph.at("tensor_values").items())
      for (const Json& size : meta.at("sizes")) try {
          if (size.contains("as_expr"))
            sizes_.insert(str_cat(
                parse_size_expression(size.at("as_expr").at("expr_str").get<std::string>())));
        } catch (const Refusal&) {
          continue;  // not a Dim, so no guard is about it
        }
  }

  // A size of an input, or an input number, that is a multiple of a symbol.
  struct KnownSize {
    Value value;  // id -1 if no input has it
    int64_t times = 1;
    std::string name;  // "x.shape[0]", clearer than PyTorch's symbol
  };

  KnownSize size_with(const std::string& symbol) {
    if (const auto number = numbers_.find(symbol); number != numbers_.end())
      return {number->second.first, 1, number->second.second};
    Bindings one;
    (void)one.bind(symbol, 1).ok();
    KnownSize found;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const ScriptInput& input = program_.inputs[i];
      const Value value{program_.body.inputs[i + 1], input.type};
      for (int d = 0; d < input.known->rank(); ++d) {
        const Dim& size = input.known->shape[d];
        const Dim times = size.substitute(one);
        if (!times.is_constant() || times.constant() < 1 ||
            !(size == Dim(symbol) * times.constant()))
          continue;
        if (found.value.id >= 0 && found.times <= times.constant()) continue;
        const Value dim = graph_.constant(d, "int", program_.body);
        found = {graph_.emit({"aten::size", "int", {"self", "dim"}, {value, dim}, {"int"}},
                             program_.body)[0],
                 times.constant(), str_cat(input.name, ".shape[", d, "]")};
      }
    }
    return found;
  }

  void read_outputs(const Json& graph, const Json& specs) {
    const Json& outputs = graph.at("outputs");
    if (outputs.size() != specs.size())
      throw Failure{
          Exit::unreadable,
          str_cat(archive_.label(), ": the graph has ", static_cast<int64_t>(outputs.size()),
                  " outputs, its signature ", static_cast<int64_t>(specs.size()))};
    std::vector<Value> results;
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto& [kind, value] = kind_of(specs[i]);
      if (kind == "token") continue;
      const Value output = graph_.argument(outputs[i], scope_, program_.body);
      if (kind == "buffer_mutation") {
        write_back(value.at("buffer_name").get<std::string>(), output);
      } else if (kind == "parameter_mutation") {
        write_back(value.at("parameter_name").get<std::string>(), output);
      } else if (kind == "user_input_mutation") {
        const std::string input = value.at("user_input_name").get<std::string>();
        if (!is_of_cache(input))
          program_.notes.push_back(str_cat("the program writes to its input '", input,
                                           "', which a run of the file leaves as it is"));
      } else {
        results.push_back(output);
      }
    }
    for (size_t k = 0; k < results.size(); ++k) {
      const bool has_name =
          leaves_.outputs.size() == results.size() && !leaves_.outputs[k].name.empty();
      if (has_name && is_constant_of_cache(leaves_.outputs[k].suffix, results[k])) continue;
      program_.body.outputs.push_back(has_name ? named(leaves_.outputs[k].name, results[k]).id
                                               : results[k].id);
    }
  }

  bool is_of_cache(const std::string& input) const {
    for (size_t i = 0; i < cache_.size(); ++i)
      if (program_.inputs[i].name == input) return !cache_[i].suffix.empty();
    return false;
  }

  // Removes an input of a cache that the program only returns, such as the size of a window.
  bool is_constant_of_cache(const std::string& suffix, const Value& value) {
    const auto at = std::find_if(cache_.begin(), cache_.end(),
                                 [&](const Leaf& leaf) { return leaf.suffix == suffix; });
    if (suffix.empty() || at == cache_.end()) return false;
    const auto index = at - cache_.begin();
    if (program_.body.inputs[static_cast<size_t>(index) + 1] != value.id ||
        is_used(value.id, program_.body))
      return false;
    cache_.erase(at);
    program_.inputs.erase(program_.inputs.begin() + index);
    program_.body.inputs.erase(program_.body.inputs.begin() + index + 1);
    return true;
  }
  static bool is_used(ScriptId id, const ScriptBlock& block) {
    return std::any_of(block.nodes.begin(), block.nodes.end(), [&](const ScriptNode& node) {
      return std::find(node.inputs.begin(), node.inputs.end(), id) != node.inputs.end() ||
             std::any_of(node.blocks.begin(), node.blocks.end(),
                         [&](const ScriptBlock& inner) { return is_used(id, inner); });
    });
  }

  Value named(const std::string& name, const Value& value) {
    const Value key = graph_.constant(name, "str", program_.body);
    return graph_.emit({"prim::DictConstruct", "", {}, {key, value}, {"Dict[str, Tensor]"}},
                       program_.body)[0];
  }

  void write_back(const std::string& name, const Value& value) {
    const auto found = states_.find(name);
    if (found == states_.end())
      throw Failure{Exit::unreadable,
                    str_cat(archive_.label(), " writes to '", name, "', which it does not have")};
    const Value blocking = graph_.constant(false, "bool", program_.body);
    graph_.emit({"aten::copy_",
                 "",
                 {"self", "src", "non_blocking"},
                 {found->second, value, blocking},
                 {"Tensor"}},
                program_.body);
  }

  const Archive& archive_;
  Json all_;
  ScriptProgram& program_;
  ExportedWeights weights_;
  ExportedGraph graph_;
  ExportedGraph::Scope scope_;
  Leaves leaves_;
  std::vector<Leaf> cache_;             // of each input; without a suffix outside of a cache
  std::set<std::string> sizes_;         // of the program's tensors, in the text form of Dims
  std::vector<std::string> arguments_;  // of the module: the names of its inputs
  std::map<std::string, Value> states_;
  std::map<std::string, std::pair<Value, std::string>> numbers_;  // number inputs by symbol
};

}  // namespace

Loaded load_exported(const std::string& path, const std::string& label,
                     const std::vector<CustomOp>& custom) {
  Loaded loaded;
  loaded.custom = custom;
  const Archive archive(path, label);
  const std::string model = model_name(archive);
  try {
    ProgramReader reader(archive, model, loaded.program);
    reader.read();
    if (has_levels(loaded.program.body)) {
      loaded.original = std::make_shared<const ScriptProgram>(loaded.program);
      join_levels(loaded.program);
    }
    const auto affine = std::ranges::find(reader.foreign_ops(), "torchao::dequantize_affine");
    if (affine != reader.foreign_ops().end()) write_out_affine(loaded.program);
    for (const std::string& op : reader.foreign_ops())
      if (!find_row(op, "")) loaded.unknown_ops.push_back(op);
  } catch (const Json::exception& error) {
    throw Failure{Exit::unreadable,
                  str_cat(label, ": the program does not follow its schema, so it is damaged or ",
                          "of another version (", reason_of(error.what()), "); save it again")};
  } catch (const std::out_of_range& error) {
    throw Failure{Exit::unreadable, str_cat(label, ": the program is not complete; save it again")};
  }
  return loaded;
}

}  // namespace hg::convert
