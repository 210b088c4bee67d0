// SPDX-License-Identifier: Apache-2.0
// Ops and kernels in a shared library that a program loads while it runs, such as hg-run --plugin:
//
//   hg::Status add(hg::Registry& registry) { return registry.add(kWave); }
//   HG_PLUGIN(add)
//
// A plugin links libhologram.a of its own; nothing of it is shared but what the registry is given,
// so plugin and host must be of one version. What was added is used until the last registry, model
// and session that know it are gone; only then may the plugin be unloaded.
#pragma once

#include "hg/op.h"
#include "hg/version.h"

namespace hg {

struct Plugin {
  const char* version;                // HG_VERSION of its headers
  Status (*add)(Registry& registry);  // adds its ops and kernels
};

}  // namespace hg

#define HG_PLUGIN(function)                                                         \
  extern "C" __attribute__((visibility("default"))) const hg::Plugin* hg_plugin() { \
    static constexpr hg::Plugin plugin = {HG_VERSION, function};                    \
    return &plugin;                                                                 \
  }
