// SPDX-License-Identifier: Apache-2.0
// Random operations on pasts, compared with runs over the whole text without a past.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hg/batch_generator.h"
#include "hg/generator.h"
#include "tests/support/must.h"
#include "tests/support/small_decoder.h"
#include "tests/support/temporary_file.h"

namespace hg {
namespace {

using namespace small_decoder;

constexpr double kExact = 2e-4;  // error of logits without a rounded past

void expect_near(std::span<const float> got, const std::vector<float>& wanted,
                 double most = kExact) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], most) << i;
}

// The ids of a plain run or, with a rounded past, ids whose logits are as large up to rounding.
void expect_greedy(Whole& whole, Ids text, const Ids& ids, double most) {
  if (most == kExact) {
    EXPECT_EQ(ids, whole.greedy(text, static_cast<int64_t>(ids.size())));
    return;
  }
  for (const int32_t id : ids) {
    const std::vector<float> row = whole.logits(text);
    EXPECT_GE(row[static_cast<size_t>(id)], *std::max_element(row.begin(), row.end()) - most);
    text.push_back(id);
  }
}

Ids joined(Ids ids, const Ids& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

// A generator and the tokens that it should have.
struct Branch {
  Generator generator;
  Ids ids = {};
};

// Continues all branches in a batch.
void expect_batch(BatchGenerator& batch, const std::vector<Branch>& branches, Whole& whole,
                  double most) {
  std::map<int64_t, Ids> prompts;
  for (const Branch& branch : branches) {
    const Ids prompt = joined(branch.ids, {5});
    const int64_t id = must(batch.add(prompt, {.max_tokens = 4, .reuse_past = true}));
    prompts[id] = prompt;
  }
  while (batch.running() > 0) {
    (void)must(batch.step());
    for (const EndedSequence& ended : batch.ended()) {
      EXPECT_EQ(ended.sequence.ids.size(), 4u);
      expect_greedy(whole, prompts[ended.id], ended.sequence.ids, most);
    }
  }
}

void run_random_operations(const Form& form, uint32_t seed, std::optional<DType> stored = {}) {
  SCOPED_TRACE(str_cat("seed ", int64_t{seed}));
  std::mt19937 random(seed);
  Form rounded = form;
  rounded.stored = stored;
  Whole whole(rounded);
  const size_t most_ids = static_cast<size_t>(form.position_count) - 20,
               most_new = form.window > 0 ? 300 : 9;
  // Numbers between two of f16 or i8 may be rounded to either.
  const double most = !stored || stored == f32 ? kExact : stored == f16 ? 5e-3 : 5e-2;
  const test::TemporaryFile file("past");
  Ids saved;
  bool has_saved = false;
  Result<BatchGenerator> batch = BatchGenerator::create(decoder(form), 4, {.threads = 1}, stored);
  std::vector<Branch> branches;
  branches.push_back({must(Generator::create(decoder(form), {.threads = 1}, stored))});
  for (int step = 0; step < 60; ++step) {
    SCOPED_TRACE(str_cat("step ", int64_t{step}));
    Branch& branch = branches[random() % branches.size()];
    switch (random() % 7) {
      case 0:
      case 1: {
        const Ids more = random_ids(1 + random() % most_new, random());
        if (branch.ids.size() + more.size() > most_ids) break;
        branch.ids = joined(branch.ids, more);
        expect_near(must(branch.generator.append(more)), whole.logits(branch.ids), most);
        break;
      }
      case 2: {
        const size_t few = random() % 2 == 0 ? 10 : branch.ids.size();
        const size_t length = branch.ids.size() - random() % (std::min(few, branch.ids.size()) + 1);
        branch.ids.resize(length);
        ASSERT_TRUE(branch.generator.truncate(static_cast<int64_t>(length)).ok());
        break;
      }
      case 3: {
        Generator copy = must(branch.generator.fork());
        Ids ids = branch.ids;
        if (branches.size() < 4)
          branches.push_back({std::move(copy), std::move(ids)});
        else
          branches[random() % 4] = {std::move(copy), std::move(ids)};
        break;
      }
      case 4:
        ASSERT_TRUE(branch.generator.save(file.path()).ok());
        saved = branch.ids;
        has_saved = true;
        break;
      case 5:
        if (!has_saved) break;
        ASSERT_TRUE(branch.generator.load(file.path()).ok());
        branch.ids = saved;
        break;
      default: {
        const Ids prompt = joined(branch.ids, random_ids(1 + random() % 3, random()));
        if (prompt.size() > most_ids) {
          branch.generator.reset();
          branch.ids.clear();
          break;
        }
        const Generation answer =
            must(branch.generator.generate({prompt}, {.max_tokens = 5, .reuse_past = true}));
        ASSERT_EQ(answer.sequences[0].ids.size(), 5u);
        expect_greedy(whole, prompt, answer.sequences[0].ids, most);
        branch.ids = joined(prompt, answer.sequences[0].ids);
        branch.ids.pop_back();  // the last token is not read
      }
    }
    if (step % 10 == 9 && batch.ok()) expect_batch(*batch, branches, whole, most);
    for (const Branch& each : branches) {
      ASSERT_EQ(each.generator.length(), static_cast<int64_t>(each.ids.size()));
      ASSERT_EQ(must(each.generator.ids()), each.ids);
    }
  }
}

TEST(Past, RandomOperationsEqualRunsOfTheWholeText) {
  for (const uint32_t seed : {1U, 2U, 3U, 4U}) run_random_operations({}, seed);
  run_random_operations({.positions = false}, 5);
  run_random_operations({.batch = 1}, 6);
  run_random_operations({.mask = false}, 7);  // the session does not keep the past
  run_random_operations({.past = false, .mask = false}, 8);
}

TEST(Past, OfSlidingWindowsEqualsRunsOfTheWholeText) {
  uint32_t seed = 40;
  for (const int64_t window : {1, 2, 30, 200}) {
    ++seed;
    run_random_operations({.window = window,
                           .all_slide = seed % 2 == 0,
                           .plain = seed / 2 % 2 == 0,
                           .position_count = 1500},
                          seed, window == 30 ? std::optional(f32) : std::nullopt);
  }
  run_random_operations({.window = 30, .position_count = 1500}, ++seed, i8);
  run_random_operations({.mask = false, .window = 30, .position_count = 1500}, ++seed);
}

TEST(Past, StoredInFewerBitsEqualsRunsWithRoundedKeysAndValues) {
  uint32_t seed = 20;
  for (const DType dtype : {f32, f16, bf16, i8})
    for (int i = 0; i < 3; ++i) run_random_operations({}, ++seed, dtype);
  expect_refusal(Generator::create(decoder(), {}, i64).status(), Code::invalid_argument,
                 "a past is stored as f32, f16, bf16 or i8, not as i64");
  expect_refusal(Generator::create(decoder({.past = false}), {}, i8).status(), Code::unsupported,
                 "the model has no past that grows");
  expect_refusal(Generator::create(decoder({.mask = false}), {}, i8).status(),
                 Code::invalid_argument, "no other input has the size 'p'");
}

// Counts the bytes of a generator's sessions.
struct Bytes {
  std::atomic<int64_t> now{0};
  static void* allocate(void* host, size_t bytes) {
    static_cast<Bytes*>(host)->now += static_cast<int64_t>(bytes);
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  static void release(void* host, void* memory, size_t bytes) {
    static_cast<Bytes*>(host)->now -= static_cast<int64_t>(bytes);
    std::free(memory);
  }
};

TEST(Past, ForksShareMemoryUntilOneOfThemReads) {
  Bytes bytes;
  const Allocator allocator{Bytes::allocate, Bytes::release, &bytes};
  std::optional<Generator> first =
      must(Generator::create(decoder(), {.threads = 1, .allocator = allocator}));
  const Ids ids = random_ids(40, 1);
  (void)must(first->append(ids));
  const int64_t one = bytes.now;
  std::vector<Generator> forks;
  for (int i = 0; i < 3; ++i) forks.push_back(must(first->fork()));
  EXPECT_EQ(bytes.now, one);
  EXPECT_EQ(must(forks[0].ids()), ids);
  Whole whole;
  expect_near(must(forks[0].append(Ids{7})), whole.logits(joined(ids, {7})));
  const int64_t two = bytes.now;
  EXPECT_GT(two, one);
  expect_near(must(first->append(Ids{8})), whole.logits(joined(ids, {8})));
  EXPECT_GT(bytes.now, two);
  const int64_t three = bytes.now;
  ASSERT_TRUE(forks[2].truncate(20).ok());
  forks.erase(forks.begin() + 1);  // now nothing else shares the memory of the first past
  expect_near(must(forks[1].append(Ids{9})),
              whole.logits(joined({ids.begin(), ids.begin() + 20}, {9})));
  EXPECT_LE(bytes.now, three + (three - two) / 2);
  first.reset();
  forks.clear();
  EXPECT_EQ(bytes.now, 0);
}

TEST(Past, StoredInFewerBitsNeedsLessMemory) {
  int64_t bytes_of[2] = {};
  for (int i = 0; i < 2; ++i) {
    Bytes bytes;
    const Allocator allocator{Bytes::allocate, Bytes::release, &bytes};
    Generator generator = must(
        Generator::create(decoder(), {.threads = 1, .allocator = allocator}, i == 0 ? f32 : i8));
    (void)must(generator.append(Ids{1}));
    bytes_of[i] = bytes.now;
  }
  // Keys and values of 2 layers for 1,024 positions: heads of kHeadDim floats, or bytes and a
  // scale.
  const int64_t saved = 2 * 2 * 1024 * kHeads * (4 * kHeadDim - (kHeadDim + 4));
  EXPECT_GT(bytes_of[0] - bytes_of[1], saved * 9 / 10) << bytes_of[0] << " " << bytes_of[1];
}

TEST(Past, OfSlidingWindowsNeedsMemoryForTheWindow) {
  const auto bytes_after = [](const Form& form, int64_t tokens) {
    Bytes bytes;
    const Allocator allocator{Bytes::allocate, Bytes::release, &bytes};
    Generator generator =
        must(Generator::create(decoder(form), {.threads = 1, .allocator = allocator}));
    const Ids ids = random_ids(static_cast<size_t>(tokens), 1);
    for (size_t i = 0; i < ids.size(); i += 100)
      (void)must(generator.append(Ids(ids.begin() + static_cast<std::ptrdiff_t>(i),
                                      ids.begin() + static_cast<std::ptrdiff_t>(i + 100))));
    return bytes.now.load();
  };
  // Keys and values of a layer.
  const auto layer = [](int64_t positions) { return 2 * positions * kHeads * kHeadDim * 4; };
  Form form{.window = 100, .position_count = 9000};
  const int64_t all_slide = bytes_after(form, 8000);
  form.all_slide = false;
  const int64_t one_slides = bytes_after(form, 8000);
  form.window = 0;
  const int64_t none = bytes_after(form, 8000);
  const int64_t held = 100 - 1 + 64 + 512;
  EXPECT_GE(none - one_slides, layer(8192 - held));
  EXPECT_GE(none - all_slide, 2 * layer(8192 - held));
}

TEST(Past, ForksRunInSeveralThreads) {
  for (uint32_t round = 0; round < 8; ++round) {
    std::optional<Generator> first = must(Generator::create(decoder(), {.threads = 1}));
    const Ids ids = random_ids(10 + round, round);
    (void)must(first->append(ids));
    std::vector<Generator> forks;
    for (int i = 0; i < 4; ++i) forks.push_back(must(first->fork()));
    if (round % 2 == 0) first.reset();
    std::vector<std::vector<float>> got(forks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < forks.size(); ++i)
      threads.emplace_back([&, i] {
        const auto logits = must(forks[i].append(Ids{static_cast<int32_t>(i)}));
        got[i].assign(logits.begin(), logits.end());
      });
    for (std::thread& each : threads) each.join();
    Whole whole;
    for (size_t i = 0; i < forks.size(); ++i)
      expect_near(got[i], whole.logits(joined(ids, {static_cast<int32_t>(i)})));
  }
}

TEST(Past, OfSeveralSequencesIsRefused) {
  Generator generator = must(Generator::create(decoder(), {.threads = 1}));
  const test::TemporaryFile file("past");
  (void)must(generator.generate({{1, 2}, {3}}, {.max_tokens = 2}));
  EXPECT_EQ(generator.length(), 0);
  for (const Status& status : {generator.truncate(0), generator.fork().status(),
                               generator.save(file.path()), generator.append(Ids{1}).status()})
    expect_refusal(status, Code::invalid_argument, "the past of 2 sequences; call reset()");
  generator.reset();
  EXPECT_EQ(must(generator.append(Ids{1, 2})).size(), size_t{kWords});
  expect_refusal(generator.truncate(3), Code::invalid_argument,
                 "cannot truncate a past of 2 tokens to 3");
  expect_refusal(generator.append(Ids{kWords}).status(), Code::invalid_argument, "has the id 61");
  expect_refusal(generator.append(Ids{}).status(), Code::invalid_argument, "there are no ids");
  expect_refusal(generator.append(Ids(199, 1)).status(), Code::invalid_argument, "200 positions");
  EXPECT_EQ(generator.length(), 2);
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(generator.append(Ids{3}, source.get_token()).status().code(), Code::cancelled);
  expect_near(must(generator.append(Ids{4})), Whole().logits({1, 2, 4}));
}

TEST(Past, OfAFileIsContinuedFromAnEarlierToken) {
  for (const bool slides : {false, true}) {
    const Model model = slides ? decoder({.window = 4}) : decoder();
    Generator writer = must(Generator::create(model, {.threads = 1}));
    const Ids ids = random_ids(30, 1);
    (void)must(writer.append(ids));
    const test::TemporaryFile file("past");
    ASSERT_TRUE(writer.save(file.path()).ok());
    Generator reader = must(Generator::create(model, {.threads = 1}));
    ASSERT_TRUE(reader.load(file.path()).ok());
    const Ids other = joined({ids.begin(), ids.begin() + 20}, {7, 8});
    const GenerateOptions options = {.max_tokens = 2, .reuse_past = true};
    const Generation answer = must(reader.generate({other}, options));
    EXPECT_EQ(answer.reused, other[20] == ids[20] ? 21 : 20);
    EXPECT_EQ(answer.sequences[0].ids,
              must(writer.generate({other}, {.max_tokens = 2})).sequences[0].ids);
  }
}

TEST(Past, DamagedAndOtherFilesAreRefused) {
  Generator generator = must(Generator::create(decoder(), {.threads = 1}));
  const Ids ids = random_ids(30, 1);
  (void)must(generator.append(ids));
  const test::TemporaryFile file("past");
  ASSERT_TRUE(generator.save(file.path()).ok());
  const std::string good = file.content();
  std::mt19937 random(4);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good;
    if (i % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    file.set_content(bytes);
    if (generator.load(file.path()).ok()) {
      // The damaged byte is padding: the values are those that were saved.
      EXPECT_EQ(must(generator.ids()), ids);
    } else {
      ++refused;
      EXPECT_EQ(generator.length(), 30);
    }
    expect_near(must(generator.append(Ids{7})), Whole().logits(joined(ids, {7})));
    ASSERT_TRUE(generator.truncate(30).ok());
  }
  EXPECT_GT(refused, 250);
  file.set_content(good);
  Generator same = must(Generator::create(decoder(), {.threads = 1}));
  ASSERT_TRUE(same.load(file.path()).ok());
  Generator other = must(Generator::create(decoder({.positions = false}), {.threads = 1}));
  expect_refusal(other.load(file.path()), Code::invalid_argument, "belongs to another model");
  Generator rounded =
      must(Generator::create(decoder(), {.threads = 1, .precision = Precision::bf16}));
  expect_refusal(rounded.load(file.path()), Code::invalid_argument, "or precision");
  Generator table = must(Generator::create(decoder({.table = true}), {.threads = 1}));
  expect_refusal(table.load(file.path()), Code::invalid_argument, "belongs to another model");
  ASSERT_TRUE(decoder().save(file.path()).ok());
  expect_refusal(generator.load(file.path()), Code::invalid_argument, "holds no past");
  expect_refusal(generator.load(file.path() + ".missing"), Code::not_found, "missing");
}

TEST(Past, AKilledProcessLeavesAWholeFile) {
  const test::TemporaryFile file("past");
  Generator generator = must(Generator::create(decoder(), {.threads = 1}));
  const std::vector<Ids> texts = {random_ids(150, 1), random_ids(90, 2)};
  std::vector<Generator> both;
  for (const Ids& text : texts) {
    both.push_back(must(generator.fork()));
    (void)must(both.back().append(text));
  }
  ASSERT_TRUE(both[0].save(file.path()).ok());
  std::mt19937 random(6);
  int seen[2] = {};
  for (int round = 0; round < 40; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    for (size_t i = static_cast<size_t>(round); child == 0; ++i)  // in turn
      if (!both[i % 2].save(file.path()).ok()) _exit(1);
    usleep(500 + random() % 20000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    ASSERT_TRUE(generator.load(file.path()).ok()) << "round " << round;
    const Ids ids = must(generator.ids());
    const size_t which = ids == texts[0] ? 0 : 1;
    ASSERT_EQ(ids, texts[which]);
    ++seen[which];
    if (round % 10 == 9)
      expect_near(must(generator.append(Ids{7})), Whole().logits(joined(ids, {7})));
  }
  EXPECT_GT(seen[0], 0);
  EXPECT_GT(seen[1], 0);
}

}  // namespace
}  // namespace hg
