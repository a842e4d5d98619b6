// Which GPUs this process may open.
#include "gpus/live_gpus.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <sstream>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "base/format.hpp"
#include "children/child_output.hpp"
#include "text/units.hpp"
#include "topology/gpu_rules.hpp"

namespace zf {
namespace {

/// Returns true for "nvidia0" with the prefix "nvidia", and false for "nvidiactl".
bool is_numbered(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && parse_number<unsigned>(name.substr(prefix.size())).has_value();
}

/// Returns "renderD128"; "" if the GPU has no such node.
std::string render_node_of(const SysRoot& sysroot, const Gpu& gpu) {
  for (const std::string& name : sysroot.list(format_text("/sys/bus/pci/devices/{}/drm", gpu.pci_address))) {
    if (is_numbered(name, "renderD")) return name;
  }
  return {};
}

bool is_refused(const std::string& path) {
  const FileDescriptor node(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return !node.valid() && (errno == EPERM || errno == EACCES);
}

/// Runs in the child. Returns those of the paths that may not be opened, one per line.
std::string refused_among(const std::set<std::string>& paths) {
  std::string refused;
  for (const std::string& path : paths) {
    if (is_refused(path)) refused += path + "\n";
  }
  return refused;
}

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

}  // namespace

std::vector<DeviceNode> device_nodes_of(const Gpu& gpu, const std::string& render, bool any_of_nvidia) {
  std::vector<DeviceNode> nodes;
  if (gpu.vendor_id == kNvidia && gpu.minor && any_of_nvidia)
    nodes.push_back({format_text("/dev/nvidia{}", *gpu.minor)});
  if (gpu.vendor_id == kAmd) nodes.push_back({"/dev/kfd", false});
  // NVIDIA's GPUs have render nodes as well, and compute without them.
  if ((gpu.vendor_id == kAmd || gpu.vendor_id == kIntel) && !render.empty())
    nodes.push_back({"/dev/dri/" + render});
  return nodes;
}

std::string why_unreachable(const std::vector<DeviceNode>& nodes,
                            const std::function<NodeAccess(const std::string& path)>& access) {
  for (const DeviceNode& node : nodes) {
    const NodeAccess here = access(node.path);
    if (here == NodeAccess::refused) return node.path + " may not be opened here";
    if (here == NodeAccess::absent && node.must_exist) return node.path + " is not here";
  }
  return {};
}

std::string read_device_nodes(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                              std::chrono::milliseconds deadline) {
  std::set<std::string> there;
  bool any_of_nvidia = false;
  for (const char* const folder : {"/dev", "/dev/dri"}) {
    for (const std::string& name : sysroot.list(folder)) {
      there.insert(format_text("{}/{}", folder, name));
      any_of_nvidia = any_of_nvidia || is_numbered(name, "nvidia");
    }
  }
  if (gpus.empty() || there.empty()) return {};
  std::vector<std::vector<DeviceNode>> nodes;  // by GPU
  std::set<std::string> paths;                 // those of them that are there
  for (const Gpu& gpu : gpus) {
    nodes.push_back(device_nodes_of(gpu, render_node_of(sysroot, gpu), any_of_nvidia));
    for (const DeviceNode& node : nodes.back()) {
      if (gpu.usable && there.contains(node.path)) paths.insert(node.path);
    }
  }
  ChildOutput opened{ChildOutput::End::done, {}};
  if (sysroot.is_this_machine() && !paths.empty())
    opened = output_of_child([&] { return refused_among(paths); }, deadline);
  const std::set<std::string> refused = lines_of(opened.text);
  const auto access = [&](const std::string& path) {
    if (!there.contains(path)) return NodeAccess::absent;
    return refused.contains(path) ? NodeAccess::refused : NodeAccess::open;
  };
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (!gpus[i].usable) continue;
    gpus[i].why_unusable = why_unreachable(nodes[i], access);
    gpus[i].usable = gpus[i].why_unusable.empty();
  }
  if (opened.end == ChildOutput::End::done) return {};
  return format_text(
      "opening the device nodes of the GPUs {}: which of them this process may use is not known",
      opened.end == ChildOutput::End::late
          ? format_text("took more than {} ms (a driver may hang)", deadline.count())
          : "failed");
}

}  // namespace zf
