/* Becomes a command for which the kernel refuses what container runtimes refuse to those without
 * CAP_SYS_NICE: refuse COMMAND [ARG ...]
 */
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

int main(int argc, char** argv) {
  static const int kCalls[] = {SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy, SYS_move_pages,
                               SYS_migrate_pages};
  if (argc < 2) {
    fprintf(stderr, "usage: refuse COMMAND [ARG ...]\n");
    return 2;
  }
  if (!refuse_calls(kCalls, sizeof kCalls / sizeof *kCalls, EPERM)) return SKIPPED;
  execvp(argv[1], argv + 1);
  perror(argv[1]);
  return 127;
}
