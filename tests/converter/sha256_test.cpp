// SPDX-License-Identifier: Apache-2.0
// SHA-256 of files, against NIST's examples (FIPS 180-4) and at lengths around a block and a
// buffer.
#include "converter/load/sha256.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hg::convert {
namespace {

std::string hash_of(const std::string& content) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("sha256_test_" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary) << content;
  const std::string hash = sha256_of_file(path.string());
  std::filesystem::remove(path);
  return hash;
}

TEST(Sha256, AnswersAsTheStandardDoes) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// As sha256sum gives them.
TEST(Sha256, TakesAnyLength) {
  const auto bytes = [](size_t count) {
    std::string content(count, '\0');
    for (size_t i = 0; i < count; ++i) content[i] = static_cast<char>(i * 31 + i / 251);
    return hash_of(content);
  };
  EXPECT_EQ(bytes(55), "27d3069ecafb8507f92fa750312a99afe0908525e67b2abe8942b51659945b1b");
  EXPECT_EQ(bytes(56), "3428ab653c0a1ac104ee80fd3bed55135da5556ca4c26da9c781ae56364a6969");
  EXPECT_EQ(bytes(63), "b5ec25bd1c4b7c94c9ea9d235272e43f644f561d7c8c7e58ec5fa9aefe95ef07");
  EXPECT_EQ(bytes(64), "a08f82c23e6c13629d8e33d0d2a13005fb104363eb793b5e8842044951d27764");
  EXPECT_EQ(bytes(65), "c0a0263ae1ab4e9dda9cd2ed6c44b23ee6ff75c90c640185f462fad7f24fcd6f");
  EXPECT_EQ(bytes(119), "b4639d08cdba917a7875088b4e05633a7812e14282482de937915c9799b17250");
  EXPECT_EQ(bytes(120), "e4fce14f6aa99657bdffe9f1da59ce85f0398479e9af7e9de6ccf53e174447ab");
  EXPECT_EQ(bytes(1048576), "dc6e5c46329e7019fca98b07fa2ddc98de06454448c457a47cf00922c9006deb");
  EXPECT_EQ(bytes(1048577), "4838d6ce6291f7825cf232c9ffb48d8a624104e18110db900da0edcb948b5ab1");
}

TEST(Sha256, OfNoFileIsEmpty) { EXPECT_EQ(sha256_of_file("/no/such/file"), ""); }

}  // namespace
}  // namespace hg::convert
