/* SPDX-License-Identifier: Apache-2.0
 * hg/c.h: generation of text, past states, batches and embeddings. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/c/test.h"

void test_generation(void) {
  static unsigned char bytes[1 << 16];
  const size_t size = hg_test_words_model(bytes, sizeof bytes);
  EXPECT(size > 0);
  hg_model *model = NULL, *other = read_model();
  EXPECT_OK(hg_model_read(bytes, size, NULL, &model));
  hg_generator* generator = NULL;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "model is null", hg_generator_create(NULL, NULL, &generator));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "generator is null", hg_generator_create(model, NULL, NULL));
  EXPECT_FAILS(HG_UNSUPPORTED, "the input 'x'", hg_generator_create(other, NULL, &generator));
  EXPECT(generator == NULL);
  EXPECT_OK(hg_generator_create(model, NULL, &generator));
  static unsigned char file[1 << 16];
  hg_model* adapter = NULL;
  EXPECT_OK(hg_model_read(file, hg_test_adapter(file, sizeof file), NULL, &adapter));
  const hg_model* const adapters[1] = {adapter};
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "does not adapt",
               hg_generator_set_adapters(generator, adapters, 1));
  EXPECT_OK(hg_generator_set_adapters(generator, NULL, 0));
  hg_model_free(adapter);
  hg_model_free(other);
  hg_model_free(model); /* the generator has what it needs */

  hg_generate_options options;
  hg_generate_options_init(&options, sizeof options);
  EXPECT(options.max_tokens == 128 && options.top_p == 1 && options.repetition_penalty == 1);
  const int32_t first[1] = {1}, second[1] = {3}, stop[1] = {0};
  const hg_token_ids prompts[2] = {{first, 1}, {second, 1}};
  size_t count = 9;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "begin()", hg_generator_step(generator, NULL, &count));
  EXPECT(count == 0);
  options.max_tokens = 4;
  options.stop_ids = stop;
  options.stop_id_count = 1;
  options.log_probabilities = 1;
  EXPECT_OK(hg_generator_begin(generator, prompts, 2, &options));
  hg_generated_token token;
  memset(&token, 0, sizeof token);
  token.struct_size = sizeof token;
  EXPECT_OK(hg_generator_step(generator, NULL, &count));
  EXPECT(count == 2);
  EXPECT_OK(hg_generator_token(generator, 1, &token));
  EXPECT(token.prompt == 1 && token.id == 4);
  EXPECT(fabs(token.log_probability - (2 - log(exp(2.0) + 4))) < 1e-6);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "no token 2 among 2", hg_generator_token(generator, 2, &token));
  EXPECT_OK(hg_generator_step(generator, NULL, &count)); /* 3, and the stop id */
  EXPECT(count == 1);
  EXPECT_OK(hg_generator_end(generator, 0));
  EXPECT_OK(hg_generator_step(generator, NULL, &count));
  EXPECT(count == 0);
  const int32_t* ids = NULL;
  int32_t finish = HG_FINISH_LENGTH;
  EXPECT_OK(hg_generator_sequence(generator, 0, &ids, &count, &finish));
  EXPECT(count == 2 && ids[0] == 2 && ids[1] == 3 && finish == HG_FINISH_STOP);
  EXPECT_OK(hg_generator_sequence(generator, 1, &ids, &count, NULL));
  EXPECT(count == 1 && ids[0] == 4);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "no prompt 2 among 2",
               hg_generator_sequence(generator, 2, &ids, &count, NULL));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "no sequence -1 among 2", hg_generator_end(generator, -1));

  EXPECT_OK(hg_generator_begin(generator, prompts, 1, NULL)); /* the defaults */
  EXPECT_OK(hg_generator_step(generator, NULL, &count));
  EXPECT_OK(hg_generator_sequence(generator, 0, &ids, &count, &finish));
  EXPECT(count == 1 && ids[0] == 2 && finish == HG_FINISH_LENGTH);
  hg_cancel* cancel = NULL;
  EXPECT_OK(hg_cancel_create(&cancel));
  hg_cancel_request(cancel);
  EXPECT_FAILS(HG_CANCELLED, "", hg_generator_step(generator, cancel, &count));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "begin()", hg_generator_step(generator, NULL, &count));
  hg_cancel_free(cancel);

  const hg_token_ids empty = {NULL, 0}, wrong = {NULL, 2};
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "no prompts", hg_generator_begin(generator, NULL, 0, NULL));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "prompts is null and has 1 entries",
               hg_generator_begin(generator, NULL, 1, NULL));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "prompt 0 is empty",
               hg_generator_begin(generator, &empty, 1, NULL));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "prompts[0].ids is null and has 2 entries",
               hg_generator_begin(generator, &wrong, 1, NULL));
  const int32_t outside[1] = {1 << 20};
  options.stop_ids = outside;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "stop_ids has the id 1048576, but the vocabulary has",
               hg_generator_begin(generator, prompts, 1, &options));
  options.stop_ids = stop;
  options.temperature = -1;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "temperature is -1",
               hg_generator_begin(generator, prompts, 1, &options));
  options.stop_ids = NULL;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "hg_generate_options.stop_ids is null",
               hg_generator_begin(generator, prompts, 1, &options));
  hg_generator_free(generator);
  hg_generator_free(NULL);
}

static int32_t only_two(void* host, int64_t prompt, const int32_t* ids, size_t id_count,
                        float* logits, size_t logit_count) {
  size_t i;
  *(int64_t*)host += (int64_t)id_count;
  for (i = 0; i < logit_count; ++i)
    if (i != 2) logits[i] = -INFINITY;
  return prompt == 0 && ids[0] == 1 ? 0 : 1;
}
static int32_t refuse(void* host, int64_t prompt, const int32_t* ids, size_t id_count,
                      float* logits, size_t logit_count) {
  (void)host, (void)prompt, (void)ids, (void)id_count, (void)logits, (void)logit_count;
  return 7;
}

static hg_model* words_model(void) {
  static unsigned char bytes[1 << 16];
  hg_model* model = NULL;
  EXPECT_OK(hg_model_read(bytes, hg_test_words_model(bytes, sizeof bytes), NULL, &model));
  return model;
}

void test_generate_options(void) {
  hg_model* model = words_model();
  hg_generator *generator = NULL, *draft = NULL;
  EXPECT_OK(hg_generator_create(model, NULL, &generator));
  EXPECT_OK(hg_generator_create(model, NULL, &draft));
  hg_model_free(model);
  const int32_t first[1] = {1}, *ids = NULL;
  const hg_token_ids prompt = {first, 1};
  size_t count = 0;
  int64_t seen = 0;
  hg_generate_options options;
  hg_generate_options_init(&options, sizeof options);
  EXPECT(options.num_beams == 1 && options.num_return_sequences == 1 && options.draft_tokens == 5);
  options.max_tokens = 3;
  options.num_beams = 2;
  options.num_return_sequences = 2;
  options.early_stopping = HG_EARLY_STOPPING_YES;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "num_beams is 2",
               hg_generator_begin(generator, &prompt, 1, &options));
  EXPECT_OK(hg_generator_generate(generator, &prompt, 1, &options, NULL));
  EXPECT_OK(hg_generator_sequence(generator, 0, &ids, &count, NULL));
  EXPECT(count == 3 && ids[0] == 2 && ids[1] == 3 && ids[2] == 4);
  EXPECT_OK(hg_generator_sequence(generator, 1, &ids, &count, NULL));
  options.early_stopping = 3;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "early_stopping is 3",
               hg_generator_generate(generator, &prompt, 1, &options, NULL));
  hg_generate_options_init(&options, sizeof options);
  options.max_tokens = 9;
  options.draft = draft;
  EXPECT_OK(hg_generator_begin(generator, &prompt, 1, &options));
  EXPECT_OK(hg_generator_step(generator, NULL, &count));
  EXPECT(count == 1);
  EXPECT_OK(hg_generator_step(generator, NULL, &count));
  EXPECT(count == 6); /* five proposed tokens, and one more */
  options.draft = NULL;
  options.on_logits = only_two;
  options.host = &seen;
  options.max_tokens = 2;
  EXPECT_OK(hg_generator_generate(generator, &prompt, 1, &options, NULL));
  EXPECT_OK(hg_generator_sequence(generator, 0, &ids, &count, NULL));
  EXPECT(count == 2 && ids[0] == 2 && ids[1] == 2 && seen == 3);
  options.on_logits = refuse;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "on_logits returned 7",
               hg_generator_generate(generator, &prompt, 1, &options, NULL));
  options.on_logits = NULL;
  options.encoder_ids = &prompt;
  options.encoder_id_count = 1;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "the model has none",
               hg_generator_generate(generator, &prompt, 1, &options, NULL));
  hg_generator_free(draft);
  hg_generator_free(generator);
}

void test_past(const char* folder) {
  hg_model* model = words_model();
  hg_generator *generator = NULL, *copy = NULL;
  char path[1024];
  const int32_t first[2] = {1, 3};
  int32_t ids[3] = {-1, -1, -1};
  const float* logits = NULL;
  size_t count = 0;
  snprintf(path, sizeof path, "%s/c_test.past", folder);
  EXPECT_OK(hg_generator_create(model, NULL, &generator));
  EXPECT(hg_generator_length(generator) == 0 && hg_generator_length(NULL) == 0);
  EXPECT_OK(hg_generator_append(generator, first, 2, NULL, &logits, &count));
  EXPECT(count == 5 && logits[4] == 2 && logits[0] == 0);
  EXPECT(hg_generator_length(generator) == 2);
  EXPECT_OK(hg_generator_fork(generator, &copy));
  EXPECT_OK(hg_generator_truncate(generator, 1));
  EXPECT_OK(hg_generator_save(generator, path));
  EXPECT_OK(hg_generator_ids(generator, ids, 3, &count));
  EXPECT(count == 1 && ids[0] == 1 && ids[1] == -1);
  EXPECT_OK(hg_generator_ids(copy, ids, 1, &count));
  EXPECT(count == 2 && ids[1] == -1);
  EXPECT_OK(hg_generator_load(copy, path));
  EXPECT(hg_generator_length(copy) == 1);
  hg_generator_reset(copy);
  EXPECT(hg_generator_length(copy) == 0);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "a past of 1 tokens to 2", hg_generator_truncate(generator, 2));
  EXPECT_FAILS(HG_NOT_FOUND, "none.past", hg_generator_load(copy, "none.past"));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "ids is null",
               hg_generator_append(copy, NULL, 2, NULL, &logits, &count));
  EXPECT(logits == NULL && count == 0);
  remove(path);
  hg_generator_free(generator);
  hg_generator_free(copy);
  hg_model_free(model);
}

void test_batch(void) {
  hg_model* model = words_model();
  hg_batch* batch = NULL;
  const int32_t first[2] = {1, 3}, second[1] = {0};
  const hg_token_ids prompts[2] = {{first, 2}, {second, 1}}, wrong = {NULL, 1};
  hg_generate_options options;
  hg_generated_token token;
  hg_ended_sequence ended;
  int64_t ids[2] = {-1, -1}, none = 0;
  size_t count = 0;
  memset(&token, 0, sizeof token);
  token.struct_size = sizeof token;
  memset(&ended, 0, sizeof ended);
  ended.struct_size = sizeof ended;
  hg_generate_options_init(&options, sizeof options);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "rows is 0", hg_batch_create(model, 0, NULL, &batch));
  EXPECT_OK(hg_batch_create(model, 2, NULL, &batch));
  options.max_tokens = 2;
  EXPECT_OK(hg_batch_add(batch, &prompts[0], &options, NULL, &ids[0]));
  options.max_tokens = 1;
  EXPECT_OK(hg_batch_add(batch, &prompts[1], &options, NULL, &ids[1]));
  EXPECT_FAILS(HG_BUSY, "all 2 rows", hg_batch_add(batch, &prompts[0], &options, NULL, &none));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "prompt.ids is null",
               hg_batch_add(batch, &wrong, &options, NULL, &none));
  EXPECT(none == -1 && hg_batch_running(batch) == 2);
  EXPECT_OK(hg_batch_step(batch, NULL, &count));
  EXPECT(count == 2);
  EXPECT_OK(hg_batch_token(batch, 0, &token));
  EXPECT(token.prompt == ids[0] && token.id == 4);
  EXPECT(hg_batch_ended_count(batch) == 1 && hg_batch_running(batch) == 1);
  EXPECT_OK(hg_batch_ended(batch, 0, &ended));
  EXPECT(ended.id == ids[1] && ended.count == 1 && ended.ids[0] == 1 && ended.code == 0);
  EXPECT(ended.finish == HG_FINISH_LENGTH && ended.message[0] == 0);
  EXPECT_OK(hg_batch_end(batch, ids[0]));
  EXPECT_OK(hg_batch_ended(batch, 1, &ended));
  EXPECT(ended.id == ids[0] && ended.finish == HG_FINISH_STOP && ended.count == 1);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "no sequence 2 among 2", hg_batch_ended(batch, 2, &ended));
  EXPECT_FAILS(HG_NOT_FOUND, "no running sequence", hg_batch_end(batch, ids[0]));
  options.on_logits = refuse;
  EXPECT_OK(hg_batch_add(batch, &prompts[1], &options, NULL, &ids[0]));
  EXPECT_OK(hg_batch_step(batch, NULL, &count));
  EXPECT_OK(hg_batch_ended(batch, 0, &ended));
  EXPECT(count == 0 && ended.code == HG_INVALID_ARGUMENT);
  EXPECT(strcmp(ended.message, "on_logits returned 7") == 0);
  hg_batch_free(batch);
  hg_batch_free(NULL);
  hg_model_free(model);
}

void test_embeddings(void) {
  hg_model* model = words_model();
  hg_embedder* embedder = NULL;
  const int32_t ids[3] = {1, 1, 3};
  float out[5] = {9, 9, 9, 9, 9};
  EXPECT_OK(hg_embedder_create(model, NULL, &embedder));
  EXPECT(hg_embedder_size(embedder) == 5 && hg_embedder_size(NULL) == 0);
  EXPECT_OK(hg_embedder_embed(embedder, ids, 3, HG_POOLING_MEAN, 1, NULL, out));
  EXPECT(out[0] == 0 && fabs(out[1] - 2 / sqrt(5)) < 1e-6 && fabs(out[3] - 1 / sqrt(5)) < 1e-6);
  EXPECT_OK(hg_embedder_embed(embedder, ids, 3, HG_POOLING_LAST, 0, NULL, out));
  EXPECT(out[3] == 1 && out[1] == 0);
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "pooling is 3",
               hg_embedder_embed(embedder, ids, 3, 3, 1, NULL, out));
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "empty", hg_embedder_embed(embedder, NULL, 0, 0, 1, NULL, out));
  hg_embedder_free(embedder);
  hg_embedder_free(NULL);
  hg_model_free(model);
}
