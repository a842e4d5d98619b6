#pragma once

#include <string>

namespace zf {

/// This process's command line as typed, quoted where a shell would need it; for a plan's provenance.
std::string command_line();

/// One word, quoted where a shell would need it.
std::string shell_quoted(const std::string& word);

}  // namespace zf
