#include "inspect/logind.hpp"

#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "base/format.hpp"
#include "base/trim.hpp"

namespace zf {
namespace {

// The first folder that has a file of a name counts (logind.conf(5)).
constexpr const char* kFolders[] = {"/etc/systemd/", "/run/systemd/", "/usr/local/lib/systemd/",
                                    "/usr/lib/systemd/"};
constexpr uid_t kLastSystemUser = 999;

/// Returns the last value of a name among lines "name=value". In comments: of such a line behind "#".
std::optional<std::string> value_in(const std::string& text, std::string_view name,
                                    bool in_comments = false) {
  std::istringstream lines(text);
  std::optional<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    std::string_view words = trim(line);
    if (words.starts_with('#') != in_comments) continue;
    if (in_comments) words = trim(words.substr(1));
    if (const auto at = words.find('='); trim(words.substr(0, at)) == name && at != std::string_view::npos)
      found = trim(words.substr(at + 1));
  }
  return found;
}

std::string main_file(const SysRoot& sysroot) {
  for (const char* const folder : kFolders) {
    if (const auto text = sysroot.read(format_text("{}logind.conf", folder))) return *text;
  }
  return "";
}

/// Returns what the main file says, and then all others, in the order in which they count.
std::optional<std::string> setting_of(const SysRoot& sysroot, std::string_view name) {
  std::map<std::string, std::string> more;  // by file name
  for (const std::string folder : kFolders) {
    for (const std::string& file : sysroot.list(folder + "logind.conf.d")) {
      if (file.ends_with(".conf"))
        more.emplace(file, sysroot.read(folder + "logind.conf.d/" + file).value_or(""));
    }
  }
  const std::string first = main_file(sysroot);
  auto value = value_in(first, name);
  for (const auto& [file, text] : more) {
    if (auto later = value_in(text, name)) value = std::move(later);
  }
  return value && !value->empty() ? value : value_in(first, name, true);
}

/// Returns whether the group of this process is that of a session, in any hierarchy.
bool is_in_session(const SysRoot& sysroot) {
  const std::string groups = sysroot.read("/proc/self/cgroup").value_or("");
  const auto at = groups.find("/session-");
  return at != std::string::npos && groups.find(".scope", at) != std::string::npos;
}

}  // namespace

bool logind_says(const SysRoot& sysroot, std::string_view setting) {
  const std::string value = setting_of(sysroot, setting).value_or("no");
  return value == "yes" || value == "1" || value == "true" || value == "on";
}

bool logind_removes_shared_memory(const SysRoot& sysroot, uid_t user) {
  const auto state = sysroot.read(format_text("/run/systemd/users/{}", user));
  if (user <= kLastSystemUser || !state || !logind_says(sysroot, "RemoveIPC")) return false;
  const std::string name = value_in(*state, "NAME").value_or("");
  return !name.empty() && !sysroot.exists("/var/lib/systemd/linger/" + name);
}

bool logind_kills_session(const SysRoot& sysroot, uid_t user) {
  if (user == 0 || !is_in_session(sysroot) || !logind_says(sysroot, "KillUserProcesses")) return false;
  return setting_of(sysroot, "KillOnlyUsers").value_or("").empty() &&
         setting_of(sysroot, "KillExcludeUsers").value_or("root") == "root";
}

}  // namespace zf
