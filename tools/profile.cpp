// SPDX-License-Identifier: Apache-2.0
#include "tools/profile.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

namespace hg::tools {
namespace {

void append(std::string& out, const char* format, ...) {
  char line[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  out += line;
}

}  // namespace

double share_of_peak(const ProfileRow& row, const MachinePeak& peak) {
  const double seconds = std::max(row.ms * 1e-3, 1e-9);
  return std::max(row.flops / seconds * 1e-9 / peak.gflops,
                  static_cast<double>(row.bytes) / seconds * 1e-9 / peak.gbytes);
}

std::string profile_text(std::span<const ProfileRow> rows, const MachinePeak& peak) {
  std::string out;
  double total = 0;
  std::map<std::string, std::pair<double, int>> by_op;  // ms, nodes
  for (const ProfileRow& row : rows) {
    total += row.ms;
    by_op[row.op].first += row.ms;
    by_op[row.op].second += 1;
  }
  const double whole = std::max(total, 1e-9);
  append(out, "\npeak      %.1f GFLOP/s, %.1f GB/s; the nodes' least times add up to %.4f ms\n",
         peak.gflops, peak.gbytes, total);
  append(out, "\n%9s %6s %9s %9s %7s  %-18s %-14s %s\n", "ms", "share", "GFLOP/s", "GB/s",
         "of peak", "op", "kernel", "node");
  std::vector<const ProfileRow*> order;
  for (const ProfileRow& row : rows) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(),
                   [](const ProfileRow* a, const ProfileRow* b) { return a->ms > b->ms; });
  for (const ProfileRow* row : order) {
    const double seconds = std::max(row->ms * 1e-3, 1e-9);
    append(out, "%9.4f %5.1f%% %9.2f %9.2f %6.0f%%  %-18s %-14s %s\n", row->ms,
           100 * row->ms / whole, row->flops / seconds * 1e-9,
           static_cast<double>(row->bytes) / seconds * 1e-9, 100 * share_of_peak(*row, peak),
           row->op.c_str(), row->kernel.c_str(),
           (row->module.empty() ? row->node : row->module).c_str());
  }
  std::vector<std::pair<std::string, std::pair<double, int>>> ops(by_op.begin(), by_op.end());
  std::stable_sort(ops.begin(), ops.end(),
                   [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  append(out, "\n%9s %6s %6s  %s\n", "ms", "share", "nodes", "op");
  for (const auto& [op, sum] : ops) {
    append(out, "%9.4f %5.1f%% %6d  %s\n", sum.first, 100 * sum.first / whole, sum.second,
           op.c_str());
  }
  return out;
}

}  // namespace hg::tools
