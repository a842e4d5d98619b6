// srun --cpu-bind=mask_cpu:M0,M1,…: one mask per local task, OS indexes (srun(1), Slurm 22.05).
#include <fmt/core.h>

#include "tuner/exports/bitmap.hpp"
#include "tuner/exports/export.hpp"

namespace zf {

Export slurm_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text += (result.text.empty() ? "--cpu-bind=mask_cpu:" : ",") + mask_of(rank.training.cpus);
  }
  result.text += "\n";
  result.notes = {
      "srun obeys these masks only with task/affinity and in a job that has the whole node (--exclusive); "
      "otherwise start the tasks with srun --cpu-bind=none … zf-tune exec, which reads its binding back"};
  return result;
}

}  // namespace zf
