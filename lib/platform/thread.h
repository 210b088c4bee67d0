// SPDX-License-Identifier: Apache-2.0
// A thread of the system. std::thread would abort the program where this class reports an error.
#pragma once

#include <cstdint>

namespace hg {

class Thread {
 public:
  // Runs f(arg) on a new thread that receives no signals. Returns false if the system cannot create
  // one.
  bool start(void (*f)(void* arg), void* arg);
  void join();

 private:
  uintptr_t handle_ = 0;
  void (*f_)(void*) = nullptr;
  void* arg_ = nullptr;
};

// Processors that this process may run on; at least 1.
int processor_count();

}  // namespace hg
