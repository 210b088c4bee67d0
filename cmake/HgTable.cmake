# SPDX-License-Identifier: Apache-2.0
# hg_table(TARGET KIND FOLDER STEM...): compiles FOLDER/STEM.cpp into TARGET and writes a row
# HG_TABLE(STEM) for each to hg_KIND_table.inc, which the registry of that kind includes. A file that
# is not listed is not compiled, so nothing is half registered, and the linker can drop no row.
function(hg_table target kind folder)
  set(rows "")
  foreach(stem IN LISTS ARGN)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/${folder}/${stem}.cpp)
    string(APPEND rows "HG_TABLE(${stem})\n")
  endforeach()
  set(generated ${PROJECT_BINARY_DIR}/generated)
  file(GENERATE OUTPUT ${generated}/hg_${kind}_table.inc CONTENT "${rows}")
  target_include_directories(${target} PRIVATE ${generated})
endfunction()
