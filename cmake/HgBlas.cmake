# SPDX-License-Identifier: Apache-2.0
# hg_find_openblas(): sets HG_OPENBLAS_FILE in the caller to the OpenBLAS file that kernels load on first use, or to
# nothing. With AUTO it is the variant on GNU OpenMP, if the library itself uses that; a kernel can then limit a call
# to one thread. Other variants are never chosen automatically: the one without threads is not safe to call from two
# threads, and the one with its own threads starts them when loaded. HG_BLAS=ON accepts the latter too, for programs
# that run with OPENBLAS_NUM_THREADS=1.
set(HG_BLAS AUTO CACHE STRING "OpenBLAS for decompositions and for products in f64: AUTO, ON or OFF")
set_property(CACHE HG_BLAS PROPERTY STRINGS AUTO ON OFF)
include(CheckCXXSourceRuns)
include(CheckCXXSourceCompiles)

# Whether `library` has LAPACK, and, where programs can be run, shares its work in one of `ways`.
function(hg_try_openblas library ways result)
  set(CMAKE_REQUIRED_LIBRARIES ${library})
  set(source "extern \"C\" { int openblas_get_parallel(void); void dgesdd_(void); }
    int main(int count, char**) {
      if (count > 1000) dgesdd_();
      const int way = openblas_get_parallel();
      return ${ways} ? 0 : 1;
    }")
  string(SHA256 key "${library} ${ways} ${CMAKE_CXX_COMPILER}")
  set(known HG_OPENBLAS_${key})
  set(CMAKE_REQUIRED_QUIET TRUE)
  if(CMAKE_CROSSCOMPILING)
    check_cxx_source_compiles("${source}" ${known})
  else()
    check_cxx_source_runs("${source}" ${known})
  endif()
  set(${result} ${${known}} PARENT_SCOPE)
endfunction()

function(hg_find_openblas)
  set(HG_OPENBLAS_FILE "" PARENT_SCOPE)
  string(TOUPPER "${HG_BLAS}" wish)
  if(wish STREQUAL "AUTO" OR wish)
    set(ways "way == 2")
    set(trouble "")
    if(NOT HG_OPENMP OR NOT "gomp" IN_LIST OpenMP_CXX_LIB_NAMES)
      set(trouble "the library does not run on GNU's OpenMP")
    endif()
    if(NOT wish STREQUAL "AUTO")
      set(ways "way == 1 || way == 2")
      set(trouble "")
    endif()
    # Debian keeps the variants in folders; others name them.
    find_library(HG_OPENBLAS NAMES openblaso openblas PATH_SUFFIXES openblas-openmp)
    mark_as_advanced(HG_OPENBLAS)
    if(NOT trouble AND NOT HG_OPENBLAS)
      set(trouble "there is no libopenblas: install libopenblas-openmp-dev")
    endif()
    if(NOT trouble)
      hg_try_openblas(${HG_OPENBLAS} "${ways}" usable)
      if(NOT usable)
        set(trouble "${HG_OPENBLAS} is another variant or has no LAPACK: install libopenblas-openmp-dev")
      endif()
    endif()
    if(trouble AND NOT wish STREQUAL "AUTO")
      message(FATAL_ERROR "HG_BLAS=${HG_BLAS}: ${trouble}")
    endif()
    if(NOT trouble)
      # By the name of the shared library with its version, which exists without the development package.
      set(file ${HG_OPENBLAS})
      if(EXISTS ${HG_OPENBLAS}.0)
        set(file ${HG_OPENBLAS}.0)
      endif()
      message(STATUS "OpenBLAS: ${file}")
      set(HG_OPENBLAS_FILE ${file} PARENT_SCOPE)
      return()
    endif()
  else()
    set(trouble "HG_BLAS=${HG_BLAS}")
  endif()
  message(STATUS "OpenBLAS: none (${trouble}); the library's own loops serve")
endfunction()
