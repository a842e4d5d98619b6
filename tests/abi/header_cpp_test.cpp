// The header compiles alone, as C++, without a warning (the C tests do the same for C11).
#include "zf_runtime.h"

static_assert(ZF_ABI_VERSION >= 1);

int main() {
  const zf_options options = ZF_OPTIONS_INIT;
  const zf_group group = ZF_GROUP_INIT;
  const zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  const zf_stats stats = ZF_STATS_INIT;
  const bool sizes = options.struct_size == sizeof options && group.struct_size == sizeof group &&
                     args.struct_size == sizeof args && stats.struct_size == sizeof stats;
  return sizes && zf_abi_version() == ZF_ABI_VERSION ? 0 : 1;
}
