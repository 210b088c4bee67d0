// SPDX-License-Identifier: Apache-2.0
// .npz archives: written and read back, as NumPy writes them, and damaged at every position.
#include "hg/npz.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "hg/create.h"
#include "hg/npy.h"
#include "tests/support/must.h"

namespace hg {
namespace {

class Npz : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "hg_npz_test_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".npz";
  ~Npz() override { std::remove(path_.c_str()); }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  void put(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
};

TEST_F(Npz, ArraysComeBackByName) {
  for (const bool compressed : {false, true}) {
    NamedArrays arrays;
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      arrays.emplace_back(str_cat("of ", dtype), *zeros({2, 3}, dtype));
    }
    arrays.emplace_back("weights/layer.0", *arange(0, 3000)->reshape({30, 100})->transpose(0, 1));
    arrays.emplace_back("empty", *zeros({0, 4}));
    arrays.emplace_back("one", *full({}, 7));
    ASSERT_TRUE(write_npz(path_, arrays, compressed).ok());
    const NamedArrays back = must(read_npz(path_));
    ASSERT_EQ(back.size(), arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      const auto& [name, array] = back[i];
      EXPECT_EQ(name, arrays[i].first);
      EXPECT_EQ(array.dtype(), arrays[i].second.dtype());
      EXPECT_EQ(array.shape(), arrays[i].second.shape());
      const Array dense = *arrays[i].second.contiguous();
      EXPECT_EQ(std::memcmp(array.tensor().data, dense.tensor().data, size_t(dense.bytes())), 0);
    }
  }
  EXPECT_TRUE(write_npz(path_, {}).ok() || bytes().empty());
}

TEST_F(Npz, NamesMustDiffer) {
  const Array a = *zeros({1});
  EXPECT_FALSE(write_npz(path_, {{"a", a}, {"a", a}}).ok());
  EXPECT_FALSE(write_npz(path_, {{"", a}}).ok());
  EXPECT_FALSE(write_npz(path_, {{"a", Array()}}).ok());
  EXPECT_TRUE(bytes().empty());
}

TEST_F(Npz, DamageIsSeen) {
  EXPECT_EQ(read_npz(path_).status().code(), Code::not_found);
  EXPECT_EQ(write_npz("/nowhere/at/all/x.npz", {{"a", *zeros({1})}}).code(), Code::not_found);
  put("no archive");
  EXPECT_EQ(read_npz(path_).status().code(), Code::corrupt_model);
  for (const bool compressed : {false, true}) {
    ASSERT_TRUE(write_npz(path_, {{"a", *arange(0, 50)}, {"b", *rand({7}, 1)}}, compressed).ok());
    const std::string whole = bytes();
    for (size_t size = 0; size < whole.size(); size += 7) {
      put(whole.substr(0, size));
      EXPECT_FALSE(read_npz(path_).ok()) << size;
    }
    int changed = 0;
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      put(damaged);
      changed += read_npz(path_).ok();  // no checksum covers dates, names and versions
    }
    EXPECT_LT(changed, static_cast<int>(whole.size()) / 2);
  }
}

TEST_F(Npz, NpyFilesAreReadFromMemory) {
  const Array a = *arange(0, 5);
  ASSERT_TRUE(write_npy(path_, a).ok());
  const std::string file = bytes();
  const auto whole = std::as_bytes(std::span(file));
  EXPECT_EQ(to_text(*read_npy(whole, "memory")), to_text(a));
  for (size_t size = 0; size < whole.size(); ++size) {
    const Result<Array> cut = read_npy(whole.first(size), "memory");
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_NE(cut.status().message().find("memory"), std::string::npos);
  }
  EXPECT_NE(read_npy("/nowhere.npz").status().message().find("/nowhere.npz"), std::string::npos);
}

}  // namespace
}  // namespace hg
