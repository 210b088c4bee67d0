// SPDX-License-Identifier: Apache-2.0
// Adapters of a generator. Programs without them do not link this file.
#include <span>
#include <vector>

#include "hg/adapter.h"
#include "hg/generator.h"
#include "lib/generate/decoder_session.h"
#include "lib/graph/border.h"
#include "lib/graph/checksum.h"

namespace hg {

Status set_adapters(Generator& generator, std::span<const Model> adapters) {
  return or_no_memory([&]() -> Status {
    std::vector<Model> all(adapters.begin(), adapters.end());
    uint64_t hash = checksum_of({});
    for (const Model& adapter : all) hash = hash_of_states(adapter.graph(), hash);
    return generator.change_sessions(
        [all = std::move(all)](Session& session) { return set_adapters(session, all); }, hash);
  });
}

}  // namespace hg
