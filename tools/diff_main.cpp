// SPDX-License-Identifier: Apache-2.0
// hg-diff: prints the differences between two models.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/command_line/command_line.h"
#include "tools/diff.h"
#include "tools/entry.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

constexpr char kExamples[] = R"(Examples:
  hg-diff before.hgm after.hgm
  hg-diff net.hgm trained.hgm --json
  hg-diff codec.hgm trained.hgm --entry decode

Graph lines and weights that only the first model has start with -, those that only the second has
with +. Weights that differ start with ~.

Exit codes: 0 equal, 1 usage, 2 unreadable file, 3 unsupported, 4 the models differ.)";

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json("inf");
}

std::string diff_json(const ModelDiff& diff) {
  nlohmann::ordered_json graph = nlohmann::ordered_json::array();
  for (const LineChange& change : diff.graph)
    graph.push_back({{"change", change.added ? "added" : "removed"}, {"line", change.line}});
  nlohmann::ordered_json weights = nlohmann::ordered_json::array();
  for (const StateChange& s : diff.states) {
    nlohmann::ordered_json row = {{"name", s.name}};
    row["change"] = s.b.empty()   ? "removed"
                    : s.a.empty() ? "added"
                    : s.a != s.b  ? "type"
                                  : "values";
    if (!s.a.empty()) row["a"] = s.a;
    if (!s.b.empty()) row["b"] = s.b;
    if (row["change"] == "values") {
      row["elements"] = s.elements;
      row["largest"] = number(s.largest);
      row["relative"] = number(s.relative);
    }
    weights.push_back(std::move(row));
  }
  const nlohmann::ordered_json all = {
      {"equal", diff.is_equal()}, {"graph", graph}, {"weights", weights}};
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

struct DiffJob {
  std::string a, b, entry;
  size_t most = 40;
  bool as_json = false;
};

Outcome diff(const DiffJob& job) {
  Result<Model> a = Model::load(job.a), b = Model::load(job.b);
  if (!a.ok()) return outcome(a.status());
  if (!b.ok()) return outcome(b.status());
  if (!job.entry.empty() && a->entries().empty() && b->entries().empty())
    return usage("--entry ", job.entry, ": neither file has entries; each is one graph");
  // A file of one graph is compared as it is.
  if (!a->entries().empty()) a = entry_of(*a, job.a, job.entry);
  if (!b->entries().empty()) b = entry_of(*b, job.b, job.entry);
  if (!a.ok()) return outcome(a.status());
  if (!b.ok()) return outcome(b.status());
  const ModelDiff found = diff_models(*a, *b);
  if (job.as_json)
    std::puts(diff_json(found).c_str());
  else
    std::fputs(diff_text(found, job.most).c_str(), stdout);
  if (found.is_equal()) return {};
  return mismatch(job.a, " and ", job.b, " differ in ", uint64_t{found.graph.size()},
                  " lines of the graph and ", uint64_t{found.states.size()}, " weights");
}

}  // namespace
}  // namespace hg::tools

int main(int argc, char** argv) {
  using namespace hg::tools;
  use_utf8(argc, argv);
  CommandLine line("hg-diff", "Compares two Hologram models: graph and weights.", kExamples);
  DiffJob job;
  line.add("A", job.a, "the first model, an .hgm file");
  line.add("B", job.b, "the second model, an .hgm file");
  line.add("--entry", job.entry, "the entry to compare, of each file that has several");
  line.add("--most", job.most, "graph lines and weights to print at most; 0: all").shows_default();
  line.add_flag("--json", job.as_json, "print one JSON object");
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  if (job.a.empty() || job.b.empty())
    return finish("hg-diff", usage("two models are needed; see hg-diff --help"));
  return finish("hg-diff", diff(job));
}
