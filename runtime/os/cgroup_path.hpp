// Finds where the control groups of this process lie in the file system. cgroup.cpp reads their limits.
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
  std::vector<std::string> controllers;  ///< v1: the mount options, which include the controllers
  std::string root;  ///< the group that is visible at `point`, as named in our cgroup namespace
  std::string point;
};

struct CgroupPaths {
  std::map<std::string, std::string> by_controller;  ///< v1: "cpuset" → "/slurm/uid_0/job_7"
  std::string unified;                               ///< v2; empty: no such hierarchy
  std::vector<CgroupMount> mounts;
};

/// Reads /proc/self/cgroup and /proc/self/mountinfo. Captures of other machines often lack these two files;
/// then /proc/self/cpuset and /proc/mounts are read instead.
CgroupPaths read_cgroup_paths(const SysRoot& sysroot);

/// Returns the folders of our group and of those of its ancestors that are mounted, innermost first. They are
/// of v1 if a v1 hierarchy has the controller, else of v2. The list is empty if there is no such controller,
/// or if the mounts do not show our group.
std::vector<std::string> groups_of(const SysRoot& sysroot, const CgroupPaths& paths,
                                   std::string_view controller);

}  // namespace zf
