// Lets rename() answer an error after it has done its work, as NFS may.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace zf {

/// What rename() and renameat() of this program answer after they have done their work; 0: the truth.
inline int rename_answers = 0;

}  // namespace zf

// These take the place of the C library's in this program.
extern "C" [[gnu::used]] inline int renameat(int from_folder, const char* from, int to_folder,
                                             const char* to) noexcept {
  const long result = ::syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
  if (result == 0 && zf::rename_answers == 0) return 0;
  if (result == 0) errno = zf::rename_answers;
  return -1;
}

extern "C" [[gnu::used]] inline int rename(const char* from, const char* to) noexcept {
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}
