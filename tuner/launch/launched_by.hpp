// Who launches a rank, and so how the user gives an option that a note names.
#pragma once

#include <string>

namespace zf {

enum class LaunchedBy {
  exec,    ///< zf-tune exec --omp keep
  plugin,  ///< srun --zf-tune=omp=keep
};

/// Returns the option with this value as the user gives it.
inline std::string option_in_words(LaunchedBy by, const std::string& option, const std::string& value) {
  return by == LaunchedBy::exec ? "--" + option + " " + value : "srun --zf-tune=" + option + "=" + value;
}

}  // namespace zf
