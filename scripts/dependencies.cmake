# Finds what the build needs. Lists all that is missing at once, with what each part is for, and then stops. The list is
# also in missing.txt in the build folder, for scripts/lib.sh.

set(ZF_MISSING "")

# zf_missing(WHAT PACKAGE): adds a part to the list. packages.txt says what Debian's package of it is for.
function(zf_missing what package)
  string(REPLACE "+" "[+]" literally ${package})
  file(STRINGS ${PROJECT_SOURCE_DIR}/scripts/packages.txt lines REGEX "^[a-z]+ +${literally} ")
  list(GET lines 0 line)
  string(REGEX MATCH "^[a-z]+ +[^ ]+ +(.*)$" line "${line}")
  set(ZF_MISSING "${ZF_MISSING}  ${what} (Debian: ${package}): ${CMAKE_MATCH_1}\n" PARENT_SCOPE)
endfunction()

# zf_find(NAME PACKAGE [VERSION]): finds a package of CMake.
macro(zf_find name package)
  find_package(${name} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    string(JOIN " " what ${name} ${ARGN})
    zf_missing("${what}" ${package})
  endif()
endmacro()

# zf_find_module(NAME PACKAGE): finds a library by pkg-config.
macro(zf_find_module name package)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${name})
  endif()
  if(NOT ${name}_FOUND)
    zf_missing(${name} ${package})
  endif()
endmacro()

if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14))
  zf_missing("GCC 11 or clang 14 (here is ${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_VERSION})" g++)
endif()
find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)
if(NOT PKG_CONFIG_FOUND)
  zf_missing(pkg-config pkg-config)
endif()
zf_find_module(hwloc libhwloc-dev)
zf_find_module(numa libnuma-dev)
zf_find(nlohmann_json nlohmann-json3-dev)
zf_find(fmt libfmt-dev)
zf_find(cxxopts libcxxopts-dev 3.1)
zf_find(TBB libtbb-dev)
set(ZLIB_USE_STATIC_LIBS ON) # whatever libz a training process has loaded stays its own
zf_find(ZLIB zlib1g-dev)

if(ZF_TESTS)
  find_package(GTest QUIET)
  find_package(benchmark QUIET)
  if(GTest_FOUND AND TARGET GTest::gmock AND benchmark_FOUND)
    set(ZF_BUILD_TESTS ON)
  elseif(ZF_TESTS STREQUAL "AUTO")
    message(STATUS "No tests are built: GoogleTest or Google Benchmark is missing "
      "(Debian: libgtest-dev, libgmock-dev, libbenchmark-dev)")
  else()
    if(NOT GTest_FOUND)
      zf_missing(GTest libgtest-dev)
    endif()
    if(NOT TARGET GTest::gmock)
      zf_missing(GMock libgmock-dev)
    endif()
    if(NOT benchmark_FOUND)
      zf_missing(benchmark libbenchmark-dev)
    endif()
  endif()
endif()

if(ZF_MISSING)
  string(CONCAT list "missing:\n${ZF_MISSING}"
    "Install them, or name their folders in CMAKE_PREFIX_PATH (for hwloc and numa in PKG_CONFIG_PATH).")
  file(WRITE ${CMAKE_BINARY_DIR}/missing.txt "${list}\n")
  message(FATAL_ERROR "${list}")
endif()
file(REMOVE ${CMAKE_BINARY_DIR}/missing.txt)
