/* SPDX-License-Identifier: Apache-2.0
 * two_openmp LIBRARY DIGITS.hgm: a host on LLVM's OpenMP loads libhologram_c, which brings GNU's,
 * in a separate scope. Sessions on the library's threads return the same bits before, between and
 * inside the host's parallel regions. Exit code 0: they do, and both runtimes are in the
 * process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "hg/c.h"

enum { kImages = 64, kScores = kImages * 10 };

/* Each function that is called, as a pointer of its type. */
#define FUNCTIONS(F)                                                                          \
  F(hg_session_options_init)                                                                  \
  F(hg_model_load) F(hg_model_free) F(hg_session_create) F(hg_session_free) F(hg_tensor_view) \
      F(hg_session_set_input) F(hg_session_set_output_at) F(hg_session_run)                   \
          F(hg_session_forget_tensors) F(hg_status_message)
#define DECLARE(name) static __typeof__(&name) call_##name;
FUNCTIONS(DECLARE)

static float g_pixels[kImages * 64];

static int bind(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 0;
#define BIND(name)                               \
  *(void**)&call_##name = dlsym(library, #name); \
  if (call_##name == NULL) return fprintf(stderr, "no %s\n", #name), 0;
  FUNCTIONS(BIND)
  return 1;
}

/* A session of its own, on two threads of the library. */
static int answer(const hg_model* model, float* scores) {
  const int64_t image_shape[4] = {kImages, 1, 8, 8}, score_shape[2] = {kImages, 10};
  hg_session* session = NULL;
  hg_session_options options;
  hg_tensor image, to;
  hg_status* status;
  call_hg_session_options_init(&options, sizeof options);
  options.threads = 2;
  status = call_hg_session_create(model, &options, &session);
  if (status == NULL)
    status = call_hg_tensor_view(&image, sizeof image, g_pixels, HG_F32, 4, image_shape);
  if (status == NULL) status = call_hg_tensor_view(&to, sizeof to, scores, HG_F32, 2, score_shape);
  if (status == NULL) status = call_hg_session_set_input(session, "image", &image);
  if (status == NULL) status = call_hg_session_set_output_at(session, 0, &to);
  if (status == NULL) status = call_hg_session_run(session, NULL);
  if (status != NULL) fprintf(stderr, "%s\n", call_hg_status_message(status));
  call_hg_session_free(session);
  return status == NULL;
}

static int runtimes(void) {
  char line[1024];
  int gnu = 0, llvm = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    gnu |= strstr(line, "libgomp") != NULL;
    llvm |= strstr(line, "libomp") != NULL;
  }
  if (maps != NULL) fclose(maps);
  return gnu + llvm;
}

int main(int argc, char** argv) {
  static float first[kScores], again[kScores], inside[4][kScores];
  hg_model* model = NULL;
  int wrong = 0;
  if (argc != 3) return fprintf(stderr, "usage: two_openmp LIBRARY DIGITS.hgm\n"), 1;
  if (!bind(argv[1])) return 2;
  for (int i = 0; i < kImages * 64; ++i) g_pixels[i] = (float)(i * 37 % 101) / 101.0f;
  if (call_hg_model_load(argv[2], NULL, &model) != NULL) return 2;
  if (!answer(model, first)) return 2;
  for (int round = 0; round < 20; ++round) {
    double sum = 0;
#pragma omp parallel for num_threads(4) reduction(+ : sum)
    for (int i = 0; i < 100000; ++i) sum += i;
    wrong += sum != 4999950000.0;
#pragma omp parallel for num_threads(4) reduction(+ : wrong)
    for (int i = 0; i < 4; ++i)
      wrong += !answer(model, inside[i]) || memcmp(first, inside[i], sizeof first) != 0;
    wrong += !answer(model, again) || memcmp(first, again, sizeof first) != 0;
  }
  call_hg_model_free(model);
  printf("%d OpenMP runtimes, 101 runs, %d wrong\n", runtimes(), wrong);
  return runtimes() == 2 && wrong == 0 ? 0 : 2;
}
