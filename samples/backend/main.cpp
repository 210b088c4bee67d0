// SPDX-License-Identifier: Apache-2.0
// Classifies the handwritten digits of samples/digits on a device of the application's own and on
// the CPU, and prints what the device was asked to do.
#include <cmath>
#include <cstdio>
#include <string>

#include "hg/hg.h"
#include "hg/npy.h"
#include "samples/backend/counting_backend.h"

namespace {

hg::Result<hg::TensorData> scores(const hg::Model& model, const hg::Array& images,
                                  const hg::SessionOptions& options) {
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model, options));
  HG_TRY(session.set_input(0, images));
  HG_TRY(session.run());
  HG_TRY_ASSIGN(const hg::Tensor result, session.output(0));
  return hg::TensorData::copy_of(result);
}

hg::Status compare(const std::string& file, const std::string& folder) {
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::load(file));
  HG_TRY_ASSIGN(const auto images, hg::read_npy(folder + "/test_images.npy"));
  HG_TRY_ASSIGN(const hg::Gpu device,
                hg::Gpu::open_backend(std::make_shared<sample::CountingBackend>()));
  hg::SessionOptions options;
  options.device = hg::Device::vulkan;  // the device of `gpu`
  options.gpu = device;
  HG_TRY_ASSIGN(const hg::TensorData there, scores(model, images, options));
  const hg::GpuCounters first = device.counters();
  HG_TRY_ASSIGN(const hg::TensorData again, scores(model, images, options));
  HG_TRY_ASSIGN(const hg::TensorData here, scores(model, images, {}));
  const hg::GpuCounters counts = device.counters();
  const auto print = [](const char* what, int64_t count) {
    std::printf("%s %lld\n", what, static_cast<long long>(count));
  };
  print("runs", counts.submits - first.submits);
  print("calls", counts.dispatches - first.dispatches);
  print("uploads", counts.uploads - first.uploads);
  print("downloads", counts.downloads - first.downloads);
  print("bytes downloaded", counts.download_bytes - first.download_bytes);
  const float *a = there.tensor.as<float>(), *b = here.tensor.as<float>();
  for (int64_t i = 0; i < here.tensor.count(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 1e-4f * (1 + std::abs(b[i]))))
      return hg::internal_error("score ", i, " is ", a[i], " on the device, ", b[i], " on the CPU");
  std::printf("%lld scores equal the CPU's\n", static_cast<long long>(here.tensor.count()));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: backend digits.hgm samples/digits\n");
    return 2;
  }
  const hg::Status status = compare(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "backend: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
