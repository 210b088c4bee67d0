// SPDX-License-Identifier: Apache-2.0
// Errors and names of hg/c.h.
#include "hg/status.h"

#include <cstdlib>

#include "hg/version.h"
#include "lib/c/handles.h"

namespace {

// Represents "out of memory" when no status could be allocated. Its contents are never read.
constexpr char kNoMemory = 0;
bool is_no_memory(const hg_status* status) {
  return reinterpret_cast<const char*>(status) == &kNoMemory;
}

}  // namespace

namespace hg::c {

hg_status* no_memory() noexcept {
  return reinterpret_cast<hg_status*>(const_cast<char*>(&kNoMemory));
}

hg_status* to_c(Status status) noexcept {
  if (status.ok()) return nullptr;
  hg_status* made = new (std::nothrow) hg_status{std::move(status)};
  return made != nullptr ? made : no_memory();
}

}  // namespace hg::c

extern "C" {

const char* hg_version(void) { return HG_VERSION; }

const char* hg_code_name(hg_code code) {
  return code < HG_OK || code > HG_BUSY ? "" : hg::to_string(static_cast<hg::Code>(code)).data();
}

hg_code hg_status_code(const hg_status* status) {
  if (status == nullptr) return HG_OK;
  return is_no_memory(status) ? HG_OUT_OF_MEMORY : static_cast<hg_code>(status->status.code());
}

const char* hg_status_message(const hg_status* status) {
  if (status == nullptr) return "";
  return is_no_memory(status) ? "the host is out of memory" : status->status.message().data();
}

void hg_status_free(hg_status* status) {
  if (!is_no_memory(status)) delete status;
}

void hg_text_free(char* text) { std::free(text); }

}  // extern "C"
