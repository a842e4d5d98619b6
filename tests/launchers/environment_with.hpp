// For tests: an environment of these variables alone.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "os/environment.hpp"

namespace zf {

inline Environment environment_with(std::map<std::string, std::string> variables) {
  return Environment(std::move(variables));
}

}  // namespace zf
