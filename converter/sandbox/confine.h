// SPDX-License-Identifier: Apache-2.0
// Permanently drops the permissions of a process and of all threads that it starts later.
#pragma once

#include <string>
#include <vector>

namespace hg::convert {

// Returns the folders of the shared libraries of this process, and the system files that such
// libraries read: libraries, processor information, and this process's entry in /proc.
std::vector<std::string> system_files();

// From here on, this thread can read only the files and folders in `readable` (missing ones are
// skipped). It cannot open files for writing, use the network, reach other processes or start
// processes; it can start threads. Must be called while this is the only thread. Throws Failure
// (usage), before any permission is dropped, if the system does not support this.
void confine(const std::vector<std::string>& readable);

}  // namespace hg::convert
