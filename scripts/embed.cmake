# Writes a C++ source with a function that returns the names and the texts of files, so that a program needs none of
# them at run time.
# usage: cmake -D OUTPUT=FILE.cpp -D FUNCTION=name -D FILES=FILE,... -P embed.cmake
string(REPLACE "," ";" files "${FILES}")
set(source "// Made by scripts/embed.cmake.
#include <string_view>
#include <utility>
#include <vector>

namespace zf {

std::vector<std::pair<std::string_view, std::string_view>> ${FUNCTION}();

std::vector<std::pair<std::string_view, std::string_view>> ${FUNCTION}() {
  return {")
foreach(file IN LISTS files)
  file(READ ${file} text)
  foreach(end IN ITEMS ")zf_text\"" "</script" "</style")
    string(FIND "${text}" "${end}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file}: has ${end} in it, which would end the text too early")
    endif()
  endforeach()
  get_filename_component(name ${file} NAME)
  string(APPEND source "{\"${name}\", R\"zf_text(${text})zf_text\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${source}};\n}\n\n}  // namespace zf\n")
