// Command lines as text that a shell reads back.
#pragma once

#include <string>

namespace zf {

/// Returns this process's command line as it was typed, quoted where a shell needs it. A plan records it as
/// its provenance.
std::string command_line();

/// Returns one word, quoted if a shell needs it. A word with control characters, line ends, characters that
/// turn the direction of text, or bytes that are no UTF-8 has escapes instead, so that it cannot drive a
/// terminal:
/// $'\033'. Bash, zsh, ksh and BusyBox read them. In dash such a word has another value, and nothing runs.
std::string shell_quoted(const std::string& word);

/// Returns "`zf-tune plan --from PLAN -o PLAN`" with the path of a plan. If this user may not replace that
/// file, as one that a Slurm prolog has published, the command writes another one, which the job is then
/// told.
std::string plan_from_command(const std::string& plan);

}  // namespace zf
