# SPDX-License-Identifier: Apache-2.0
# hg_choose_torch(): chooses the libtorch that the converter links. Sets in the caller
#   hg_torch_prefix  the folder with include/ATen/ATen.h; empty for the compiler's own paths
#   hg_torch_python  the Python that belongs to it
#   hg_torch_reason  why it was chosen
# HG_TORCH names one: `pip`, `debian` or a folder. `auto` uses the first of these that has a libtorch: Torch_DIR and
# CMAKE_PREFIX_PATH (CMake variables, then environment variables), the active virtual environment, HG_TORCH_PYTHON's
# torch, and the compiler's search paths.

function(hg_has_torch prefix result)
  if(prefix AND EXISTS ${prefix}/include/ATen/ATen.h)
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

# The folder of the torch that a Python imports; empty if it has none.
function(hg_torch_of_python python result)
  execute_process(COMMAND ${python} -c [[
import importlib.util
spec = importlib.util.find_spec("torch")
print(spec.submodule_search_locations[0] if spec else "")]]
    OUTPUT_VARIABLE folder ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

# A libtorch in `folder` itself, or in the torch of a Python installed there.
function(hg_torch_under folder result)
  file(GLOB packages ${folder}/lib/python3*/site-packages/torch)
  set(${result} "" PARENT_SCOPE)
  foreach(candidate IN LISTS folder packages)
    hg_has_torch("${candidate}" found)
    if(found)
      set(${result} ${candidate} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

function(hg_choose_torch)
  set(prefix "")
  set(python ${HG_TORCH_PYTHON})
  set(reason "")
  if(HG_TORCH STREQUAL "debian")
    set(reason "HG_TORCH=debian")
    set(python /usr/bin/python3)
  elseif(HG_TORCH STREQUAL "pip")
    hg_torch_of_python(${python} prefix)
    hg_has_torch("${prefix}" found)
    if(NOT found)
      message(FATAL_ERROR "HG_TORCH=pip: ${python} has no torch with headers; "
        "install it with `pip install torch`, or set HG_TORCH_PYTHON")
    endif()
    set(reason "HG_TORCH=pip")
  elseif(NOT HG_TORCH STREQUAL "auto")
    set(prefix ${HG_TORCH})
    hg_has_torch("${prefix}" found)
    if(NOT found)
      message(FATAL_ERROR "HG_TORCH=${HG_TORCH}: there is no include/ATen/ATen.h in it")
    endif()
    set(reason "HG_TORCH")
  endif()

  if(NOT reason)
    foreach(source IN ITEMS variable environment)
      if(source STREQUAL "variable")
        set(config "${Torch_DIR}")
      else()
        set(config "$ENV{Torch_DIR}")
      endif()
      if(NOT config OR config MATCHES "-NOTFOUND$")
        continue()
      endif()
      # PREFIX/share/cmake/Torch, PREFIX/lib/cmake/Torch or PREFIX/lib/MACHINE/cmake/Torch
      string(REGEX REPLACE "/(share|lib|lib/[^/]+)/cmake/Torch/?$" "" prefix "${config}")
      hg_torch_under("${prefix}" prefix)
      if(NOT prefix)
        message(FATAL_ERROR "Torch_DIR=${config}: there is no include/ATen/ATen.h in its prefix; "
          "give the folder of TorchConfig.cmake")
      endif()
      set(reason "Torch_DIR")
      break()
    endforeach()
  endif()

  if(NOT reason)
    string(REPLACE ":" ";" environment "$ENV{CMAKE_PREFIX_PATH}")
    foreach(folder IN LISTS CMAKE_PREFIX_PATH environment)
      hg_torch_under("${folder}" prefix)
      if(prefix)
        set(reason "CMAKE_PREFIX_PATH")
        break()
      endif()
    endforeach()
  endif()

  if(NOT reason)
    foreach(variable IN ITEMS VIRTUAL_ENV CONDA_PREFIX)
      if("$ENV{${variable}}" STREQUAL "" OR NOT EXISTS "$ENV{${variable}}/bin/python")
        continue()
      endif()
      hg_torch_of_python("$ENV{${variable}}/bin/python" candidate)
      hg_has_torch("${candidate}" found)
      if(found)
        set(prefix ${candidate})
        set(reason "the active environment ${variable}")
        break()
      endif()
    endforeach()
  endif()

  if(NOT reason)
    hg_torch_of_python(${python} candidate)
    hg_has_torch("${candidate}" found)
    if(found)
      set(prefix ${candidate})
      set(reason "the torch of ${python}")
    else()
      set(reason "no other libtorch was found")
      set(python /usr/bin/python3)
    endif()
  endif()

  # PREFIX/lib/python3.X/site-packages/torch belongs to PREFIX/bin/python3.
  if(prefix MATCHES "^(.*)/lib/python3[^/]*/(site|dist)-packages/torch$" AND EXISTS ${CMAKE_MATCH_1}/bin/python3)
    set(python ${CMAKE_MATCH_1}/bin/python3)
  endif()
  set(hg_torch_prefix "${prefix}" PARENT_SCOPE)
  set(hg_torch_python "${python}" PARENT_SCOPE)
  set(hg_torch_reason "${reason}" PARENT_SCOPE)
endfunction()
