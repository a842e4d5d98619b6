/* A CPU that a test takes away and gives back: from its cpuset, or from the machine. */
#ifndef ZF_TESTS_ABI_CPUSET_H
#define ZF_TESTS_ABI_CPUSET_H

#include <stddef.h>
#include <sys/types.h>

/* Makes a cpuset of the allowed CPUs, runs `test` inside it in a child process, and removes the cpuset. Ends
 * this process like the child. Skips if no cpuset can be made here: it needs root and a mounted cpuset
 * controller. Also skips if fewer than two CPUs are allowed. */
void in_cpuset(void (*test)(void));

/* Runs `test` in a child process, and ends this process like the child. Its take_last_cpu() switches the CPU
 * off for the whole machine, so this is for guests. Skips if no CPU can be switched here: it needs root, and
 * a CPU that can go offline. Also skips if fewer than two CPUs are allowed. */
void with_cpu_offline(void (*test)(void));

/* Only in the test of in_cpuset() or with_cpu_offline(): takes the last of its CPUs away, and gives it back.
 */
void take_last_cpu(void);
void give_last_cpu(void);

#endif
