# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=... -DBUILD=... -DWORK=... -DMAKE_MODEL=... -P subprojects.cmake: packs the sources, and builds
# tests/install/application on the packed sources with add_subdirectory and FetchContent. Kernels are built only for
# the portable baseline, because the package holds the same files for every instruction set.
include(${CMAKE_CURRENT_LIST_DIR}/must.cmake)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
must(${CMAKE_CPACK_COMMAND} --config ${BUILD}/CPackSourceConfig.cmake -G TGZ -B ${WORK})
file(GLOB archive ${WORK}/hologram-*.tar.gz)
must(${CMAKE_COMMAND} -E chdir ${WORK} ${CMAKE_COMMAND} -E tar xzf ${archive})
file(GLOB sources LIST_DIRECTORIES true ${WORK}/hologram-*)
list(FILTER sources EXCLUDE REGEX "\\.gz$")
if(EXISTS ${sources}/.git OR NOT EXISTS ${sources}/LICENSE)
  message(FATAL_ERROR "the source archive holds the wrong files")
endif()
must(${MAKE_MODEL} ${WORK}/model.hgm)
foreach(way add_subdirectory FetchContent)
  must(${CMAKE_COMMAND} -G ${GENERATOR} -S ${sources}/tests/install/application -B ${WORK}/${way} -DFROM=${way}
    -DHOLOGRAM=${sources} -DCMAKE_BUILD_TYPE=Release -DHG_VULKAN=OFF -DHG_BLAS=OFF
    -DHG_SIMD_TARGETS=)
  must(${CMAKE_COMMAND} --build ${WORK}/${way} --target application application_c)
  foreach(program application application_c)
    must(${WORK}/${way}/${program} ${WORK}/model.hgm)
    if(NOT said STREQUAL "y 0.625 0.875\n")
      message(FATAL_ERROR "${program} by ${way} says ${said}")
    endif()
  endforeach()
  file(GLOB extra ${WORK}/${way}/bin/hg-*)
  if(extra)
    message(FATAL_ERROR "by ${way} come tools that nobody asked for: ${extra}")
  endif()
endforeach()
