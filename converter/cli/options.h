// SPDX-License-Identifier: Apache-2.0
// Parsers for the values of hg-convert's options.
#pragma once

#include <string_view>
#include <vector>

#include "converter/cli/constants.h"
#include "converter/core/failure.h"
#include "converter/core/job.h"
#include "tools/command_line/overwrites.h"
#include "tools/command_line/words.h"

namespace hg::convert {

// Parses "x:f32[n,3,h*2]=0..1" (tools/command_line/input_text.h).
InputOption parse_input(std::string_view text);  // throws Failure (usage)

// Parses "n=1,4" of --check-size or --dim.
SizeOption parse_size(std::string_view option, std::string_view text);  // throws Failure (usage)

EntryFile parse_entry(std::string_view text);  // "encode=encoder.pt2"; throws Failure (usage)

// Sets Job::model to the file names of --entry, for messages. Throws Failure (usage) if a model or
// a method is also given, or if no output is given.
void use_entry_files(Job& job);

// Throws Overwriting (usage) if the job's output or report is also a file that the job or `read`
// reads, under whatever name.
void refuse_overwriting(const Job& job, std::vector<tools::FileOption> read = {});

using tools::closest_name;

}  // namespace hg::convert
