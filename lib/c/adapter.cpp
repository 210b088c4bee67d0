// SPDX-License-Identifier: Apache-2.0
// Adapters of hg/c.h.
#include "hg/adapter.h"

#include "lib/c/handles.h"
#include "lib/c/structs.h"

using hg::c::border;

namespace hg::c {
namespace {

Result<std::vector<Model>> models_of(const hg_model* const* adapters, size_t count) {
  HG_CHECK(adapters != nullptr || count == 0, "adapters is null and has ", uint64_t{count},
           " entries");
  std::vector<Model> models;
  for (size_t i = 0; i < count; ++i) {
    HG_CHECK(adapters[i] != nullptr, "adapters[", uint64_t{i}, "] is null");
    models.push_back(adapters[i]->model);
  }
  return models;
}

}  // namespace
}  // namespace hg::c

hg_status* hg_model_apply_adapters(const hg_model* model, const hg_model* const* adapters,
                                   size_t count, int64_t rank, hg_model** adapted) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(adapted);
    *adapted = nullptr;
    HG_C_NEEDS(model);
    HG_TRY_ASSIGN(const std::vector<hg::Model> all, hg::c::models_of(adapters, count));
    HG_TRY_ASSIGN(hg::Model made, hg::apply_adapters(model->model, all, rank));
    return hg::c::give_model(adapted, std::move(made));
  });
}

hg_status* hg_generator_set_adapters(hg_generator* generator, const hg_model* const* adapters,
                                     size_t count) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(generator);
    HG_TRY_ASSIGN(const std::vector<hg::Model> all, hg::c::models_of(adapters, count));
    return hg::set_adapters(generator->generator, all);
  });
}

hg_status* hg_session_set_adapters(hg_session* session, const hg_model* const* adapters,
                                   size_t count) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(session);
    HG_TRY_ASSIGN(const std::vector<hg::Model> all, hg::c::models_of(adapters, count));
    return hg::set_adapters(session->session, all);
  });
}
