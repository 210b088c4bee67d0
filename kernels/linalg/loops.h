// SPDX-License-Identifier: Apache-2.0
// The library's own loop for one matrix of each op. The loops are kernels, and the fallback for
// matrices that a LAPACK kernel does not support.
#pragma once

#include "kernels/linalg/matrices.h"

namespace hg::kernels {

extern const MatrixTask kSolveLoops, kSolveTriangularLoops, kDetLoops, kSlogdetLoops,
    kCholeskyLoops, kQrLoops, kGeqrfLoops, kLuLoops, kExpLoops;                // linalg.cpp
extern const MatrixTask kEighLoops, kSvdLoops, kEigvalshLoops, kSvdvalsLoops;  // jacobi.cpp
extern const MatrixTask kEigLoops, kEigvalsLoops;                              // eig.cpp
extern const MatrixTask kLdlFactorLoops, kLdlSolveLoops;                       // ldl.cpp

// Whether a factorization of n rows could produce these pivots.
bool are_ldl_pivots(const int32_t* pivots, int64_t n);

// y = a b of n rows and columns, with scratch memory of the same size.
using MatrixProduct = void (*)(const double* a, const double* b, int64_t n, double* y,
                               double* work);

// e^x by Taylor's polynomial of x / 2^s, squared s times (Higham, Functions of Matrices, 10.3).
void matrix_exp(const RunContext& c, const Matrices& s, int64_t index, double* x,
                MatrixProduct multiply);

}  // namespace hg::kernels
