// SPDX-License-Identifier: Apache-2.0
// The `complex` functions of rows, which compute an aten op on complex tensors.
#pragma once

#include "converter/rows/rows.h"

namespace hg::convert::rows::of_complex {

void abs(Call& call);
void angle(Call& call);
void reciprocal(Call& call);
void square(Call& call);
void sqrt(Call& call);
void exp(Call& call);
void log(Call& call);
void sin(Call& call);
void cos(Call& call);
void sinh(Call& call);
void cosh(Call& call);
void sgn(Call& call);
void mul(Call& call);
void div(Call& call);
void pow(Call& call);
void equal_to(Call& call);  // eq, ne
void any_part(Call& call);  // isnan, isinf: of either part
void isfinite(Call& call);
void isreal(Call& call);
void real(Call& call);
void imag(Call& call);
void view_as_real(Call& call);
void conj(Call& call);
void conj_copy(Call& call);  // shares no memory
void adjoint(Call& call);    // conjugates and transposes
void linear(Call& call);
void addmm(Call& call);
void baddbmm(Call& call);
void addcmul(Call& call);
void vdot(Call& call);

}  // namespace hg::convert::rows::of_complex
