// Makes system calls fail as they do on other kernels and in sandboxes.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cstddef>

namespace zf {

/// The exit status of a child in which no system call could be refused.
inline constexpr int kNoFilters = 77;

/// From here on this call fails with `error` in this process and its children. Ends the process with
/// kNoFilters where seccomp filters are not to be had. Call it in a forked child.
inline void refuse_call(long call, int error) {
  std::array code{sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                  sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
                  sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
                  sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {code.size(), code.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(kNoFilters);
}

}  // namespace zf
