// SPDX-License-Identifier: Apache-2.0
// What the library asks of the system: paths with any characters and length, exact bytes, sizes
// that no memory has, and threads that do each piece of work once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "hg/array.h"
#include "hg/model.h"
#include "hg/npy.h"
#include "lib/graph/wide.h"
#include "lib/model/destination.h"
#include "lib/parallel/threads.h"
#include "lib/platform/file.h"
#include "lib/platform/memory.h"
#include "lib/platform/missing/chars.h"
#include "lib/platform/missing/stop_token.h"
#include "lib/platform/shared_library.h"
#include "tests/support/must.h"

namespace hg {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

class Files : public testing::Test {
 protected:
  Files() {
    folder_ = fs::absolute(fs::path(testing::TempDir())) / u8"hg_platform_gr\u00f6\u00dfe_\u6570";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Files() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  std::string path(const std::u8string& name) const { return text_of(folder_ / name); }

  fs::path folder_;
};

void write(const std::string& path, const std::string& bytes) {
  std::FILE* const file = open_stream(path, "wb");
  ASSERT_NE(file, nullptr) << path << ": " << std::strerror(errno);
  EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  EXPECT_EQ(std::fclose(file), 0);
}

std::string read(const std::string& path) {
  ReadFile file;
  if (const int error = file.open(path); error != 0) return std::strerror(error);
  std::string all;
  char piece[7];
  for (int64_t got; (got = file.read(piece, sizeof piece)) > 0;)
    all.append(piece, static_cast<size_t>(got));
  return all;
}

// Line ends and the text-mode end-of-file character of some systems stay unchanged.
constexpr char kStart[] = "a\nb\r\nc\x1a\xff\0d\n";
const std::string kBytes = std::string(kStart, sizeof kStart) + std::string(100, '\n');

TEST_F(Files, BytesStayAsTheyAre) {
  for (const char8_t* const name :
       {u8"plain", u8"with space", u8"\u00fcml\u00e4ut", u8"\u6570\u5b57"}) {
    const std::string at = path(name);
    write(at, kBytes);
    EXPECT_EQ(read(at), kBytes) << at;
    EXPECT_EQ(fs::file_size(folder_ / name), kBytes.size());
    std::FILE* const file = open_stream(at, "rb");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(bytes_left(file), static_cast<int64_t>(kBytes.size()));
    std::fgetc(file);
    EXPECT_EQ(bytes_left(file), static_cast<int64_t>(kBytes.size()) - 1);
    std::fclose(file);
    EXPECT_EQ(remove_file(at), 0);
    EXPECT_EQ(remove_file(at), ENOENT);
  }
}

TEST_F(Files, AreToldFromFolders) {
  ReadFile::Kind kind = ReadFile::Kind::other;
  uint64_t bytes = 1;
  write(path(u8"empty"), "");
  ReadFile empty, folder, none;
  ASSERT_EQ(empty.open(path(u8"empty")), 0);
  ASSERT_EQ(empty.look(kind, bytes), 0);
  EXPECT_EQ(kind, ReadFile::Kind::regular);
  EXPECT_EQ(bytes, 0u);
  ASSERT_EQ(folder.open(text_of(folder_)), 0);
  ASSERT_EQ(folder.look(kind, bytes), 0);
  EXPECT_EQ(kind, ReadFile::Kind::directory);
  EXPECT_EQ(none.open(path(u8"none")), ENOENT);
  EXPECT_EQ(open_stream(path(u8"none"), "rb"), nullptr);
  EXPECT_EQ(open_special(path(u8"none")), nullptr);
  EXPECT_EQ(errno, 0);
}

TEST_F(Files, AreMapped) {
  std::mt19937 random(1);
  for (size_t bytes : {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{1} << 20}) {
    std::string content(bytes, '\0');
    for (char& c : content) c = static_cast<char>(random());
    write(path(u8"mapped"), content);
    std::shared_ptr<void> map;
    {
      ReadFile file;
      ASSERT_EQ(file.open(path(u8"mapped")), 0);
      map = file.map(bytes);
    }
    ASSERT_NE(map, nullptr) << std::strerror(errno);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(map.get()) % 64, 0u);
    EXPECT_EQ(std::memcmp(map.get(), content.data(), bytes), 0);
    release_pages(map.get(), bytes);
    EXPECT_EQ(std::memcmp(map.get(), content.data(), bytes), 0);
  }
}

TEST_F(Files, TakeTheirPlaceWhole) {
  const std::string old = path(u8"old"), fresh = path(u8"neu_\u00e9");
  write(old, "old");
  std::FILE* const file = create_file(fresh, old);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(create_file(fresh, old), nullptr);
  EXPECT_EQ(errno, EEXIST);
  std::fputs("new\n", file);
  begin_flush(file);
  EXPECT_EQ(flush_to_disk(file), 0);
  EXPECT_EQ(read(old), "old");
  EXPECT_EQ(replace_file(file, fresh, old), 0);
  EXPECT_EQ(read(old), "new\n");
  EXPECT_FALSE(fs::exists(folder_ / u8"neu_\u00e9"));
  std::FILE* const other = create_file(fresh, old);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(replace_file(other, fresh, path(u8"no/folder")), 0);
  EXPECT_EQ(read(old), "new\n");
}

TEST_F(Files, AreAbandonedWhenNoProcessHasThemOpen) {
  const std::string part = path(u8"part");
  EXPECT_EQ(remove_abandoned(part), Abandoned::absent);
  std::FILE* const file = create_file(part, part);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(remove_abandoned(part), Abandoned::kept);
  EXPECT_TRUE(fs::exists(folder_ / "part"));
  EXPECT_EQ(std::fclose(file), 0);
  EXPECT_EQ(remove_abandoned(part), Abandoned::removed);
  EXPECT_FALSE(fs::exists(folder_ / "part"));
  fs::create_directory(folder_ / "part");
  EXPECT_EQ(remove_abandoned(part), Abandoned::kept);
}

// Parts of processes that were killed, next to the part of one that still writes.
TEST_F(Files, PartsThatWereAbandonedDisappear) {
  const std::string whole = path(u8"whole");
  for (const char8_t* part : {u8"whole.partial0", u8"whole.partial1", u8"whole.partial3"})
    write(path(part), "abandoned");
  std::FILE* const busy = create_file(path(u8"whole.partial2"), whole);
  ASSERT_NE(busy, nullptr);
  Result<Destination> destination = Destination::open(whole);
  ASSERT_TRUE(destination.ok()) << destination.status().message();
  EXPECT_TRUE(destination->write("new", 3).ok());
  EXPECT_TRUE(destination->finish({}).ok());
  EXPECT_EQ(read(whole), "new");
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder_))
    left.push_back(entry.path().filename().string());
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"whole", "whole.partial2"}));
  EXPECT_EQ(std::fclose(busy), 0);
}

Model small_model() {
  Graph graph;
  const Value x = graph.input("x", f32, {"n", 3});
  graph.output("y", graph.call("relu", {x}));
  return *Model::from_graph(std::move(graph));
}

TEST_F(Files, ModelsAndArraysLieAtPathsOfAnyLength) {
  const Model model = small_model();
  for (int folders : {0, 1, 8}) {
    fs::path deep = folder_;
    for (int i = 0; i < folders; ++i) deep /= std::u8string(60, u8'a') + u8"\u00df";
#ifdef _WIN32
    fs::create_directories(L"\\\\?\\" + deep.wstring());
#else
    fs::create_directories(deep);
#endif
    const std::string file = text_of(deep / u8"m\u00f6del.hgm"),
                      array = text_of(deep / u8"\u6570.npy");
    for (int again = 0; again < 2; ++again) {
      must(model.save(file));
      for (bool map : {false, true}) {
        const Model back = must(Model::load(file, Registry::built_in(), {.map = map}));
        EXPECT_EQ(back.graph().text(), model.graph().text());
      }
    }
    const std::vector<float> values = {1, 2, 3};
    must(write_npy(array, view(std::span<const float>(values), {3})));
    const Array back = must(read_npy(array));
    EXPECT_EQ(std::memcmp(back.as<float>(), values.data(), 12), 0);
    EXPECT_EQ(remove_file(file) | remove_file(array), 0);
#ifdef _WIN32  // remove_all() cannot remove such deep folders
    std::error_code error;
    for (; deep != folder_; deep = deep.parent_path())
      fs::remove(L"\\\\?\\" + deep.wstring(), error);
#endif
  }
}

// If addresses have 32 bits, files can be longer than the largest memory.
TEST_F(Files, LongerThanAddressesAreRefusedByName) {
#ifdef __EMSCRIPTEN__
  GTEST_SKIP() << "its fstat() tells the low 32 bits of a size";
#endif
  const std::string at = path(u8"long.hgm");
  write(at, "HGM");
  std::error_code error;
  constexpr uint64_t kBytes = (uint64_t{5} << 30) + 3;  // its low 32 bits say 1 GiB
  fs::resize_file(folder_ / u8"long.hgm", kBytes, error);
  if (error) GTEST_SKIP() << "no file of 5 GiB: " << error.message();
  for (bool map : {false, true}) {
    if (sizeof(size_t) > 4 && !map) continue;  // this would read the whole file
    const Status status = Model::load(at, Registry::built_in(), {.map = map}).status();
    EXPECT_EQ(status.code(), sizeof(size_t) > 4 ? Code::corrupt_model : Code::out_of_memory);
    EXPECT_NE(status.message().find("long.hgm"), std::string_view::npos) << status.message();
    if (sizeof(size_t) == 4) {
      EXPECT_NE(status.message().find(std::to_string(kBytes)), std::string_view::npos);
    }
  }
}

TEST(PlatformMemory, IsAligned) {
  for (uint64_t bytes : {0, 1, 63, 64, 65, 4096, (2 << 20) - 1, 2 << 20, (4 << 20) + 1}) {
    for (void* (*allocate)(uint64_t) : {allocate_aligned, allocate_on_large_pages}) {
      void* const memory = allocate(bytes);
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
      std::memset(memory, 0xa5, static_cast<size_t>(bytes));
      free_aligned(memory);
    }
    auto* const zeros = static_cast<unsigned char*>(allocate_zeros(bytes + 1));
    ASSERT_NE(zeros, nullptr);
    for (uint64_t i = 0; i <= bytes; ++i) ASSERT_EQ(zeros[i], 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(zeros) % 64, 0u);
    free_block(zeros);
  }
  free_aligned(nullptr);
  trim_heap();
}

TEST(PlatformMemory, MoreThanAddressesIsNull) {
  std::vector<uint64_t> sizes = {UINT64_MAX, UINT64_MAX - 63, uint64_t{1} << 63, PTRDIFF_MAX,
                                 uint64_t{PTRDIFF_MAX} + 1};
  if (sizeof(size_t) == 4) sizes.insert(sizes.end(), {uint64_t{1} << 32, (uint64_t{1} << 32) + 8});
  for (uint64_t bytes : sizes) {
    EXPECT_EQ(allocate_aligned(bytes), nullptr) << bytes;
    EXPECT_EQ(allocate_on_large_pages(bytes), nullptr) << bytes;
    EXPECT_EQ(allocate_zeros(bytes), nullptr) << bytes;
  }
}

// A product of sizes whose low 32 bits are a small number.
TEST(PlatformMemory, TensorsThatDoNotFitAreErrors) {
  const Sizes kLarge = {int64_t{1} << 31, int64_t{1} << 31, 4};
  EXPECT_FALSE(Array::allocate(f32, kLarge).ok());
  EXPECT_FALSE(TensorData::allocate(f32, kLarge).ok());
  if (sizeof(size_t) == 4) {
    EXPECT_EQ(Array::allocate(f32, {1 << 15, 1 << 15, 4}).status().code(), Code::out_of_memory);
    EXPECT_EQ(TensorData::allocate(f32, {1 << 15, 1 << 15, 4}).status().code(),
              Code::out_of_memory);
  }
}

TEST(PlatformLibrary, ThatIsNotThereIsToldSo) {
  EXPECT_EQ(open_shared_library("./there_is_no_such_library_\xc3\xa9.so"), nullptr);
  EXPECT_FALSE(shared_library_error().empty());
}

#ifdef __cpp_lib_to_chars
// Compares with the C++ library's functions, for random bits and for hand-written decimals.
TEST(MissingChars, AreTheLibrarys) {
  std::mt19937_64 random(4);
  const auto number = [&](int round) {
    if (round % 3 == 0) return std::bit_cast<double>(random());
    const auto whole = static_cast<double>(static_cast<int64_t>(random()) >> (random() % 64));
    return round % 3 == 1 ? whole : whole / std::pow(10.0, static_cast<double>(random() % 20));
  };
  const double kSpecial[] = {0.0,
                             -0.0,
                             1.0,
                             0.1,
                             1e21,
                             1e22,
                             123456789012345680.0,
                             1e-5,
                             5e-324,
                             1.7976931348623157e308,
                             HUGE_VAL,
                             -HUGE_VAL};
  for (int round = 0; round < 20000; ++round) {
    const double value = round < 12 ? kSpecial[round] : number(round);
    if (std::isnan(value)) continue;
    char ours[500], theirs[500];
    const auto text = [](char* begin, std::to_chars_result end) {
      return std::string(begin, end.ptr);
    };
    const std::string shortest = text(theirs, std::to_chars(theirs, theirs + 500, value));
    ASSERT_EQ(text(ours, missing::to_chars(ours, ours + 500, value)), shortest);
    for (auto format : {std::chars_format::fixed, std::chars_format::scientific})
      ASSERT_EQ(text(ours, missing::to_chars(ours, ours + 500, value, format, 4)),
                text(theirs, std::to_chars(theirs, theirs + 500, value, format, 4)));
    for (std::string given :
         {shortest, shortest + "e", "-" + shortest, shortest + "x1", "." + shortest}) {
      double ours_read = 7, theirs_read = 7;
      const char* const end = given.data() + given.size();
      const auto a = missing::from_chars(given.data(), end, ours_read);
      const auto b = std::from_chars(given.data(), end, theirs_read);
      ASSERT_TRUE(a.ptr == b.ptr && a.ec == b.ec) << given;
      ASSERT_EQ(std::bit_cast<uint64_t>(ours_read), std::bit_cast<uint64_t>(theirs_read)) << given;
    }
  }
  for (const char* given : {"1e999", "-1e999", "1e-999", "", "-", "e5", "inf", "-Infinity", "nan",
                            "+1", " 1", "1.", ".5", "1.e3", "0x10", "1e+", "1e+5"}) {
    double ours = 7, theirs = 7;
    const char* const end = given + std::strlen(given);
    const auto a = missing::from_chars(given, end, ours);
    const auto b = std::from_chars(given, end, theirs);
    EXPECT_TRUE(a.ptr == b.ptr && a.ec == b.ec) << "'" << given << "'";
    if (!std::isnan(theirs)) {
      EXPECT_EQ(ours, theirs) << given;
    }
  }
}
#endif

TEST(MissingStopToken, CallsBackOnce) {
  int calls = 0;
  missing::stop_source source;
  EXPECT_TRUE(source.get_token().stop_possible());
  {
    missing::stop_callback before(source.get_token(), [&] { ++calls; });
    missing::stop_callback gone(source.get_token(), [&] { calls += 100; });
  }
  missing::stop_callback counted(source.get_token(), [&] { ++calls; });
  EXPECT_FALSE(source.stop_requested());
  EXPECT_TRUE(source.request_stop());
  EXPECT_FALSE(source.request_stop());
  EXPECT_EQ(calls, 1);
  missing::stop_callback late(source.get_token(), [&] { ++calls; });
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(source.get_token().stop_requested());
  EXPECT_FALSE(missing::stop_token().stop_possible());
  missing::stop_token orphan;
  {
    missing::stop_source other;
    orphan = other.get_token();
    missing::stop_source copy = other;
    EXPECT_TRUE(orphan.stop_possible() && copy == other);
  }
  EXPECT_FALSE(orphan.stop_possible());
}

// Deregistration waits for a callback that runs in another thread.
TEST(MissingStopToken, WaitsForWhoIsInside) {
  for (int round = 0; round < 200; ++round) {
    missing::stop_source source;
    std::atomic<bool> inside{false}, is_over{false};
    auto callback =
        std::make_unique<missing::stop_callback<std::function<void()>>>(source.get_token(), [&] {
          inside = true;
          for (int i = 0; i < 100; ++i) std::this_thread::yield();
          is_over = true;
        });
    std::thread other([&] { source.request_stop(); });
    callback.reset();
    EXPECT_TRUE(!inside || is_over);
    other.join();
  }
}

#ifdef __SIZEOF_INT128__
// Compares with the compiler's type: numbers of any length, and neighbors of powers of two.
TEST(Numbers128, AreTheCompilers) {
  __extension__ using Unsigned = unsigned __int128;
  std::mt19937_64 random(3);
  const auto number = [&]() -> Wide {
    const int bits = static_cast<int>(random() % 128);
    const Wide power = static_cast<Wide>(static_cast<Unsigned>(1) << bits);
    const Wide all = static_cast<Wide>(static_cast<Unsigned>(random()) << 64 | random());
    switch (random() % 3) {
      case 0:
        return power + static_cast<int>(random() % 3) - 1;
      case 1:
        return -(power - 1) - static_cast<int>(random() % 2);
      default:
        return all >> (random() % 128);
    }
  };
  const auto of = [](Wide x) {
    return Int128(static_cast<uint64_t>(x >> 64), static_cast<uint64_t>(x));
  };
  for (int round = 0; round < 100000; ++round) {
    const Wide a = number(), b = number();
    Wide sum = 0, product = 0;
    Int128 sum2, product2;
    ASSERT_EQ(add_overflows(a, b, &sum), add_overflows(of(a), of(b), &sum2));
    ASSERT_EQ(mul_overflows(a, b, &product), mul_overflows(of(a), of(b), &product2));
    ASSERT_TRUE(sum2 == of(sum) && product2 == of(product));
    ASSERT_TRUE((of(a) < of(b)) == (a < b) && (of(a) == of(b)) == (a == b));
    ASSERT_EQ(static_cast<int64_t>(of(a)), static_cast<int64_t>(a));
    const auto word = static_cast<int64_t>(random());
    ASSERT_TRUE(Int128(word) == of(word));
    const bool overflows = b == -1 && a < 0 && a == -a;
    if (b == 0 || overflows) continue;
    ASSERT_TRUE(of(a) / of(b) == of(a / b) && of(a) % of(b) == of(a % b));
  }
}
#endif

struct Work {
  explicit Work(int64_t count) : times(static_cast<size_t>(count)) {}
  std::vector<std::atomic<int>> times;
  const ParallelFor* inner = nullptr;
};

void visit(void* arg, int64_t i) { ++static_cast<Work*>(arg)->times[static_cast<size_t>(i)]; }

void expect_once(const ParallelFor& parallel, int64_t count) {
  Work work(count);
  parallel.run(parallel.host, count, visit, &work);
  for (const std::atomic<int>& times : work.times) ASSERT_EQ(times.load(), 1);
}

TEST(Threads, DoEachPieceOnce) {
  EXPECT_GE(default_threads(), 1);
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const auto threads = static_cast<int>(1 + random() % (round % 20 == 0 ? 40 : 4));
    std::shared_ptr<void> keeper;
    const ParallelFor parallel = session_threads(threads, keeper);
    for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{threads}, int64_t(random() % 1000)})
      expect_once(parallel, count);
  }
}

TEST(Threads, RegionsInsideOfRegions) {
  std::shared_ptr<void> keeper;
  const ParallelFor parallel = session_threads(3, keeper);
  Work work(7);
  work.inner = &parallel;
  for (int round = 0; round < 100; ++round) {
    parallel.run(
        parallel.host, 7,
        [](void* arg, int64_t i) {
          visit(arg, i);
          expect_once(*static_cast<Work*>(arg)->inner, 11);
        },
        &work);
  }
  for (const std::atomic<int>& times : work.times) EXPECT_EQ(times.load(), 100);
}

// More callers than regions of the pool, and more threads than processors.
TEST(Threads, ManySessionsAtOnce) {
  std::vector<std::thread> hosts;
  for (int t = 0; t < 40; ++t)
    hosts.emplace_back([t] {
      for (int round = 0; round < 20; ++round) {
        std::shared_ptr<void> keeper;
        const ParallelFor parallel = session_threads(2 + t % 5, keeper);
        for (int region = 0; region < 10; ++region) expect_once(parallel, 1 + (t + region) % 60);
      }
    });
  for (std::thread& host : hosts) host.join();
}

#if defined(__x86_64__) || defined(__aarch64__)
// Every thread that computes a piece has the caller's rounding mode.
TEST(Threads, RoundAsTheCallerDoes) {
  std::shared_ptr<void> keeper;
  const ParallelFor parallel = session_threads(4, keeper);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TONEAREST}) {
    std::fesetround(mode);
    volatile float one = 1, three = 3;
    const float expected = one / three;
    std::vector<float> quotients(64);
    struct Work {
      std::vector<float>* quotients;
      volatile float *one, *three;
    } work{&quotients, &one, &three};
    parallel.run(
        parallel.host, 64,
        [](void* arg, int64_t i) {
          const Work& w = *static_cast<Work*>(arg);
          std::this_thread::sleep_for(std::chrono::microseconds(100));
          (*w.quotients)[static_cast<size_t>(i)] = *w.one / *w.three;
        },
        &work);
    std::fesetround(FE_TONEAREST);
    for (const float quotient : quotients) EXPECT_EQ(quotient, expected);
  }
}
#endif

// Pieces of very different length, longer than the window in which a session measures its workers.
TEST(Threads, PiecesThatTakeLong) {
  std::shared_ptr<void> keeper;
  const ParallelFor parallel = session_threads(4, keeper);
  for (int round = 0; round < 30; ++round) {
    std::atomic<int64_t> sum{0};
    parallel.run(
        parallel.host, 9,
        [](void* arg, int64_t i) {
          if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          static_cast<std::atomic<int64_t>*>(arg)->fetch_add(i);
        },
        &sum);
    EXPECT_EQ(sum.load(), 36);
  }
}

TEST(Threads, RegionsOfSeveralThreads) {
  std::shared_ptr<void> keeper;
  const ParallelFor parallel = session_threads(3, keeper);
  std::vector<std::thread> hosts;
  for (int t = 0; t < 3; ++t)
    hosts.emplace_back([&] {
      for (int round = 0; round < 300; ++round) expect_once(parallel, 50);
    });
  for (std::thread& host : hosts) host.join();
}

}  // namespace
}  // namespace hg
