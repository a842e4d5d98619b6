// torchrun sets OMP_NUM_THREADS=1 for its processes unless it is set, and exec leaves alone what it finds
// set: so the variable is taken out between the two.
#include <fmt/core.h>

#include "tuner/command_line.hpp"
#include "tuner/exports/export.hpp"

namespace zf {

Export torchrun_export(const ExportInput& input) {
  Export result;
  // The spellings with underscores are those that every release takes.
  result.text = fmt::format(
      "torchrun --nproc_per_node={} --no_python env -u OMP_NUM_THREADS zf-tune exec --plan {} --\n",
      input.ranks.size(), shell_quoted(input.plan_path.string()));
  result.notes = {
      "the trainer's command follows, with its interpreter: … -- python3 train.py; OMP_NUM_THREADS is the "
      "plan's"};
  return result;
}

}  // namespace zf
