/* A control group whose CPUs a test takes away and gives back. */
#ifndef ZF_TESTS_ABI_CPUSET_H
#define ZF_TESTS_ABI_CPUSET_H

#include <stddef.h>
#include <sys/types.h>

/* Makes a cpuset of the allowed CPUs, runs `test` inside it in a child process, and removes the cpuset. Ends
 * this process like the child. Skips if no cpuset can be made here: it needs root and a mounted cpuset
 * controller. Also skips if fewer than two CPUs are allowed. */
void in_cpuset(void (*test)(void));

/* Only in the test of in_cpuset(): takes the last of its CPUs away from the cpuset, and gives it back. */
void take_last_cpu(void);
void give_last_cpu(void);

#endif
