/* Shared by the tests of kept arenas: a trainer with steps that depend on their numbers alone, and what is
 * left of it. */
#ifndef ZF_TESTS_ABI_KEEPING_H
#define ZF_TESTS_ABI_KEEPING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "support.h"

enum { KEPT_GROUPS = 3 };

/* A job: what a trainer opens and how it steps. */
struct job {
  const char* plan;
  int32_t state_format;
  int overlaps;   /* the next gradients are written while a step is under way */
  int speculates; /* each step is begun before it is submitted; needs ZF_STATE_FP32 */
  uint64_t steps;
  /* NULL, or what a rank of several does before it prepares a step, and before it submits that. */
  void (*begins)(uint64_t step);
  void (*meets)(uint64_t step);
  const char* exports; /* NULL, or the file that every third step is exported to, beside the steps */
};

/* Sets ZF_KEEP_FOLDER to a folder that is not there yet, and makes orphans children of this process. */
void use_own_keep_folder(void);

/* Checks that no process of a test and no folder is left. Orphans that end are reaped. */
void expect_nothing_kept(void);

/* Returns the options and groups of a job, with this name. The ranges of the groups stay this module's. */
zf_options keep_options(const struct job* job, const char* name);
void keep_groups(const struct job* job, zf_group* groups);

/* Opens a job's handle. Gives the parameters their first values if no step was kept. Returns the number of
 * the last step, after it has checked that all groups and the note have the same one. */
uint64_t open_job(const struct job* job, const char* name, zf_runtime** handle);

/* Does what open_job() does behind zf_open. */
uint64_t begin_job(zf_runtime* handle);

/* Takes steps up to number `last`, from the one behind `step` on, and waits for the last one. */
void run_steps(zf_runtime* handle, const struct job* job, uint64_t step, uint64_t last);

/* Returns a digest of parameters, moments and outputs. */
uint64_t digest_of_state(zf_runtime* handle, const struct job* job);

/* Returns the process that keeps a name, or -1. */
pid_t keeper_of(const char* name);

/* Kills a child of this process and reaps it. */
void kill_and_reap(pid_t child);

/* Kills a child, but not while `writes` is 1: what a trainer has half written is refused. */
void kill_unless_it_writes(pid_t trainer, const _Atomic int* writes);

#endif
