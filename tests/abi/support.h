/* Shared by the C tests of the runtime: checks, a plan for this machine, processes. */
#ifndef ZF_TESTS_ABI_SUPPORT_H
#define ZF_TESTS_ABI_SUPPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "zf_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ends the test with the condition and the text behind zf_last_error. */
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: CHECK(%s) failed; last error: %s\n", __FILE__, __LINE__, #condition, \
              zf_last_error());                                                                    \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

/* Checks that a call returned `status`, and otherwise shows what it returned. */
#define EXPECT(call, status) expect_status((call), (status), #call, __FILE__, __LINE__)
void expect_status(zf_status got, zf_status wanted, const char* call, const char* file, int line);

/* Checks that the last error is one line and contains `part`. */
void expect_error(const char* part);

/* Ends the test as skipped (CTest's SKIP_RETURN_CODE). */
#define SKIPPED 77

/* Fills in the CPUs that this process may use, ascending. Returns their number. */
enum { MAX_CPUS = 4096 };
size_t allowed_cpus(int* cpus);

/* The CPUs of the optimizer in a test's plan: all but the first, or all of them, shared with training. */
enum plan_kind { PLAN_SPLIT, PLAN_SHARED };

/* Writes a plan for the allowed CPUs to a temporary file that is gone at exit; one allowed CPU makes it
 * shared. Returns its path; *optimizer (may be NULL) is the optimizer's CPUs as the kernel prints them. */
const char* write_plan(enum plan_kind kind, const char** optimizer);

/* Writes such a plan with the given CPU lists, for a machine with thousands of CPUs. It must be refused. */
const char* write_plan_for(const char* home, const char* training, const char* optimizer, int shared,
                           int optimizer_threads, double perc);

/* Writes a plan that was made on a machine with this CPU model. */
const char* write_plan_of_model(const char* model);

/* Writes `text` to a temporary file that is gone at exit, and returns its path. */
const char* write_file(const char* text);

/* Opens a handle with one group of n elements under a plan of this kind. Its worker is never restarted. */
zf_runtime* open_one(enum plan_kind kind, uint64_t elements);

/* From here on the kernel answers `error` to these system calls of this process and its children to come, as
 * a container's filter does. 0: filters are not to be had here. */
int refuse_calls(const int* calls, size_t count, int error);

/* Runs `test` in its own process, and ends this process in the same way, unless that ended with 0 or SKIPPED.
 * */
void in_child(void (*test)(void));

/* Counts the mappings of arenas in this process. */
size_t count_arena_mappings(void);

/* Returns the scalars of step number `step`, of kind 0 to 3: Adam or AdamW, without and with decay. Gradients
 * are halved. */
zf_scalars made_scalars(unsigned kind, uint64_t step);

/* Submits step `number` + 1 of all groups, 4 at most. Its gradients depend only on the number. The buffers
 * alternate. */
void submit_made_step(zf_runtime* handle, unsigned groups, int number);

/* Submits a step of all groups with gradient buffer 0, with the same scalars each time. */
zf_status submit_all(zf_runtime* handle, uint64_t* ticket);

/* Returns an array of a group. bytes may be NULL. */
void* buffer_of(zf_runtime* handle, size_t group, zf_buffer_kind kind, size_t* bytes);

/* Return random numbers, the same in every run. The float is in [-1, 1). */
uint64_t random_below(uint64_t bound);
void seed_random(uint64_t seed);
float random_float(void);

int64_t now_ns(void);

/* Counts the open descriptors of this process. */
size_t count_descriptors(void);

/* Memory of this process that is no file's and not shared, in KiB, page by page; 0: a kernel without
 * smaps_rollup. (RssAnon of /proc/self/status is off by some pages per CPU.) */
size_t count_private_kib(void);

/* Counts the children of this process, including zombies. */
size_t count_children(void);

pid_t worker_of(zf_runtime* handle);

/* Stops a process, and waits until every thread of it is stopped, which comes some time after SIGSTOP was
 * sent. */
void stop_process(pid_t process);

#ifdef __cplusplus
}
#endif

#endif
