// The header compiles alone, as C++, without a warning (the C tests do the same for C11).
#include "zf_runtime.h"

static_assert(ZF_ABI_VERSION >= 1);

int main() {
  const zf_options options = ZF_OPTIONS_INIT;
  const zf_group group = ZF_GROUP_INIT;
  const zf_adam adam = ZF_ADAM_INIT;
  const zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  const zf_stats stats = ZF_STATS_INIT;
  const zf_local_options local_options = ZF_LOCAL_OPTIONS_INIT;
  const zf_local_step_args local_args = ZF_LOCAL_STEP_ARGS_INIT;
  const zf_local_statistics statistics = ZF_LOCAL_STATISTICS_INIT;
  const bool sizes = options.struct_size == sizeof options && group.struct_size == sizeof group &&
                     args.struct_size == sizeof args && args.scalars_size == sizeof(zf_scalars) &&
                     adam.struct_size == sizeof adam && stats.struct_size == sizeof stats;
  const bool local_sizes =
      local_options.struct_size == sizeof local_options && local_args.struct_size == sizeof local_args &&
      local_args.tensor_size == sizeof(zf_tensor) && local_args.scalars_size == sizeof(zf_scalars) &&
      statistics.struct_size == sizeof statistics && sizeof(zf_reading) == 48;
  return sizes && local_sizes && zf_abi_version() == ZF_ABI_VERSION ? 0 : 1;
}
