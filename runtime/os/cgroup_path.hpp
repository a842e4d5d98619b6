// Where the control groups of this process lie in the file system. What cgroup.cpp reads limits from.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "os/sysroot.hpp"

namespace zf {

/// One line of mountinfo that mounts a cgroup hierarchy.
struct CgroupMount {
  bool unified = false;                  ///< cgroup2
  std::vector<std::string> controllers;  ///< v1: the mount options, the controllers among them
  std::string root;  ///< the group that appears at `point`, as seen from our cgroup namespace
  std::string point;
};

struct CgroupPaths {
  std::map<std::string, std::string> by_controller;  ///< v1: "cpuset" → "/slurm/uid_0/job_7"
  std::string unified;                               ///< v2; empty: no such hierarchy
  std::vector<CgroupMount> mounts;
};

/// From /proc/self/cgroup and /proc/self/mountinfo. Captures of other machines often lack these two: then
/// /proc/self/cpuset and /proc/mounts stand in.
CgroupPaths read_cgroup_paths(const SysRoot& sysroot);

/// The folders of our group and of its ancestors as far as they are mounted, innermost first; v1 where a v1
/// hierarchy has the controller, else v2. Empty: no such controller, or the mounts show other groups than
/// ours.
std::vector<std::string> groups_of(const SysRoot& sysroot, const CgroupPaths& paths,
                                   std::string_view controller);

}  // namespace zf
