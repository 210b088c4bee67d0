// SPDX-License-Identifier: Apache-2.0
// Many clients send requests with one row of noise to one hg::Pool; each waits for its answer
// before it asks again.
//   pool_bench MODEL.hgm CLIENTS SECONDS [SESSIONS [MOST_ROWS]]
// Prints JSON: requests per second, their median and 99th percentile latency in ms, and rows per
// batch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hg/hg.h"
#include "hg/pool.h"

namespace {

using Clock = std::chrono::steady_clock;

std::vector<float> noise(int64_t count) {
  std::mt19937 random(1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random() % 2001) / 1000 - 1;
  return values;
}

struct Client {
  std::vector<double> ms;
  hg::Status status;

  void ask(hg::Pool& pool, const hg::ConstTensor& row, Clock::time_point end) {
    for (Clock::time_point begin = Clock::now(); begin < end;) {
      const hg::Result<hg::Pool::Answer> answer = pool.run({.inputs = {row}});
      if (!answer.ok()) {
        status = answer.status();
        return;
      }
      const Clock::time_point now = Clock::now();
      ms.push_back(std::chrono::duration<double, std::milli>(now - begin).count());
      begin = now;
    }
  }
};

struct Load {
  std::string model;
  int clients = 1;
  double seconds = 1;
  int sessions = 1;
  int64_t most_rows = 16;
};

hg::Status measure(const Load& load) {
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::load(load.model));
  hg::Sizes shape;
  for (const hg::Dim& dim : model.graph().value_info(model.graph().inputs().at(0)).type.shape)
    shape.push_back(dim.is_constant() ? dim.constant() : 1);
  const std::vector<float> values = noise(shape.count());
  const hg::ConstTensor row = hg::view(values, shape);
  HG_TRY_ASSIGN(hg::Pool pool, hg::Pool::create(model, {.sessions = load.sessions,
                                                        .most_rows = load.most_rows,
                                                        .most_waiting = 2 * load.clients}));
  const auto run = [&](double seconds) {
    std::vector<Client> clients(static_cast<size_t>(load.clients));
    std::vector<std::thread> threads;
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
    for (Client& client : clients)
      threads.emplace_back([&client, &pool, &row, end] { client.ask(pool, row, end); });
    for (std::thread& thread : threads) thread.join();
    return clients;
  };
  run(load.seconds / 4);  // plans for each size, threads
  const hg::Pool::Statistics before = pool.statistics();
  const std::vector<Client> clients = run(load.seconds);
  const hg::Pool::Statistics after = pool.statistics();
  std::vector<double> ms;
  for (const Client& client : clients) {
    HG_TRY(client.status);
    ms.insert(ms.end(), client.ms.begin(), client.ms.end());
  }
  std::sort(ms.begin(), ms.end());
  const auto at = [&](double share) {
    return ms[std::min(ms.size() - 1, static_cast<size_t>(share * static_cast<double>(ms.size())))];
  };
  std::printf(
      "{\"per_second\": %.1f, \"median_ms\": %.4f, \"p99_ms\": %.4f, \"batch_rows\": %.2f}\n",
      static_cast<double>(ms.size()) / load.seconds, at(0.5), at(0.99),
      static_cast<double>(after.rows - before.rows) /
          static_cast<double>(std::max<int64_t>(after.batches - before.batches, 1)));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: pool_bench MODEL.hgm CLIENTS SECONDS [SESSIONS [MOST_ROWS]]\n");
    return 1;
  }
  Load load{argv[1], std::atoi(argv[2]), std::atof(argv[3])};
  if (argc > 4) load.sessions = std::atoi(argv[4]);
  if (argc > 5) load.most_rows = std::atoll(argv[5]);
  const hg::Status status = measure(load);
  if (status.ok()) return 0;
  std::fprintf(stderr, "pool_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}
