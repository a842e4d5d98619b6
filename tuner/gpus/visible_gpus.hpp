// Compares the GPUs that a job may see with those of its plan. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "os/environment.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace zf {

/// The GPUs of a plan by rank; absent: the rank has none, or it is not known. A rank with several has as many
/// in a row, and a GPU with several ranks is there once.
using PlannedGpus = std::vector<std::optional<RankGpu>>;

PlannedGpus gpus_of_ranks(const Plan& plan);

/// What a list of visible devices says about a plan's GPUs. At most one of the two is not empty.
struct VisibleGpus {
  std::string difference;  ///< how they differ: "CUDA_VISIBLE_DEVICES lists 6,7, and the plan's GPUs are …"
  std::string not_compared;  ///< why they cannot be compared, though there is a list
};

/// Compares visible_devices() with the plan, rank by rank: numbers with RankGpu::minor, UUIDs with
/// RankGpu::uuid. Slurm's list (slurm_gpus()), of minors, takes its place if it has as many
/// GPUs or is alone; its GPUs count in PCI order. Without either, container_gpus() must have each GPU of the
/// plan. Looks for no GPU, so every rank gets the same answer. These are not compared:
/// - a list that is shorter than the number of ranks: it may be one rank's own;
/// - names and numbers that the plan's GPUs do not have: MIG instances, ROCm's numbers, older plans;
/// - numbers of CUDA if they may count in another order than the plan's minors: because all are below the
///   number of ranks, as inside a container, or because the plan's minors are not in PCI order.
/// An empty list says nothing: a job may train without GPUs.
VisibleGpus compare_visible_gpus(const Environment& environment, const PlannedGpus& planned);

/// Does the same where the GPUs of this machine have been read: the list means the GPUs that found_gpus()
/// finds, and minors and UUIDs that the plan lacks are those of the GPUs at its PCI addresses.
VisibleGpus compare_visible_gpus(const Environment& environment, PlannedGpus planned,
                                 const Topology& topology);

}  // namespace zf
