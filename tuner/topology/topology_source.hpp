// Says which machine is read, and how.
#pragma once

#include <chrono>
#include <string>

#include "os/sysroot.hpp"

namespace zf {

struct TopologySource {
  std::string topology;  ///< empty: read `sysroot`; else an XML file or a synthetic description
  SysRoot sysroot;       ///< this machine, or a folder that holds the /proc and /sys of another one
  bool with_io = true;   ///< false: does not look for GPUs in `sysroot`, nor report them as missing
  /// I/O discovery can hang on a broken driver. After this long, GPUs are reported as missing and the rest of
  /// the machine is read without them.
  std::chrono::milliseconds io_deadline{3000};
  std::string xml = {};  ///< not empty: stands for the text of the file that `topology` names
};

}  // namespace zf
