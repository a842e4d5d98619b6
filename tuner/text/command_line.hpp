// Command lines as text that a shell reads back.
#pragma once

#include <string>

namespace zf {

/// Returns this process's command line as it was typed, quoted where a shell needs it. A plan records it as
/// its provenance.
std::string command_line();

/// Returns one word, quoted if a shell needs it.
std::string shell_quoted(const std::string& word);

}  // namespace zf
