/* One life of an optimizer: open, step, norm, export, import and close, while something fails. */
#ifndef ZF_TESTS_ABI_LIFE_H
#define ZF_TESTS_ABI_LIFE_H

#include "support.h"

/* ONCE: what failed is tried again, and must then work. FOR_GOOD: each call works, or says why it does not.
 */
enum faults { ONCE, FOR_GOOD };

/* Finds out how a life without faults ends. Call it first, in the parent of those that live. */
void live_undisturbed(void);

/* Lives in this process. Calls arm() before each call of the runtime, and disarm() after it. Checks that the
 * results are those of a life without faults, bit for bit; that each error is one line that names its cause;
 * that a state file is whole or as before; and that nothing is left. */
void live(enum faults faults, void (*arm)(void), void (*disarm)(void));

/* Returns whether a call of live() has not worked. */
int was_refused(void);

/* Checks that one of the lines that it got has this in it. */
void expect_said(const char* cause);

/* Prepares the next life before its process is forked: if that is killed, this one knows where it has lived.
 */
void prepare_life(void);

/* Removes what was prepared and not used. */
void forget_life(void);

/* Checks that a killed life has left a state file that is whole, the new one or the one before; and that
 * another life goes on there, and leaves nothing. */
void expect_whole_rest(void);

/* Waits until the orphans of a child, which have become ours, have ended by themselves. */
void await_orphans(void);

/* Runs live_with_fault(n) in a child for n = first, first + stride, ..., until *reached (shared with the
 * child) stays 0. Each must end within the deadline. watch() waits for the child and returns its status;
 * NULL: waitpid() does. Returns how many faults there were. */
int for_each_fault(void (*live_with_fault)(int n), int (*watch)(pid_t child), int first, int stride,
                   const volatile int* reached);

#endif
