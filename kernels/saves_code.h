// SPDX-License-Identifier: Apache-2.0
// Whether loops leave out variants that only make them faster (HG_SMALL).
#pragma once

namespace hg::kernels {

#if defined(HG_SMALL)
inline constexpr bool kSavesCode = true;
#else
inline constexpr bool kSavesCode = false;
#endif

}  // namespace hg::kernels
