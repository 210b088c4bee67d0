// SPDX-License-Identifier: Apache-2.0
// The same op in a shared library, for hg-run --plugin.
#include "hg/plugin.h"

#include "wave.h"

HG_PLUGIN(acme::add_ops)
