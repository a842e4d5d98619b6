// Who launches a rank, and so by which remedy the user decides otherwise.
#pragma once

#include <string>

namespace zf {

enum class LaunchedBy {
  exec,    ///< zf-tune exec --omp keep
  plugin,  ///< srun --zf-tune=omp=keep
  bind,    ///< zf_runtime.bind(), which asks zf-tune where: it has no such options
};

/// Returns the option with this value as the user gives it. Precondition: not `bind`.
inline std::string option_in_words(LaunchedBy by, const std::string& option, const std::string& value) {
  return by == LaunchedBy::exec ? "--" + option + " " + value : "srun --zf-tune=" + option + "=" + value;
}

}  // namespace zf
