// How long a simulated machine takes for a split: the model of docs/tuning.md, without noise. Pure.
#pragma once

#include <map>
#include <vector>

#include "homes/split.hpp"
#include "plan/plan.hpp"
#include "simulate/simulated_machine.hpp"

namespace zf {

class SimulatedModel {
 public:
  SimulatedModel(SimulatedMachine machine, const Workload& workload);

  /// One period of the whole model, all ranks at once. The same split gives the same times.
  SplitSample times_of(const Split& split) const;

  const SimulatedMachine& machine() const { return machine_; }
  const Workload& workload() const { return workload_; }

 private:
  /// One thread per PU, all asking for as much memory traffic as their cores and L3 groups let through.
  struct Threads {
    struct OnNode {
      double bytes_per_s = 0;
      double slowest_bytes_per_s = 0;  ///< of one thread
    };
    std::map<int, OnNode> nodes;  ///< by the node's OS index, -1: the machine has none
    int count = 0;
  };
  struct Rank {
    Threads pool;
    Threads training;
    double locality = 1;        ///< part of a local access's speed that accesses have on average
    double crowd = 0;           ///< training threads too many per core, beside the pool
    bool shares_cores = false;  ///< pool and training run on the same cores
    double launch_speed = 1;    ///< of the core that launches
    int launch_node = -1;
  };
  struct Traffic;

  Threads threads_on(const std::vector<Pu>& pus) const;
  Rank rank_model(const RankSplit& split) const;
  double node_bytes_per_s(int node) const;
  double limited(double wanted, double limit) const;
  double bandwidth_left_for(double wanted, double others, double capacity) const;
  double off_host_ns(double launch_delay_ns, double launch_speed) const;
  double step_ns(const std::vector<Rank>& ranks, const Traffic& traffic) const;
  double training_ns(const std::vector<Rank>& ranks, const Traffic& traffic, double* launch_delay_ns) const;

  SimulatedMachine machine_;
  Workload workload_;
  TrainingDemand training_demand_;         ///< all zero: there is no training side
  std::map<int, std::size_t> core_of_pu_;  ///< index into topology.cores by OS index
};

}  // namespace zf
