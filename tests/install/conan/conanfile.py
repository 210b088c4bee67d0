# SPDX-License-Identifier: Apache-2.0
"""A Conan package made from Debian's Highway or flatbuffers, for a test without Conan's servers."""
import os

from conan import ConanFile
from conan.tools.files import copy


class Headers(ConanFile):
    settings = "os", "arch"

    def package(self):
        folder = {"highway": "hwy", "flatbuffers": "flatbuffers"}[self.name]
        copy(self, "*", f"/usr/include/{folder}", os.path.join(self.package_folder, "include", folder))
        if self.name == "flatbuffers":
            copy(self, "flatc", "/usr/bin", os.path.join(self.package_folder, "bin"))

    def package_info(self):
        self.cpp_info.libdirs = []
