# SPDX-License-Identifier: Apache-2.0
# Builds the library from the source archive that HOLOGRAM_SOURCE names.
vcpkg_check_linkage(ONLY_STATIC_LIBRARY)
if(NOT EXISTS "$ENV{HOLOGRAM_SOURCE}")
  message(FATAL_ERROR "HOLOGRAM_SOURCE must name hologram-${VERSION}.tar.gz, as cpack makes it")
endif()
vcpkg_extract_source_archive(source ARCHIVE "$ENV{HOLOGRAM_SOURCE}")
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES openmp HG_OPENMP vulkan HG_VULKAN)
vcpkg_cmake_configure(SOURCE_PATH "${source}" OPTIONS ${features}
  -DHG_BLAS=OFF -DHG_IO=OFF -DHG_TEXT=OFF -DHG_CONVERTER=OFF -DHG_TOOLS=OFF -DHG_TESTS=OFF -DHG_SAMPLES=OFF -DHG_SHARED=OFF
  "-DHG_FLATC=${CURRENT_HOST_INSTALLED_DIR}/tools/flatbuffers/flatc${VCPKG_HOST_EXECUTABLE_SUFFIX}")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/hologram)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE")
