// numactl --physcpubind takes OS indexes; it refuses CPUs outside the mask that it is started with.
#include <fmt/core.h>

#include "base/cpu_list.hpp"
#include "tuner/exports/export.hpp"

namespace zf {
namespace {

/// --preferred takes one node; --preferred-many needs Linux 5.15 and numactl 2.0.15.
std::string memory_option(const OptimizerSide& side) {
  if (side.mems.empty()) return "";
  const char* option = side.memory_policy == MemoryPolicy::bind ? "--membind"
                       : side.mems.size() > 1                   ? "--preferred-many"
                                                                : "--preferred";
  return fmt::format(" {}={}", option, print(side.mems));
}

}  // namespace

Export numactl_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text +=
        fmt::format("numactl --physcpubind={}{}\n", print(rank.training.cpus), memory_option(rank.optimizer));
  }
  return result;
}

}  // namespace zf
