// SPDX-License-Identifier: Apache-2.0
// Ops and kernels in a shared library that a program loads at run time, for example with hg-run
// --plugin:
//
//     hg::Status add(hg::Registry& registry) { return registry.add(kWave); }
//     HG_PLUGIN(add)
//
// A plugin links its own copy of libhologram.a and shares only the registry with the host: both
// must have the same version. Do not unload a plugin before all registries, models and sessions
// that use its ops and kernels are destroyed.
#pragma once

#include "hg/op.h"
#include "hg/version.h"

namespace hg {

struct Plugin {
  const char* version;                // HG_VERSION of the headers it was compiled with
  Status (*add)(Registry& registry);  // adds its ops and kernels
};

}  // namespace hg

// Defines the entry point hg_plugin() of a plugin, with `function` as Plugin::add.
#define HG_PLUGIN(function)                                                         \
  extern "C" __attribute__((visibility("default"))) const hg::Plugin* hg_plugin() { \
    static constexpr hg::Plugin plugin = {HG_VERSION, function};                    \
    return &plugin;                                                                 \
  }
