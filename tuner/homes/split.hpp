// A split: which cores of a home train and which run the optimizer. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "homes/homes.hpp"
#include "plan/plan.hpp"

namespace zf {

/// One choice for every rank at once, before it is given concrete CPUs.
struct SplitShape {
  int pool_cores = 1;         ///< per rank; a control takes its own number from each home instead
  int pool_pus_per_core = 1;  ///< 1, or 0 for all siblings
  Placement placement = Placement::compact;
  int reserved_cores =
      0;  ///< per rank, for training; the cores between stay idle. 0: all that the pool leaves
  std::optional<int> pool_kind = {};  ///< CPU kind (Core::kind) whose cores the pool takes first; absent: any
  Control control = Control::none;
  bool operator==(const SplitShape&) const = default;
};

/// The two sides of one home. Disjoint, except in a shared home, where both are the whole home, and in an
/// unbound split, where both are all homes.
struct RankSplit {
  CpuSet training;         ///< every PU of the reserved cores
  std::vector<Pu> pool;    ///< one thread per PU, in the order of the pool's members
  CpuSet optimizer;        ///< the same PUs as a set
  int reserved_cores = 0;  ///< 0 in a shared home: no core is training's alone
  int pool_cores = 0;      ///< at least 1
  int idle_cores = 0;      ///< on neither side
  NodeSet mems;            ///< where the optimizer's state should lie
  bool shared = false;
  std::optional<RankGpu> gpu = {};  ///< as in Home
  /// Nobody binds: `pool` says how many threads the optimizer has, and each of them, like each of training's,
  /// may run anywhere in `training` (== `optimizer`). Counts are those of the home: as many threads as it has
  /// cores for either side. For measuring only; no plan can say it.
  bool unbound = false;
  bool operator==(const RankSplit&) const = default;
};

struct Split {
  SplitShape shape;
  std::string
      label;  ///< "pool 4, compact", "pool 4, spread, all siblings", "unbound": no two shapes share one
  std::vector<RankSplit> ranks;
};

/// A home cut by a shape. The pool takes cores from the home's end, training keeps the beginning (so that the
/// training CPUs are a prefix of an ascending list wherever the topology allows it, and the near ones where a
/// home spans nodes). A spread pool takes them in turn from the end of each L3 group. A pool larger than the
/// home's cores minus one is cut to that; at least one core always trains, unless the home is shared.
/// Training gets the first `reserved_cores` of the rest. Siblings that the pool does not use stay idle: they
/// are on neither side; where the home is at its quota, it uses none. Precondition: the shape is not unbound,
/// which is no matter of one home.
RankSplit split_home(const Home& home, const SplitShape& shape);

Split split_of(const std::vector<Home>& homes, const SplitShape& shape);

/// The plan's entry for a local rank. Training gets as many threads as it has cores (siblings are there for
/// the launch and data-loading threads, not for OpenMP). In a shared split both sides are the whole home. The
/// memory policy is `preferred`.
RankBinding binding_of_split(int rank, const RankSplit& split);

}  // namespace zf
