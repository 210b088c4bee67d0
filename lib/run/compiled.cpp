// SPDX-License-Identifier: Apache-2.0
// Finds the data that sessions share.
#include "lib/run/compiled.h"

#include <span>

#include "lib/graph/checksum.h"
#include "lib/parallel/threads.h"

namespace hg {
namespace {

int threads_of(const SessionOptions& options) {
  if (options.parallel_for.run != nullptr) return options.parallel_for.threads;
  return options.threads > 0 ? options.threads : default_threads();
}

// Whether sessions with these options compile alike and may share packed weights. Independent of a
// session's runs and arenas; of the host's pool only the number of threads matters. A new option
// must be added here, or this does not compile.
bool compile_alike(const SessionOptions& a, const SessionOptions& b) {
  const auto& [entry, states, device, threads, parallel_for, allocator, arena_observer,
               lazy_allocation, memory_limit, checkpoint, low_memory, precision, autotune, tuning,
               packed, dims, ranges, disabled_passes, kernels, seed, first_run, gpu, gpu_name,
               device_outputs, profile, most_rounds, keep_all_values, registry, log] = a;
  const bool same_gpu = gpu ? b.gpu && &gpu.info() == &b.gpu.info() : !b.gpu;
  return device == b.device && threads_of(a) == threads_of(b) &&
         allocator.allocate == b.allocator.allocate && allocator.free == b.allocator.free &&
         allocator.host == b.allocator.host && memory_limit == b.memory_limit &&
         checkpoint == b.checkpoint && low_memory == b.low_memory && precision == b.precision &&
         autotune == b.autotune && ranges == b.ranges && tuning == b.tuning && packed == b.packed &&
         disabled_passes == b.disabled_passes && kernels == b.kernels && same_gpu &&
         gpu_name == b.gpu_name && device_outputs == b.device_outputs && profile == b.profile &&
         most_rounds == b.most_rounds && keep_all_values == b.keep_all_values &&
         registry == b.registry;
}

}  // namespace

std::shared_ptr<Compiled> Compiled::of(const Graph& graph, const SessionOptions& options) {
  GraphCompanions& companions = *GraphAccess::body(graph).companions;
  const std::lock_guard<std::mutex> looking(companions.mutex);
  std::erase_if(companions.all, [](const auto& other) { return other.expired(); });
  for (const std::weak_ptr<GraphCompanion>& other : companions.all)
    if (const auto found = std::static_pointer_cast<Compiled>(other.lock()))
      if (compile_alike(found->options_, options)) return found;
  auto made = std::make_shared<Compiled>(options);
  companions.all.push_back(made);
  companions.is_used = true;
  return made;
}

std::shared_ptr<Compiled> Compiled::of_body(const std::shared_ptr<Graph>& body,
                                            const SessionOptions& options) {
  std::shared_ptr<Compiled>& known = bodies_[body];
  if (known != nullptr) return known;
  SessionOptions silent = options;  // what there is to say is said once
  silent.log = {};
  return known = std::make_shared<Compiled>(silent);
}

// Layouts may depend on everything by which graphs are compiled.
void Compiled::use_packed_file() {
  if (options_.packed.empty()) return;
  const std::string text = graph.text();
  std::string why;
  packs.use_file(PackedFile::open(options_.packed, why),
                 str_cat(checksum_of(std::as_bytes(std::span(text))), " ", threads_of(options_),
                         " ", static_cast<int64_t>(options_.precision), " "));
  if (!why.empty() && options_.log.write != nullptr)
    options_.log.write(options_.log.host, LogLevel::warning, why.c_str());
}

bool Compiled::list_packs(std::vector<PackedEntry>& entries) {
  const std::lock_guard<std::mutex> locked(lock);
  bool has_new = packs.list(entries);
  for (const auto& [graph, body] : bodies_) has_new |= body->list_packs(entries);
  return has_new;
}

}  // namespace hg
