// A split says which cores of a home train and which run the optimizer. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "homes/homes.hpp"
#include "plan/rank_binding.hpp"
#include "plan/split_kind.hpp"

namespace zf {

/// One choice for all ranks, before it gets concrete CPUs.
struct SplitShape {
  int pool_cores = 1;         ///< per rank; a control computes its own number from each home
  int pool_pus_per_core = 1;  ///< 1, or 0 for all siblings
  Placement placement = Placement::compact;
  int reserved_cores = 0;  ///< per rank, for training; the other cores stay idle. 0: all that the pool leaves
  /// The make of cores (HomeCore::make) that the pool takes first, the slow ones of today before the others;
  /// absent: the slowest.
  std::optional<int> pool_make = {};
  Control control = Control::none;
  bool shared = false;  ///< training has the whole home, and the pool runs on `pool_cores` of the same cores
  bool operator==(const SplitShape&) const = default;
};

/// The two sides of one home. They are disjoint, with three exceptions: if the home is shared, training has
/// all of it and the pool some or all of the same CPUs; if neighbours share its CPUs, both sides have all of
/// them; in an unbound split both sides are the CPUs of all homes.
struct RankSplit {
  CpuSet home;             ///< every PU of the home
  int home_cores = 0;      ///< number of its cores
  CpuSet training;         ///< every PU of the reserved cores
  std::vector<Pu> pool;    ///< one thread per PU, in the order of the pool's threads
  CpuSet optimizer;        ///< the same PUs as a set
  int reserved_cores = 0;  ///< 0 if shared: no core is reserved for training
  int pool_cores = 0;      ///< at least 1
  int idle_cores = 0;      ///< on neither side
  NodeSet mems;            ///< the nodes where the optimizer's state should lie
  bool shared = false;
  std::optional<RankGpu> gpu = {};  ///< as in Home
  /// No thread is bound. The size of `pool` is the number of optimizer threads; these and the training
  /// threads may run anywhere in `training` (== `optimizer`). Each side has as many threads as the home has
  /// cores. For measuring only: a plan cannot express it.
  bool unbound = false;
  /// Neighbours share the CPUs: each thread of the pool may run on all of `optimizer`, and the size of `pool`
  /// is their number. Both sides have the whole home, and the numbers of cores are numbers of threads.
  bool floats = false;
  bool operator==(const RankSplit&) const = default;
};

struct Split {
  SplitShape shape;
  std::string label;  ///< "pool 4, compact", "pool 4, spread, all siblings", "shared home", "unbound"; unique
                      ///< per shape
  std::vector<RankSplit> ranks;
};

/// Splits a home by a shape. Training keeps the fast cores, if kinds differ: the pool takes the slow ones
/// first, or those of `pool_make`. Among equals the pool takes cores from the home's end and training keeps
/// the beginning: so the training CPUs are a prefix of an ascending list if the topology allows it, and the
/// near ones if a home spans nodes. A spread pool takes cores in turn from the end of each L3 group. A pool
/// takes at most all cores but one: at least one core trains, unless both sides share the home: because the
/// shape says so, or because the home has one core. Training gets the fastest `reserved_cores` of the rest,
/// among equals the first. Siblings that the pool does not use stay idle, on neither side; in a home at its
/// quota the pool uses no siblings. Precondition: the shape is not unbound, because an unbound split is not a
/// matter of one home.
RankSplit split_home(const Home& home, const SplitShape& shape);

/// Returns the shape of a control, which computes its pool from each home.
SplitShape control_shape(Control control);

/// Splits all homes by a shape.
Split split_of(const std::vector<Home>& homes, const SplitShape& shape);

/// Returns how many threads the largest pool of any rank has.
int most_pool_threads(const Split& split);

/// Returns the plan's entry for a local rank. Training gets as many threads as it has cores: the siblings are
/// for the threads that launch kernels and load data, not for OpenMP. The memory policy is `preferred`.
RankBinding binding_of_split(int rank, const RankSplit& split);

}  // namespace zf
