/* Lets one system call of a process and of its children fail, or all from one on, or kills one of them
 * before one, as their tracer. */
#ifndef ZF_TESTS_ABI_FAILING_CALLS_H
#define ZF_TESTS_ABI_FAILING_CALLS_H

#include <sys/types.h>

enum kills { KILLS_NONE, KILLS_ITS_CHILDREN, KILLS_THE_CHILD };

/* In memory that the test shares with the traced process. */
struct call_faults {
  int armed;        /* calls count, and may fail */
  int first;        /* the number of the first that fails, from 1 on */
  int for_good;     /* those after it fail too */
  enum kills kills; /* if any: only the calls of the one that is killed count, and the first kills instead of
                       failing */
  int count;
  int reached;   /* one has failed */
  long the_call; /* its number in the kernel */
};

/* Returns whether calls can be made to fail here: it needs ptrace, and is written for x86-64. */
int calls_can_fail(void);

/* Traces a child that waits for `go` to be readable, and all that it starts, until they have ended. Returns
 * the child's status. */
int trace_with_faults(pid_t child, int go, struct call_faults* faults);

#endif
