#include "tuner/binding.hpp"

#include "plan/reserved_perc.hpp"

namespace zf {

RankBinding binding_of_split(int rank, const RankSplit& split) {
  RankBinding binding;
  binding.rank = rank;
  binding.gpu = split.gpu;
  binding.training.cpus = split.training;
  binding.training.threads = split.shared ? split.pool_cores : split.reserved_cores;
  binding.optimizer.cpus = split.optimizer;
  binding.optimizer.mems = split.mems;
  binding.pt_reserved_cores = split.reserved_cores;
  // n is what DeepSpeed would count: the CPUs of both sides, without siblings left idle.
  binding.pt_reserved_cores_perc = reserved_perc(static_cast<int>(split.training.size()),
                                                 static_cast<int>((split.training | split.optimizer).size()));
  binding.shared = split.shared;
  return binding;
}

}  // namespace zf
