// SPDX-License-Identifier: Apache-2.0
// One job of hg-run, from its command line or an entry of its --batch list.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hg/shared_states.h"
#include "tools/command_line/cli.h"
#include "tools/gpu.h"

namespace hg::tools {

struct RunJob {
  std::string model;
  std::string entry;                  // of a file with several; empty: the only one
  std::vector<std::string> adapters;  // files
  std::string stream;  // jobs of one model and stream share the states that runs change; "": none
  std::string device = "cpu", precision = "f32", packed;
  int threads = 0;  // 0: all
  std::vector<std::string> inputs;
  std::vector<std::string> grad_outputs;  // one file per float output, or none
  std::string output_dir;
  bool as_f32 = false;                                // f16 and bf16 outputs become f32
  uint64_t seed = 0;                                  // of random inputs and random ops
  std::vector<std::string> kernels, disabled_passes;  // as in SessionOptions
  std::vector<std::string> plugins;                   // shared libraries with ops
};

// The states of each model and stream.
using Streams = std::map<std::pair<std::string, std::string>, std::shared_ptr<SharedStates>>;

// Loads, runs and writes. Appends the paths of the written files, and notes.
Outcome run(const RunJob& job, GpuOfTool& gpu, Streams& streams, std::vector<std::string>& written,
            std::vector<std::string>& notes);

// Runs the jobs of a JSON file one after another. Settings that a job omits come from `defaults`.
// Each job adds one line of JSON to `answer`. The result is ok if all jobs succeed.
Outcome run_batch(const std::string& list, const RunJob& defaults,
                  void (*answer)(const std::string& line));

}  // namespace hg::tools
