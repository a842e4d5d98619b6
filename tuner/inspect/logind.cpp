#include "inspect/logind.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "base/trim.hpp"

namespace zf {
namespace {

// The first folder that has a file of a name counts (logind.conf(5)).
constexpr const char* kFolders[] = {"/etc/systemd/", "/run/systemd/", "/usr/local/lib/systemd/",
                                    "/usr/lib/systemd/"};
constexpr uid_t kLastSystemUser = 999;

/// Returns all values of a name in lines "name=value". In comments: in such lines behind "#".
std::vector<std::string> values_in(const std::string& text, std::string_view name, bool in_comments = false) {
  std::istringstream lines(text);
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    std::string_view words = trim(line);
    if (words.starts_with('#') != in_comments) continue;
    if (in_comments) words = trim(words.substr(1));
    if (const auto at = words.find('='); trim(words.substr(0, at)) == name && at != std::string_view::npos)
      found.emplace_back(trim(words.substr(at + 1)));
  }
  return found;
}

/// Returns the texts of the main files, the one that counts first.
std::vector<std::string> main_files(const SysRoot& sysroot) {
  std::vector<std::string> texts;
  for (const char* const folder : kFolders) {
    if (auto text = sysroot.read(format_text("{}logind.conf", folder))) texts.push_back(*std::move(text));
  }
  return texts;
}

/// Returns the values that the main file has, and then all others, in the order in which they count.
std::vector<std::string> values_of(const SysRoot& sysroot, std::string_view name) {
  std::map<std::string, std::string> more;  // by file name
  for (const std::string folder : kFolders) {
    for (const std::string& file : sysroot.list(folder + "logind.conf.d")) {
      if (file.ends_with(".conf"))
        more.emplace(file, sysroot.read(folder + "logind.conf.d/" + file).value_or(""));
    }
  }
  const auto first = main_files(sysroot);
  auto values = first.empty() ? std::vector<std::string>() : values_in(first.front(), name);
  for (const auto& [file, text] : more) {
    for (std::string& value : values_in(text, name)) values.push_back(std::move(value));
  }
  return values;
}

/// Returns whether a setting is "yes". Where no file sets it, a main file names its default in a comment;
/// where that is missing too, the answer is no.
bool is_set(const SysRoot& sysroot, std::string_view setting) {
  auto values = values_of(sysroot, setting);
  for (const std::string& text : main_files(sysroot)) {
    if (values.empty() || values.back().empty()) values = values_in(text, setting, true);
  }
  std::string value = values.empty() ? "no" : values.back();
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr const char* yes[] = {"yes", "y", "true", "t", "on", "1"};
  return std::ranges::find(yes, value) != std::end(yes);
}

/// Returns the users that a setting lists. An empty value forgets those before it.
std::set<std::string> users_of(const SysRoot& sysroot, std::string_view setting) {
  std::set<std::string> users;
  for (const std::string& value : values_of(sysroot, setting)) {
    if (value.empty()) users.clear();
    std::istringstream words(value);
    for (std::string user; words >> user;) users.insert(user);
  }
  return users;
}

/// Returns the name of a user who has a session; empty if logind knows none.
std::string name_of_user(const SysRoot& sysroot, uid_t user) {
  const auto names = values_in(sysroot.read(format_text("/run/systemd/users/{}", user)).value_or(""), "NAME");
  return names.empty() ? "" : names.back();
}

bool is_in(const std::filesystem::path& path, const std::string& folder) {
  return path.lexically_normal().native().starts_with(folder + "/");
}

/// Returns whether the group of this process is that of a session, in any hierarchy.
bool is_in_session(const SysRoot& sysroot) {
  const std::string groups = sysroot.read("/proc/self/cgroup").value_or("");
  const auto at = groups.find("/session-");
  return at != std::string::npos && groups.find(".scope", at) != std::string::npos;
}

}  // namespace

bool logind_removes(const SysRoot& sysroot, uid_t user, const std::filesystem::path& folder) {
  const std::string name = name_of_user(sysroot, user);
  if (name.empty() || sysroot.exists("/var/lib/systemd/linger/" + name)) return false;
  return is_in(folder, format_text("/run/user/{}", user)) ||
         (is_in(folder, "/dev/shm") && user > kLastSystemUser && is_set(sysroot, "RemoveIPC"));
}

bool logind_kills_session(const SysRoot& sysroot, uid_t user) {
  if (!is_in_session(sysroot)) return false;
  const std::string name = user == 0 ? "root" : name_of_user(sysroot, user);
  const auto spared = users_of(sysroot, "KillExcludeUsers");
  const auto only = users_of(sysroot, "KillOnlyUsers");
  if (spared.contains(name) || (spared.empty() && user == 0)) return false;
  return only.empty() ? is_set(sysroot, "KillUserProcesses") : only.contains(name);
}

}  // namespace zf
