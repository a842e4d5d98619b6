// Which GPUs a process has for itself, and which it shares with the ranks of its job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "os/environment.hpp"
#include "where/where.hpp"

namespace zf {

struct ProcessGpus {
  std::vector<std::string> pci;  ///< empty: the number of the rank decides
  bool are_shared = false;       ///< by all ranks, in this order
  bool by_device_nodes = false;  ///< there is no list: other GPUs cannot be opened here
  std::string said = {};         ///< "CUDA_VISIBLE_DEVICES=1"; empty: there is no list
  std::string note = {};         ///< why the list does not count; empty: it does
  std::string why_none = {};     ///< why no GPU is known to be this process's
  std::string why_unknown = {};  ///< why the number of the rank must not decide, either
};

/// Returns the GPUs of the process that has started this one. `machine` has all GPUs of the node, and
/// `environment` no variables of ranks, which `with_ranks` has.
ProcessGpus process_gpus(const WhereRequest& request, const Machine& machine, const Environment& environment,
                         const Environment& with_ranks);

/// Returns why some GPU of this node may be another process's, which has CPUs that are not known: it is
/// hidden, and not by its device node. Nothing if there is none.
std::optional<std::string> hidden_gpu(const Machine& machine);

/// Returns true if the GPU is hidden from this process by its device node alone.
bool is_hidden_by_node(const Gpu& gpu);

}  // namespace zf
