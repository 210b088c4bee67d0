# SPDX-License-Identifier: Apache-2.0
# `cmake --install BUILD` gives libhologram.a, the headers, find_package(hologram) with the target
# hologram::hologram, and hologram.pc; `--component hologram` leaves the tools out.
include(CMakePackageConfigHelpers)
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/hologram)
set(HG_ARCHIVES hologram)
if(HG_IO)
  list(APPEND HG_ARCHIVES hologram_io)
endif()
install(TARGETS ${HG_ARCHIVES} EXPORT hologram
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT hologram)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/lib/include/hg
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT hologram)
install(FILES ${PROJECT_BINARY_DIR}/generated/include/hg/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hg COMPONENT hologram)
install(EXPORT hologram NAMESPACE hologram:: FILE hologram-targets.cmake
  DESTINATION ${folder} COMPONENT hologram)

# A static library's own libraries are linked by the program that uses it.
set(HG_FIND_OPENMP "")
set(HG_PC_LIBS "-lstdc++ -lm")
if(HG_OPENMP)
  set(HG_FIND_OPENMP "include(CMakeFindDependencyMacro)\nfind_dependency(OpenMP)\n")
  string(APPEND HG_PC_LIBS " ${OpenMP_CXX_FLAGS}")
endif()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/hologram-config.cmake @ONLY CONTENT
"@HG_FIND_OPENMP@include(\${CMAKE_CURRENT_LIST_DIR}/hologram-targets.cmake)
")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hologram-config-version.cmake
  COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH HG_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/hologram.pc @ONLY CONTENT
"prefix=\${pcfiledir}/@HG_PC_PREFIX@
Name: hologram
Description: Runs PyTorch models without PyTorch
Version: @PROJECT_VERSION@
Cflags: -I\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
Libs: -L\${prefix}/@CMAKE_INSTALL_LIBDIR@ -lhologram @HG_PC_LIBS@
")
install(FILES ${PROJECT_BINARY_DIR}/hologram-config.cmake
  ${PROJECT_BINARY_DIR}/hologram-config-version.cmake DESTINATION ${folder} COMPONENT hologram)
install(FILES ${PROJECT_BINARY_DIR}/hologram.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT hologram)
