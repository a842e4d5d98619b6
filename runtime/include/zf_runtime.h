/* zf_runtime: an Adam optimizer in its own process, on the CPUs that a zf-tune plan gives it.
 *
 *   zf_group group = ZF_GROUP_INIT;            zf_options options = ZF_OPTIONS_INIT;
 *   group.elements = n;                        options.plan_path = "plan.json";
 *   zf_open(&options, &group, 1, &handle);
 *   zf_buffer(handle, 0, ZF_PARAMS, &params, NULL);     ... write the initial parameters
 *   zf_buffer(handle, 0, ZF_GRADS_0, &grads, NULL);     ... write gradients
 *   zf_submit(handle, NULL, &ticket);                   ... do something else meanwhile
 *   zf_wait(handle, ticket, -1);                        ... params are updated
 *   zf_close(handle);
 *
 * Buffers are plain memory shared with the optimizer process: nothing is copied. Life cycle, deaths and
 * environment variables: docs/runtime.md.
 *
 * Versions. Every struct begins with its size, set by its INIT macro. A program built with an older header
 * works with a newer library (what it does not know keeps its default), and one built with a newer header
 * works with an older library as long as it leaves what that does not know at zero (else ZF_ERROR_ABI).
 *
 * Threads. A handle may be used by several threads:
 * - zf_submit, zf_set_group, zf_buffer, zf_get_stats: at any time.
 * - zf_get_step, zf_set_step, zf_export_state, zf_import_state: at any time; ZF_ERROR_BUSY while work is
 *   under way. During these four, zf_submit and zf_set_group of other threads wait. The buffers are not
 *   locked: nobody writes parameters or moments during zf_export_state, nobody touches them during
 *   zf_import_state.
 * - zf_wait, zf_progress: by one thread at a time (it may run beside the others).
 * - zf_norm: by any thread, but without a lock: after zf_wait for the ZF_NORM, and before the next ZF_NORM of
 *   the same group and buffer is submitted. Beside one that is under way its two results may not belong
 *   together.
 * - zf_end, zf_close: when no other call runs.
 * zf_last_error is of the calling thread.
 *
 * fork. A child of the process that opened a handle must not use it: every call answers ZF_ERROR_FORKED and
 * does nothing. The child does see the buffers; what it writes there, the optimizer reads.
 */
#ifndef ZF_RUNTIME_H
#define ZF_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(ZF_BUILDING_RUNTIME)
#define ZF_API __attribute__((visibility("default")))
#else
#define ZF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Goes up when something here changes its meaning; additions do not count. */
#define ZF_ABI_VERSION 1u

/* ZF_ABI_VERSION of the library that is loaded. */
ZF_API uint32_t zf_abi_version(void);

/* "major.minor.patch" of the library that is loaded. */
ZF_API const char* zf_version(void);

/* What a call answers. ZF_TIMEOUT is an answer, not an error: ask again. */
typedef int32_t zf_status;
enum {
  ZF_OK = 0,
  ZF_TIMEOUT = 1,         /* not yet; the optimizer lives */
  ZF_WORKER_DIED = 2,     /* the optimizer process ended, and is not started again; zf_last_error says why */
  ZF_ERROR_USAGE = 3,     /* a wrong argument, or a call at the wrong time */
  ZF_ERROR_PLAN = 4,      /* no plan, a broken one, or one for other CPUs than there are here */
  ZF_ERROR_SYSTEM = 5,    /* the machine refused: memory, processes, descriptors */
  ZF_ERROR_WORKER = 6,    /* zf-optimizer is missing, or could not start */
  ZF_ERROR_ABI = 7,       /* program and library are of versions that do not fit */
  ZF_ERROR_FORKED = 8,    /* called in a child of the process that opened the handle */
  ZF_ERROR_BUSY = 9,      /* this gradient buffer's last submission is not done, or another thread waits */
  ZF_ERROR_INTERNAL = 10, /* our bug */
  ZF_ERROR_STATE = 11     /* a state file that is damaged, or of another version, or of other groups */
};

/* "ZF_WORKER_DIED" for 2, and so on; "?" for what is none. Never NULL. */
ZF_API const char* zf_status_name(zf_status status);

/* One line about the last call of this thread that failed: what, where, and what to do next. "" if none did.
 * Valid until the next failure in this thread. Never NULL. (A zf_wait that answers ZF_TIMEOUT did not fail.)
 */
ZF_API const char* zf_last_error(void);

typedef struct zf_runtime zf_runtime;

/* How much something is wished for: not; where the machine lets us, with a note in zf_stats where it does
 * not; or zf_open fails without it. */
enum { ZF_NO = 0, ZF_TRY = 1, ZF_MUST = 2 };

typedef struct zf_options {
  uint32_t struct_size;
  uint32_t abi_version;     /* ZF_ABI_VERSION */
  const char* plan_path;    /* NULL: the environment's ZF_PLAN, which `zf-tune exec` sets. With ZF_TUNE=off no
                               plan is read: all CPUs of this process, shared with it. */
  int32_t rank;             /* local rank; -1: ZF_RANK, then the launcher's variables (LOCAL_RANK,
                               SLURM_LOCALID, ...), then 0 if the plan has one rank only */
  int32_t spin_us;          /* how long a wait stays on its CPU before it sleeps, on both sides, in
                               microseconds; -1: 50. Not done where the plan shares CPUs. */
  int64_t start_timeout_ms; /* until the optimizer is ready, its memory placed, also when it is started again;
                               0: 120,000 */
  int64_t close_timeout_ms; /* until it has finished what is submitted, at zf_close; 0: 10,000 */
  int32_t max_restarts;     /* how often a dead optimizer is started again, over the handle's life; 0: 3;
                               -1: never, its death ends every wait */
  int32_t reserved;         /* 0 */
  uint64_t chunk_bytes; /* groups are stepped, and zf_progress counts, in chunks of so many bytes of ZF_COPY
                           (without one, of ZF_PARAMS), whole pages; 0: 256 MiB */
  int32_t huge_pages;   /* ZF_NO, ZF_TRY, ZF_MUST: 2 MiB pages, by madvise. (Linux gives them to shared memory
                           where /sys/kernel/mm/transparent_hugepage/shmem_enabled says so.) */
  int32_t lock_memory;  /* likewise: never swapped out, by mlock (`ulimit -l`) */
} zf_options;

#define ZF_OPTIONS_INIT \
  { (uint32_t)sizeof(zf_options), ZF_ABI_VERSION, NULL, -1, -1, 0, 0, 0, 0, 0, 0, 0 }

/* Element types of gradients and of the copy for the GPU. Parameters and moments are fp32. */
enum { ZF_NONE = 0, ZF_F32 = 1, ZF_BF16 = 2, ZF_F16 = 3 };

/* Adam: weight decay is added to the gradient (L2). AdamW: it is taken from the parameter. */
enum { ZF_ADAM = 0, ZF_ADAMW = 1 };

/* A group of parameters with its own settings. */
typedef struct zf_group {
  uint32_t struct_size;
  int32_t mode;            /* ZF_ADAM or ZF_ADAMW */
  uint64_t elements;       /* may be 0 */
  float lr;                /* finite, as are all of these */
  float beta1;             /* 0 <= beta1 < 1 */
  float beta2;             /* 0 <= beta2 < 1 */
  float eps;               /* >= 0 */
  float weight_decay;      /* >= 0 */
  int32_t bias_correction; /* 0: off */
  int32_t grad_type;       /* ZF_F32, ZF_BF16 or ZF_F16 */
  int32_t copy_type;       /* ZF_NONE, or ZF_BF16, ZF_F16: the new parameters, rounded, as ZF_COPY */
  int32_t stale;           /* not 0: the new parameters once more, as ZF_STALE */
  int32_t reserved;        /* 0 */
} zf_group;

#define ZF_GROUP_INIT \
  { (uint32_t)sizeof(zf_group), ZF_ADAMW, 0, 1e-3f, 0.9f, 0.999f, 1e-8f, 0.0f, 1, ZF_F32, ZF_NONE, 0, 0 }

/* Starts the optimizer process of this rank, and returns when it is ready: its threads on exactly the plan's
 * optimizer CPUs, the memory for all groups there (all zero).
 * options: NULL for the defaults. groups: n_groups of them, one after the other, each struct_size long.
 * On ZF_OK *out is the handle; else *out is NULL and nothing is left behind.
 * ZF_ERROR_PLAN, ZF_ERROR_SYSTEM (memory), ZF_ERROR_WORKER, ZF_ERROR_USAGE, ZF_ERROR_ABI; ZF_TIMEOUT when
 * start_timeout_ms was too short. */
ZF_API zf_status zf_open(const zf_options* options, const zf_group* groups, size_t n_groups,
                         zf_runtime** out);

/* Ends the optimizer process as zf_close does, and leaves the handle with all its memory: for a program whose
 * views of the buffers outlive the optimizer. Afterwards zf_submit, zf_wait and zf_progress answer
 * ZF_ERROR_USAGE; all else works. What is submitted is done first, by a restarted optimizer if need be. The
 * second call does nothing. ZF_OK; ZF_TIMEOUT (killed after close_timeout_ms), ZF_WORKER_DIED: it is gone all
 * the same. */
ZF_API zf_status zf_end(zf_runtime* handle);

/* Ends the optimizer process: lets it finish what is submitted, kills it after close_timeout_ms, and collects
 * it. The handle and all its buffers are gone then, whatever is returned: ZF_OK, ZF_TIMEOUT (it was killed),
 * ZF_WORKER_DIED. NULL: ZF_OK. Only ZF_ERROR_FORKED leaves all as it was. */
ZF_API zf_status zf_close(zf_runtime* handle);

/* The arrays of a group. (An integer and not an enum type: a C program may pass any number.) */
typedef int32_t zf_buffer_kind;
enum {
  ZF_PARAMS = 0,   /* fp32 master parameters; yours to write while no submission of the group is under way */
  ZF_MOMENT_1 = 1, /* fp32 first moments; likewise */
  ZF_MOMENT_2 = 2, /* fp32 second moments; likewise */
  ZF_GRADS_0 = 3,  /* gradients, of the group's grad_type; yours from the end of the last submission of
                      this buffer to the next */
  ZF_GRADS_1 = 4,  /* the second gradient buffer: fill it while the optimizer reads the first */
  ZF_STALE = 5,    /* fp32 snapshot of the last step's result; only with zf_group.stale */
  ZF_COPY = 6      /* the same, rounded to copy_type; only with zf_group.copy_type */
};

/* Where an array of a group lies, page-aligned, at the same place until zf_close; *bytes is its size (NULL:
 * not asked). Readable after the optimizer has died. ZF_ERROR_USAGE: no such group or array. */
ZF_API zf_status zf_buffer(zf_runtime* handle, size_t group, zf_buffer_kind kind, void** pointer,
                           size_t* bytes);

/* New settings of a group for the submissions from now on. elements, grad_type, copy_type and stale must be
 * what they were. */
ZF_API zf_status zf_set_group(zf_runtime* handle, size_t group, const zf_group* settings);

/* What is to be done with the groups of a submission. */
enum {
  ZF_STEP = 0, /* an Adam step */
  ZF_NORM = 1  /* the sum of squares of the gradients, for zf_norm; nothing is changed */
};

typedef struct zf_submit_args {
  uint32_t struct_size;
  uint32_t buffer;        /* which gradients: 0 or 1 */
  const uint32_t* groups; /* n_groups indexes, none twice; NULL: all groups. (Not NULL with n_groups 0: none,
                             which submits nothing; ticket is the last one.) */
  size_t n_groups;
  float grad_scale; /* multiplies every gradient as it is read (unscale and clip); finite */
  uint32_t work;    /* ZF_STEP or ZF_NORM */
  uint64_t step;    /* the step's number, from 1, for the bias correction; 0: the group's next */
} zf_submit_args;

#define ZF_SUBMIT_ARGS_INIT \
  { (uint32_t)sizeof(zf_submit_args), 0, NULL, 0, 1.0f, 0, 0 }

/* Hands groups and their gradients to the optimizer, and returns at once. Submissions are done in order;
 * each sees the results of those before it. The groups of one call are stepped together, by all threads.
 * args: NULL for all groups, buffer 0. ticket: for zf_wait; may be NULL.
 * ZF_ERROR_BUSY: a group's last submission with the same buffer is not done; then nothing is submitted. (A
 * ZF_STEP may follow a ZF_NORM of the same buffer at once.) */
ZF_API zf_status zf_submit(zf_runtime* handle, const zf_submit_args* args, uint64_t* ticket);

/* Waits until a submission, and all before it, are done; ticket 0: all that are submitted now.
 * timeout_ms: 0 only asks; negative: as long as the optimizer lives. Its death is noticed within 0.1 s, by a
 * thread of ours, also when nobody waits: it is started again and finishes the step, with the same result,
 * bit for bit (docs/recovery.md), or, when max_restarts are used up, every wait ends with ZF_WORKER_DIED.
 * After ZF_OK the parameters, moments and outputs are those of the step. Not ended by signals: a program
 * that wants to handle Ctrl-C waits in pieces. */
ZF_API zf_status zf_wait(zf_runtime* handle, uint64_t ticket, int64_t timeout_ms);

/* How far a group's step is, while it runs: for a copy to the GPU that need not wait for its end.
 * Waits until at least at_least elements (at most all there are; 0 only asks) from the group's start have
 * been stepped by the last ZF_STEP of the group up to `ticket` (0: that is submitted now), and sets *elements
 * to how many have been: parameters, moments and outputs of these are final and yours to read, whatever
 * becomes of the optimizer. It counts in chunks (zf_options.chunk_bytes), which become finished from the
 * first to the last; a group that was never submitted has nothing to wait for.
 *
 *   for (uint64_t sent = 0, done; sent < n; sent = done) {
 *     zf_progress(handle, ticket, group, sent + 1, -1, &done);
 *     ... start sending elements [sent, done) of ZF_COPY
 *   }
 *
 * timeout_ms and answers as for zf_wait; with ZF_TIMEOUT and ZF_WORKER_DIED too *elements is set. One thread
 * at a time in zf_wait or zf_progress. */
ZF_API zf_status zf_progress(zf_runtime* handle, uint64_t ticket, size_t group, uint64_t at_least,
                             int64_t timeout_ms, uint64_t* elements);

/* What the group's last ZF_NORM of a gradient buffer found, after zf_wait for it; before the first, zeros.
 * *sum_of_squares: of the gradients as they are, without grad_scale, in double; the same bits on any number
 * of threads and any instruction set, but for which NaN it is if a gradient is NaN. *finite: 0 if any
 * gradient is infinite or NaN. For clipping, and for skipping a step that overflowed: submit ZF_NORM, wait,
 * then ZF_STEP with the scale that follows from it, or nothing. */
ZF_API zf_status zf_norm(zf_runtime* handle, size_t group, uint32_t buffer, double* sum_of_squares,
                         int32_t* finite);

/* The number of the group's last step; 0 before the first. ZF_ERROR_BUSY while anything is under way. */
ZF_API zf_status zf_get_step(zf_runtime* handle, size_t group, uint64_t* step);

/* The number that the group's next step comes after: for parameters and moments that are written into the
 * buffers by hand. The next bias correction is float(pow(beta, step + 1)), as for zf_submit_args.step; only a
 * state file carries the running product on, bit for bit. ZF_ERROR_BUSY while anything is under way. */
ZF_API zf_status zf_set_step(zf_runtime* handle, size_t group, uint64_t step);

/* Writes parameters, moments and step counts of all groups to a file (docs/state-format.md), with checksums:
 * to a temporary one beside it, which is synced and takes its place. ZF_ERROR_BUSY while anything is under
 * way, and zf_submit of other threads waits meanwhile; works after the optimizer has died, or was ended,
 * unless it left a step half done for good: ZF_WORKER_DIED. ZF_ERROR_SYSTEM: what was there before is
 * untouched. */
ZF_API zf_status zf_export_state(zf_runtime* handle, const char* path);

/* Reads such a file back into the buffers: the training goes on bit for bit as it would have, on any number
 * of threads, any instruction set and any machine. Settings (lr, betas, ...) stay those of the handle; the
 * number of groups, their elements and their modes must be those of the file. ZF_STALE and ZF_COPY are
 * written by the next step. Everything is verified before anything is changed. ZF_ERROR_STATE: damaged,
 * another version, other groups; ZF_ERROR_USAGE: no file there; ZF_ERROR_BUSY. */
ZF_API zf_status zf_import_state(zf_runtime* handle, const char* path);

typedef struct zf_stats {
  uint32_t struct_size;
  int32_t worker_pid;
  uint32_t threads;     /* of the pool */
  int32_t worker_alive; /* 0: it has ended */
  uint64_t arena_bytes;
  uint64_t submitted;    /* groups submitted, over all submissions */
  uint64_t completed;    /* groups stepped */
  uint64_t batches;      /* how often all threads were started together for them */
  uint64_t last_step_ns; /* of one such batch */
  uint64_t total_step_ns;
  uint64_t start_ns;     /* what the optimizer took to get ready */
  char isa[16];          /* "avx512" */
  char memory_note[200]; /* what was refused, as containers do: a memory policy (then memory lies where the
                            threads first touched it), huge pages, locking; "" if nothing was */
  uint32_t restarts;     /* how often it was started again after its death */
  uint32_t reserved;
  char last_death[240]; /* what it died of the last time; "" if it never did */
  /* Where the memory lies, as move_pages said when the optimizer was ready. At most some 65,536 pages of the
   * arrays are looked at, evenly. */
  uint64_t pages_on_plan;   /* on the plan's memory nodes (any node, if it names none) */
  uint64_t pages_elsewhere; /* on others: they were full, or the policy was refused */
  uint64_t pages_absent;    /* nowhere */
  uint64_t huge_bytes;      /* of the arrays, in huge pages */
  uint64_t locked_bytes;    /* of the arena */
} zf_stats;

#define ZF_STATS_INIT \
  { (uint32_t)sizeof(zf_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, {0}, 0, 0, {0}, 0, 0, 0, 0, 0 }

/* Fills *stats, as much of it as struct_size says. Works after the optimizer has died. */
ZF_API zf_status zf_get_stats(zf_runtime* handle, zf_stats* stats);

#ifdef __cplusplus
}
#endif

#endif
