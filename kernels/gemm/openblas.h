// SPDX-License-Identifier: Apache-2.0
// OpenBLAS for kernels. It is loaded from a file named by the build when a session that can use it
// is planned. No program links to it, and its symbols do not clash with another BLAS in the host. A
// call runs on the calling thread and leaves OpenBLAS's settings unchanged.
#pragma once

#ifdef HG_OPENMP
#include <omp.h>
#endif

#include <cstddef>
#include <cstdint>
#include <limits>

// Fortran's functions; the last arguments are lengths of strings. They are declared here, but not
// defined.
extern "C" {
int openblas_get_parallel(void);
int openblas_get_num_threads(void);
void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc, size_t, size_t);
void dgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
            const double* beta, double* c, const int* ldc, size_t, size_t);
void dtrsm_(const char* side, const char* uplo, const char* trans, const char* diag, const int* m,
            const int* n, const double* alpha, const double* a, const int* lda, double* b,
            const int* ldb, size_t, size_t, size_t, size_t);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info);
void dgetrs_(const char* trans, const int* n, const int* k, const double* a, const int* lda,
             const int* pivots, double* b, const int* ldb, int* info, size_t);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info, size_t);
void dgeqrf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work,
             const int* lwork, int* info);
void dorgqr_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau,
             double* work, const int* lwork, int* info);
void dsytrd_(const char* uplo, const int* n, double* a, const int* lda, double* d, double* e,
             double* tau, double* work, const int* lwork, int* info, size_t);
void dorgtr_(const char* uplo, const int* n, double* a, const int* lda, const double* tau,
             double* work, const int* lwork, int* info, size_t);
void dstedc_(const char* job, const int* n, double* d, double* e, double* z, const int* ldz,
             double* work, const int* lwork, int* iwork, const int* liwork, int* info, size_t);
void dgebrd_(const int* m, const int* n, double* a, const int* lda, double* d, double* e,
             double* tauq, double* taup, double* work, const int* lwork, int* info);
void dorgbr_(const char* which, const int* m, const int* n, const int* k, double* a, const int* lda,
             const double* tau, double* work, const int* lwork, int* info, size_t);
void dbdsdc_(const char* uplo, const char* job, const int* n, double* d, double* e, double* u,
             const int* ldu, double* vt, const int* ldvt, double* q, int* iq, double* work,
             int* iwork, int* info, size_t, size_t);
void dgeev_(const char* left, const char* right, const int* n, double* a, const int* lda,
            double* re, double* im, double* vl, const int* ldvl, double* vr, const int* ldvr,
            double* work, const int* lwork, int* info, size_t, size_t);
// For pairs.
void zgeev_(const char* left, const char* right, const int* n, double* a, const int* lda, double* w,
            double* vl, const int* ldvl, double* vr, const int* ldvr, double* work,
            const int* lwork, double* rwork, int* info, size_t, size_t);
void dsytrf_(const char* uplo, const int* n, double* a, const int* lda, int* pivots, double* work,
             const int* lwork, int* info, size_t);
void dsytrs_(const char* uplo, const int* n, const int* k, const double* a, const int* lda,
             const int* pivots, double* b, const int* ldb, int* info, size_t);
}

namespace hg::kernels {

#define HG_OPENBLAS_FUNCTIONS(F)                                                                   \
  F(openblas_get_parallel)                                                                         \
  F(openblas_get_num_threads)                                                                      \
  F(sgemm_)                                                                                        \
  F(dgemm_) F(dtrsm_) F(dgetrf_) F(dgetrs_) F(dpotrf_) F(dgeqrf_) F(dorgqr_) F(dsytrd_) F(dorgtr_) \
      F(dstedc_) F(dgebrd_) F(dorgbr_) F(dbdsdc_) F(dgeev_) F(zgeev_) F(dsytrf_) F(dsytrs_)

struct OpenBlas {
#define HG_OPENBLAS_MEMBER(name) decltype(&::name) name = nullptr;
  HG_OPENBLAS_FUNCTIONS(HG_OPENBLAS_MEMBER)
#undef HG_OPENBLAS_MEMBER
};

// Returns null without OpenBLAS, or if kernels cannot limit it to one thread. The variant without
// threads has buffers that two simultaneous callers would share. The variant with its own threads
// shares a call among them, unless the host has set their number to one. The first call loads it.
const OpenBlas* openblas();

// During its lifetime, OpenMP regions of this thread have one thread, so OpenBLAS starts none. The
// number applies only to the calling thread.
class OneThread {
 public:
#ifdef HG_OPENMP
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
#else
  OneThread() {}
  ~OneThread() {}
#endif
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
#ifdef HG_OPENMP
  int before_;
#endif
};

// Sizes and strides are Fortran's 32-bit integers, including their products.
inline bool fits_openblas(int64_t size) { return size <= std::numeric_limits<int>::max() / 16; }

}  // namespace hg::kernels
