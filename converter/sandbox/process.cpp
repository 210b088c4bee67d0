// SPDX-License-Identifier: Apache-2.0
// Two pipes lead out of the process: one for messages, each with a letter, a length and its bytes,
// and one for printed text. The parent treats all received bytes as untrusted.
#include "converter/sandbox/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <optional>

#include "converter/core/failure.h"
#include "converter/sandbox/confine.h"
#include "converter/sandbox/printable.h"
#include "hg/status.h"

namespace hg::convert {
namespace {

constexpr uint32_t kLongestMessage = 64 << 20;
enum Letter : char { kProgress = 'p', kAnswer = 'a', kFailure = 'f' };

// Shared between parent and child.
std::atomic<bool>* memory_refused = nullptr;

void refuse_memory() {
  memory_refused->store(true);
  throw std::bad_alloc();
}

void write_all(int fd, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t written = write(fd, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(1);  // the parent does not listen
    bytes += written;
    count -= static_cast<size_t>(written);
  }
}

void send(int fd, Letter letter, const std::string& text) {
  const uint32_t length = static_cast<uint32_t>(std::min<size_t>(text.size(), kLongestMessage));
  std::array<char, 5> head = {letter};
  std::memcpy(head.data() + 1, &length, sizeof length);
  write_all(fd, head.data(), head.size());
  write_all(fd, text.data(), length);
}

void limit(int resource, int64_t most) {
  rlimit now;
  if (getrlimit(static_cast<__rlimit_resource>(resource), &now) != 0) return;
  const rlim_t value = std::min(now.rlim_max, static_cast<rlim_t>(most));
  const rlimit next = {value, value};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &next) != 0)
    throw Failure{Exit::usage, str_cat("--sandbox: a limit cannot be set: ", std::strerror(errno))};
}

// With less room, a new page of the stack would end the process without a message.
void limit_memory(int64_t most) {
  constexpr int64_t kRoom = 64 << 20;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const int64_t taken = pages * sysconf(_SC_PAGESIZE);
  if (taken + kRoom > most)
    throw Failure{Exit::usage,
                  str_cat("--sandbox-memory ", most >> 20, ": the program itself takes ",
                          taken >> 20, " MiB; allow at least ", ((taken + kRoom) >> 20) + 1)};
  std::set_new_handler(refuse_memory);
  limit(RLIMIT_AS, most);
}

void close_others(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned first = 0;
  for (const int fd : kept) {
    if (static_cast<unsigned>(fd) > first)
      syscall(SYS_close_range, first, static_cast<unsigned>(fd) - 1, 0u);
    first = static_cast<unsigned>(fd) + 1;
  }
  syscall(SYS_close_range, first, ~0u, 0u);
}

[[noreturn]] void be_the_process(const Sandbox& sandbox, int messages, int printed, pid_t parent,
                                 const std::function<std::string(const Tell&)>& work) {
  try {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int empty = open("/dev/null", O_RDONLY);
    dup2(sandbox.input >= 0 ? sandbox.input : empty, STDIN_FILENO);
    dup2(printed, STDOUT_FILENO);
    dup2(printed, STDERR_FILENO);
    std::vector<int> kept = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, messages};
    if (sandbox.result >= 0) kept.push_back(sandbox.result);
    close_others(std::move(kept));
    std::vector<std::string> readable = system_files();
    readable.insert(readable.end(), sandbox.readable.begin(), sandbox.readable.end());
    readable.push_back("/proc/self/fd/0");
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, sandbox.memory_bytes);
    limit_memory(sandbox.memory_bytes);
    confine(readable);
    std::mutex one_at_a_time;
    const std::string answer = work([&](const std::string& text) {
      const std::lock_guard<std::mutex> lock(one_at_a_time);
      send(messages, kProgress, text);
    });
    std::fflush(stdout);
    send(messages, kAnswer, answer);
    _exit(0);
  } catch (const Failure& failure) {
    send(messages, kFailure, failure.message);
  } catch (const std::exception&) {  // no memory for the answer
  }
  _exit(1);
}

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0)
      throw Failure{Exit::usage, str_cat("--sandbox: no pipe: ", std::strerror(errno))};
  }
  ~Pipe() {
    for (const int end : {0, 1}) shut(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int end(int which) const { return ends_[which]; }
  void shut(int which) {
    if (ends_[which] >= 0) close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

// Parses the messages as they arrive, in pieces of any length.
class Listener {
 public:
  Listener(SandboxEnd& end, const Tell& progress) : end_(end), progress_(progress) {}

  // Returns false if the bytes are not messages.
  bool take(const char* bytes, size_t count) {
    buffer_.append(bytes, count);
    size_t at = 0;
    for (uint32_t length = 0; buffer_.size() - at >= 5; at += 5 + length) {
      std::memcpy(&length, buffer_.data() + at + 1, sizeof length);
      if (length > kLongestMessage) return false;
      if (buffer_.size() - at - 5 < length) break;
      if (!hear(buffer_[at], buffer_.substr(at + 5, length))) return false;
    }
    buffer_.erase(0, at);
    return true;
  }
  const std::optional<std::string>& failure() const { return failure_; }
  bool is_done() const { return end_.has_answer || failure_; }

 private:
  bool hear(char letter, std::string text) {
    if (letter == kProgress) {
      progress_(printable(std::move(text)));
    } else if (letter == kFailure) {
      failure_ = printable(std::move(text));
    } else if (letter == kAnswer) {
      end_.answer = std::move(text);
      end_.has_answer = true;
    } else {
      return false;
    }
    return true;
  }

  SandboxEnd& end_;
  const Tell& progress_;
  std::string buffer_;
  std::optional<std::string> failure_;
};

// Reads until both pipes are closed. Does not wait for a child that has answered.
void listen(Pipe& messages, Pipe& printed, Listener& listener, pid_t process) {
  std::array<char, 1 << 16> buffer;
  while (messages.end(0) >= 0 || printed.end(0) >= 0) {
    std::array<pollfd, 2> ready = {{{messages.end(0), POLLIN, 0}, {printed.end(0), POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), -1) < 0) continue;  // a signal
    if (ready[0].revents != 0) {
      const ssize_t got = read(messages.end(0), buffer.data(), buffer.size());
      const bool is_sense = got <= 0 || listener.take(buffer.data(), static_cast<size_t>(got));
      if (got <= 0 || !is_sense || listener.is_done()) {
        messages.shut(0);
        kill(process, SIGKILL);  // no effect if it has ended
      }
    }
    if (ready[1].revents != 0) {
      const ssize_t got = read(printed.end(0), buffer.data(), buffer.size());
      if (got <= 0) {
        printed.shut(0);
        continue;
      }
      const std::string text = printable({buffer.data(), static_cast<size_t>(got)});
      std::fwrite(text.data(), 1, text.size(), stderr);
    }
  }
}

}  // namespace

SandboxEnd run_in_sandbox(const Sandbox& sandbox,
                          const std::function<std::string(const Tell& progress)>& work,
                          const Tell& progress) {
  void* shared = mmap(nullptr, sizeof *memory_refused, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    throw Failure{Exit::usage, str_cat("--sandbox: no memory: ", std::strerror(errno))};
  memory_refused = new (shared) std::atomic<bool>(false);
  Pipe messages, printed;
  std::fflush(nullptr);  // so that the child does not print it again
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0)
    throw Failure{Exit::usage, str_cat("--sandbox: no process: ", std::strerror(errno))};
  if (process == 0) be_the_process(sandbox, messages.end(1), printed.end(1), parent, work);
  messages.shut(1);
  printed.shut(1);
  SandboxEnd end;
  Listener listener(end, progress);
  listen(messages, printed, listener, process);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  end.memory_refused = memory_refused->load();
  munmap(shared, sizeof *memory_refused);
  if (listener.failure()) throw Failure{Exit::usage, *listener.failure()};
  return end;
}

}  // namespace hg::convert
