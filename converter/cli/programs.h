// SPDX-License-Identifier: Apache-2.0
// Reads the programs of a conversion: the program of a file, the methods of a TorchScript module,
// or one file per entry.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "converter/cli/options.h"
#include "converter/cli/standard_input.h"
#include "converter/load/load.h"
#include "converter/load/recognise.h"

namespace hg::convert {

struct SourceFile {
  std::string path, label;
  Format format;
};
// `input` keeps standard input open. Throws Failure.
std::vector<SourceFile> recognise_files(const Job& job, std::unique_ptr<StandardInput>& input);

// Returns the hashes of the files, separated by spaces.
std::string sha256_of_files(const std::vector<SourceFile>& files);

struct EntryProgram {
  std::string entry;  // empty: the only program, without a name
  Format format;
  Job job;  // with the options for this entry
  Loaded loaded;
};
// Throws Failure. The files must not be GGUF files.
std::vector<EntryProgram> read_programs(const Job& job, const std::vector<SourceFile>& files);

}  // namespace hg::convert
