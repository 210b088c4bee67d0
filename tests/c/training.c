/* SPDX-License-Identifier: Apache-2.0
 * hg/c.h: training compared with steps by hand. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/c/test.h"

static int stop_at_three(void* host, const hg_progress* progress) {
  double* last = (double*)host;
  if (!progress->is_epoch) *last = progress->loss;
  return progress->step < 3;
}

/* One step of SGD on the mean squared error, by hand. */
static double sgd_step(float* w, float* b, const float* x, const float* t, int n, float lr) {
  float y[64], dw[6] = {0}, db[2] = {0};
  double loss = 0;
  linear(w, b, x, n, y);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 2; ++j) {
      const float e = y[i * 2 + j] - t[i * 2 + j], d = 2 * e / (float)(n * 2);
      loss += (double)(e * e) / (n * 2);
      db[j] += d;
      for (int k = 0; k < 3; ++k) dw[j * 3 + k] += d * x[i * 3 + k];
    }
  for (int i = 0; i < 6; ++i) w[i] -= lr * dw[i];
  for (int j = 0; j < 2; ++j) b[j] -= lr * db[j];
  return loss;
}

void test_training(const char* folder) {
  char path[4096];
  float x[24], t[16], w[6], b[2];
  hg_model *model = read_model(), *trained = NULL;
  hg_trainer* trainer = NULL;
  hg_optimizer sgd;
  hg_train_options options;
  hg_fit_options fit;
  hg_dataset data;
  hg_tensor input, target;
  hg_state_info state;
  hg_metric metric;
  hg_memory memory;
  double loss = 0, expected = 0, last = 0, error = 0;
  memcpy(w, kW, sizeof w);
  memcpy(b, kB, sizeof b);
  for (int i = 0; i < 24; ++i) x[i] = (float)((i * 5) % 9) / 4 - 1;
  for (int i = 0; i < 16; ++i) t[i] = (float)((i * 3) % 5) - 2;
  input = tensor_of(x, 8, 3);
  target = tensor_of(t, 8, 2);
  hg_dataset_init(&data, sizeof data);
  data.inputs = &input;
  data.targets = &target;
  data.input_count = data.target_count = 1;
  hg_optimizer_init(&sgd, sizeof sgd, HG_SGD);
  sgd.lr = 0.0625;
  hg_metric_init(&metric, sizeof metric);
  metric.kind = HG_MEAN_ERROR;
  hg_train_options_init(&options, sizeof options);
  options.optimizer = &sgd;
  options.metrics = &metric;
  options.metric_count = 1;
  metric.struct_size = sizeof metric + 1; /* the next of a list would not be whole */
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "hg_metric.struct_size is",
               hg_trainer_create(model, &options, &trainer));
  metric.struct_size = sizeof metric;
  EXPECT_OK(hg_trainer_create(model, &options, &trainer));
  EXPECT(hg_trainer_trained_count(trainer) == 2 && hg_trainer_trained(trainer, 2) == NULL);
  for (int i = 0; i < 4; ++i) {
    expected = sgd_step(w, b, x, t, 8, 0.0625f);
    EXPECT_OK(hg_trainer_step(trainer, &data, NULL, &loss));
    EXPECT(fabs(loss - expected) < 1e-5);
  }
  memset(&memory, 0, sizeof memory);
  memory.struct_size = sizeof memory;
  EXPECT_OK(hg_trainer_memory(trainer, &memory));
  EXPECT(memory.arena_bytes > 0 && hg_trainer_updates(trainer) == 4);
  hg_trainer_set_lr(trainer, 0.03125);
  EXPECT(hg_trainer_lr(trainer) == 0.03125);
  hg_fit_options_init(&fit, sizeof fit);
  fit.epochs = 5;
  fit.batch = 0;
  fit.shuffle = 0;
  fit.on_progress = stop_at_three;
  fit.progress_host = &last;
  EXPECT_OK(hg_trainer_fit(trainer, &data, &fit));
  EXPECT(hg_trainer_updates(trainer) > 4 && last > 0 && last < expected);
  EXPECT_OK(hg_trainer_evaluate(trainer, &data, 8, &loss, &error));
  EXPECT(loss > 0 && loss < expected && error > 0);
  snprintf(path, sizeof path, "%s/c_test_trained.hgm", folder);
  EXPECT_OK(hg_trainer_save(trainer, path));
  EXPECT_OK(hg_trainer_model(trainer, &trained));
  hg_model_free(trained);
  hg_trainer_free(trainer);
  EXPECT_OK(hg_model_load(path, NULL, &trained));
  memset(&state, 0, sizeof state);
  state.struct_size = sizeof state;
  EXPECT_OK(hg_model_state(trained, 0, &state));
  EXPECT(memcmp(state.tensor.data, kW, sizeof(float)) != 0);
  EXPECT_OK(hg_trainer_create(trained, &options, &trainer));
  EXPECT(hg_trainer_updates(trainer) > 4); /* resumed */
  hg_trainer_free(trainer);
  hg_model_free(trained);
  remove(path);

  hg_parameter_rule rule;
  hg_parameter_rule_init(&rule, sizeof rule);
  rule.pattern = "b";
  rule.frozen = 1;
  options.rules = &rule;
  options.rule_count = 1;
  EXPECT_OK(hg_trainer_create(model, &options, &trainer));
  EXPECT(hg_trainer_trained_count(trainer) == 1 &&
         strcmp(hg_trainer_trained(trainer, 0), "w") == 0);
  hg_trainer_free(trainer);
  rule.pattern = "nothing.like.it";
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "nothing.like.it",
               hg_trainer_create(model, &options, &trainer));
  sgd.kind = 9;
  EXPECT_FAILS(HG_INVALID_ARGUMENT, "hg_optimizer.kind is 9",
               hg_trainer_create(model, &options, &trainer));
  EXPECT(trainer == NULL);
  hg_trainer_free(NULL);
  hg_model_free(model);
}
