// SPDX-License-Identifier: Apache-2.0
// Permanently drops the rights of a process and of all threads that it starts later.
#pragma once

#include <string>
#include <vector>

namespace hg::convert {

// The folders of the shared libraries that this process runs, and what such libraries read of the
// system: its libraries, its processors, its own entry in /proc.
std::vector<std::string> system_files();

// From here on this thread reads files of `readable` alone, files or whole folders (what is missing
// is passed over), opens none for writing, reaches no network and no other process, and starts
// threads but no process. Throws Failure (usage), before anything is given up, where the system
// cannot keep that. Nothing but this thread may run.
void confine(const std::vector<std::string>& readable);

}  // namespace hg::convert
