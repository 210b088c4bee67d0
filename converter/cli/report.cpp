// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "converter/core/json_error.h"
#include "hg/version.h"
#include "tools/command_line/words.h"

namespace hg::convert {
namespace {

using Json = nlohmann::ordered_json;

Json origin_json(const std::string& op, const Origin& origin) {
  return {{"op", op}, {"module", origin.module}, {"source", origin.source}};
}

Json case_json(const CheckedCase& checked) {
  constexpr const char* kVerdicts[] = {"equal", "different", "unchecked", "ill-conditioned"};
  Json sizes = Json::object(), outputs = Json::array();
  for (const auto& [symbol, size] : checked.sizes) sizes[symbol] = size;
  for (const CheckedOutput& output : checked.outputs)
    outputs.push_back({{"name", output.name},
                       {"type", output.type},
                       {"verdict", kVerdicts[static_cast<int>(output.verdict)]},
                       {"largest_error", output.largest_error},
                       {"allowed", output.allowed},
                       {"reason", output.reason}});
  Json json = {{"sizes", sizes}, {"values", checked.values}, {"outputs", outputs}};
  if (!checked.entry.empty()) json["entry"] = checked.entry;
  return json;
}

// Prints text that is not UTF-8 with replacement characters.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

BatchJob read_job(const Json& entry, const std::string& batch) {
  BatchJob result;
  Job& job = result.job;
  try {
    if (!entry.is_object()) throw Failure{Exit::usage, "a job must be an object"};
    for (const auto& [key, value] : entry.items())
      if (const std::string unknown = tools::unknown_key(
              key, {"model", "entries", "methods", "inputs", "constants", "check_sizes", "dims",
                    "loops", "capacity", "output_dir", "check", "strict", "onnxruntime"});
          !unknown.empty())
        throw Failure{Exit::usage, unknown};
    const Json files = entry.value("entries", Json::object());
    if (!files.is_object())
      throw Failure{Exit::usage, "the job's \"entries\" is not an object of names and files"};
    for (const auto& [name, path] : files.items())
      job.entry_files.push_back({name, path.get<std::string>()});
    if (files.empty() || entry.contains("model")) job.model = entry.at("model").get<std::string>();
    std::string folder = entry.at("output_dir").get<std::string>();
    job.output = (folder.empty() ? "." : folder) + "/model.hgm";
    for (const Json& input : entry.value("inputs", Json::array()))
      job.inputs.push_back(parse_input(input.get<std::string>()));
    const Json check_sizes = entry.value("check_sizes", Json::object());
    for (const auto& [symbol, sizes] : check_sizes.items())
      job.check_sizes.push_back({symbol, sizes.get<std::vector<int64_t>>()});
    const Json dims = entry.value("dims", Json::object());
    for (const auto& [symbol, size] : dims.items())
      job.dims.push_back({symbol, {size.get<int64_t>()}});
    const Json constants = entry.value("constants", Json::object());
    for (const auto& [name, value] : constants.items())
      job.constants.push_back({name, value.is_string() ? value.get<std::string>()
                                     : value.is_null() ? "None"
                                                       : value.dump()});
    for (const Json& loop : entry.value("loops", Json::array()))
      job.loops.push_back(parse_loop(loop.get<std::string>()));
    job.capacity = entry.value("capacity", job.capacity);
    job.methods = entry.value("methods", job.methods);
    use_entry_files(job);
    refuse_overwriting(job, {{"--batch", batch}});
    job.check = entry.value("check", true);
    job.strict = entry.value("strict", false);
    if (const Json runtime = entry.value("onnxruntime", Json(false)); runtime.is_string())
      job.onnxruntime = runtime.get<std::string>();
    else if (runtime.get<bool>())
      job.onnxruntime = "";
  } catch (const Failure& failure) {
    result.trouble = failure.message;
  } catch (const nlohmann::json::exception& error) {
    result.trouble = str_cat("the job does not follow the contract: ", reason_of(error.what()));
  }
  return result;
}

}  // namespace

std::string report_json(const Report& report) {
  Json unsupported = Json::array(), ops = Json::object(), cases = Json::array();
  Json wrong = Json::array(), stages = Json::object();
  for (const Unsupported& each : report.unsupported) {
    Json entry = origin_json(each.op, each.origin);
    entry["count"] = each.count;
    entry["reason"] = each.reason;
    entry["suggestion"] = each.suggestion;
    unsupported.push_back(entry);
  }
  for (const auto& [op, count] : report.ops) ops[op] = count;
  Json entries = Json::object();
  for (const EntryFile& each : report.job.entry_files) entries[each.name] = each.path;
  Json constants = Json::object(), computed_in = Json::array();
  for (const DType dtype : report.computed_in) computed_in.push_back(to_string(dtype));
  for (const auto& [name, value] : report.job.constants) constants[name] = value;
  for (const CheckedCase& checked : report.check.cases) cases.push_back(case_json(checked));
  for (const WrongNode& node : report.check.wrong_nodes) {
    Json entry = origin_json(node.op, node.origin);
    entry["largest_error"] = node.largest_error;
    entry["difference"] = node.difference;
    wrong.push_back(entry);
  }
  for (const auto& [stage, ms] : report.stage_ms)
    stages[stage] = stages.value(stage, 0.0) + std::round(ms * 1000) / 1000;
  Json json = {{"status", status_name(report.exit)},
               {"exit_code", static_cast<int>(report.exit)},
               {"message", report.message},
               {"model", report.job.model},
               {"output", report.job.output},
               {"producer", str_cat("hg-convert ", HG_VERSION)},
               {"libtorch", report.libtorch},
               {"onnxruntime", report.onnxruntime},
               {"source_sha256", report.source_hash},
               {"methods", report.job.methods},
               {"entries", entries},
               {"inputs", report.inputs},
               {"constants", constants},
               {"outputs", report.outputs},
               {"computed_in", computed_in},
               {"parameters", report.parameters},
               {"weight_bytes", report.weight_bytes},
               {"ops", ops},
               {"unsupported", unsupported},
               {"checked", report.job.check},
               {"checks", cases},
               {"drawn", report.check.drawn},
               {"not_exercised", report.check.not_exercised},
               {"wrong_nodes", wrong},
               {"warnings", report.warnings},
               {"notes", report.notes},
               {"stage_ms", stages},
               {"summary", summary_line(report)}};
  return dump(json, 2) + "\n";
}

std::string answer_json(Exit exit, const std::string& message) {
  std::string line = message;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return dump(Json{{"status", status_name(exit)}, {"message", line}}, -1);
}

std::vector<BatchJob> read_batch(const std::string& path) {
  std::stringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
  } else {
    std::ifstream file(path);
    if (!file) throw Failure{Exit::unreadable, path + ": cannot be opened; check the path"};
    text << file.rdbuf();
  }
  Json list = Json::parse(text.str(), nullptr, false);
  if (list.is_discarded())
    throw Failure{Exit::unreadable, path + " is not valid JSON; it must be an array of jobs"};
  if (!list.is_array())
    throw Failure{Exit::usage, path + " must hold an array of jobs, as in [{\"model\": ...}]"};
  std::vector<BatchJob> jobs;
  for (const Json& entry : list) jobs.push_back(read_job(entry, path));
  return jobs;
}

}  // namespace hg::convert
