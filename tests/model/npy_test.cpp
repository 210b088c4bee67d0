// SPDX-License-Identifier: Apache-2.0
// .npy files: every dtype written and read back, the versions and orders that NumPy writes, and an
// error message for each way in which a file can be wrong.
#include "hg/npy.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "tests/support/must.h"

namespace hg {
namespace {

class Npy : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "hg_npy_test_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".npy";
  ~Npy() override { std::remove(path_.c_str()); }

  void put(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  // A file of this version with this header and `bytes` bytes of elements.
  void put(int version, const std::string& header, const std::string& elements) {
    std::string bytes = "\x93NUMPY";
    bytes += static_cast<char>(version);
    bytes += '\0';
    bytes += static_cast<char>(header.size() & 0xff);
    bytes += static_cast<char>(header.size() >> 8);
    if (version > 1) bytes += std::string(2, '\0');
    put(bytes + header + elements);
  }
  void expect_failure(Code code, const std::string& part) {
    Result<Array> array = read_npy(path_);
    ASSERT_FALSE(array.ok());
    EXPECT_EQ(to_string(array.status().code()), to_string(code));
    EXPECT_NE(array.status().message().find(part), std::string::npos) << array.status().message();
    EXPECT_NE(array.status().message().find(path_), std::string::npos) << array.status().message();
  }
};

TEST_F(Npy, EveryDTypeComesBack) {
  for (int d = 0; d < kDTypeCount; ++d) {
    const DType dtype = static_cast<DType>(d);
    for (const Sizes& shape : {Sizes{}, Sizes{1}, Sizes{5}, Sizes{2, 3}, Sizes{2, 0, 3}}) {
      TensorData data = must(TensorData::allocate(dtype, shape));
      auto* bytes = data.tensor.as<unsigned char>();
      for (int64_t i = 0; i < data.tensor.bytes(); ++i) {
        bytes[i] = static_cast<unsigned char>(dtype == boolean ? i % 2 : 7 * i + 3);
      }
      ASSERT_TRUE(write_npy(path_, data.tensor).ok());
      Array back = must(read_npy(path_));
      EXPECT_EQ(back.tensor().dtype, dtype);
      EXPECT_EQ(back.tensor().shape, shape);
      EXPECT_TRUE(back.tensor().is_contiguous());
      EXPECT_EQ(std::memcmp(back.tensor().data, bytes, data.tensor.bytes()), 0);
    }
  }
}

TEST_F(Npy, ElementsStartAtAMultipleOf64) {
  const float one = 1;
  ASSERT_TRUE(write_npy(path_, view(&one, f32, Sizes{1, 1, 1, 1})).ok());
  std::ifstream file(path_, std::ios::binary | std::ios::ate);
  EXPECT_EQ((static_cast<int64_t>(file.tellg()) - 4) % 64, 0);
}

TEST_F(Npy, StridesAreWrittenInCOrder) {
  const float values[] = {0, 1, 2, 3, 4, 5};
  ConstTensor transposed = view(values, f32, Sizes{2, 3});
  transposed.shape = {3, 2};
  transposed.strides = {1, 3};
  ASSERT_TRUE(write_npy(path_, transposed).ok());
  Array back = must(read_npy(path_));
  const float expected[] = {0, 3, 1, 4, 2, 5};
  EXPECT_EQ(std::memcmp(back.tensor().data, expected, sizeof expected), 0);
}

TEST_F(Npy, FortranOrderBecomesStrides) {
  put(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", "abcdef");
  Array array = must(read_npy(path_));
  EXPECT_EQ(array.tensor().shape, (Sizes{2, 3}));
  EXPECT_EQ(array.tensor().strides, (Sizes{1, 2}));
}

TEST_F(Npy, Versions2And3AndOtherSpellings) {
  for (int version : {2, 3}) {
    put(version, "{\"shape\": (2L,), 'fortran_order':False,'descr':'<i2'}", "abcd");
    Array array = must(read_npy(path_));
    EXPECT_EQ(array.tensor().dtype, i16);
    EXPECT_EQ(array.tensor().shape, (Sizes{2}));
  }
}

TEST_F(Npy, BytesAreAsNumPyWritesThem) {
  const int64_t values[] = {1, 2};
  ASSERT_TRUE(write_npy(path_, view(values, i64, Sizes{2})).ok());
  std::ifstream file(path_, std::ios::binary);
  std::string head(10 + 59, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  EXPECT_EQ(head.substr(10), "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }  ");
}

TEST_F(Npy, MissingFile) { expect_failure(Code::not_found, "cannot be opened"); }

TEST_F(Npy, NotAnArray) {
  put("hello, this is text");
  expect_failure(Code::corrupt_model, "is not a .npy file");
  put(std::string("PK\x03\x04", 4) + "archive");
  expect_failure(Code::corrupt_model, ".npz archive");
  put("");
  expect_failure(Code::corrupt_model, "is not a .npy file");
}

TEST_F(Npy, CutShort) {
  put(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", "abcd");
  expect_failure(Code::corrupt_model, "holds 4 bytes of elements, but f32[5] needs 20");
  put(std::string("\x93NUMPY\x01\x00\x76\x00{'descr'", 18));
  expect_failure(Code::corrupt_model, "ends in its header of 118 bytes");
}

TEST_F(Npy, WrongHeaders) {
  put(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "");
  expect_failure(Code::corrupt_model, "not a valid .npy header");
  put(1, "{'descr': '<f4', 'shape': (1,), }", "abcd");
  expect_failure(Code::corrupt_model, "not a valid .npy header");
  put(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2), }", "");
  expect_failure(Code::corrupt_model, "overflows");
  put(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "");
  expect_failure(Code::corrupt_model, "not a valid .npy header");
  put(4, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "abcd");
  expect_failure(Code::unsupported, "version 4");
  put(255, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "abcd");
  expect_failure(Code::unsupported, "version 255");
}

TEST_F(Npy, ElementTypesWithoutADType) {
  const auto of_type = [&](const std::string& descr) {
    put(1, "{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }", "0123456789abcdef");
  };
  of_type("'>f4'");
  expect_failure(Code::unsupported, "big-endian; save it with .astype('<f4')");
  of_type("'<c32'");
  expect_failure(Code::unsupported, "'<c32' have no dtype");
  of_type("'|O'");
  expect_failure(Code::unsupported, "'|O' have no dtype");
  of_type("[('a', '<f4')]");
  expect_failure(Code::unsupported, "records");
}

TEST_F(Npy, MoreDimensionsThanATensorHas) {
  put(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1), }", "a");
  expect_failure(Code::unsupported, "more than 12 dimensions");
}

TEST_F(Npy, ABooleanIsZeroOrOne) {
  put(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", std::string("\1\0\2", 3));
  expect_failure(Code::corrupt_model, "element 2 is the byte 2");
}

TEST_F(Npy, AFolderThatIsNotThere) {
  const float one = 1;
  Status status = write_npy("/nowhere/at/all/x.npy", view(&one, f32, Sizes{1}));
  EXPECT_EQ(status.code(), Code::not_found);
  EXPECT_NE(status.message().find("cannot be written"), std::string::npos);
}

}  // namespace
}  // namespace hg
