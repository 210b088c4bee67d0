// SPDX-License-Identifier: Apache-2.0
// The description of a model that hg-info prints, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hg/model.h"
#include "hg/op.h"
#include "hg/session.h"
#include "tools/command_line/cli.h"

namespace hg::tools {

// The parts that are known only for given sizes.
struct PlanSummary {
  Memory memory;
  double flops = 0;
};

struct Description {
  struct States {
    int64_t tensors = 0, elements = 0, bytes = 0;
  };
  std::string file;
  States parameters, buffers, constants;
  std::vector<std::string> guards;               // requirements on sizes
  std::vector<std::pair<std::string, int>> ops;  // with their number, most frequent first
  SymbolSizes dims;
  std::optional<PlanSummary> plan;
  std::string no_plan;  // why there is no plan
};

Description describe(const Model& model, const std::string& file);
std::string description_text(const Model& model, const Description& description);
std::string description_json(const Model& model, const Description& description);

// The entries of a file, one line each.
std::string entries_text(const Model& model, const std::string& file);
std::string entries_json(const Model& model, const std::string& file);

// All ops of a registry as a Markdown table.
std::string ops_text(const Registry& registry);

}  // namespace hg::tools
