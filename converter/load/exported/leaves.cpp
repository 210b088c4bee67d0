// SPDX-License-Identifier: Apache-2.0
#include "converter/load/exported/leaves.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "converter/core/failure.h"
#include "converter/load/exported/graph.h"
#include "hg/status.h"

namespace hg::convert {
namespace {

using Json = nlohmann::json;

bool is_leaf(const Json& spec) { return spec.at("type").is_null(); }
std::string class_of(const Json& spec) {
  return is_leaf(spec) ? "" : spec.at("type").get<std::string>();
}

Json context_of(const Json& spec) {
  const Json& context = spec.at("context");
  return context.is_string() ? Json::parse(context.get<std::string>()) : Json();
}

bool is_dict(const std::string& type) {
  return type == "builtins.dict" || type == "collections.OrderedDict" ||
         type == "collections.defaultdict";
}

// ---- Caches ----

// The cache as an object: its context describes each attribute, and tensors by their index.
class CacheObject {
 public:
  explicit CacheObject(std::vector<Leaf>& leaves) : leaves_(leaves) {}
  void walk(const Json& value, const std::vector<std::string>& path, const std::string& within) {
    const std::string tag = value.is_object() ? value.value("_t", "") : "";
    if (tag == "tensor" || tag == "sym") {
      const size_t index = value.at("i").get<size_t>();
      if (index >= leaves_.size()) return;
      Leaf& leaf = leaves_[index];
      leaf.suffix = path_suffix(path);
      const std::string& last = path.back();
      const bool is_key = last == "keys" || last == "values";
      leaf.is_past = is_key && within.starts_with("Dynamic");
      leaf.is_constant = last == "_sliding_window_tensor";
      if (within == "StaticSlidingWindowLayer")
        leaf.trouble = " has a window that follows a count in Python";
      else if (!is_key && !leaf.is_constant && last != "cumulative_length")
        leaf.trouble = str_cat(" has '", last, "' in addition to keys and values");
      return;
    }
    std::string of = within;
    if (tag == "obj") {
      const std::string type = value.at("p").get<std::string>();
      of = type.substr(type.find_last_of(".:") + 1);
    }
    const Json& members = tag == "obj"  ? value.at("s")
                          : tag.empty() ? value
                                        : value.value("v", Json());
    if (members.is_object()) {
      for (const auto& [key, each] : members.items()) step(each, path, key, of);
    } else if (members.is_array()) {
      for (size_t i = 0; i < members.size(); ++i)
        if (tag == "items")
          step(members[i].at(1), path, text_of(members[i].at(0)), of);
        else
          step(members[i], path, str_cat(static_cast<int64_t>(i)), of);
    }
  }

 private:
  static std::string text_of(const Json& key) {
    return key.is_string() ? key.get<std::string>() : key.dump();
  }
  void step(const Json& value, std::vector<std::string> path, const std::string& name,
            const std::string& within) {
    path.push_back(name);
    walk(value, path, within);
  }
  std::vector<Leaf>& leaves_;
};

size_t count_leaves(const Json& spec) {
  if (is_leaf(spec)) return 1;
  size_t count = 0;
  for (const Json& child : spec.at("children_spec")) count += count_leaves(child);
  return count;
}

// Appends the leaves of a cache that is a class. Returns false if its form is not known.
bool read_cache(const Json& spec, std::vector<Leaf>& leaves) {
  const Json context = context_of(spec), &children = spec.at("children_spec");
  std::vector<Leaf> found(count_leaves(spec));
  if (context.is_object()) {  // all tensors are children
    CacheObject(found).walk(context, {}, "");
  } else {  // {"key_cache": [...], "value_cache": [...]}
    const Json& keys =
        context.is_array() && !context.empty() && context[0].is_array() ? context[0] : context;
    if (!keys.is_array() || keys.size() != children.size()) return false;
    // The window of each layer, or null. A layer with a window cuts its keys.
    const Json windows = context.size() > 1 && context[1].is_array() ? context[1] : Json::array();
    size_t at = 0;
    for (size_t k = 0; k < keys.size(); ++k) {
      if (!keys[k].is_string()) return false;
      for (size_t layer = 0; layer < children[k].at("children_spec").size(); ++layer) {
        if (!is_leaf(children[k].at("children_spec")[layer])) return false;
        found[at].suffix = path_suffix(
            {"layers", str_cat(static_cast<int64_t>(layer)), keys[k].get<std::string>()});
        if (layer < windows.size() && windows[layer].is_number())
          found[at].trouble = " has a window that follows a count in Python";
        found[at++].is_past = true;
      }
    }
  }
  const bool is_complete = std::all_of(found.begin(), found.end(),
                                       [](const Leaf& leaf) { return !leaf.suffix.empty(); });
  if (is_complete) leaves.insert(leaves.end(), found.begin(), found.end());
  return is_complete;
}

// Whether the spec is a list of layers, with keys and values each: of the decoder alone, or of the
// decoder and the encoder.
bool is_list_of_layers(const Json& spec) {
  const auto is_sequence = [](const Json& each) {
    const std::string type = class_of(each);
    return type == "builtins.tuple" || type == "builtins.list";
  };
  const Json& layers = spec.at("children_spec");
  return is_sequence(spec) && !layers.empty() &&
         std::all_of(layers.begin(), layers.end(), [&](const Json& layer) {
           const Json& parts = layer.at("children_spec");
           return is_sequence(layer) && (parts.size() == 2 || parts.size() == 4) &&
                  std::all_of(parts.begin(), parts.end(), is_leaf);
         });
}

void read_layers(const Json& spec, std::vector<Leaf>& leaves) {
  constexpr std::array<std::string_view, 4> kParts = {"decoder.key", "decoder.value", "encoder.key",
                                                      "encoder.value"};
  const Json& layers = spec.at("children_spec");
  for (size_t i = 0; i < layers.size(); ++i) {
    const size_t count = layers[i].at("children_spec").size();
    for (size_t k = 0; k < count; ++k) {
      const std::string_view part = count == 2 ? kParts[k].substr(8) : kParts[k];
      leaves.push_back(
          {.suffix = str_cat(".", static_cast<int64_t>(i), ".", part), .is_past = true});
    }
  }
}

bool is_name_of_cache(const std::string& name) {
  return name == "past_key_values" || name == "past" || name == "cache" || name == "present" ||
         name == "present_key_values";
}

// ---- All leaves ----

// What of a structure has names, in addition to tensors in dicts.
enum class Names { dicts, fields, caches };  // each includes those before

class LeafReader {
 public:
  LeafReader(std::vector<Leaf>& leaves, Names names) : leaves_(leaves), names_(names) {}

  // `path` has the keys and places above the leaf. `name` is empty above the first key.
  void read(const Json& spec, const std::string& name, const std::vector<std::string>& path) {
    const std::string type = class_of(spec);
    if (type.empty()) {
      leaves_.push_back({.name = name, .path = path});
      return;
    }
    if (names_ == Names::caches && type.ends_with("Cache") && read_cache(spec, leaves_)) return;
    if (names_ == Names::caches && !path.empty() && is_name_of_cache(path.back()) &&
        is_list_of_layers(spec))
      return read_layers(spec, leaves_);
    const Json& children = spec.at("children_spec");
    const Json keys = keys_of(spec, type);
    const std::string prefix = name.empty() ? "" : name + "_";
    for (size_t k = 0; k < children.size(); ++k) {
      const bool has_key = k < keys.size();
      const std::string place = !has_key              ? str_cat(static_cast<int64_t>(k))
                                : keys[k].is_string() ? keys[k].get<std::string>()
                                                      : keys[k].dump();
      std::vector<std::string> below = path;
      below.push_back(place);
      read(children[k], has_key || !name.empty() ? prefix + place : "", below);
    }
  }

 private:
  Json keys_of(const Json& spec, const std::string& type) const {
    if (is_dict(type)) {
      Json keys = context_of(spec);
      return keys.is_object() ? keys.at("dict_context") : keys;
    }
    if (names_ == Names::dicts || type.starts_with("builtins.")) return Json::array();
    // The fields of a class: of a ModelOutput, or [fields, fields that are None] of a dataclass
    // that torch.export.register_dataclass knows.
    const Json context = context_of(spec);
    const size_t count = spec.at("children_spec").size();
    if (are_fields(context, count)) return context;
    const bool is_dataclass = context.is_array() && context.size() == 2;
    return is_dataclass && are_fields(context[0], count) ? context[0] : Json::array();
  }
  static bool are_fields(const Json& keys, size_t count) {
    return keys.is_array() && keys.size() == count && count > 0 &&
           std::all_of(keys.begin(), keys.end(), [](const Json& key) { return key.is_string(); });
  }
  std::vector<Leaf>& leaves_;
  const Names names_;
};

std::vector<std::string> suffixes_of(const std::vector<Leaf>& leaves) {
  std::vector<std::string> suffixes;
  for (const Leaf& leaf : leaves)
    if (!leaf.suffix.empty()) suffixes.push_back(leaf.suffix);
  std::sort(suffixes.begin(), suffixes.end());
  return suffixes;
}

Leaves read_leaves(const Json& graph_module, Names names) {
  Leaves leaves;
  for (const Json& call : graph_module.value("module_call_graph", Json::array())) {
    if (call.value("fqn", "-") != "" || !call.contains("signature")) continue;
    const Json& signature = call.at("signature");
    if (!signature.is_object()) continue;
    for (const auto& [key, side] :
         {std::pair{"in_spec", &leaves.inputs}, {"out_spec", &leaves.outputs}}) {
      if (!signature.contains(key)) continue;
      const Json spec = Json::parse(signature.at(key).get<std::string>());
      if (!spec.is_array() || spec.size() != 2) continue;
      LeafReader(*side, names).read(spec[1], "", {});
    }
  }
  for (Leaf& leaf : leaves.inputs) leaf.name.clear();  // the program's own
  return leaves;
}

}  // namespace

Leaves leaves_of(const Json& graph_module, bool with_caches) {
  if (!with_caches) return read_leaves(graph_module, Names::dicts);
  Leaves leaves = read_leaves(graph_module, Names::caches);
  const std::vector<std::string> before = suffixes_of(leaves.inputs),
                                 after = suffixes_of(leaves.outputs);
  leaves.has_cache = !before.empty() && before == after &&
                     std::adjacent_find(before.begin(), before.end()) == before.end();
  if (!leaves.has_cache) {
    leaves = read_leaves(graph_module, Names::fields);
    leaves.has_cache = name_carried(graph_module, leaves);
  }
  if (!leaves.has_cache) return read_leaves(graph_module, Names::dicts);
  for (Leaf& leaf : leaves.outputs)
    if (!leaf.suffix.empty()) leaf.name = "present" + leaf.suffix;
  return leaves;
}

}  // namespace hg::convert
