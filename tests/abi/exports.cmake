# cmake -DNM=nm -DLIBRARY=libzf_runtime.so -DHEADER=zf_runtime.h -DWRAPPER=zf_runtime.hpp -P exports.cmake
# Tests that the library exports every function that its header declares, and nothing else; and that the C++ header
# calls each of them, or says that a C++ function would add nothing.
execute_process(COMMAND ${NM} -D --defined-only --format=posix ${LIBRARY}
                OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
set(shown)
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^([^ @]+).*$" "\\1" name "${line}")
  if(NOT line MATCHES "^ZF_[0-9]+(@@ZF_[0-9]+)? A")  # the version nodes themselves
    list(APPEND shown ${name})
  endif()
endforeach()

file(STRINGS ${HEADER} declarations REGEX "^ZF_API ")
set(declared)
foreach(line IN LISTS declarations)
  string(REGEX REPLACE "^.*[ *](zf_[a-z_]+)\\(.*$" "\\1" name "${line}")
  list(APPEND declared ${name})
endforeach()

list(SORT shown)
list(SORT declared)
message("shown:    ${shown}\ndeclared: ${declared}")
if(NOT declared OR NOT "${shown}" STREQUAL "${declared}")
  message(FATAL_ERROR "the exports of ${LIBRARY} are not the declarations of ${HEADER}")
endif()

file(READ ${WRAPPER} wrapper)
string(REGEX MATCH "would add nothing: [^.]*" left "${wrapper}")
string(REGEX REPLACE "//[^\n]*" "" code "${wrapper}")
foreach(name IN LISTS declared)
  set(is_left NO)
  set(is_called NO)
  if("${left}," MATCHES " ${name},")
    set(is_left YES)
  endif()
  if(code MATCHES "[^a-z_]${name}[(,);]")
    set(is_called YES)
  endif()
  if(is_left STREQUAL is_called)
    message(FATAL_ERROR "${name}: ${WRAPPER} must either call it or name it as one that C++ programs call themselves")
  endif()
endforeach()
