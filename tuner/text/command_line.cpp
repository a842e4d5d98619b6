#include "text/command_line.hpp"

#include <unistd.h>

#include <string_view>

#include "base/format.hpp"
#include "base/text.hpp"
#include "os/sysroot.hpp"
#include "os/write_target.hpp"

namespace zf {

namespace {

/// Quotes with escapes: $'a\033'. Bash, zsh, ksh and BusyBox read that. dash, the sh of Debian, takes it as
/// another word. So no quote stands inside, also not with a backslash: dash would end the word there and run
/// the rest.
std::string escaped(std::string_view word) {
  std::string text = "$'";
  for (const char c : word) {
    if (c < ' ' || c > '~' || c == '\'' || c == '\\') {  // the bytes of UTF-8 are negative
      text += format_text("\\{:03o}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  return text + "'";
}

}  // namespace

std::string shell_quoted(const std::string& word) {
  static constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  if (strip_control_chars(word) != word || word.find('\n') != std::string::npos) return escaped(word);
  std::string text(1, '\'');
  for (const char c : word) {
    if (c == '\'') text += "'\\'";  // end the quotes, add a quoted quote, and open the quotes again
    text += c;
  }
  text += '\'';
  return text;
}

std::string command_line() {
  const std::string raw = SysRoot().read("/proc/self/cmdline").value_or("");
  std::string text;
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t end = std::min(raw.find('\0', at), raw.size());
    if (!text.empty()) text += ' ';
    text += shell_quoted(raw.substr(at, end - at));
    at = end + 1;
  }
  return text;
}

std::string plan_from_command(const std::string& plan) {
  const WriteTarget target = write_target(plan);
  const bool may_replace = target.refusal.empty() && ::access(folder_of(target.file).c_str(), W_OK) == 0;
  if (may_replace) return format_text("`zf-tune plan --from {0} -o {0}`", shell_quoted(plan));
  return format_text("`zf-tune plan --from {} -o FILE` (a file of yours, which --plan or ZF_PLAN then names)",
                     shell_quoted(plan));
}

}  // namespace zf
