// SPDX-License-Identifier: Apache-2.0
// Permissions of a sandboxed process, and that everything else fails. Each attempt first succeeds
// outside the sandbox.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "converter/core/failure.h"
#include "converter/sandbox/printable.h"
#include "converter/sandbox/process.h"

namespace hg::convert {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMemory = int64_t{1} << 29;
const Tell kNoProgress = [](const std::string&) {};

class SandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    if (syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 0)
      GTEST_SKIP() << "this system has no Landlock";
    std::string name = (fs::temp_directory_path() / "hg-sandbox-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    for (const char* file : {"shared", "secret"}) std::ofstream(folder_ / file) << "a line";
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

int descriptors() {
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

TEST_F(SandboxTest, AnswersAndTells) {
  const int before = descriptors();
  std::vector<std::string> told;
  for (const size_t length : {0, 1, 70000, 5000000}) {
    told.clear();
    const SandboxEnd end = run_in_sandbox(
        {.memory_bytes = kMemory},
        [&](const Tell& tell) {
          tell("first");
          tell("");
          tell("la\033[2Jst\n");
          return std::string(length, 'x');
        },
        [&](const std::string& text) { told.push_back(text); });
    EXPECT_TRUE(end.has_answer);
    EXPECT_EQ(end.answer, std::string(length, 'x'));
    EXPECT_EQ(told, (std::vector<std::string>{"first", "", "la?[2Jst\n"}));
    EXPECT_FALSE(end.memory_refused);
  }
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(SandboxTest, ReadsWhatItMayAndWritesTheResult) {
  const int input = open(in_folder("secret").c_str(), O_RDONLY | O_CLOEXEC);
  const int result = open(in_folder("result").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const SandboxEnd end = run_in_sandbox(
      {kMemory, {in_folder("shared"), in_folder("missing")}, input, result},
      [&](const Tell&) {
        std::string all;
        for (const std::string& path : {in_folder("shared"), std::string("/dev/fd/0")}) {
          std::ifstream file(path);
          std::string line;
          std::getline(file, line);
          all += line + ";";
        }
        return all + std::to_string(write(result, all.data(), all.size()));
      },
      kNoProgress);
  close(input);
  close(result);
  EXPECT_EQ(end.answer, "a line;a line;14");
  EXPECT_EQ(fs::file_size(folder_ / "result"), 14u);
}

TEST_F(SandboxTest, ThreadsCompute) {
  const SandboxEnd end = run_in_sandbox(
      {.memory_bytes = kMemory},
      [](const Tell&) {
        std::vector<int> sums(4);
        std::vector<std::thread> threads;
        for (int& sum : sums) threads.emplace_back([&sum] { sum = 21; });
        for (std::thread& thread : threads) thread.join();
        return std::to_string(std::accumulate(sums.begin(), sums.end(), 0));
      },
      kNoProgress);
  EXPECT_EQ(end.answer, "84");
}

// Each attempt must succeed here, so that its failure in the sandbox is meaningful.
TEST_F(SandboxTest, EverythingElseFails) {
  const pid_t outside = getpid();
  const auto opened = [](int fd) {
    if (fd >= 0) close(fd);
    return fd >= 0;
  };
  const auto opens = [&](const std::string& name, int flags) {
    return [=, this] { return opened(open(in_folder(name).c_str(), flags | O_CLOEXEC, 0600)); };
  };
  const std::vector<std::pair<const char*, std::function<bool()>>> attempts = {
      {"reads another file", opens("secret", O_RDONLY)},
      {"lists a folder", opens("", O_RDONLY | O_DIRECTORY)},
      {"writes a file that it may read", opens("shared", O_WRONLY)},
      {"cuts off a file that it may read", opens("shared", O_RDONLY | O_TRUNC)},
      {"makes a file", opens("made", O_WRONLY | O_CREAT)},
      {"makes a file without a name", opens("", O_RDWR | O_TMPFILE)},
      {"truncate", [&] { return truncate(in_folder("shared").c_str(), 1) == 0; }},
      {"unlink", [&] { return unlink(in_folder("shared").c_str()) == 0; }},
      {"rename",
       [&] { return rename(in_folder("secret").c_str(), in_folder("shared").c_str()) == 0; }},
      {"mkdir", [&] { return mkdir(in_folder("folder").c_str(), 0700) == 0; }},
      {"symlink", [&] { return symlink("secret", in_folder("link").c_str()) == 0; }},
      {"chmod", [&] { return chmod(in_folder("shared").c_str(), 0600) == 0; }},
      {"socket of the network", [&] { return opened(socket(AF_INET, SOCK_STREAM, 0)); }},
      {"socket of datagrams", [&] { return opened(socket(AF_INET6, SOCK_DGRAM, 0)); }},
      {"socket of this machine", [&] { return opened(socket(AF_UNIX, SOCK_STREAM, 0)); }},
      {"memory with a descriptor",
       [&] { return opened(static_cast<int>(syscall(SYS_memfd_create, "x", 0))); }},
      {"fork",
       [&] {
         const pid_t child = fork();
         if (child == 0) _exit(0);
         if (child > 0) waitpid(child, nullptr, 0);
         return child > 0;
       }},
      {"another program",
       [&] {
         // The C library starts it with a clone without CLONE_THREAD.
         return std::system("true") == 0;
       }},
      {"a signal to another process", [&] { return kill(outside, 0) == 0; }},
      {"signals for what a descriptor gets",
       [&] {
         int ends[2];
         return pipe(ends) == 0 && fcntl(ends[0], F_SETOWN, outside) == 0 && opened(ends[0]) &&
                opened(ends[1]);
       }},
      {"priorities",
       [&] { return setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)) == 0; }},
      {"limits",
       [&] {
         rlimit now;
         return getrlimit(RLIMIT_AS, &now) == 0 && setrlimit(RLIMIT_AS, &now) == 0;
       }},
  };
  for (const auto& [name, attempt] : attempts) {
    EXPECT_TRUE(attempt()) << name << " fails outside, too";
    TearDown();
    SetUp();
  }
  const SandboxEnd end = run_in_sandbox(
      {kMemory, {in_folder("shared")}},
      [&](const Tell&) {
        std::string worked;
        for (const auto& [name, attempt] : attempts)
          if (attempt()) worked += std::string(name) + "; ";
        return worked;
      },
      kNoProgress);
  EXPECT_TRUE(end.has_answer) << end.signal;
  EXPECT_EQ(end.answer, "");
  EXPECT_EQ(fs::file_size(folder_ / "shared"), 6u);
  EXPECT_FALSE(fs::exists(folder_ / "made"));
}

TEST_F(SandboxTest, MemoryEnds) {
  const SandboxEnd large = run_in_sandbox(
      {.memory_bytes = kMemory},
      [](const Tell&) {
        try {
          const auto bytes = std::make_unique<char[]>(size_t{2} << 30);
          return std::string("there is more: ") + bytes[1];
        } catch (const std::bad_alloc&) {
          return std::string("refused");
        }
      },
      kNoProgress);
  EXPECT_EQ(large.answer, "refused");
  EXPECT_TRUE(large.memory_refused);
  // The exception is not caught.
  const SandboxEnd many = run_in_sandbox(
      {.memory_bytes = kMemory},
      [](const Tell&) {
        std::vector<std::string> texts;
        for (;;) texts.emplace_back(1000000, 'x');
        return std::string();
      },
      kNoProgress);
  EXPECT_FALSE(many.has_answer);
  EXPECT_TRUE(many.memory_refused);
  // Less memory than the program itself uses.
  try {
    run_in_sandbox(
        {.memory_bytes = 4096}, [](const Tell&) { return std::string(); }, kNoProgress);
    ADD_FAILURE() << "runs in one page";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit, Exit::usage);
    EXPECT_NE(failure.message.find("allow at least"), std::string::npos) << failure.message;
  }
}

TEST_F(SandboxTest, TheResultEndsWithTheMemory) {
  const int result = open(in_folder("result").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const SandboxEnd end = run_in_sandbox(
      {kMemory, {}, -1, result},
      [&](const Tell&) {
        std::signal(SIGXFSZ, SIG_IGN);
        return std::string(pwrite(result, "x", 1, kMemory) < 0 ? "refused" : "written");
      },
      kNoProgress);
  close(result);
  EXPECT_EQ(end.answer, "refused");
  EXPECT_EQ(fs::file_size(folder_ / "result"), 0u);
}

TEST_F(SandboxTest, ItsEndIsTold) {
  const auto ends = [](const std::function<void()>& how) {
    return run_in_sandbox(
        {.memory_bytes = kMemory},
        [&](const Tell&) {
          how();
          return std::string();
        },
        kNoProgress);
  };
  EXPECT_EQ(ends([] { std::abort(); }).signal, SIGABRT);
  EXPECT_EQ(ends([] { std::raise(SIGSEGV); }).signal, SIGSEGV);
  const SandboxEnd left = ends([] { _exit(0); });
  EXPECT_FALSE(left.has_answer);
  EXPECT_EQ(left.signal, 0);
  EXPECT_FALSE(left.memory_refused);
}

TEST_F(SandboxTest, NonsenseIsNoAnswer) {
  for (const char c : {'\0', 'a', '\x7f', '\xff'}) {
    const SandboxEnd end = run_in_sandbox(
        {.memory_bytes = kMemory},
        [&](const Tell&) -> std::string {
          const std::string bytes(100000, c);
          for (int fd = 3; fd < 100; ++fd)
            if (write(fd, bytes.data(), bytes.size()) < 0) continue;
          for (;;) pause();
        },
        kNoProgress);
    EXPECT_FALSE(end.has_answer && !end.answer.empty()) << static_cast<int>(c);
  }
}

TEST(Printable, KeepsLinesAndText) {
  EXPECT_EQ(printable("a\tb\nc\033]0;x\007 \x7f\xc3\xa9"), "a?b\nc?]0;x? ?\xc3\xa9");
}

}  // namespace
}  // namespace hg::convert
