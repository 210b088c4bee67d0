// SPDX-License-Identifier: Apache-2.0
// hg-info: prints a model's inputs, outputs and cost, and draws its graph and memory.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "hg/graph.h"
#include "hg/needs.h"
#include "hg/version.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/overwrites.h"
#include "tools/describe.h"
#include "tools/draw/draw_graph.h"
#include "tools/draw/draw_memory.h"
#include "tools/draw/graph_boxes.h"
#include "tools/entry.h"
#include "tools/gpu.h"
#include "tools/html_page.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

// A string of DOT: a backslash starts an escape sequence, and "\\l" ends a left-aligned line.
std::string dot_text(std::string_view from, bool is_line = false) {
  std::string to;
  for (const char c : from) {
    if (c == '"' || c == '\\') to += '\\';
    to += c == '\n' ? ' ' : c;
  }
  return is_line ? to + "\\l" : "\"" + to + "\"";
}

// The modules of a graph as a tree; each has the boxes that are in it but in no inner module.
struct Module {
  std::map<std::string, Module> inside;
  std::vector<int> boxes;
  int count() const {
    int sum = static_cast<int>(boxes.size());
    for (const auto& [name, module] : inside) sum += module.count();
    return sum;
  }
};

std::string box_text(const Box& box, int index) {
  const BoxStyle& style = style_of(box.kind);
  std::string label = dot_text(box.side.empty() ? box.title : box.title + "  " + box.side, true);
  for (const std::string& line : box.lines) label += dot_text(line, true);
  const bool is_end = box.kind == BoxKind::input || box.kind == BoxKind::output;
  return str_cat("n", index, " [label=\"", label,
                 "\" style=", is_end ? "\"filled,rounded\"" : "filled",
                 " fillcolor=", dot_text(style.fill), " color=", dot_text(style.stroke),
                 " tooltip=", dot_text(box.tooltip), "];\n");
}

void write(const GraphBoxes& graph, const Module& module, int& clusters, std::string& out) {
  for (const int index : module.boxes) out += box_text(graph.boxes[index], index);
  for (const auto& [name, inner] : module.inside) {
    const bool is_cluster = inner.count() > 1;
    if (is_cluster)
      out += str_cat("subgraph cluster", clusters++, " {\nlabel=", dot_text(name), ";\n");
    write(graph, inner, clusters, out);
    if (is_cluster) out += "}\n";
  }
}

// A node "n0", "n1" ... for each box of draw_graph, and a cluster for each module with at least two
// boxes.
std::string graph_as_dot(const Graph& graph, const std::string& title) {
  const GraphBoxes boxes = boxes_of(graph);
  Module root;
  for (size_t i = 0; i < boxes.boxes.size(); ++i) {
    Module* at = &root;
    for (const std::string& module : modules_around(boxes.boxes[i].module))
      at = &at->inside[module];
    at->boxes.push_back(static_cast<int>(i));
  }
  std::string out = str_cat("digraph ", dot_text(title), " {\nlabel=", dot_text(title),
                            ";\nlabelloc=t;\nfontname=\"sans-serif\";\ncolor=\"#d5dce3\";\n"
                            "node [shape=box fontname=\"sans-serif\" fontsize=11];\n"
                            "edge [color=\"#7b8794\"];\n");
  int clusters = 0;
  write(boxes, root, clusters, out);
  for (const Arrow& arrow : boxes.arrows) out += str_cat("n", arrow.from, " -> n", arrow.to, ";\n");
  return out + "}\n";
}

constexpr char kExamples[] = R"(Examples:
  hg-info resnet18.hgm
  hg-info resnet18.hgm --dim n=1 --memory-svg memory.svg
  hg-info resnet18.hgm --svg graph.svg
  hg-info resnet18.hgm --dot - | dot -Tpdf -o graph.pdf
  hg-info resnet18.hgm --dim n=1 --html resnet18.html
  hg-info resnet18.hgm --compiled --text
  hg-info filters.hgm --entry blur
  hg-info --ops
  hg-info --needs digits.hgm > digits.needs

Work and memory are known once every symbol has a size. --compiled shows the graph that a session
runs, after the passes, instead of the one in the file. The CMake option HG_OPS reads the output of
--needs to build a library that holds only these ops.

Exit codes: 0 ok, 1 usage, 2 unreadable file, 3 unsupported, 4 sizes and model do not fit.)";

constexpr const char* kVerified = "the weights are undamaged: all checksums match";

struct InfoJob {
  std::string model, entry;
  std::vector<std::string> dims;
  std::string device = "cpu";
  bool as_json = false, as_text = false, compiled = false, ops = false, verify = false,
       needs = false;
  std::string svg, dot, memory_svg, html, trace;
  std::vector<std::string> disabled_passes;
};

Outcome check_files(const InfoJob& job) {
  const FileOption read[] = {{"MODEL", job.model}, {"--trace", job.trace}};
  const FileOption written[] = {{"--html", job.html},
                                {"--svg", job.svg},
                                {"--dot", job.dot},
                                {"--memory-svg", job.memory_svg}};
  return check_overwrites(written, read);
}

std::string stem(const std::string& path) { return text_of(path_of(path).filename()); }

// A planned session; fails with not_found if sizes are open.
Result<Session> plan(const Model& model, Device device, GpuOfTool& gpu, const SymbolSizes& dims,
                     const std::vector<std::string>& disabled_passes) {
  std::string open;
  for (const std::string& symbol : model.graph().symbols()) {
    const bool given =
        std::any_of(dims.begin(), dims.end(), [&](const auto& dim) { return dim.first == symbol; });
    if (!given) open += str_cat(" --dim ", symbol, "=1");
  }
  if (!open.empty()) return not_found("known once sizes are given, such as", open);
  SessionOptions options;
  options.device = device;
  HG_TRY(gpu.give_to(options));
  options.dims = dims;
  options.disabled_passes = disabled_passes;
  HG_TRY_ASSIGN(Session session, Session::create(model, std::move(options)));
  HG_TRY(session.plan(dims));
  return session;
}

// Milliseconds by node, from a file of hg-bench --trace.
Outcome read_trace(const std::string& path, std::map<std::string, double>& ms) {
  std::ifstream file(path_of(path), std::ios::binary);
  const nlohmann::json trace = nlohmann::json::parse(file, nullptr, false);
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array())
    return {Exit::unreadable, str_cat("--trace ", path, ": is not a trace of hg-bench")};
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (!event.is_object() || !event.contains("args") || !event.contains("dur")) continue;
    const nlohmann::json &args = event["args"], &us = event["dur"];
    if (!args.is_object() || !args.contains("node") || !args["node"].is_string()) continue;
    if (us.is_number()) ms[args["node"].get<std::string>()] = us.get<double>() / 1e3;
  }
  return {};
}

Outcome write_page(const InfoJob& job, const Model& model, const Graph& graph,
                   const Result<Session>& session) {
  PageParts parts{.title = stem(job.model), .memory_svg = "", .ms = {}};
  for (const Model::QuantizedState& state : model.info().quantized)
    parts.errors[state.name] = state.error;
  if (!job.trace.empty())
    if (Outcome read = read_trace(job.trace, parts.ms); !read.ok()) return read;
  if (session.ok())
    if (const Result<Memory> memory = session->memory(); memory.ok())
      parts.memory_svg = draw_memory(session->arena_blocks(), *memory, parts.title);
  return write_text(html_page(graph, parts), job.html);
}

Outcome check_symbols(const Graph& graph, const SymbolSizes& dims) {
  const std::vector<std::string> symbols = graph.symbols();
  for (const auto& [symbol, size] : dims) {
    if (std::find(symbols.begin(), symbols.end(), symbol) != symbols.end()) continue;
    std::string known;
    for (const std::string& name : symbols) known += str_cat(known.empty() ? "" : ", ", name);
    return mismatch("--dim ", symbol, "=", size, ": the model has no such symbol; it has ",
                    known.empty() ? "none" : known);
  }
  return {};
}

Outcome show_entries(const Model& model, const InfoJob& job) {
  if (job.verify) {
    std::puts(kVerified);
    return {};
  }
  const std::string shown =
      job.as_json ? entries_json(model, job.model) + "\n" : entries_text(model, job.model);
  std::fputs(shown.c_str(), stdout);
  return {};
}

Outcome show_needs(const InfoJob& job) {
  const Result<SymbolSizes> dims = parse_dims(job.dims);
  if (!dims.ok()) return usage(dims.status().message());
  const Result<Needs> needs = needs_of(job.model, *dims);
  if (!needs.ok()) return outcome(needs.status());
  std::printf("hologram %s\n", HG_VERSION);
  for (const DType dtype : needs->dtypes)
    std::printf("dtype %s\n", std::string(to_string(dtype)).c_str());
  for (const std::string& op : needs->ops) std::printf("op %s\n", op.c_str());
  for (const auto& [kernel, sets] : needs->kernels) {
    std::printf("kernel %s %s", kernel.first.c_str(), kernel.second.c_str());
    for (const std::string& set : sets) std::printf(" %s", set.c_str());
    std::printf("\n");
  }
  return {};
}

Outcome show(const InfoJob& job) {
  Result<Device> device = parse_device(job.device);
  if (!device.ok()) return usage(device.status().message());
  Result<SymbolSizes> dims = parse_dims(job.dims);
  if (!dims.ok()) return usage(dims.status().message());
  const Result<Model> file =
      Model::load(job.model, Registry::built_in(), {.verify_weights = job.verify});
  if (!file.ok()) return outcome(file.status());
  if (job.entry.empty() && !file->entries().empty()) return show_entries(*file, job);
  Result<Model> model = entry_of(*file, job.model, job.entry);
  if (!model.ok()) return outcome(model.status());
  if (job.verify) {
    std::puts(kVerified);
    return {};
  }
  if (Outcome known = check_symbols(model->graph(), *dims); !known.ok()) return known;

  GpuOfTool gpu;
  Result<Session> session = plan(*model, *device, gpu, *dims, job.disabled_passes);
  const bool needs_plan = job.compiled || !job.memory_svg.empty() || !job.dims.empty();
  if (needs_plan && !session.ok()) {
    const bool open = session.status().code() == Code::not_found;
    if (open) return usage("the plan is ", session.status().message());
    return outcome(session.status());
  }
  const Graph& graph = job.compiled ? session->compiled_graph() : model->graph();
  if (!job.html.empty())
    if (Outcome written = write_page(job, *model, graph, session); !written.ok()) return written;
  if (!job.svg.empty()) {
    Outcome written = write_text(draw_graph(graph, stem(job.model)), job.svg);
    if (!written.ok()) return written;
  }
  if (!job.dot.empty()) {
    const std::string drawn = graph_as_dot(graph, stem(job.model));
    if (job.dot == "-") {
      std::fputs(drawn.c_str(), stdout);
      return {};
    }
    if (Outcome written = write_text(drawn, job.dot); !written.ok()) return written;
  }
  Result<Memory> memory = not_found("");
  if (session.ok()) memory = session->memory();
  if (!job.memory_svg.empty()) {
    if (!memory.ok()) return outcome(memory.status());
    const std::string drawn = draw_memory(session->arena_blocks(), *memory, stem(job.model));
    if (Outcome written = write_text(drawn, job.memory_svg); !written.ok()) return written;
  }
  if (job.as_text) {
    std::fputs(graph.text().c_str(), stdout);
    return {};
  }
  Description description = describe(*model, job.model);
  description.dims = *dims;
  if (memory.ok()) {
    description.plan = PlanSummary{*memory, session->flops()};
  } else {
    const Status why = session.ok() ? memory.status() : session.status();
    description.no_plan = why.message();
  }
  if (job.as_json) {
    std::puts(description_json(*model, description).c_str());
  } else {
    std::fputs(description_text(*model, description).c_str(), stdout);
    if (session.ok() && *device != Device::cpu) std::fputs(session->report().c_str(), stdout);
  }
  return {};
}

}  // namespace
}  // namespace hg::tools

int main(int argc, char** argv) {
  using namespace hg::tools;
  use_utf8(argc, argv);
  CommandLine line("hg-info", "Describes and draws a Hologram model.", kExamples);
  InfoJob job;
  line.add("MODEL", job.model, "the model, an .hgm file");
  line.add("--entry,--function", job.entry, "the entry to describe, if the file has several");
  line.add("--dim", job.dims, "n=1: the size of a symbol");
  line.add("--device", job.device, "cpu, vulkan or auto").shows_default();
  line.add_flag("--text", job.as_text, "print the whole graph, one node per line");
  line.add_flag("--compiled", job.compiled, "show the graph after the passes");
  line.add("--disable-pass", job.disabled_passes, "a compiler pass to disable");
  line.add("--html", job.html, "write a web page to this file: graph, memory, time, weights");
  line.add("--trace", job.trace, "node times of hg-bench --trace, for --html --compiled");
  line.add("--svg", job.svg, "draw the graph to this file");
  line.add("--dot", job.dot, "write the graph in Graphviz's language to this file, or to -");
  line.add("--memory-svg", job.memory_svg, "draw the arena over time to this file");
  line.add_flag("--verify", job.verify, "only check the weights against their checksums");
  line.add_flag("--json", job.as_json, "print one JSON object");
  line.add_flag("--needs", job.needs,
                "list the ops and dtypes that a library for this model needs");
  line.add_flag("--ops", job.ops, "list all ops of the library instead");
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  if (job.ops) {
    std::fputs(ops_text(hg::Registry::built_in()).c_str(), stdout);
    return 0;
  }
  if (job.model.empty()) return finish("hg-info", usage("no MODEL is given; see hg-info --help"));
  if (const Outcome o = check_files(job); !o.ok()) return finish("hg-info", o);
  return finish("hg-info", job.needs ? show_needs(job) : show(job));
}
