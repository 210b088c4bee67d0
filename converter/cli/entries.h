// SPDX-License-Identifier: Apache-2.0
// Several programs as entries of one file: methods of a module, or models of several files.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "converter/check/check.h"
#include "converter/cli/options.h"
#include "converter/core/imported.h"
#include "converter/load/load.h"

namespace hg::convert {

// Returns the job of each entry. `decode/z:f32[n,64]` applies to an input of `decode`. A name
// without an entry applies to all entries that have the input. The same is true for constants.
// Throws Failure (usage) for an option that applies to no entry.
std::vector<Job> jobs_of_entries(const Job& job, const std::vector<std::string>& names,
                                 std::span<const Loaded> entries);

// Keeps the --dim and --check-size options for symbols that an input of the entry has.
void keep_own_symbols(Job& job);
// Throws Failure (usage) for a symbol that no job has.
void refuse_unknown_symbols(const Job& job, std::span<const Job> entries);

// Adds the check of an entry to the check of the file.
void add_check_of_entry(const std::string& entry, const CheckResult& one, CheckResult& all);

struct ImportedEntry {
  std::string name;
  const ScriptProgram& program;
  const Imported& imported;
};
// Throws Failure if a method reads a non-tensor attribute that a method sets. A file stores the
// value of the attribute at conversion.
void refuse_changing_attributes(const std::string& model, std::span<const ImportedEntry> entries);

}  // namespace hg::convert
