// SPDX-License-Identifier: Apache-2.0
#include <windows.h>

#include <algorithm>
#include <thread>

#include "lib/platform/thread.h"

namespace hg {

bool Thread::start(void (*f)(void*), void* arg) {
  f_ = f;
  arg_ = arg;
  const HANDLE thread = CreateThread(
      nullptr, 0,
      [](void* self) -> DWORD {
        const Thread& t = *static_cast<const Thread*>(self);
        t.f_(t.arg_);
        return 0;
      },
      this, 0, nullptr);
  handle_ = reinterpret_cast<uintptr_t>(thread);
  process_ = thread != nullptr ? 1 : 0;
  return thread != nullptr;
}

void Thread::join() {
  if (process_ == 0) return;
  WaitForSingleObject(reinterpret_cast<HANDLE>(handle_), INFINITE);
  CloseHandle(reinterpret_cast<HANDLE>(handle_));
}

int processor_count() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace hg
