// Machines as files: our own dumps, and those of other projects if they are available.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "machine/topology_hwloc.hpp"

namespace zf {

inline Topology topology_of(const std::string& source) {
  TopologySource from;
  from.topology = source;
  return read_topology(from);
}

/// Returns the path of a file in tests/machines.
inline std::string own_machine(const std::string& name) {
  return std::string(ZF_SOURCE_DIR) + "/tests/machines/" + name;
}

/// Returns the folder of machines that are not part of this project; it may be missing.
inline std::string foreign_machines() {
  const char* given = std::getenv("ZF_MACHINES_DIR");
  return given != nullptr ? given : std::string(ZF_SOURCE_DIR) + "/../shared/topologies";
}

/// Returns the path of one of them; empty if it is missing.
inline std::string foreign_machine(const std::string& name) {
  const std::string path = foreign_machines() + "/" + name;
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace zf

#define ZF_NEED_MACHINE(path, name)                   \
  const std::string path = zf::foreign_machine(name); \
  if (path.empty()) GTEST_SKIP() << (name) << " is not here: set ZF_MACHINES_DIR to the folder that holds it"
