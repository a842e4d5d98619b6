// Machines as files: our own dumps, and those of other projects if they are available.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "paths.hpp"
#include "topology/topology_hwloc.hpp"

namespace zf {

inline Topology topology_of(const std::string& source) {
  TopologySource from;
  from.topology = source;
  return read_topology(from);
}

/// Returns the path of a file in tests/machines.
inline std::string own_machine(const std::string& name) {
  return std::string(kSourceDir) + "/tests/machines/" + name;
}

/// Why a test skips without the folder of foreign_machines(). All say the same, so that scripts/test can
/// count them.
inline constexpr const char* kNoForeignMachines =
    "needs XML of other owners: ZF_MACHINES_DIR may name a folder of it (tests/machines)";

/// Returns the folder of machines that are not part of this project; empty if there is none.
inline std::string foreign_machines() {
  const char* given = std::getenv("ZF_MACHINES_DIR");
  return given != nullptr && std::filesystem::is_directory(given) ? given : "";
}

/// Returns the path of one of them; empty if it is missing.
inline std::string foreign_machine(const std::string& name) {
  const std::string folder = foreign_machines();
  return !folder.empty() && std::filesystem::exists(folder + "/" + name) ? folder + "/" + name : "";
}

/// Returns why foreign_machine() has not found this one.
inline std::string why_missing(const std::string& name) {
  return foreign_machines().empty() ? kNoForeignMachines : "the folder of ZF_MACHINES_DIR has no " + name;
}

}  // namespace zf

#define ZF_NEED_MACHINE(path, name)                   \
  const std::string path = zf::foreign_machine(name); \
  if (path.empty()) GTEST_SKIP() << zf::why_missing(name)
