// SPDX-License-Identifier: Apache-2.0
// Sessions of hg/c.h.
#include "hg/session.h"

#include "lib/c/handles.h"
#include "lib/c/structs.h"

using hg::c::border;

namespace hg::c {
namespace {

using Dims = std::vector<std::pair<std::string, int64_t>>;

Result<Dims> read_dims(const hg_dim_size* dims, size_t count) {
  HG_CHECK(dims != nullptr || count == 0, "dims is null and has ", uint64_t{count}, " entries");
  Dims all;
  for (size_t i = 0; i < count; ++i) {
    HG_CHECK(dims[i].name != nullptr, "the name of dims[", uint64_t{i}, "] is null");
    all.emplace_back(dims[i].name, dims[i].size);
  }
  return all;
}

Result<std::vector<SizeRange>> read_ranges(const hg_size_range* ranges, size_t count) {
  HG_CHECK(ranges != nullptr || count == 0, "ranges is null and has ", uint64_t{count}, " entries");
  std::vector<SizeRange> all;
  for (size_t i = 0; i < count; ++i) {
    HG_CHECK(ranges[i].name != nullptr, "the name of ranges[", uint64_t{i}, "] is null");
    all.push_back({ranges[i].name, ranges[i].lowest, ranges[i].highest});
  }
  return all;
}

Result<Device> read_device(int32_t device) {
  HG_CHECK(device >= HG_DEVICE_CPU && device <= HG_DEVICE_AUTOMATIC,
           "hg_session_options.device is ", device, ", which is not a device");
  return device == HG_DEVICE_CPU      ? Device::cpu
         : device == HG_DEVICE_VULKAN ? Device::vulkan
                                      : Device::automatic;
}

void tell(void* host, LogLevel level, const char* message) {
  const auto* to = static_cast<const CLog*>(host);
  to->write(to->host, static_cast<int32_t>(level), message);
}

}  // namespace

Result<SessionOptions> read_session_options(const hg_session_options* given,
                                            std::unique_ptr<CLog>& log) {
  HG_TRY_ASSIGN(const hg_session_options all,
                read_struct(given, hg_session_options(), "hg_session_options"));
  SessionOptions o;
  HG_TRY_ASSIGN(o.device, read_device(all.device));
  HG_CHECK(all.precision >= HG_PRECISION_F32 && all.precision <= HG_PRECISION_I8,
           "hg_session_options.precision is ", all.precision, ", which is not a precision");
  HG_CHECK(all.checkpoint == HG_CHECKPOINT_NONE || all.checkpoint == HG_CHECKPOINT_SQRT,
           "hg_session_options.checkpoint is ", all.checkpoint, ", which is not a checkpoint mode");
  HG_CHECK((all.allocate == nullptr) == (all.deallocate == nullptr),
           "hg_session_options has only one of allocate and deallocate");
  HG_CHECK(all.tuning != nullptr || all.tuning_size == 0, "hg_session_options.tuning is null");
  o.precision = static_cast<Precision>(all.precision);
  o.checkpoint = static_cast<Checkpoint>(all.checkpoint);
  o.threads = all.threads;
  if (all.parallel_for != nullptr)
    o.parallel_for = {all.parallel_for, all.parallel_host,
                      all.parallel_threads > 0 ? all.parallel_threads : 1};
  o.allocator = {all.allocate, all.deallocate, all.allocator_host};
  if (all.log != nullptr) {
    log = std::make_unique<CLog>(CLog{all.log, all.log_host});
    o.log = {tell, log.get()};
  }
  o.memory_limit = all.memory_limit;
  o.most_rounds = all.most_rounds;
  o.seed = all.seed;
  o.first_run = all.first_run;
  HG_TRY_ASSIGN(o.dims, read_dims(all.dims, all.dim_count));
  HG_TRY_ASSIGN(o.ranges, read_ranges(all.ranges, all.range_count));
  if (all.gpu != nullptr) o.gpu = all.gpu->gpu;
  if (all.gpu_name != nullptr) o.gpu_name = all.gpu_name;
  const auto* tuning = static_cast<const std::byte*>(all.tuning);
  if (all.tuning_size > 0) o.tuning.assign(tuning, tuning + all.tuning_size);
  o.low_memory = all.low_memory != 0;
  o.autotune = all.autotune != 0;
  o.device_outputs = all.device_outputs != 0;
  o.profile = all.profile != 0;
  o.keep_all_values = all.keep_all_values != 0;
  if (all.entry != nullptr) o.entry = all.entry;
  if (all.states != nullptr) o.states = all.states->states;
  if (all.packed != nullptr) o.packed = all.packed;
  return o;
}

Status write_memory(hg_memory* to, const Memory& from) {
  hg_memory all{};
  all.peak_bytes = from.peak_bytes;
  all.arena_bytes = from.arena_bytes;
  all.arena_lower_bound = from.arena_lower_bound;
  all.weights_bytes = from.weights_bytes;
  all.packed_bytes = from.packed_bytes;
  all.mapped_bytes = from.mapped_bytes;
  all.device_bytes = from.device_bytes;
  all.extra_flops = from.extra_flops;
  return write_struct(to, all, "hg_memory");
}

}  // namespace hg::c

extern "C" {

void hg_session_options_init(hg_session_options* options, size_t struct_size) {
  hg::c::write_defaults(options, struct_size, hg_session_options());
}

hg_status* hg_cancel_create(hg_cancel** cancel) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(cancel);
    *cancel = nullptr;
    return hg::c::give(cancel);
  });
}
void hg_cancel_request(hg_cancel* cancel) {
  if (cancel != nullptr) cancel->source.request_stop();
}
void hg_cancel_free(hg_cancel* cancel) { delete cancel; }

hg_status* hg_session_create(const hg_model* model, const hg_session_options* options,
                             hg_session** session) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    *session = nullptr;
    return hg::c::create_for(model, options, session,
                             [](const hg::Model& from, hg::SessionOptions all) {
                               return hg::Session::create(from, std::move(all));
                             });
  });
}

void hg_session_free(hg_session* session) { delete session; }

hg_status* hg_session_set_input(hg_session* session, const char* name, const hg_tensor* tensor) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_C_NEEDS(name);
    HG_TRY_ASSIGN(const hg::Tensor from, hg::c::read_tensor(tensor));
    return session->session.set_input(name, from);
  });
}

hg_status* hg_session_set_input_at(hg_session* session, int32_t index, const hg_tensor* tensor) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_TRY_ASSIGN(const hg::Tensor from, hg::c::read_tensor(tensor));
    return session->session.set_input(index, from);
  });
}

hg_status* hg_session_set_device_input(hg_session* session, const char* name,
                                       const hg_device_tensor* tensor) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_C_NEEDS(name);
    HG_C_NEEDS(tensor);
    return session->session.set_input(name, tensor->tensor);
  });
}

hg_status* hg_session_set_output(hg_session* session, const char* name, const hg_tensor* tensor) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_C_NEEDS(name);
    if (tensor == nullptr) return session->session.set_output(name, hg::Tensor());
    HG_TRY_ASSIGN(const hg::Tensor to, hg::c::read_tensor(tensor));
    return session->session.set_output(name, to);
  });
}

hg_status* hg_session_set_output_at(hg_session* session, int32_t index, const hg_tensor* tensor) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    if (tensor == nullptr) return session->session.set_output(index, hg::Tensor());
    HG_TRY_ASSIGN(const hg::Tensor to, hg::c::read_tensor(tensor));
    return session->session.set_output(index, to);
  });
}

void hg_session_forget_tensors(hg_session* session) {
  if (session != nullptr) session->session.forget_tensors();
}

void hg_session_seed(hg_session* session, uint64_t seed) {
  if (session != nullptr) session->session.seed(seed);
}

hg_status* hg_session_plan(hg_session* session, const hg_dim_size* dims, size_t dim_count) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_TRY_ASSIGN(const auto all, hg::c::read_dims(dims, dim_count));
    return session->session.plan(all);
  });
}

hg_status* hg_session_run(hg_session* session, const hg_cancel* cancel) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    return session->session.run(hg::c::token_of(cancel));
  });
}

hg_status* hg_session_output(const hg_session* session, const char* name, hg_tensor* tensor) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_C_NEEDS(name);
    HG_TRY_ASSIGN(const hg::Tensor from, session->session.output(name));
    return hg::c::write_tensor(tensor, from);
  });
}

hg_status* hg_session_output_at(const hg_session* session, int32_t index, hg_tensor* tensor) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_TRY_ASSIGN(const hg::Tensor from, session->session.output(index));
    return hg::c::write_tensor(tensor, from);
  });
}

hg_status* hg_session_device_output(const hg_session* session, const char* name,
                                    hg_device_tensor** tensor) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(tensor);
    *tensor = nullptr;
    HG_C_NEEDS(session);
    HG_C_NEEDS(name);
    HG_TRY_ASSIGN(hg::DeviceTensor from, session->session.device_output(name));
    return hg::c::give(tensor, std::move(from));
  });
}

hg_status* hg_session_value(const hg_session* session, const char* name, hg_tensor* tensor) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_C_NEEDS(name);
    HG_TRY_ASSIGN(const hg::Tensor from, session->session.value(name));
    return hg::c::write_tensor(tensor, from);
  });
}

hg_status* hg_session_set_value(hg_session* session, const char* name, const hg_tensor* tensor) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_C_NEEDS(name);
    HG_TRY_ASSIGN(const hg::Tensor from, hg::c::read_tensor(tensor));
    return session->session.set_value(name, from);
  });
}

hg_status* hg_session_memory(const hg_session* session, hg_memory* memory) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_TRY_ASSIGN(const hg::Memory from, session->session.memory());
    return hg::c::write_memory(memory, from);
  });
}

double hg_session_flops(const hg_session* session) {
  return session == nullptr ? 0 : session->session.flops();
}

hg_status* hg_session_report(const hg_session* session, char** text) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(text);
    *text = nullptr;
    HG_C_NEEDS(session);
    return hg::c::write_text(text, session->session.report());
  });
}

hg_status* hg_session_profile(const hg_session* session, char** text) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(text);
    *text = nullptr;
    HG_C_NEEDS(session);
    std::string lines;
    for (const hg::ProfileRow& row : session->session.profile())
      lines += hg::str_cat(row.ms, " ms\t", row.op, "\t", row.kernel, "\t", row.node, "\t",
                           row.module, "\n");
    return hg::c::write_text(text, lines);
  });
}

hg_status* hg_session_tuning(const hg_session* session, void* tuning, size_t capacity,
                             size_t* size) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    return hg::c::write_bytes(tuning, capacity, size, session->session.tuning());
  });
}

hg_status* hg_session_save_packed(const hg_session* session) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    return session->session.save_packed();
  });
}

}  // extern "C"
