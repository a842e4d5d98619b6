#include <fmt/core.h>

#include "base/cpu_list.hpp"
#include "tuner/exports/export.hpp"

namespace zf {

Export taskset_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text += fmt::format("taskset -c {}\n", print(rank.training.cpus));
  }
  result.notes = {"taskset cannot place memory; zf-tune exec and numactl can"};
  return result;
}

}  // namespace zf
