// Computes how long a simulated machine takes for a split: the model of docs/tuning.md, without noise. Pure.
#pragma once

#include <map>
#include <vector>

#include "homes/split.hpp"
#include "plan/evidence.hpp"
#include "plan/workload.hpp"
#include "simulate/simulated_machine.hpp"

namespace zf {

class SimulatedModel {
 public:
  SimulatedModel(SimulatedMachine machine, const Workload& workload);

  /// Returns the times of one period of the whole model, with all ranks at once. The same split gives the
  /// same times.
  SplitSample times_of(const Split& split) const;

  const SimulatedMachine& machine() const { return machine_; }
  const Workload& workload() const { return workload_; }

 private:
  /// Threads, one per PU, that use as much memory bandwidth as their cores and L3 groups allow.
  struct Threads {
    struct OnNode {
      double bytes_per_s = 0;
      double slowest_bytes_per_s = 0;  ///< bandwidth of the slowest thread
    };
    std::map<int, OnNode> nodes;  ///< by the node's OS index; -1 if the machine has no nodes
    int count = 0;
  };
  struct Rank {
    Threads pool;
    Threads training;
    double locality = 1;  ///< average speed of a memory access, relative to a local one
    double crowd = 0;     ///< training threads per core beyond the first
    bool is_unbound = false;
    bool shares_cores = false;  ///< pool and training run on the same cores
    double launch_speed = 1;    ///< speed of the core that launches
    int launch_node = -1;
  };
  struct Traffic;

  Threads threads_on(const std::vector<Pu>& pus) const;
  Rank rank_model(const RankSplit& split) const;
  double node_bytes_per_s(int node) const;
  double limited(double wanted, double limit) const;
  double bandwidth_left_for(double wanted, double others, double capacity) const;
  double off_host_ns(const Rank& rank, double launch_delay_ns, double pool_busy) const;
  double step_ns(const std::vector<Rank>& ranks, const Traffic& traffic) const;
  double training_ns(const std::vector<Rank>& ranks, const Traffic& traffic, double* launch_delay_ns) const;

  SimulatedMachine machine_;
  Workload workload_;
  TrainingDemand training_demand_;         ///< all zero without a training side
  std::map<int, std::size_t> core_of_pu_;  ///< index into topology.cores by OS index
};

}  // namespace zf
