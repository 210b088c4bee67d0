# SPDX-License-Identifier: Apache-2.0
"""Builds the library from the source archive that HOLOGRAM_SOURCE names."""
import os

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, unzip


class Hologram(ConanFile):
    name = "hologram"
    version = "0.2.0"
    license = "Apache-2.0"
    description = "Runs and trains PyTorch models without PyTorch"
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"openmp": [True, False], "vulkan": [True, False]}
    default_options = {"openmp": True, "vulkan": False}

    def export_sources(self):
        archive = os.environ.get("HOLOGRAM_SOURCE", "")
        if not os.path.isfile(archive):
            raise ConanException(f"HOLOGRAM_SOURCE must name hologram-{self.version}.tar.gz, as cpack makes it")
        copy(self, os.path.basename(archive), os.path.dirname(os.path.abspath(archive)), self.export_sources_folder)

    def source(self):
        archive = next(name for name in os.listdir(self.export_sources_folder) if name.endswith(".tar.gz"))
        unzip(self, os.path.join(self.export_sources_folder, archive), strip_root=True)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        packages = ["highway/[>=1.0.3 <2]", "flatbuffers/[>=2 <25]"]
        if self.options.vulkan:
            packages += ["vulkan-headers/[>=1.3]", "spirv-headers/[>=1.3]"]
        for package in packages:  # headers, for the library alone: no program that uses it needs them
            self.requires(package, libs=False, visible=False)

    def build_requirements(self):
        self.tool_requires("flatbuffers/<host_version>")
        if self.options.vulkan:
            self.tool_requires("glslang/[>=1.3]")

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for name in ("BLAS", "IO", "CONVERTER", "TOOLS", "TESTS", "SAMPLES", "SHARED"):
            toolchain.cache_variables["HG_" + name] = False
        toolchain.cache_variables["HG_OPENMP"] = bool(self.options.openmp)
        toolchain.cache_variables["HG_VULKAN"] = bool(self.options.vulkan)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # CMake finds what the library itself installs, with its components.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "hologram")]
        self.cpp_info.libs = ["hologram_nn", "hologram"]
        self.cpp_info.set_property("pkg_config_name", "hologram")
        self.cpp_info.system_libs = ["m", "dl"]
        if self.options.openmp:
            self.cpp_info.cxxflags = ["-fopenmp"]
            self.cpp_info.exelinkflags = ["-fopenmp"]
