// SPDX-License-Identifier: Apache-2.0
// Many threads create, run, observe, stop and destroy sessions of the same models at random, some
// with their own thread pool. Every result has the bits of a session alone, all equal sessions
// share one copy of the packed weights, and nothing leaks. Intended for -DHG_SANITIZE=thread, which
// tests/nightly/threads builds; --rounds=N and --threads=N set the amount.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "hg/hg.h"
#include "hg/pool.h"
#include "lib/platform/memory.h"
#include "tests/support/shared_network.h"

namespace hg {
namespace {

int rounds = 30, thread_count = 4;

using Floats = std::vector<float>;

Floats answer(Session& session, const Floats& x, int64_t n, RunProgress* progress = nullptr,
              std::stop_token stop = {}) {
  if (!session.set_input("x", view(x, {n, kNetworkChannels, kNetworkSize, kNetworkSize})).ok())
    return {};
  if (!session.run(stop, progress).ok()) return {};
  const Tensor y = *session.output("y");
  Floats values(y.count());
  copy_elements(y, view(values, y.shape));
  return values;
}

// A host's pool of two threads: the one that asks, and one that helps.
class Pool {
 public:
  Pool() : helper_([this] { help(); }) {}
  ~Pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    helper_.join();
  }
  ParallelFor parallel_for() {
    return {[](void* host, int64_t count, void (*task)(void*, int64_t), void* arg) {
              static_cast<Pool*>(host)->run(count, task, arg);
            },
            this, 2};
  }

 private:
  void run(int64_t count, void (*task)(void*, int64_t), void* arg) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      task_ = task, arg_ = arg, count_ = count, next_ = 0, has_work_ = true;
    }
    changed_.notify_all();
    work();
    std::unique_lock<std::mutex> lock(mutex_);
    has_work_ = false;
    changed_.wait(lock, [&] { return !helps_; });
  }
  void work() {
    for (int64_t i; (i = next_.fetch_add(1)) < count_;) task_(arg_, i);
  }
  void help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return has_work_ || ends_; });
      if (ends_) return;
      helps_ = true;
      lock.unlock();
      work();
      lock.lock();
      helps_ = false;
      changed_.notify_all();
      changed_.wait(lock, [&] { return !has_work_ || ends_; });
      if (ends_) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  void (*task_)(void*, int64_t) = nullptr;
  void* arg_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> next_{0};
  bool has_work_ = false, helps_ = false, ends_ = false;
  std::thread helper_;
};

std::atomic<int64_t> live{0};
Allocator counted() {
  return {[](void*, size_t bytes) -> void* {
            live += static_cast<int64_t>(bytes);
            return allocate_aligned(bytes);
          },
          [](void*, void* memory, size_t bytes) {
            live -= static_cast<int64_t>(bytes);
            free_aligned(memory);
          },
          nullptr};
}

TEST(Threads, CreateRunAndDestroySessionsAtRandom) {
  const Model models[] = {shared_network("n"), shared_network(2)};
  constexpr int kInputs = 4;
  std::vector<Floats> expected;  // by input, of n = 1 + input % 3 but 2 for the second model
  for (int m = 0; m < 2; ++m) {
    Session alone = *Session::create(models[m], {.threads = 1});
    for (int i = 0; i < kInputs; ++i) {
      const int64_t n = m == 1 ? 2 : 1 + i % 3;
      expected.push_back(answer(alone, network_input(n, i), n));
      ASSERT_FALSE(expected.back().empty());
    }
  }
  std::atomic<int64_t> wrong{0}, ran{0}, stopped{0};
  const auto play = [&](int number) {
    std::mt19937_64 random(static_cast<uint64_t>(number) + 1);
    const auto pick = [&](uint64_t count) { return random() % count; };
    Pool pool;
    struct Mine {
      Session session;
      size_t model;
    };
    std::vector<Mine> mine;
    for (int round = 0; round < rounds; ++round) {
      if (mine.size() < 4 && (mine.empty() || pick(3) == 0)) {
        SessionOptions options = {.threads = 1, .allocator = counted()};
        if (pick(3) == 0) options.parallel_for = pool.parallel_for();
        options.seed = random();
        const size_t model = pick(2);
        Result<Session> made = pick(4) == 0 ? Session::create(Model(models[model]), options)
                                            : Session::create(models[model], options);
        if (made.ok())
          mine.push_back({*std::move(made), model});
        else
          ++wrong;
      } else if (pick(4) == 0) {
        mine.erase(mine.begin() + static_cast<int64_t>(pick(mine.size())));
      } else {
        Mine& one = mine[pick(mine.size())];
        const auto i = static_cast<int>(pick(kInputs));
        const int64_t n = one.model == 1 ? 2 : 1 + i % 3;
        RunProgress progress;
        std::stop_source source;
        std::thread other;
        if (pick(4) == 0)
          other = std::thread([&] {
            while (progress.done() < 2 && !source.stop_requested()) std::this_thread::yield();
            source.request_stop();
          });
        const Floats y = answer(one.session, network_input(n, i), n, &progress, source.get_token());
        const bool was_watched = other.joinable();
        if (was_watched) {
          source.request_stop();
          other.join();
        }
        ++ran;
        if (was_watched && y.empty())
          ++stopped;
        else
          wrong += y != expected[one.model * kInputs + static_cast<size_t>(i)];
      }
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) threads.emplace_back(play, t);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(ran, rounds);
  EXPECT_EQ(live, 0);
  std::printf("%lld runs, %lld of them stopped\n", static_cast<long long>(ran),
              static_cast<long long>(stopped));
}

// All that begin at once wait for the one that compiles and packs.
TEST(Threads, ThatBeginAtOnceHaveOneCopy) {
  for (int round = 0; round < 1 + rounds / 10; ++round) {
    const Model model = shared_network(2);
    const SessionOptions options = {.threads = 1, .allocator = counted()};
    int64_t alone = 0, packed = 0;
    {
      const Session session = *Session::create(model, options);
      alone = live;
      packed = session.memory()->packed_bytes;
    }
    ASSERT_EQ(live, 0);
    std::vector<std::optional<Session>> sessions(thread_count);
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (auto& session : sessions)
      threads.emplace_back([&] {
        ++ready;
        while (ready < thread_count) std::this_thread::yield();
        session.emplace(*Session::create(model, options));
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(packed, 0);
    EXPECT_LE(live, alone + (thread_count - 1) * (alone - packed));
    sessions.clear();
    EXPECT_EQ(live, 0);
  }
}

}  // namespace
}  // namespace hg

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--rounds=", 9) == 0) hg::rounds = std::atoi(argv[i] + 9);
    if (std::strncmp(argv[i], "--threads=", 10) == 0) hg::thread_count = std::atoi(argv[i] + 10);
  }
  return RUN_ALL_TESTS();
}
