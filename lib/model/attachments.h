// SPDX-License-Identifier: Apache-2.0
// The rules for files that belong to a model.
#pragma once

#include <span>

#include "hg/model.h"

namespace hg {

// Fails if a name is empty, not UTF-8, or not unique.
Status check_attachments(std::span<const Model::Attachment> attachments);

}  // namespace hg
