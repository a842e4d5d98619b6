#include "os/cgroup_path.hpp"

#include <algorithm>
#include <optional>

namespace zf {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto at = std::min(text.find(separator), text.size());
    if (at > 0) parts.emplace_back(text.substr(0, at));
    text.remove_prefix(std::min(at + 1, text.size()));
  }
  return parts;
}

/// Undoes the escapes of mountinfo, which writes blank, tab, newline and backslash as \040, \011, \012 and
/// \134.
std::string without_escapes(std::string_view text) {
  const auto octal = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// Reads a line like "36 25 0:31 ROOT POINT rw,… [tags] - cgroup SOURCE rw,cpuset".
std::optional<CgroupMount> mount_of_mountinfo(const std::string& line) {
  const auto fields = split(line, ' ');
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (dash - fields.begin() < 6 || fields.end() - dash < 4) return std::nullopt;
  if (dash[1] != "cgroup" && dash[1] != "cgroup2") return std::nullopt;
  return CgroupMount{dash[1] == "cgroup2", split(dash[3], ','), without_escapes(fields[3]),
                     without_escapes(fields[4])};
}

/// Reads a line like "SOURCE POINT cgroup rw,cpuset 0 0". It does not say which group is mounted there, so
/// the root is assumed.
std::optional<CgroupMount> mount_of_mounts(const std::string& line) {
  const auto fields = split(line, ' ');
  if (fields.size() < 4 || (fields[2] != "cgroup" && fields[2] != "cgroup2")) return std::nullopt;
  return CgroupMount{fields[2] == "cgroup2", split(fields[3], ','), "/", without_escapes(fields[1])};
}

/// Returns the part of `group` below `root`, as names; nullopt if `group` does not lie below `root`.
///
/// In a cgroup namespace both are relative to the root of the namespace: "/.." is its parent, and "/../x" a
/// sibling. A mount of "/.." shows our group under a name that we cannot know. Then only the limits of the
/// mount's root can be read, and no names are returned.
std::optional<std::vector<std::string>> below(const std::string& root, const std::string& group) {
  const auto above = split(root, '/');
  const auto names = split(group, '/');
  const auto ups = [](const std::vector<std::string>& path) {
    return std::find_if(path.begin(), path.end(), [](const std::string& name) { return name != ".."; }) -
           path.begin();
  };
  if (std::mismatch(above.begin(), above.end(), names.begin(), names.end()).first == above.end() &&
      ups(above) == ups(names)) {
    return std::vector<std::string>(names.begin() + static_cast<std::ptrdiff_t>(above.size()), names.end());
  }
  const bool only_ups = ups(above) == static_cast<std::ptrdiff_t>(above.size());
  if (only_ups && ups(above) > ups(names)) return std::vector<std::string>();
  return std::nullopt;
}

}  // namespace

CgroupPaths read_cgroup_paths(const SysRoot& sysroot) {
  CgroupPaths paths;
  if (const auto text = sysroot.read("/proc/self/cgroup")) {
    for (const auto& line :
         split(*text, '\n')) {  // "4:cpu,cpuacct:/path", "0::/path"; the path may hold colons
      const auto first = line.find(':');
      const auto second = line.find(':', std::min(first, line.size() - 1) + 1);
      if (first == std::string::npos || second == std::string::npos) continue;
      const auto path = line.substr(second + 1);
      const auto controllers = split(std::string_view(line).substr(first + 1, second - first - 1), ',');
      for (const auto& controller : controllers) paths.by_controller[controller] = path;
      if (controllers.empty()) paths.unified = path;
    }
  } else if (const auto cpuset = sysroot.read("/proc/self/cpuset"); cpuset && !cpuset->empty()) {
    paths.by_controller["cpuset"] = *cpuset;
    paths.unified = *cpuset;
  }

  const auto mountinfo = sysroot.read("/proc/self/mountinfo");
  const auto mounts = mountinfo ? mountinfo : sysroot.read("/proc/mounts");
  for (const auto& line : split(mounts.value_or(""), '\n')) {
    if (auto mount = mountinfo ? mount_of_mountinfo(line) : mount_of_mounts(line))
      paths.mounts.push_back(*mount);
  }
  return paths;
}

std::vector<std::string> groups_of(const SysRoot& sysroot, const CgroupPaths& paths,
                                   std::string_view controller) {
  const auto groups_in = [&](bool unified, const std::string& group) {
    std::vector<std::string>
        best;  // of several mounts that show our group, the one that shows most ancestors
    for (const auto& mount : paths.mounts) {
      const bool has_controller = std::find(mount.controllers.begin(), mount.controllers.end(), controller) !=
                                  mount.controllers.end();
      if (mount.unified != unified || (!unified && !has_controller)) continue;
      const auto names = below(mount.root, group);
      if (!names) continue;

      std::string folder = mount.point == "/" ? "" : mount.point;
      std::vector<std::string> groups{folder};
      for (const auto& name : *names) groups.push_back(folder += "/" + name);
      std::reverse(groups.begin(), groups.end());
      // Skip a mount that is covered by a later one at the same place: it does not show our group.
      if (groups.size() > best.size() && !sysroot.list(groups.front()).empty()) best = std::move(groups);
    }
    return best;
  };

  const auto v1 = paths.by_controller.find(std::string(controller));
  if (v1 != paths.by_controller.end()) {
    auto groups = groups_in(false, v1->second);
    if (!groups.empty()) return groups;
  }
  return paths.unified.empty() ? std::vector<std::string>() : groups_in(true, paths.unified);
}

}  // namespace zf
