// SPDX-License-Identifier: Apache-2.0
// Landlock (Linux 5.13) decides which files can be opened, and seccomp which system calls are
// allowed. A call that is not listed fails with EPERM.
#include "converter/sandbox/confine.h"

#include <fcntl.h>
#include <link.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "converter/core/failure.h"

namespace hg::convert {
namespace {

[[noreturn]] void cannot(const std::string& what, int error) {
  throw Failure{Exit::usage, "--sandbox: this system cannot keep it: " + what + ": " +
                                 std::strerror(error) +
                                 "; it takes Linux 5.13 or newer with Landlock and seccomp"};
}

class Descriptor {
 public:
  explicit Descriptor(long fd) : fd_(static_cast<int>(fd)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// All rights of the first version of Landlock. Rights that no rule grants are denied.
constexpr uint64_t kAllRights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

void allow_reading(const Descriptor& rules, const std::string& path) {
  const Descriptor file(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status;
  if (file.get() < 0 || fstat(file.get(), &status) != 0) return;  // nothing to read
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
  if (S_ISDIR(status.st_mode)) rule.allowed_access |= LANDLOCK_ACCESS_FS_READ_DIR;
  rule.parent_fd = file.get();
  if (syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
    cannot("Landlock refuses " + path, errno);
}

// System calls of the C and C++ libraries, OpenMP, libtorch and this converter that do not name
// files for writing and do not reach other processes.
constexpr const char* kCalls[] = {
    // Memory.
    "brk", "madvise", "mbind", "mmap", "mprotect", "mremap", "munmap", "get_mempolicy",
    "set_mempolicy",
    // Open files, and metadata of other files.
    "access", "close", "dup", "eventfd2", "faccessat", "faccessat2", "fadvise64", "fstat",
    "fstatfs", "fsync", "fdatasync", "ftruncate", "getcwd", "getdents64", "lseek", "lstat",
    "newfstatat", "pipe2", "poll", "ppoll", "pread64", "preadv", "pwrite64", "pwritev", "read",
    "readlink", "readlinkat", "readv", "stat", "statfs", "statx", "write", "writev",
    // Threads, time, and the process itself.
    "clock_getres", "clock_gettime", "clock_nanosleep", "exit", "exit_group", "futex", "getcpu",
    "getegid", "geteuid", "getgid", "getpid", "getppid", "getrandom", "getrlimit", "getrusage",
    "gettid", "gettimeofday", "getuid", "membarrier", "nanosleep", "restart_syscall", "rseq",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sched_getaffinity", "sched_getparam",
    "sched_getscheduler", "sched_yield", "set_robust_list", "set_tid_address", "sigaltstack",
    "sysinfo", "time", "times", "uname"};

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ERRNO(EPERM)), seccomp_release) {
    if (!context_) cannot("libseccomp gives no filter", ENOMEM);
  }

  // Skips a call that this processor does not have.
  template <class... Conditions>
  void rule(uint32_t action, const char* name, Conditions... conditions) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR) return;
    const int result =
        seccomp_rule_add(context_.get(), action, call, sizeof...(conditions), conditions...);
    // EDOM: a call of other processors.
    if (result != 0 && result != -EDOM) cannot(std::string("seccomp refuses ") + name, -result);
  }

  void load() {
    if (const int result = seccomp_load(context_.get()); result != 0)
      cannot("seccomp takes no filter", -result);
  }

 private:
  std::unique_ptr<void, decltype(&seccomp_release)> context_;
};

void limit_calls() {
  Filter filter;
  for (const char* name : kCalls) filter.rule(SCMP_ACT_ALLOW, name);
  // Reading only. Landlock before Linux 6.2 does not check O_TRUNC.
  constexpr uint64_t kWrites = O_ACCMODE | O_CREAT | O_TRUNC;
  filter.rule(SCMP_ACT_ALLOW, "open", SCMP_A1(SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  filter.rule(SCMP_ACT_ALLOW, "openat", SCMP_A2(SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  // Threads, but no processes. The flags of clone3 are in memory, which seccomp cannot read; the C
  // library falls back to clone.
  filter.rule(SCMP_ACT_ALLOW, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
  filter.rule(SCMP_ACT_ERRNO(ENOSYS), "clone3");
  filter.rule(SCMP_ACT_ERRNO(ENOSYS), "openat2");
  filter.rule(SCMP_ACT_ALLOW, "tgkill",
              SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid())));  // abort()
  // Limits may be read; the only setting is a thread's name.
  filter.rule(SCMP_ACT_ALLOW, "prlimit64", SCMP_A2(SCMP_CMP_EQ, 0));
  filter.rule(SCMP_ACT_ALLOW, "prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
  for (const int command : {F_GETFD, F_SETFD, F_GETFL, F_DUPFD, F_DUPFD_CLOEXEC})
    filter.rule(SCMP_ACT_ALLOW, "fcntl", SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command)));
  filter.rule(SCMP_ACT_ERRNO(ENOTTY), "ioctl");  // so that isatty() returns 0
  filter.load();
}

}  // namespace

std::vector<std::string> system_files() {
  std::vector<std::string> files = {"/usr/lib",         "/usr/lib64",         "/lib",
                                    "/lib64",           "/proc/self",         "/proc/cpuinfo",
                                    "/proc/meminfo",    "/dev/null",          "/dev/urandom",
                                    "/etc/ld.so.cache", "/sys/devices/system"};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        const std::filesystem::path file = info->dlpi_name ? info->dlpi_name : "";
        if (file.is_absolute())
          static_cast<std::vector<std::string>*>(out)->push_back(file.parent_path().string());
        return 0;
      },
      &files);
  return files;
}

void confine(const std::vector<std::string>& readable) {
  landlock_ruleset_attr rights = {};
  rights.handled_access_fs = kAllRights;
  const Descriptor rules(syscall(SYS_landlock_create_ruleset, &rights, sizeof rights, 0));
  if (rules.get() < 0) cannot("Landlock makes no rules", errno);
  for (const std::string& path : readable) allow_reading(rules, path);
  // Irrevocable; without it, neither works unprivileged.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) cannot("privileges stay", errno);
  if (syscall(SYS_landlock_restrict_self, rules.get(), 0) != 0)
    cannot("Landlock does not take its rules", errno);
  limit_calls();
}

}  // namespace hg::convert
