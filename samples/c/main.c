/* SPDX-License-Identifier: Apache-2.0
 * C99: prints the inputs and outputs of a model, then classifies one digit, drawn as text below,
 * with the model of samples/digits. The scores are written to an array of this program. */
#include <stdio.h>
#include <string.h>

#include "hg/c.h"

static const char kInk[] = " .:-=+*#%@"; /* from 0 to 1 */
static const char* const kImage[8] = {
    "  :%@+  ", "  #*-@= ", " -@:.%- ", "  *@@@: ", "     #- ", "     #: ", " :*.-%  ", "  :#@*  "};

static float g_scores[10];

/* Returns the first failure, or null. */
static hg_status* print_model(const hg_model* model) {
  for (int32_t i = 0; i < hg_model_input_count(model); ++i) {
    hg_value_info info = {sizeof info, 0, 0, 0, NULL, NULL, {0}, {NULL}};
    hg_status* status = hg_model_input(model, i, &info);
    if (status != NULL) return status;
    printf("input %s %s\n", info.name, info.type);
  }
  printf("%d nodes, %d states\n", (int)hg_model_node_count(model),
         (int)hg_model_state_count(model));
  return NULL;
}

static hg_status* read_digit(const hg_model* model, hg_session* session) {
  float pixels[64];
  const int64_t image_shape[4] = {1, 1, 8, 8}, score_shape[2] = {1, 10};
  hg_tensor image, scores;
  hg_status* status = print_model(model);
  for (int i = 0; i < 64; ++i)
    pixels[i] = (float)(strchr(kInk, kImage[i / 8][i % 8]) - kInk) / 9.0f;
  if (status == NULL) status = hg_tensor_view(&image, sizeof image, pixels, HG_F32, 4, image_shape);
  if (status == NULL)
    status = hg_tensor_view(&scores, sizeof scores, g_scores, HG_F32, 2, score_shape);
  if (status == NULL) status = hg_session_set_input(session, "image", &image);
  if (status == NULL) status = hg_session_set_output_at(session, 0, &scores);
  if (status == NULL) status = hg_session_run(session, NULL);
  hg_session_forget_tensors(session); /* `pixels` goes out of scope */
  return status;
}

int main(int argc, char** argv) {
  hg_model* model = NULL;
  hg_session* session = NULL;
  hg_session_options options;
  hg_status* status;
  int best = 0;
  if (argc != 2) return fprintf(stderr, "usage: c_sample DIGITS.hgm\n"), 1;
  hg_session_options_init(&options, sizeof options);
  options.threads = 1;
  status = hg_model_load(argv[1], NULL, &model);
  if (status == NULL) status = hg_session_create(model, &options, &session);
  if (status == NULL) status = read_digit(model, session);
  if (status != NULL) {
    fprintf(stderr, "%s: %s\n", hg_code_name(hg_status_code(status)), hg_status_message(status));
  } else {
    for (int i = 1; i < 10; ++i)
      if (g_scores[i] > g_scores[best]) best = i;
    printf("The digit is a %d.\n", best);
  }
  hg_session_free(session);
  hg_model_free(model);
  hg_status_free(status);
  return status != NULL ? 2 : 0;
}
