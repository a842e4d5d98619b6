// Which GPUs this process may open: a container can show all of a node's GPUs and give only some of them.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "os/sysroot.hpp"
#include "topology/topology.hpp"

namespace zf {

/// A device node that a job opens to compute on a GPU.
struct DeviceNode {
  std::string path;        ///< "/dev/nvidia0"
  bool must_exist = true;  ///< false: if it is missing, nothing is known
  bool operator==(const DeviceNode&) const = default;
};

/// Returns the nodes of a GPU. `render` is its render node ("renderD128"), "" if it has none. Pure.
/// - NVIDIA: /dev/nvidiaN, where N is its minor, if any /dev/nvidiaN exists. Without any, nothing is known:
///   WSL2 has none, and some are made at the first use of a GPU.
/// - AMD and Intel: /dev/dri/renderDN. AMD: also /dev/kfd, which need not exist.
std::vector<DeviceNode> device_nodes_of(const Gpu& gpu, const std::string& render, bool any_of_nvidia);

enum class NodeAccess { absent, refused, open };

/// Returns why a job cannot compute on a GPU with these nodes, as the end of a sentence: "/dev/nvidia0 is not
/// here", "/dev/kfd may not be opened here". Returns "" if nothing says so.
std::string why_unreachable(const std::vector<DeviceNode>& nodes,
                            const std::function<NodeAccess(const std::string& path)>& access);

/// Makes the GPUs unusable that why_unreachable() names. On this machine each node is opened, in a child
/// process, because a broken driver may never answer; EPERM and EACCES count as refused. In a folder, a plain
/// file stands for a node, and without a folder dev/ nothing is known. Returns an empty string on success. If
/// the child does not answer within the deadline, only missing nodes count, and it returns a sentence that
/// says so.
std::string read_device_nodes(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                              std::chrono::milliseconds deadline);

}  // namespace zf
