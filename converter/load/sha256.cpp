// SPDX-License-Identifier: Apache-2.0
#include "converter/load/sha256.h"

#include <openssl/evp.h>

#include <fstream>
#include <memory>
#include <vector>

namespace hg::convert {

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(),
                                                                       EVP_MD_CTX_free);
  if (!file || !digest || EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) != 1) return "";
  std::vector<char> buffer(size_t{1} << 18);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    if (EVP_DigestUpdate(digest.get(), buffer.data(), static_cast<size_t>(file.gcount())) != 1)
      return "";
  }
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned count = 0;
  if (file.bad() || EVP_DigestFinal_ex(digest.get(), bytes, &count) != 1) return "";
  std::string hex;
  for (unsigned i = 0; i < count; ++i) {
    hex += "0123456789abcdef"[bytes[i] >> 4];
    hex += "0123456789abcdef"[bytes[i] & 15];
  }
  return hex;
}

}  // namespace hg::convert
