// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while the library works without the GIL.
#pragma once

#include <csignal>
#include <stop_token>

namespace hg::python {

// During its lifetime on the main thread, SIGINT also requests a stop of its token. On other
// threads, where Python handles no signals either, it does nothing.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  std::stop_token token() const { return source_.get_token(); }
  // Called from Python code that runs in between on the main thread, such as callbacks.
  void stop() { source_.request_stop(); }

 private:
  std::stop_source source_;
  Interrupt* outer_ = nullptr;
  bool is_set_ = false;
  struct sigaction before_ = {};
};

}  // namespace hg::python
