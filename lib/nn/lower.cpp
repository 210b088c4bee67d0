// SPDX-License-Identifier: Apache-2.0
// Lowers blocks to a graph. Looks up names in the group and the enclosing groups. Adds a block once
// its wires are available.
#include "lib/nn/lower.h"

#include <algorithm>
#include <optional>

#include "lib/graph/access.h"
#include "lib/nn/leaves.h"

namespace hg::nn {
namespace {

struct Scope {
  const Block* group = nullptr;
  std::string path;
  std::vector<std::string> names;       // of the blocks, in their order
  std::map<std::string, size_t> gives;  // names of the group's values: the block that produces each
  std::map<std::string, Source> given;  // inner names of the group's inputs
  std::optional<Source> first;          // its first input
  std::vector<bool> done;
  const Scope* around = nullptr;
};

class Lowerer {
 public:
  explicit Lowerer(const LowerOptions& options)
      : lowered_{options.registry != nullptr ? Graph(*options.registry) : Graph(),
                 {},
                 {},
                 {},
                 {},
                 {}},
        leaves_(options, lowered_) {}

  Result<Lowered> run(const Block& model) {
    Scope outermost;
    const Block whole = model.type == "Group" ? model : Block(Group{model});
    outermost.group = &whole;
    HG_CHECK(whole.inputs.empty(),
             "a model takes its inputs from Input blocks, but its outermost group has an input '",
             whole.inputs[0].outside, "'");
    std::vector<SummaryRow> rows;
    HG_TRY(lower_group(outermost, rows, 0));
    lowered_.rows = std::move(rows);
    HG_TRY_ASSIGN(const auto results, results_of(outermost));
    HG_CHECK(!results.empty(), "a model without blocks has no outputs");
    for (const auto& [name, source] : results) graph().output(name, source.value);
    HG_TRY(graph().status());
    HG_TRY(leaves_.check_patterns());
    HG_TRY(leaves_.find_gradients());
    return std::move(lowered_);
  }

 private:
  Graph& graph() { return lowered_.graph; }

  // -- Scopes -------------------------------------------------------------------------------------

  Status declare(Scope& scope) {
    const std::vector<Block>& blocks = scope.group->blocks;
    const std::string where = scope.path.empty() ? "the model" : str_cat("'", scope.path, "'");
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Block& block = blocks[i];
      std::string name = !block.name.empty()      ? block.name
                         : !block.outputs.empty() ? block.outputs[0].outside
                                                  : str_cat(static_cast<int64_t>(i));
      std::vector<std::string> all = {name};
      for (const Wire& wire : block.outputs)
        if (wire.outside != name) all.push_back(wire.outside);
      for (const std::string& given : all) {
        HG_CHECK(!given.empty() && given.find('.') == std::string::npos, "in ", where,
                 " a block gives the name '", given, "'; names are not empty and have no dot");
        const auto [known, is_new] = scope.gives.emplace(given, i);
        HG_CHECK(is_new, "in ", where, " two blocks give '", given, "': number ",
                 static_cast<int64_t>(known->second), " (", blocks[known->second].type,
                 ") and number ", static_cast<int64_t>(i), " (", block.type, ")");
      }
      scope.names.push_back(std::move(name));
    }
    scope.done.resize(blocks.size());
    return {};
  }

  // The source that the name refers to at this block; nullopt if its block has not been added yet.
  Result<std::optional<Source>> find(const Scope& scope, const std::string& name,
                                     const std::string& who) const {
    const std::string head = name.substr(0, name.find('.'));
    for (const Scope* at = &scope; at != nullptr; at = at->around) {
      if (const auto given = at->given.find(name); given != at->given.end())
        return std::optional(given->second);
      const auto gives = at->gives.find(head);
      if (gives == at->gives.end()) continue;
      if (const auto known = sources_.find(join(at->path, name)); known != sources_.end())
        return std::optional(known->second);
      if (!at->done[gives->second]) return std::optional<Source>();
      break;
    }
    std::string known;
    for (const Scope* at = &scope; at != nullptr; at = at->around) {
      for (const auto& [inside, source] : at->given) known += (known.empty() ? "" : ", ") + inside;
      for (const auto& [given, block] : at->gives) known += (known.empty() ? "" : ", ") + given;
    }
    return not_found(who, " takes '", name, "', which no block gives; there are ", known);
  }

  // -- Groups -------------------------------------------------------------------------------------

  Status lower_group(Scope& scope, std::vector<SummaryRow>& rows, int depth) {
    HG_TRY(declare(scope));
    const std::vector<Block>& blocks = scope.group->blocks;
    std::vector<std::vector<SummaryRow>> row_of(blocks.size());
    for (size_t left = blocks.size(); left > 0;) {
      const size_t before = left;
      std::string waits;
      for (size_t i = 0; i < blocks.size(); ++i) {
        if (scope.done[i]) continue;
        HG_TRY_ASSIGN(const bool is_done, lower_block(scope, i, row_of[i], depth, waits));
        if (!is_done) continue;
        scope.done[i] = true;
        --left;
      }
      HG_CHECK(left < before, "the blocks wait for one another in a circle: ", waits);
    }
    for (std::vector<SummaryRow>& some : row_of)
      for (SummaryRow& row : some) rows.push_back(std::move(row));
    return {};
  }

  // The value of the preceding block that has one; otherwise the group's input.
  Result<std::optional<Source>> before(const Scope& scope, size_t index, bool& is_there) const {
    is_there = true;
    for (size_t i = index; i-- > 0;) {
      if (is_beside(scope.group->blocks[i])) continue;
      const auto known = sources_.find(join(scope.path, scope.names[i]));
      return known != sources_.end() ? std::optional(known->second) : std::optional<Source>();
    }
    is_there = scope.first.has_value();
    return scope.first;
  }

  // False: a wire is not available yet.
  Result<bool> lower_block(Scope& scope, size_t index, std::vector<SummaryRow>& rows, int depth,
                           std::string& waits) {
    const Block& block = scope.group->blocks[index];
    const std::string path = join(scope.path, scope.names[index]), who = label(path, block);
    std::vector<Source> sources;
    for (const Wire& wire : block.inputs) {
      if (wire.outside.empty()) {
        sources.push_back({});
        continue;
      }
      HG_TRY_ASSIGN(const std::optional<Source> source, find(scope, wire.outside, who));
      if (!source) {
        if (waits.empty()) waits = str_cat(who, " waits for '", wire.outside, "'");
        return false;
      }
      sources.push_back(*source);
    }
    if (block.inputs.empty() && leaves_.takes_inputs(block)) {
      bool is_there = false;
      HG_TRY_ASSIGN(const std::optional<Source> source, before(scope, index, is_there));
      HG_CHECK(is_there || block.type == "Group", who,
               " has no input and stands first: give it one, or an Input block before it");
      if (is_there && !source) {
        if (waits.empty()) waits = str_cat(who, " waits for the block before it");
        return false;
      }
      if (source) sources.push_back(*source);
    }
    if (block.type == "Group") {
      Scope inner;
      inner.group = &block;
      inner.path = path;
      inner.around = &scope;
      for (size_t i = 0; i < block.inputs.size(); ++i)
        inner.given[block.inputs[i].inside.empty() ? block.inputs[i].outside
                                                   : block.inputs[i].inside] = sources[i];
      if (!sources.empty()) inner.first = sources[0];
      return lower_inner(scope, inner, rows, depth);
    }
    SummaryRow row{depth, path, "", "", 0, 0};
    HG_TRY_ASSIGN(std::vector<Value> values, leaves_.add(block, path, sources, row));
    HG_TRY(name_results(scope, block, scope.names[index], who, values));
    row.output = str_cat(TensorType{values[0].dtype(), values[0].shape()});
    rows.push_back(std::move(row));
    return true;
  }

  Result<bool> lower_inner(Scope& scope, Scope& inner, std::vector<SummaryRow>& rows, int depth) {
    SummaryRow row{depth, inner.path, "Group", "", 0, 0};
    std::vector<SummaryRow> below;
    HG_TRY(lower_group(inner, below, depth + 1));
    HG_TRY_ASSIGN(const auto results, results_of(inner));
    for (const auto& [name, source] : results) sources_[join(scope.path, name)] = source;
    if (!results.empty()) {
      sources_[inner.path] = results[0].second;
      const Value& first = results[0].second.value;
      row.output = str_cat(TensorType{first.dtype(), first.shape()});
    }
    note_values();
    for (const SummaryRow& other : below)
      if (other.depth == depth + 1) {
        row.parameters += other.parameters;
        row.trainable += other.trainable;
      }
    rows.push_back(std::move(row));
    for (SummaryRow& other : below) rows.push_back(std::move(other));
    return true;
  }

  // By the names outside the group.
  Result<std::vector<std::pair<std::string, Source>>> results_of(const Scope& scope) const {
    std::vector<std::pair<std::string, Source>> results;
    const Block& group = *scope.group;
    const std::string who = scope.path.empty() ? "the model" : label(scope.path, group);
    for (const Wire& wire : group.outputs) {
      const std::string& inside = wire.inside.empty() ? wire.outside : wire.inside;
      const bool is_own =
          scope.gives.contains(inside.substr(0, inside.find('.'))) || scope.given.contains(inside);
      if (!is_own && wire.inside.empty() && group.outputs.size() == 1 && !scope.path.empty())
        break;  // a name for the result of the last block
      HG_TRY_ASSIGN(const std::optional<Source> source, find(scope, inside, who));
      HG_CHECK(source.has_value(), who, " gives '", inside, "', which is not there");
      results.emplace_back(wire.outside, *source);
    }
    if (!results.empty()) return results;
    for (size_t i = group.blocks.size(); i-- > 0;) {
      if (is_beside(group.blocks[i])) continue;
      const Block& last = group.blocks[i];
      const std::string name = !group.outputs.empty()  ? group.outputs[0].outside
                               : !last.outputs.empty() ? last.outputs[0].outside
                                                       : scope.names[i];
      const auto known = sources_.find(join(scope.path, scope.names[i]));
      if (known == sources_.end()) continue;  // an empty group
      results.emplace_back(scope.path.empty() ? name : outer_name(scope, name), known->second);
      return results;
    }
    if (scope.first) results.emplace_back(outer_name(scope, ""), *scope.first);
    return results;
  }

  // The outer name of the group's only result.
  static std::string outer_name(const Scope& scope, const std::string& otherwise) {
    if (!scope.group->outputs.empty()) return scope.group->outputs[0].outside;
    const size_t dot = scope.path.rfind('.');
    return scope.path.empty()         ? otherwise
           : dot == std::string::npos ? scope.path
                                      : scope.path.substr(dot + 1);
  }

  // -- Names --------------------------------------------------------------------------------------

  Status name_results(const Scope& scope, const Block& block, const std::string& name,
                      const std::string& who, const std::vector<Value>& values) {
    const std::string path = join(scope.path, name);
    HG_CHECK(block.outputs.size() <= values.size(), who, " gives ",
             static_cast<int64_t>(values.size()), " values; ",
             static_cast<int64_t>(block.outputs.size()), " are named");
    HG_CHECK(!values.empty(), who, " gives no value");
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_named = i < block.outputs.size();
      if (!is_named && i > 0) continue;
      const std::string key = is_named ? join(scope.path, block.outputs[i].outside) : path;
      sources_[key] = {values[i], who};
      if (lowered_.graph.value_info(values[i].id()).node >= 0)
        GraphAccess::rename(graph(), values[i].id(), key);
    }
    sources_[path] = {values[0], who};
    note_values();
    return {};
  }

  void note_values() {
    for (const auto& [path, source] : sources_) lowered_.values[path] = source.value.id();
  }

  Lowered lowered_;
  Leaves leaves_;
  std::map<std::string, Source> sources_;  // by path
};

}  // namespace

Result<Lowered> lower(const Block& model, const LowerOptions& options) {
  for (const DType dtype : {f32, f64, f16, bf16})
    if (options.dtype == dtype) return Lowerer(options).run(model);
  return invalid_argument("the dtype of a program is f32, f16, bf16 or f64, not ", options.dtype);
}

}  // namespace hg::nn
