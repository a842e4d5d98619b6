// The C functions that say which rank a process is, of how many.
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "launchers/local_rank.hpp"
#include "zf_runtime.h"

namespace {

zf::Environment environment_of(const char* const* variables) {
  std::map<std::string, std::string> values;
  for (; *variables != nullptr; ++variables) {
    const std::string_view word = *variables;
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos) values.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return zf::Environment(std::move(values));
}

/// Writes the number that find(environment) returns, and the name of its variable.
template <class Find>
zf_status find_number(const char* const* variables, int32_t* number, char* variable, size_t bytes,
                      Find find) {
  return zf::guarded([&] {
    zf::required(variables, "variables");
    zf::required(number, "the number");
    zf::required(variable, "variable");
    const std::optional<zf::EnvNumber> found = find(environment_of(variables));
    const std::string name = found ? found->variable : "";
    if (name.size() >= bytes) throw zf::AbiError(ZF_ERROR_USAGE, "variable has too few bytes", "give 64");
    std::memcpy(variable, name.c_str(), name.size() + 1);
    *number = found ? found->value : -1;
  });
}

}  // namespace

extern "C" {

zf_status zf_find_rank(const char* const* variables, int32_t* rank, char* variable, size_t bytes) {
  return find_number(variables, rank, variable, bytes, zf::local_rank);
}

zf_status zf_find_ranks(const char* const* variables, int32_t* ranks, char* variable, size_t bytes) {
  return find_number(variables, ranks, variable, bytes, zf::launched_ranks);
}

}  // extern "C"
