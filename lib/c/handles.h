// SPDX-License-Identifier: Apache-2.0
// The types behind the handles of hg/c.h, and the border that exceptions do not cross.
#pragma once

#include <memory>
#include <new>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "hg/batch_generator.h"
#include "hg/c.h"
#include "hg/embedder.h"
#include "hg/generator.h"
#include "hg/gpu.h"
#include "hg/model.h"
#include "hg/session.h"
#include "hg/shared_states.h"
#include "hg/train.h"

struct hg_status {
  hg::Status status;
};

struct hg_model {
  hg::Model model;
  // Strings that info structs point to.
  struct Described {
    std::string name, type;
    hg::TensorType full;
    std::vector<std::string> dims;
  };
  std::vector<Described> inputs, outputs;
  std::vector<std::string> symbols, ops;  // ops: of each node
  std::vector<std::string> entries;
};

struct hg_states {
  std::shared_ptr<hg::SharedStates> states;
  std::vector<std::string> names;
};

struct hg_gpu {
  hg::Gpu gpu;
};
struct hg_device_tensor {
  hg::DeviceTensor tensor;
};
struct hg_cancel {
  std::stop_source source;
};

namespace hg::c {

// Host pointer of the C++ Log. It adapts LogLevel, which is not an int32_t.
struct CLog {
  void (*write)(void* host, int32_t level, const char* message) = nullptr;
  void* host = nullptr;
};

}  // namespace hg::c

struct hg_session {
  std::unique_ptr<hg::c::CLog> log;  // outlives the session
  hg::Session session;
};
struct hg_generator {
  std::shared_ptr<hg::c::CLog> log;  // also of forks
  hg::Generator generator;
  std::vector<hg::GeneratedToken> tokens = {};  // of the last step
};
struct hg_batch {
  std::unique_ptr<hg::c::CLog> log;
  hg::BatchGenerator batch;
  std::vector<hg::GeneratedToken> tokens = {};
};
struct hg_embedder {
  std::unique_ptr<hg::c::CLog> log;
  hg::Embedder embedder;
};
struct hg_constraint {
  std::shared_ptr<const hg::Constraint> constraint;
};
struct hg_trainer {
  std::unique_ptr<hg::c::CLog> log;
  hg::Trainer trainer;
  size_t metrics;
};

// Fails if a handle or a result pointer is null.
#define HG_C_NEEDS(pointer) HG_CHECK((pointer) != nullptr, #pointer " is null")

namespace hg::c {

hg_status* no_memory() noexcept;  // returns the status without allocating
hg_status* to_c(Status status) noexcept;

// Runs the body of a function of hg/c.h.
template <class Call>
hg_status* border(Call&& call) noexcept {
  try {
    return to_c(call());
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (...) {
    return to_c(internal_error("a callback of the host threw an exception"));
  }
}

// Passes a value to the caller as a handle.
template <class Handle, class... Parts>
Status give(Handle** handle, Parts&&... parts) {
  *handle = new Handle{std::forward<Parts>(parts)...};
  return {};
}

// model.cpp
Status give_model(hg_model** handle, Model model);
// tensor.cpp; `needs_data`: the elements are read or written, not only the type.
Result<Tensor> read_tensor(const hg_tensor* given, bool needs_data = true);
Status write_tensor(hg_tensor* to, const Tensor& from);
// session.cpp
// `log` stores the callback that the options refer to.
Result<SessionOptions> read_session_options(const hg_session_options* given,
                                            std::unique_ptr<CLog>& log);
Status write_memory(hg_memory* to, const Memory& from);
Status write_text(char** to, std::string_view text);
Status write_bytes(void* to, size_t capacity, size_t* size, const std::vector<std::byte>& bytes);
// Gives what `create` makes of the model and the options, with the log that the options refer to.
template <class Handle, class Create>
Status create_for(const hg_model* model, const hg_session_options* options, Handle** handle,
                  const Create& create) {
  HG_C_NEEDS(model);
  std::unique_ptr<CLog> log;
  HG_TRY_ASSIGN(SessionOptions all, read_session_options(options, log));
  HG_TRY_ASSIGN(auto made, create(model->model, std::move(all)));
  return give(handle, std::move(log), std::move(made));
}
inline std::stop_token token_of(const hg_cancel* cancel) {
  return cancel == nullptr ? std::stop_token() : cancel->source.get_token();
}
// generator.cpp
Result<GenerateOptions> read_generate_options(const hg_generate_options* given);
Status write_token(const std::vector<GeneratedToken>& tokens, size_t index, hg_generated_token* to);
// Runs a step of a Generator or BatchGenerator and keeps its tokens.
template <class Engine>
Status run_step(Engine& engine, const hg_cancel* cancel, std::vector<GeneratedToken>& tokens,
                size_t* count) {
  tokens.clear();
  HG_TRY_ASSIGN(const auto made, engine.step(token_of(cancel)));
  tokens.assign(made.begin(), made.end());
  *count = made.size();
  return {};
}
// train_options.cpp
Result<TrainOptions> read_train_options(const hg_train_options* given, std::unique_ptr<CLog>& log);

}  // namespace hg::c
