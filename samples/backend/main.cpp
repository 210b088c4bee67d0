// SPDX-License-Identifier: Apache-2.0
// A backend: kernels for all ops that count their calls and forward them to the library's kernels.
// A backend for a remote accelerator has the same three functions. It sends the tensors instead.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/kernel.h"

namespace {

// What the backend did since it was reset.
struct Counts {
  std::atomic<int64_t> calls = 0, bytes_sent = 0, bytes_received = 0;
  std::set<std::string, std::less<>> ops;  // of the planned calls
};
Counts counts;

// What the backend keeps of a planned call: the kernel that computes it, and that kernel's state.
struct Forwarded {
  const hg::KernelDef* kernel = nullptr;
  std::shared_ptr<void> state;
};

const hg::KernelDef* kernel_for(const hg::PrepareContext& c) {
  for (const hg::KernelDef* kernel :
       hg::Registry::built_in().kernels(c.op().name(), hg::Device::cpu))
    if (kernel->measure == nullptr && (kernel->accepts == nullptr || kernel->accepts(c)))
      return kernel;
  return nullptr;
}

bool accepts(const hg::PrepareContext& c) { return kernel_for(c) != nullptr; }

hg::Status prepare(hg::PrepareContext& c) {
  const hg::KernelDef* const kernel = kernel_for(c);
  hg::PrepareContext own = c;  // stores the state and the workspace of that kernel
  if (kernel->prepare != nullptr) HG_TRY(kernel->prepare(own));
  c.set_workspace(own.workspace());
  c.make_state(Forwarded{kernel, own.shared_state()});
  counts.ops.insert(std::string(c.op().name()));
  return {};
}

void run(const hg::RunContext& c) noexcept {
  const Forwarded& call = c.state<Forwarded>();
  hg::RunContext own = c;
  own.prepared = call.state.get();
  call.kernel->run(own);
  ++counts.calls;
  for (const hg::Tensor& input : c.inputs) counts.bytes_sent += input.bytes();
  for (const hg::Tensor& output : c.outputs) counts.bytes_received += output.bytes();
}

// `rows` must outlive the registry.
hg::Status add_backend(hg::Registry& registry, std::deque<hg::KernelDef>& rows) {
  for (const hg::Op* op : registry.ops()) {
    rows.push_back(
        {.op = op->name(), .name = "counting", .accepts = accepts, .prepare = prepare, .run = run});
    HG_TRY(registry.add(rows.back()));
  }
  return {};
}

// softmax(tanh(x w + b) w - b)
hg::Result<hg::Model> network(const hg::Registry& registry) {
  hg::Graph g(registry);
  const hg::Value x = g.input("x", hg::f32, {"n", 8});
  const hg::Value w = g.parameter("w", hg::f32, {8, 8}, hg::init::uniform(-1, 1, 1));
  const hg::Value b = g.parameter("b", hg::f32, {8}, hg::init::uniform(-1, 1, 2));
  const hg::Value hidden = tanh(matmul(x, w) + b);
  g.output("y", softmax(matmul(hidden, w) - b, -1));
  return hg::Model::from_graph(std::move(g));
}

// Runs the network and prints what the backend computed.
hg::Result<std::vector<float>> run_network(const hg::Registry& registry,
                                           const hg::SessionOptions& options) {
  counts.calls = counts.bytes_sent = counts.bytes_received = 0;
  counts.ops.clear();
  HG_TRY_ASSIGN(const hg::Model model, network(registry));
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model, options));
  std::vector<float> x(3 * 8);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i) - 1;
  HG_TRY(session.set_input("x", hg::view(x, {3, 8})));
  HG_TRY(session.run());
  HG_TRY_ASSIGN(const hg::Tensor y, session.output("y"));
  std::printf("backend: %lld ops in %lld calls, %lld bytes sent, %lld received\n",
              static_cast<long long>(counts.ops.size()), static_cast<long long>(counts.calls),
              static_cast<long long>(counts.bytes_sent),
              static_cast<long long>(counts.bytes_received));
  return std::vector<float>(y.as<float>(), y.as<float>() + y.count());
}

hg::Status compare() {
  std::deque<hg::KernelDef> rows;
  hg::Registry registry;
  HG_TRY(add_backend(registry, rows));
  HG_TRY_ASSIGN(const std::vector<float> fused, run_network(registry, {}));
  const hg::SessionOptions plain = {.disabled_passes = {"*"}};
  HG_TRY_ASSIGN(const std::vector<float> each, run_network(registry, plain));
  HG_TRY_ASSIGN(const std::vector<float> fused_here, run_network(hg::Registry::built_in(), {}));
  HG_TRY_ASSIGN(const std::vector<float> each_here, run_network(hg::Registry::built_in(), plain));
  const auto equal = [](const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  if (!equal(fused, fused_here) || !equal(each, each_here))
    return hg::internal_error("the backend's results differ from the library's");
  std::printf("the results are equal to the last bit\n");
  return {};
}

}  // namespace

int main() {
  const hg::Status status = compare();
  if (!status.ok()) std::fprintf(stderr, "backend: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
