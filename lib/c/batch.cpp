// SPDX-License-Identifier: Apache-2.0
// Batches and embedders of hg/c.h.
#include <algorithm>

#include "lib/c/handles.h"
#include "lib/c/structs.h"

using hg::c::border;

extern "C" {

hg_status* hg_batch_create(const hg_model* model, int64_t rows, const hg_session_options* options,
                           hg_batch** batch) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(batch);
    *batch = nullptr;
    return hg::c::create_for(model, options, batch,
                             [&](const hg::Model& from, hg::SessionOptions all) {
                               return hg::BatchGenerator::create(from, rows, std::move(all));
                             });
  });
}

void hg_batch_free(hg_batch* batch) { delete batch; }

hg_status* hg_batch_add(hg_batch* batch, const hg_token_ids* prompt,
                        const hg_generate_options* options, const hg_cancel* cancel, int64_t* id) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(id);
    *id = -1;
    HG_C_NEEDS(batch);
    HG_C_NEEDS(prompt);
    HG_CHECK(prompt->ids != nullptr || prompt->count == 0, "prompt.ids is null and has ",
             uint64_t{prompt->count}, " entries");
    HG_TRY_ASSIGN(hg::GenerateOptions all, hg::c::read_generate_options(options));
    const std::vector<int32_t> ids(prompt->ids, prompt->ids + prompt->count);
    HG_TRY_ASSIGN(*id, batch->batch.add(ids, std::move(all), hg::c::token_of(cancel)));
    return {};
  });
}

hg_status* hg_batch_step(hg_batch* batch, const hg_cancel* cancel, size_t* count) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(count);
    *count = 0;
    HG_C_NEEDS(batch);
    return hg::c::run_step(batch->batch, cancel, batch->tokens, count);
  });
}

hg_status* hg_batch_token(const hg_batch* batch, size_t index, hg_generated_token* token) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(batch);
    return hg::c::write_token(batch->tokens, index, token);
  });
}

hg_status* hg_batch_end(hg_batch* batch, int64_t id) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(batch);
    return batch->batch.end(id);
  });
}

int64_t hg_batch_running(const hg_batch* batch) {
  return batch == nullptr ? 0 : batch->batch.running();
}

size_t hg_batch_ended_count(const hg_batch* batch) {
  return batch == nullptr ? 0 : batch->batch.ended().size();
}

hg_status* hg_batch_ended(const hg_batch* batch, size_t index, hg_ended_sequence* sequence) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(batch);
    const auto ended = batch->batch.ended();
    HG_CHECK(index < ended.size(), "there is no sequence ", uint64_t{index}, " among ",
             uint64_t{ended.size()}, " that have ended");
    const hg::EndedSequence& from = ended[index];
    hg_ended_sequence all{};
    all.finish = from.sequence.finish == hg::Finish::stop ? HG_FINISH_STOP : HG_FINISH_LENGTH;
    all.id = from.id;
    all.ids = from.sequence.ids.data();
    all.count = from.sequence.ids.size();
    all.code = from.status.ok() ? 0 : static_cast<int32_t>(from.status.code());
    all.message = from.status.ok() ? "" : from.status.message().data();
    return hg::c::write_struct(sequence, all, "hg_ended_sequence");
  });
}

hg_status* hg_embedder_create(const hg_model* model, const hg_session_options* options,
                              hg_embedder** embedder) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(embedder);
    *embedder = nullptr;
    return hg::c::create_for(model, options, embedder, hg::Embedder::create);
  });
}

void hg_embedder_free(hg_embedder* embedder) { delete embedder; }

int64_t hg_embedder_size(const hg_embedder* embedder) {
  return embedder == nullptr ? 0 : embedder->embedder.size();
}

hg_status* hg_embedder_embed(hg_embedder* embedder, const int32_t* ids, size_t count,
                             int32_t pooling, int32_t normalize, const hg_cancel* cancel,
                             float* embedding) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(embedder);
    HG_C_NEEDS(embedding);
    HG_CHECK(ids != nullptr || count == 0, "ids is null and has ", uint64_t{count}, " entries");
    HG_CHECK(pooling >= HG_POOLING_MEAN && pooling <= HG_POOLING_FIRST, "pooling is ", pooling,
             ", expected 0 to 2");
    HG_TRY_ASSIGN(const std::vector<float> made,
                  embedder->embedder.embed(
                      {ids, count},
                      {.pooling = static_cast<hg::Pooling>(pooling), .normalize = normalize != 0},
                      hg::c::token_of(cancel)));
    std::copy(made.begin(), made.end(), embedding);
    return {};
  });
}

}  // extern "C"
