// SPDX-License-Identifier: Apache-2.0
#include "converter/load/onnx/order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "converter/core/failure.h"

namespace hg::convert::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<file::NodeProto>;

using Names = std::set<std::string>;

// Returns the names that a graph defines without its nodes.
std::unordered_set<std::string> given_names(const file::GraphProto& graph) {
  std::unordered_set<std::string> names;
  for (const file::ValueInfoProto& input : graph.input()) names.insert(input.name());
  for (const file::TensorProto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const file::SparseTensorProto& tensor : graph.sparse_initializer())
    names.insert(tensor.values().name());
  return names;
}

// Returns the names that a body reads from the graphs around it. `own` are its given_names();
// `reads` are the names that each of its nodes reads.
Names outer_names(const file::GraphProto& body, std::unordered_set<std::string> own,
                  const std::vector<Names>& reads) {
  for (const file::NodeProto& node : body.node())
    own.insert(node.output().begin(), node.output().end());
  Names outer;
  const auto read = [&](const std::string& name) {
    if (!name.empty() && !own.contains(name)) outer.insert(name);
  };
  for (const Names& names : reads) std::for_each(names.begin(), names.end(), read);
  for (const file::ValueInfoProto& output : body.output()) read(output.name());
  return outer;
}

std::string quoted_name(const file::NodeProto& node) {
  std::string name = node.name();
  if (name.empty() && node.output_size() > 0) name = node.output(0);
  return str_cat(node.op_type(), " '", name, "'");
}

// Sorts the nodes of one graph, body or function.
class Sorter {
 public:
  // `given` are the names that the graph defines without its nodes; `reads` those that each node
  // reads.
  Sorter(Nodes& nodes, const std::unordered_set<std::string>& given,
         const std::vector<Names>& reads)
      : nodes_(nodes), given_(given), reads_(reads) {
    for (int i = 0; i < nodes.size(); ++i)
      for (const std::string& name : nodes[i].output())
        if (!name.empty()) producers_[name].push_back(i);
  }

  void run(const std::vector<std::string>& results) {
    find_live(results);
    std::vector<int> order;
    for (int i = 0; i < nodes_.size(); ++i)
      if (live_[i]) order.push_back(i);
    if (!is_sorted(order)) order = sorted(order);
    if (static_cast<int>(order.size()) == nodes_.size() &&
        std::is_sorted(order.begin(), order.end()))
      return;
    std::vector<file::NodeProto*> all(nodes_.size());
    nodes_.ExtractSubrange(0, nodes_.size(), all.data());
    for (const int i : order) nodes_.AddAllocated(std::exchange(all[i], nullptr));
    for (file::NodeProto* dead : all) delete dead;
  }

 private:
  // Calls visit(name, producing nodes) for each value of this graph's nodes that node i reads.
  template <class Visit>
  void for_producers(int i, const Visit& visit) const {
    for (const std::string& name : reads_[i]) {
      const auto found = producers_.find(name);
      if (found != producers_.end() && !given_.contains(name)) visit(name, found->second);
    }
  }

  void find_live(const std::vector<std::string>& results) {
    live_.assign(nodes_.size(), false);
    std::vector<int> next;
    const auto use = [&](const std::vector<int>& producers) {
      for (const int i : producers)
        if (!live_[i]) {
          live_[i] = true;
          next.push_back(i);
        }
    };
    for (const std::string& name : results)
      if (const auto found = producers_.find(name); found != producers_.end()) use(found->second);
    while (!next.empty()) {
      const int i = next.back();
      next.pop_back();
      for (const std::string& name : reads_[i])
        if (const auto found = producers_.find(name); found != producers_.end()) use(found->second);
    }
  }

  bool is_sorted(const std::vector<int>& order) const {
    bool sorted = true;
    for (const int i : order)
      for_producers(i, [&](const std::string&, const std::vector<int>& from) {
        sorted = sorted && from[0] < i;
      });
    return sorted;
  }

  // Of the nodes that can run, the first in the file comes next.
  std::vector<int> sorted(const std::vector<int>& nodes) const {
    std::vector<int> missing(nodes_.size()), order;
    std::vector<std::vector<int>> readers(nodes_.size());
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (const int i : nodes) {
      for_producers(i, [&](const std::string& name, const std::vector<int>& from) {
        if (from.size() > 1)
          throw Failure{Exit::unreadable,
                        str_cat(quoted_name(nodes_[from[0]]), " and ", quoted_name(nodes_[from[1]]),
                                " both give '", name, "', which ", quoted_name(nodes_[i]),
                                " reads; export the model again")};
        readers[from[0]].push_back(i);
        ++missing[i];
      });
      if (missing[i] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const int reader : readers[order.back()])
        if (--missing[reader] == 0) ready.push(reader);
    }
    if (order.size() < nodes.size()) fail_cycle(nodes, missing);
    return order;
  }

  [[noreturn]] void fail_cycle(const std::vector<int>& nodes,
                               const std::vector<int>& missing) const {
    // Every node that cannot run reads a result of another such node, so following them finds a
    // cycle.
    int at = *std::find_if(nodes.begin(), nodes.end(), [&](int i) { return missing[i] > 0; });
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      int next = -1;
      for_producers(at, [&](const std::string&, const std::vector<int>& from) {
        if (next < 0 && missing[from[0]] > 0) next = from[0];
      });
      at = next;
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    if (path.size() == 1)
      throw Failure{Exit::unreadable, str_cat(quoted_name(nodes_[at]),
                                              " reads its own result; export the model again")};
    constexpr size_t kMostNamed = 4;
    std::string names;
    for (size_t i = 0; i < std::min(path.size(), kMostNamed); ++i)
      names += str_cat(i == 0 ? "" : ", ", quoted_name(nodes_[path[i]]));
    throw Failure{
        Exit::unreadable,
        str_cat("the graph has a cycle: each of these ", static_cast<int64_t>(path.size()),
                " nodes reads a result of the next, and the last one of the first: ", names,
                path.size() > kMostNamed ? ", ..." : "", "; export the model again")};
  }

  Nodes& nodes_;
  const std::unordered_set<std::string>& given_;
  const std::vector<Names>& reads_;
  std::unordered_map<std::string, std::vector<int>> producers_;
  std::vector<bool> live_;
};

Names sort_graph(file::GraphProto& graph);

// Sorts the bodies of the nodes. Returns the names that each node reads.
std::vector<Names> sort_bodies(Nodes& nodes) {
  std::vector<Names> reads;
  for (file::NodeProto& node : nodes) {
    Names& names = reads.emplace_back(node.input().begin(), node.input().end());
    names.erase("");
    for (file::AttributeProto& attribute : *node.mutable_attribute())
      if (attribute.has_g()) names.merge(sort_graph(*attribute.mutable_g()));
  }
  return reads;
}

// Sorts the graph. Returns the names that it reads from the graphs around it.
Names sort_graph(file::GraphProto& graph) {
  const std::vector<Names> reads = sort_bodies(*graph.mutable_node());
  std::vector<std::string> results;
  for (const file::ValueInfoProto& output : graph.output()) results.push_back(output.name());
  const std::unordered_set<std::string> given = given_names(graph);
  Names outer = outer_names(graph, given, reads);
  Sorter(*graph.mutable_node(), given, reads).run(results);
  return outer;
}

}  // namespace

std::set<std::string> names_read(const file::NodeProto& node) {
  Names names(node.input().begin(), node.input().end());
  names.erase("");
  for (const file::AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    std::vector<Names> reads;
    for (const file::NodeProto& inner : attribute.g().node()) reads.push_back(names_read(inner));
    names.merge(outer_names(attribute.g(), given_names(attribute.g()), reads));
  }
  return names;
}

void sort_nodes(file::ModelProto& model) {
  sort_graph(*model.mutable_graph());
  for (file::FunctionProto& function : *model.mutable_functions()) {
    const std::vector<Names> reads = sort_bodies(*function.mutable_node());
    const std::unordered_set<std::string> given(function.input().begin(), function.input().end());
    Sorter(*function.mutable_node(), given, reads)
        .run({function.output().begin(), function.output().end()});
  }
}

}  // namespace hg::convert::onnx
