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
  // Waits for its end. Returns at once if start() failed, or in the child of a fork, which has only
  // the thread that forked.
  void join();

 private:
  int64_t process_ = 0;  // that has the thread; 0: none
  uintptr_t handle_ = 0;
  void (*f_)(void*) = nullptr;
  void* arg_ = nullptr;
};

// Processors that this process may run on; at least 1.
int processor_count();

}  // namespace hg
