# SPDX-License-Identifier: Apache-2.0
# `cmake --install BUILD` installs the archives, libhologram_c, the headers, hologram.pc, and find_package(hologram)
# with the target hologram::hologram and one per component. `--component hologram` leaves out the tools.
include(CMakePackageConfigHelpers)
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/hologram)
set(HG_LIBRARIES hologram)
foreach(component IN LISTS HG_COMPONENTS)
  list(APPEND HG_LIBRARIES hologram_${component})
endforeach()
set(HG_ALL_COMPONENTS ${HG_COMPONENTS})
foreach(component IN ITEMS nn io text c)
  if(TARGET hologram_${component})
    list(APPEND HG_LIBRARIES hologram_${component})
    list(APPEND HG_ALL_COMPONENTS ${component})
  endif()
endforeach()
install(TARGETS ${HG_LIBRARIES} EXPORT hologram
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT hologram
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT hologram NAMELINK_COMPONENT hologram)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/lib/include/hg
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT hologram)
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/include/hg/ops
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hg COMPONENT hologram)
set(headers executor.h lazy_ops.h ops.h version.h)
list(TRANSFORM headers PREPEND ${PROJECT_BINARY_DIR}/generated/include/hg/)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hg COMPONENT hologram)
install(EXPORT hologram NAMESPACE hologram:: FILE hologram-targets.cmake
  DESTINATION ${folder} COMPONENT hologram)

# A static library's own libraries are linked by the program that uses it.
set(HG_FIND_THREADS "find_dependency(Threads)\n")
set(HG_PC_LIBS "-lstdc++ -lm -ldl -pthread")
if(HG_OPENMP)
  string(APPEND HG_FIND_THREADS "find_dependency(OpenMP COMPONENTS CXX)\n")
  string(APPEND HG_PC_LIBS " ${OpenMP_CXX_FLAGS}")
endif()
set(HG_PC_ARCHIVES -lhologram)
if(TARGET hologram_nn)
  set(HG_PC_ARCHIVES "-lhologram_nn -lhologram")
endif()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/hologram-config.cmake @ONLY CONTENT
"include(CMakeFindDependencyMacro)
@HG_FIND_THREADS@include(\${CMAKE_CURRENT_LIST_DIR}/hologram-targets.cmake)
# find_package(hologram CONFIG REQUIRED COMPONENTS runtime train vulkan): what this build has.
foreach(component IN ITEMS @HG_ALL_COMPONENTS@)
  set(hologram_\${component}_FOUND TRUE)
endforeach()
foreach(component IN LISTS hologram_FIND_COMPONENTS)
  if(NOT hologram_\${component}_FOUND AND hologram_FIND_REQUIRED_\${component})
    set(hologram_FOUND FALSE)
    string(APPEND hologram_NOT_FOUND_MESSAGE
      \"hologram was built without the component '\${component}'; it has: @HG_ALL_COMPONENTS@. \")
  endif()
endforeach()
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
Libs: -L\${prefix}/@CMAKE_INSTALL_LIBDIR@ @HG_PC_ARCHIVES@ @HG_PC_LIBS@
")
install(FILES ${PROJECT_BINARY_DIR}/hologram-config.cmake
  ${PROJECT_BINARY_DIR}/hologram-config-version.cmake DESTINATION ${folder} COMPONENT hologram)
install(FILES ${PROJECT_BINARY_DIR}/hologram.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT hologram)
