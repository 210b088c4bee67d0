// SPDX-License-Identifier: Apache-2.0
// Records what the check has run: the sides of each `if`, the iteration counts of each loop, and
// data-dependent results that were empty. Also records which argument of each min and max of sizes
// was smaller.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hg/dim.h"
#include "hg/session.h"

namespace hg::convert {

struct SizeCase {  // left < right
  Dim left, right;
};
using Admits = std::function<bool(const Bindings&)>;

// Describes the admitted sizes for which any of the cases holds: "n < 3", "n = 0 or h < w", "n
// divisible by 4". Tries all small sizes, and those near the numbers in a case, so the description
// may be wrong for some large sizes. Returns an empty string if no case holds for any of these
// sizes.
std::string describe_cases(std::span<const SizeCase> cases, const Admits& admits);

class Coverage {
 public:
  // `texts` are the source texts of the ops that produce the values (op_text.h).
  Coverage(const Graph& graph, std::map<ValueId, std::string> texts);

  // Records what was run with these sizes as exercised. Returns whether any of it is new.
  bool add(const std::vector<WaysRow>& rows, const Bindings& sizes);
  // Whether the graph has data-dependent or size-dependent nodes, and whether each has taken all
  // cases.
  bool has_rows() const { return !rows_.empty(); }
  bool has_all_rows() const;
  // Whether these sizes would take a case that no run has taken so far.
  bool has_news(const Bindings& sizes) const;
  bool is_complete() const;
  // Returns one line per place: "the else of `if` at model.py:12", "chunk(3) with n < 3 at
  // model.py:7". Sizes that are not admitted are ignored.
  std::vector<std::string> not_exercised(const Admits& admits) const;

 private:
  struct Choice {  // min(a, b) or max(a, b)
    Dim a, b;
    std::string op;  // source text of the op whose result has such a size
    Origin origin;
    bool less = false, more = false;  // whether a < b and a > b have occurred
  };
  void find_choices(const Graph& graph);
  void find_choices(const Dim& dim, const Node& node);
  bool is_of_inputs(const Dim& dim) const;

  std::map<ValueId, std::string> texts_;
  std::vector<std::string> symbols_;       // of the inputs
  std::vector<WaysRow> rows_;              // of all sessions
  std::map<std::string, size_t> row_of_;   // by WaysRow::node
  std::map<std::string, Choice> choices_;  // by key of the atom
};

// Returns what a session ran between two calls of its ways().
std::vector<WaysRow> rows_between(const std::vector<WaysRow>& before,
                                  const std::vector<WaysRow>& after);
// Returns equal texts for runs with the same sizes and the same branches.
std::string path_of(const std::vector<WaysRow>& rows,
                    const std::vector<std::pair<std::string, int64_t>>& sizes);

}  // namespace hg::convert
