# SPDX-License-Identifier: Apache-2.0
# Writes OUT, which defines HG_KERNELS_ID: a hash of the sources of the kernels and of FLAGS, on which the layouts of packed
# weights depend.
file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/kernels/*.cpp ${SOURCE}/kernels/*.h)
list(SORT files)
set(all "${FLAGS}")
foreach(file IN LISTS files)
  file(SHA256 ${SOURCE}/${file} hash)
  string(APPEND all "${file} ${hash}\n")
endforeach()
string(SHA256 id "${all}")
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define HG_KERNELS_ID \"${id}\"\n" @ONLY)
