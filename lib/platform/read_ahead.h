// SPDX-License-Identifier: Apache-2.0
// Reads a file into the system's memory while the program works.
#pragma once

#include <atomic>

#include "lib/platform/file.h"
#include "lib/platform/thread.h"

namespace hg {

class ReadAhead {
 public:
  // The file must outlive it.
  explicit ReadAhead(ReadFile& file) : file_(file) {}
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  // Ends the reading.
  ~ReadAhead();
  // The first call begins to read the file on a thread, in its order. Nothing happens if the system
  // cannot create one.
  void start();

 private:
  void run();

  ReadFile& file_;
  std::atomic<bool> is_started_ = false, stops_ = false;
  Thread thread_;
};

}  // namespace hg
