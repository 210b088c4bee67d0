// SPDX-License-Identifier: Apache-2.0
// The library as a guest: a host's memory, threads and log; a process that forks after loading;
// runs inside coroutines; a shared library that contains the library, loaded and unloaded.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <coroutine>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "hg/hg.h"
#include "tests/support/temporary_file.h"

namespace hg::test {
namespace {

// Large enough to run on several threads.
Graph network() {
  Graph graph;
  const Value x = graph.input("x", f32, {"n", 96});
  const Value w = graph.parameter("w", f32, {128, 96}, init::kaiming_uniform(1));
  const Value v = graph.parameter("v", f32, {10, 128}, init::kaiming_uniform(2));
  const Value b = graph.parameter("b", f32, {128}), c = graph.parameter("c", f32, {10});
  graph.output("y", graph.call("softmax", {linear(relu(linear(x, w, b)), v, c)}, {{"dim", -1}}));
  return graph;
}

const Model& model() {
  static const Model made = *Model::from_graph(network());
  return made;
}

std::vector<float> input(int64_t n) {
  std::vector<float> x(static_cast<size_t>(n) * 96);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 31) / 15 - 1;
  return x;
}

Result<std::vector<float>> run(Session& session, int64_t n) {
  const std::vector<float> x = input(n);
  HG_TRY(session.set_input("x", view(x, {n, 96})));
  HG_TRY(session.run());
  HG_TRY_ASSIGN(const Tensor y, session.output("y"));
  session.forget_tensors();
  return std::vector<float>(y.as<float>(), y.as<float>() + y.count());
}

Result<std::vector<float>> answers(SessionOptions options, int64_t n) {
  HG_TRY_ASSIGN(Session session, Session::create(model(), std::move(options)));
  return run(session, n);
}

std::vector<float> expected(int64_t n) {
  static std::map<int64_t, std::vector<float>> known;
  auto& all = known[n];
  if (all.empty()) all = *answers({.threads = 1}, n);
  return all;
}

// -- Memory, threads, log ------------------------------------------------------------------------

struct Memory64 {
  std::mutex mutex;
  std::map<void*, size_t> live;
  size_t most = SIZE_MAX, taken = 0;
  bool is_sound = true;
};
void* allocate(void* host, size_t bytes) {
  auto& memory = *static_cast<Memory64*>(host);
  const std::lock_guard<std::mutex> lock(memory.mutex);
  if (memory.taken + bytes > memory.most) return nullptr;
  void* made = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  memory.live[made] = bytes;
  memory.taken += bytes;
  return made;
}
void give_back(void* host, void* made, size_t bytes) {
  auto& memory = *static_cast<Memory64*>(host);
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.live.find(made);
  memory.is_sound = memory.is_sound && found != memory.live.end() && found->second == bytes;
  memory.taken -= bytes;
  memory.live.erase(made);
  std::free(made);
}

TEST(Hosts, Memory) {
  Memory64 memory;
  for (int64_t n : {1, 7, 64}) {
    const auto y = answers({.threads = 2, .allocator = {allocate, give_back, &memory}}, n);
    ASSERT_TRUE(y.ok()) << y.status().message();
    EXPECT_EQ(*y, expected(n));
  }
  EXPECT_TRUE(memory.is_sound);
  EXPECT_TRUE(memory.live.empty());
  // Refused memory gives out_of_memory at each point, and leaks nothing.
  int refused = 0;
  for (memory.most = 0; memory.most < 2000000; memory.most += 4096) {
    const auto y = answers({.threads = 1, .allocator = {allocate, give_back, &memory}}, 64);
    EXPECT_TRUE(memory.live.empty()) << memory.most;
    if (y.ok()) {
      EXPECT_EQ(*y, expected(64));
      break;
    }
    EXPECT_EQ(y.status().code(), Code::out_of_memory) << y.status().message();
    ++refused;
  }
  EXPECT_GT(refused, 1);
}

struct Threads {
  std::atomic<int64_t> calls{0}, tasks{0};
};
void on_threads(void* host, int64_t count, void (*task)(void*, int64_t), void* arg) {
  auto& threads = *static_cast<Threads*>(host);
  ++threads.calls;
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i; (i = next++) < count; ++threads.tasks) task(arg, i);
  };
  std::thread other(work);
  work();
  other.join();
}

TEST(Hosts, ParallelFor) {
  Threads threads;
  for (int64_t n : {1, 64, 300}) {
    const auto y = answers({.parallel_for = {on_threads, &threads, 3}}, n);
    ASSERT_TRUE(y.ok()) << y.status().message();
    EXPECT_EQ(*y, expected(n));
  }
  EXPECT_GT(threads.calls, 0);
  EXPECT_GT(threads.tasks, threads.calls);
}

void keep_line(void* host, LogLevel level, const char* message) {
  static_cast<std::vector<std::pair<LogLevel, std::string>>*>(host)->emplace_back(level, message);
}

TEST(Hosts, Log) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  auto session = Session::create(model(), {.threads = 1, .log = {keep_line, &lines}});
  ASSERT_TRUE(session.ok());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].second.starts_with("compiled ")) << lines[0].second;
  const std::pair<std::string, int64_t> n{"n", 3};
  ASSERT_TRUE(session->plan({&n, 1}).ok());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[1].second.starts_with("planned for n=3: ")) << lines[1].second;
  ASSERT_TRUE(run(*session, 3).ok());
  lines.clear();
  ASSERT_TRUE(run(*session, 3).ok());
  EXPECT_TRUE(lines.empty());  // runs log nothing
}

// -- Processes, threads, coroutines --------------------------------------------------------------

// A session that was created before a fork works in the child, which has none of the parent's
// threads.
void expect_answers_after_fork(int threads) {
  auto session = Session::create(model(), {.threads = threads});
  ASSERT_TRUE(session.ok());
  ASSERT_EQ(*run(*session, 500), expected(500));
  const std::vector<float> other = expected(900);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const auto same = run(*session, 500), planned = run(*session, 900);
    const auto fresh = answers({.threads = threads}, 500);
    const bool is_right = same.ok() && planned.ok() && fresh.ok() && *same == expected(500) &&
                          *planned == other && *fresh == expected(500);
    _exit(is_right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(*run(*session, 500), expected(500));
}
TEST(Hosts, ForkAfterLoad) { expect_answers_after_fork(1); }
TEST(Hosts, ForkAfterRunsOfSeveralThreads) { expect_answers_after_fork(4); }

// Drops a file from the system's memory, if the system lets it.
void forget(const std::string& path) {
#ifdef __linux__
  const int file = open(path.c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  fsync(file);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
#else
  (void)path;
#endif
}

// A thread reads a large file that is not in memory. The model may go at once, also in the child of
// a fork, which has no such thread.
TEST(Hosts, ModelsGoWhileTheirFilesAreRead) {
  const TemporaryFile file("hosts.hgm");
  Graph graph;
  const Value w = graph.parameter("w", f32, {8, 1 << 20}, init::uniform(-1, 1, 1));
  graph.output("y", w + graph.input("x", f32, {}));
  const std::vector<std::byte> bytes(
      graph.states()[0].data.tensor.as<std::byte>(),
      graph.states()[0].data.tensor.as<std::byte>() + graph.states()[0].data.tensor.bytes());
  ASSERT_TRUE(Model::from_graph(std::move(graph))->save(file.path()).ok());
  const auto is_whole = [&](const Model& model) {
    const Tensor& tensor = model.graph().states()[0].data.tensor;
    return static_cast<size_t>(tensor.bytes()) == bytes.size() &&
           std::memcmp(tensor.data, bytes.data(), bytes.size()) == 0;
  };
  for (int turn = 0; turn < 20; ++turn) {
    forget(file.path());
    std::optional<Result<Model>> model = Model::load(file.path());
    ASSERT_TRUE((*model).ok());
    const pid_t child = turn % 2 == 0 ? fork() : -1;
    if (child == 0) {
      alarm(60);
      const bool is_right = is_whole(**model);
      model.reset();
      _exit(is_right ? 0 : 1);
    }
    if (turn % 4 < 2) {
      EXPECT_TRUE(is_whole(**model));
    }
    model.reset();
    if (child < 0) continue;
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

struct Task {
  struct promise_type {
    Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
  std::coroutine_handle<promise_type> handle;
};

// A session continues in any thread that resumes its coroutine.
Task serve(std::vector<std::vector<float>>& got, int64_t n) {
  auto session = Session::create(model(), {.threads = 1});
  co_await std::suspend_always();
  for (int i = 0; i < 3; ++i) {
    auto y = run(*session, n);
    if (y.ok()) got.push_back(*std::move(y));
    co_await std::suspend_always();
  }
}

TEST(Hosts, Coroutines) {
  std::vector<std::vector<float>> got[4];
  std::vector<Task> tasks;
  for (int64_t k = 0; k < 4; ++k) tasks.push_back(serve(got[k], k + 1));
  for (int round = 0; round < 5; ++round)
    for (Task& task : tasks)
      std::thread([&] {
        if (!task.handle.done()) task.handle.resume();
      }).join();
  for (int64_t k = 0; k < 4; ++k) {
    EXPECT_TRUE(tasks[size_t(k)].handle.done());
    tasks[size_t(k)].handle.destroy();
    ASSERT_EQ(got[k].size(), 3u);
    for (const auto& y : got[k]) EXPECT_EQ(y, expected(k + 1));
  }
}

// -- A library in a library ----------------------------------------------------------------------

int open_descriptors() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<int>(std::distance(begin(files), end(files)));
}

// guest.cpp contains its own Hologram, and exports a single function.
TEST(Hosts, LoadedAndUnloaded) {
  using Run = int (*)(const float* x, int64_t n, float* y);
  const int before = open_descriptors();
  for (int round = 0; round < 20; ++round) {
    void* guest = dlopen(HG_GUEST, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(guest, nullptr) << dlerror();
    const auto call = reinterpret_cast<Run>(dlsym(guest, "guest_run"));
    ASSERT_NE(call, nullptr);
    const float x[6] = {1, -2, 3, -4, 5, -6};
    float y[6];
    ASSERT_EQ(call(x, 6, y), 0);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(y[i], x[i] > 0 ? 2 * x[i] : 0);
    EXPECT_EQ(dlsym(guest, "hg_version"), nullptr);
    ASSERT_EQ(dlclose(guest), 0);
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace hg::test
