// SPDX-License-Identifier: Apache-2.0
// answers MODEL.hgm [SIZE...]: runs a model with float inputs at each size of its symbols and
// prints the bits of its outputs as a checksum, which is equal for every build that computes the
// same.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "lib/platform/instruction_set.h"

namespace {

// FNV-1a of the bytes of all outputs.
hg::Result<uint64_t> answer(const hg::Model& model, int64_t size) {
  hg::SessionOptions options;
  options.threads = 2;
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model, options));
  std::vector<std::vector<float>> inputs(static_cast<size_t>(session.input_count()));
  for (int i = 0; i < session.input_count(); ++i) {
    hg::Sizes shape;
    for (const hg::Dim& dim : session.input_type(i).shape)
      shape.push_back(dim.is_constant() ? dim.constant() : size);
    std::vector<float>& values = inputs[static_cast<size_t>(i)];
    for (int64_t k = 0; k < shape.count(); ++k)
      values.push_back(static_cast<float>(k * 7919 % 1009) / 1009.0f);
    HG_TRY(session.set_input(i, hg::view(values, shape)));
  }
  HG_TRY(session.run());
  uint64_t hash = 14695981039346656037u;
  for (int i = 0; i < session.output_count(); ++i) {
    HG_TRY_ASSIGN(const hg::Tensor y, session.output(i));
    for (int64_t k = 0; k < y.bytes(); ++k)
      hash = (hash ^ static_cast<const unsigned char*>(y.data)[k]) * 1099511628211u;
  }
  return hash;
}

hg::Status print(int count, char** words) {
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::load(words[1]));
  std::vector<int64_t> sizes;
  for (int i = 2; i < count; ++i) sizes.push_back(std::atoll(words[i]));
  if (sizes.empty()) sizes.push_back(1);
  for (const int64_t size : sizes) {
    HG_TRY_ASSIGN(const uint64_t hash, answer(model, size));
    std::printf("%lld: %016llx\n", static_cast<long long>(size),
                static_cast<unsigned long long>(hash));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: answers MODEL.hgm [SIZE...]\n");
    return 1;
  }
  hg::limit_isa(hg::Isa::avx2);
  const hg::Status status = print(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "answers: %s\n", std::string(status.message()).c_str());
  return 2;
}
