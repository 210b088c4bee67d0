/* SPDX-License-Identifier: Apache-2.0
 * The same from C. */
#include <stdio.h>
#include <string.h>

#include "hg/c.h"

int main(int argc, char** argv) {
  float x[3] = {1, 1, 0.5f};
  const int64_t shape[2] = {1, 3};
  hg_model* model = NULL;
  hg_session* session = NULL;
  hg_tensor in, out;
  hg_status* status = hg_model_load(argc > 1 ? argv[1] : "model.hgm", NULL, &model);
  memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  if (status == NULL) status = hg_session_create(model, NULL, &session);
  if (status == NULL) status = hg_tensor_view(&in, sizeof in, x, HG_F32, 2, shape);
  if (status == NULL) status = hg_session_set_input(session, "x", &in);
  if (status == NULL) status = hg_session_run(session, NULL);
  if (status == NULL) status = hg_session_output(session, "y", &out);
  if (status == NULL)
    printf("y %g %g\n", ((float*)out.data)[0], ((float*)out.data)[1]);
  else
    fprintf(stderr, "%s\n", hg_status_message(status));
  hg_session_free(session);
  hg_model_free(model);
  hg_status_free(status);
  return status != NULL;
}
