/* Stops a child anywhere, lets its threads execute single instructions, and kills it between two of them. */
#ifndef ZF_TESTS_ABI_SINGLE_STEPS_H
#define ZF_TESTS_ABI_SINGLE_STEPS_H

#include <sys/types.h>

/* Returns whether a process here may trace its child. */
int may_trace(void);

/* Stops all threads of the child (ptrace). Then executes so many instructions, each on a thread that is
 * chosen at random (random_below) among those that do not wait in the kernel. Returns how many were executed:
 * fewer if all threads wait. The child stays stopped, for kill_stopped(). Returns -1 if it has ended before.
 * Nothing is left to be killed then. */
long execute_single_instructions(pid_t child, long instructions);

/* Kills the child of the last execute_single_instructions(). Its end is left for others to collect. */
void kill_stopped(void);

#endif
