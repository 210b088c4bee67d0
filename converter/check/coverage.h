// SPDX-License-Identifier: Apache-2.0
// Records what the check has run: the sides of each `if`, the rounds of each loop, results that
// data makes empty, and which argument of each min and max of sizes was smaller.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "converter/check/size_cases.h"
#include "hg/session.h"

namespace hg::convert {

class Coverage {
 public:
  // `texts` says how the op that gave a value reads in the source (op_text.h).
  Coverage(const Graph& graph, std::map<ValueId, std::string> texts);

  // Counts what was run under these sizes as exercised; whether any of it is new.
  bool add(const std::vector<WaysRow>& rows, const Bindings& sizes);
  // Whether the graph has nodes of which data or sizes decide the way, and each took all of them.
  bool has_rows() const { return !rows_.empty(); }
  bool has_all_rows() const;
  // Whether sizes decide a way that no run so far has taken and these would take.
  bool has_news(const Bindings& sizes) const;
  bool is_complete() const;
  // "the else of `if` at model.py:12", "chunk(3) with n < 3 at model.py:7": one line for each
  // place. Sizes that are not admitted do not count.
  std::vector<std::string> not_exercised(const Admits& admits) const;

 private:
  struct Choice {  // min(a, b) or max(a, b)
    Dim a, b;
    std::string op;  // of the source, whose result has such a size
    Origin origin;
    bool less = false, more = false;  // a < b, a > b was seen
  };
  void find_choices(const Graph& graph);
  void find_choices(const Dim& dim, const Node& node);
  bool is_of_inputs(const Dim& dim) const;

  std::map<ValueId, std::string> texts_;
  std::vector<std::string> symbols_;       // of the inputs
  std::vector<WaysRow> rows_;              // of all sessions
  std::map<std::string, size_t> row_of_;   // by WaysRow::node
  std::map<std::string, Choice> choices_;  // by the key of the atom
};

// What a session ran between two looks at its ways.
std::vector<WaysRow> rows_between(const std::vector<WaysRow>& before,
                                  const std::vector<WaysRow>& after);
// The same text for runs of the same sizes that took the same ways.
std::string path_of(const std::vector<WaysRow>& rows,
                    const std::vector<std::pair<std::string, int64_t>>& sizes);

}  // namespace hg::convert
