/* zf_runtime: an Adam optimizer in its own process, on the CPUs that a zf-tune plan gives it.
 *
 *   zf_group group = ZF_GROUP_INIT;            zf_options options = ZF_OPTIONS_INIT;
 *   group.elements = n;                        options.plan_path = "plan.json";
 *   zf_adam adam = ZF_ADAM_INIT;               zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
 *   adam.lr = 3e-4;                            args.scalars = &scalars; args.scalar_count = 1;
 *   zf_open(&options, &group, 1, &handle);
 *   zf_buffer(handle, 0, ZF_PARAMS, &params, NULL);     ... write the initial parameters
 *   zf_buffer(handle, 0, ZF_GRADS_0, &grads, NULL);     ... write gradients
 *   zf_adam_scalars(&adam, step, &scalars);             ... step is 1, then 2, ...
 *   zf_submit(handle, &args, &ticket);                  ... do something else meanwhile
 *   zf_wait(handle, ticket, -1);                        ... params are updated
 *   zf_close(handle);
 *
 * Buffers are plain memory shared with the optimizer process: nothing is copied. Life cycle, deaths and
 * environment variables: docs/runtime.md.
 *
 * Versions. Every struct begins with its size, which its INIT macro sets. A program built with an older
 * header works with a newer library: members that it does not know keep their defaults. A program built with
 * a newer header works with an older library as long as the members that the library does not know are zero
 * (else ZF_ERROR_ABI).
 *
 * Threads. A handle may be used by several threads:
 * - zf_submit, zf_buffer, zf_get_stats, zf_get_note, zf_adam_scalars, zf_export_begin, zf_export_wait,
 *   zf_save_begin, _wait and _end, zf_saved: at any time.
 * - zf_get_step, zf_read_state, zf_write_state, zf_export_state, zf_import_state: at any time; ZF_ERROR_BUSY
 *   while a submitted step is not done, or a speculated one not decided; the two that write, also while the
 * optimizer reads: for ZF_NORM, or for the copy of zf_export_begin. Meanwhile zf_submit of other threads
 * waits. The buffers are not locked: do not write parameters or moments during zf_export_state, and
 * do not touch them during zf_import_state.
 * - zf_wait, zf_progress: by one thread at a time (other calls may run beside it).
 * - zf_norm: by any thread, but without a lock: call it after zf_wait for the ZF_NORM, and before the next
 *   ZF_NORM of the same group and buffer is submitted. While one is being computed, the two results may not
 *   belong together.
 * - zf_end, zf_close: when no other call runs.
 * zf_last_error belongs to the calling thread.
 *
 * fork. A child of the process that opened a handle must not use it: every call returns ZF_ERROR_FORKED and
 * does nothing. The child does see the buffers, and the optimizer reads what it writes there.
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

/* Increased when something in this header changes its meaning. Additions do not count. */
#define ZF_ABI_VERSION 1u

/* Returns ZF_ABI_VERSION of the loaded library. */
ZF_API uint32_t zf_abi_version(void);

/* Returns the version of the loaded library, "major.minor.patch". */
ZF_API const char* zf_version(void);

/* The result of a call. ZF_TIMEOUT is an answer and not an error: ask again. */
typedef int32_t zf_status;
enum {
  ZF_OK = 0,
  ZF_TIMEOUT = 1,         /* not yet; the optimizer lives */
  ZF_WORKER_DIED = 2,     /* the optimizer process died and is not restarted; zf_last_error says why */
  ZF_ERROR_USAGE = 3,     /* a wrong argument, or a call at the wrong time */
  ZF_ERROR_PLAN = 4,      /* no plan, a broken one, or one for CPUs that are not available here */
  ZF_ERROR_SYSTEM = 5,    /* the machine refused: memory, processes, descriptors */
  ZF_ERROR_WORKER = 6,    /* zf-optimizer is missing, or could not start */
  ZF_ERROR_ABI = 7,       /* the versions of program and library do not fit */
  ZF_ERROR_FORKED = 8,    /* called in a child of the process that opened the handle */
  ZF_ERROR_BUSY = 9,      /* submitted work is not done, a speculated step is not decided (submit ZF_STEP or
                             ZF_TAKE_BACK), another thread waits, or a process has what zf_options.keep names */
  ZF_ERROR_INTERNAL = 10, /* our bug */
  ZF_ERROR_STATE = 11     /* a state file is damaged, or has another version or other groups; or what is kept
                             cannot be used here */
};

/* Returns the name of a status, such as "ZF_WORKER_DIED" for 2, or "?" if there is no such status. */
ZF_API const char* zf_status_name(zf_status status);

/* Returns one line about the last call of this thread that failed: what, where, and what to do next. It is ""
 * if none failed, and never NULL. The text is valid until the next failure in this thread. (A zf_wait that
 * returns ZF_TIMEOUT did not fail.)
 */
ZF_API const char* zf_last_error(void);

typedef struct zf_runtime zf_runtime;

/* Whether to use a feature that the machine may refuse. ZF_NO: do not use it. ZF_TRY: use it if possible, and
 * otherwise leave a note in zf_stats. ZF_MUST: zf_open fails without it. */
enum { ZF_NO = 0, ZF_TRY = 1, ZF_MUST = 2 };

typedef struct zf_options {
  uint32_t struct_size;
  uint32_t abi_version; /* ZF_ABI_VERSION */
  const char*
      plan_path;   /* NULL: the environment's. `zf-tune exec` sets ZF_BINDING, which holds all that is
                      needed, and ZF_PLAN. ZF_BINDING comes first if it is this rank's; then no file is
                      read. With ZF_TUNE=off no plan is read: all CPUs of this process, shared with it. */
  int32_t rank;    /* local rank; -1: ZF_RANK, then the launcher's variables (LOCAL_RANK,
                      SLURM_LOCALID, ...), then 0 if the plan has one rank only */
  int32_t spin_us; /* how long a wait stays on its CPU before it sleeps, on both sides, in
                      microseconds; -1: 50. With 0 the threads of the pool do not wait for each other
                      in this way either. Not done where the plan shares CPUs. */
  int64_t start_timeout_ms; /* until the optimizer is ready, its memory placed, also when it is started again;
                               0: 120,000 */
  int64_t
      close_timeout_ms; /* time for zf_close to finish what is submitted, and for zf_save_end; 0: 10,000 */
  int32_t max_restarts; /* how often a dead optimizer is restarted within restart_window_s; 0: 3; -1:
                           never, so that its death ends every wait for work that is not done. If it dies
                           once more within that time, that death is final. */
  int32_t reserved;     /* 0 */
  uint64_t chunk_bytes; /* groups are stepped, and zf_progress counts, in chunks of this many bytes of ZF_COPY
                           (or of ZF_PARAMS if there is no copy), in whole pages; 0: 256 MiB */
  int32_t huge_pages;   /* ZF_NO, ZF_TRY, ZF_MUST: 2 MiB pages, by madvise. (Linux gives them to shared memory
                           where /sys/kernel/mm/transparent_hugepage/shmem_enabled says so.) The INIT macro
                           sets ZF_TRY, and so do options of NULL. ZF_TRY does not ask for them if all arrays
                           together are smaller than 2 MiB. */
  int32_t lock_memory;  /* ZF_NO, ZF_TRY, ZF_MUST: never swapped out, by mlock (`ulimit -l`) */
  int32_t narrow; /* ZF_NO, ZF_TRY, ZF_MUST: what to do if `zf-tune exec` started this process on its whole
                     home. zf_open then gives the plan's training CPUs to every thread of the process
                     with the home as its mask, because the optimizer uses the other CPUs from now on. Threads
                     with another mask keep it. zf_end and zf_close give the home back to every thread with
                     the training CPUs as its mask; with several handles, the last one does. Nothing is
                     done if exec did not start the process on its home, or if the plan shares CPUs. The INIT
                     macro sets ZF_TRY, and so do options of NULL. A program built before this field existed
                     gets ZF_NO for its options. */
  int32_t reserved_2;       /* 0 */
  int64_t restart_window_s; /* max_restarts counts the restarts of the last so many seconds; 0: 3600 */
  const char* keep;    /* NULL, or a name: if this process ends without zf_close, the arena is kept for keep_s
                          seconds, and the next zf_open of the same user with the same name, rank and groups
                          gets it. See "Keeping" below. */
  int64_t keep_s;      /* 1 to 2,592,000; 0: 600 */
  uint64_t note_bytes; /* the size of zf_submit_args.note; 0: there is none. Needs keep. At most 2^30 */
  int32_t export_room; /* 1: zf_open gets the memory for the copy of zf_export_begin (or as much as
                          ZF_EXPORT_MIB says), unless the arena was kept; 0: the first export does, and a step
                          that comes before it is there waits for it. With 1, zf_open returns
                          ZF_ERROR_SYSTEM if `ulimit -f` or `-v` leaves no room for the copy */
  int32_t reserved_3;  /* 0 */
} zf_options;

#define ZF_OPTIONS_INIT                                                                                 \
  {                                                                                                     \
    (uint32_t)sizeof(zf_options), ZF_ABI_VERSION, NULL, -1, -1, 0, 0, 0, 0, 0, ZF_TRY, 0, ZF_TRY, 0, 0, \
        NULL, 0, 0, 0, 0                                                                                \
  }

/* Element types of gradients and of the copy for the GPU. */
enum { ZF_NONE = 0, ZF_F32 = 1, ZF_BF16 = 2, ZF_F16 = 3 };

/* How moments and masters are stored (docs/arithmetic.md). */
enum { ZF_STATE_FP32 = 0, ZF_STATE_BF16 = 1, ZF_STATE_SPLIT = 2, ZF_STATE_BF16_SPLIT = 3 };

/* Adam adds weight decay to the gradient (L2). AdamW subtracts it from the parameter. */
enum { ZF_ADAM = 0, ZF_ADAMW = 1 };

/* From `position` of a tensor or group on, its elements are numbered from first_element, up to the next
 * range: where elements do not follow each other in the whole, as in a shard, or with padding between them.
 */
typedef struct zf_range {
  uint64_t tensor; /* index into zf_local_step_args.tensors; 0 in zf_group.ranges */
  uint64_t position;
  uint64_t first_element;
} zf_range;

/* A group of parameters that are stepped together. */
typedef struct zf_group {
  uint32_t struct_size;
  int32_t grad_type;      /* ZF_F32, ZF_BF16 or ZF_F16 */
  uint64_t elements;      /* may be 0 */
  int32_t copy_type;      /* ZF_NONE, or ZF_BF16, ZF_F16: the new parameters, rounded, as ZF_COPY */
  int32_t stale;          /* not 0: the new parameters once more, as ZF_STALE */
  int32_t moment_sets;    /* 1 or 2; 0 means 1. With 1, all steps use the same moments. With 2, each
                             gradient buffer has its own, as in DeepSpeed's ZenFlow: a step of buffer b uses
                             and updates set b. The parameters and the step's number stay one per group. */
  int32_t grad_buffers;   /* 1 or 2; 0 means 2. With 1 there is no ZF_GRADS_1, which saves its memory: for a
                             program that waits for each step before it writes the next gradients. It cannot
                             have two moment sets. */
  int32_t state_format;   /* ZF_STATE_FP32, ... Others need stale 0, one moment set, and ZF_NONE or ZF_BF16 as
                             copy_type. With split masters that is ZF_BF16, and ZF_COPY is the parameters:
                             the high halves of the masters. */
  uint32_t speculative;   /* 1: ZF_SPECULATE may be submitted; else 0. It costs 2.25 bytes a parameter, and
                             needs   ZF_STATE_FP32. */
  uint64_t first_element; /* the number of the first element: no two of a model may have the same */
  const zf_range* ranges; /* NULL, or how elements are numbered from the first range on. Positions ascend, are
                             less than elements, and are multiples of 32. zf_open copies the ranges. */
  size_t range_count;
} zf_group;

#define ZF_GROUP_INIT \
  { (uint32_t)sizeof(zf_group), ZF_F32, 0, ZF_NONE, 0, 0, 0, 0, 0, 0, NULL, 0 }

/* Keeping. With zf_options.keep a second process holds the arena: it has a session of its own, is no
 * descendant of this one, and uses no CPU. Its socket is in /dev/shm/zf-kept-UID, or in ZF_KEEP_FOLDER, of
 * mode 0700. When this process has ended without zf_close or zf_end, it keeps the arena for keep_s seconds,
 * with an oom_score_adj of 1000: it ends first if memory runs out. If nothing was submitted or prepared, it
 * frees the arena at once. The zf_open that gets a kept arena finishes each step that was submitted, and
 * takes a speculated one back. Parameters, moments and outputs are then, bit for bit, those after the last
 * zf_submit that published a step; one that was cut short counts as not called. zf_stats.was_kept is 1 then,
 * zf_get_step has the numbers of the steps, and zf_get_note what was noted with the last one. Gradients are
 * kept for a prepared step alone. Parameters and moments that the program writes itself between two steps are
 * kept as far as it came. zf_open returns ZF_ERROR_BUSY if a process has the arena; ZF_ERROR_STATE if groups,
 * number of threads, chunk_bytes or note_bytes differ, if the release differs, if the process ended during
 * zf_import_state or zf_write_state, and if the name is kept for other ranks alone; ZF_ERROR_USAGE for a
 * malformed name (1 to 64 letters, digits, "-", "_", "."). Then nothing is changed: `zf-tune kept` lists and
 * frees what is kept.
 * Several ranks: each keeps its own arena. So that all come back at one step, each prepares it
 * (zf_submit_args.prepares), waits until all ranks have done so, and calls zf_go. After zf_open the ranks
 * compare the last numbers of zf_get_note. They are one step apart at most, and those behind have the step of
 * the others in zf_get_prepared: they call zf_go. If all are at one step, a prepared one is of no use.
 */

/* Starts the optimizer process of this rank and returns when it is ready: its threads run on exactly the
 * plan's optimizer CPUs, and the memory for all groups exists (all zero, unless it was kept).
 * options: NULL for the defaults. groups: an array of n_groups structs, each struct_size bytes long.
 * On ZF_OK *out is the handle. Otherwise *out is NULL and nothing is left behind: no process, and no thread
 * with another mask.
 * Returns ZF_ERROR_PLAN, ZF_ERROR_SYSTEM (memory), ZF_ERROR_WORKER, ZF_ERROR_USAGE or ZF_ERROR_ABI, and
 * ZF_TIMEOUT if start_timeout_ms was too short; with keep also ZF_ERROR_BUSY and ZF_ERROR_STATE. */
ZF_API zf_status zf_open(const zf_options* options, const zf_group* groups, size_t n_groups,
                         zf_runtime** out);

/* Ends the optimizer process like zf_close, but keeps the handle and all its memory. It is meant for a
 * program with views of the buffers that outlive the optimizer. Afterwards zf_submit, zf_wait and zf_progress
 * return ZF_ERROR_USAGE; all other calls work. Submitted work is finished first, by a restarted optimizer if
 * necessary. The second call does nothing. Returns ZF_OK, ZF_TIMEOUT (killed after close_timeout_ms) or
 * ZF_WORKER_DIED (it died, and submitted work is not done). The process has ended in all three cases. */
ZF_API zf_status zf_end(zf_runtime* handle);

/* Ends the optimizer process: lets it finish what is submitted, kills it after close_timeout_ms, and reaps
 * it. Returns ZF_OK, ZF_TIMEOUT (it was killed) or ZF_WORKER_DIED (it died, and submitted work is not done).
 * In all three cases the handle and all its buffers are gone. A thread of the library gives the memory of a
 * large arena back; the next zf_open waits for it. For NULL zf_close returns ZF_OK. Only ZF_ERROR_FORKED
 * leaves everything as it was. */
ZF_API zf_status zf_close(zf_runtime* handle);

/* The arrays of a group. (An integer and not an enum type: a C program may pass any number.) */
typedef int32_t zf_buffer_kind;
enum {
  ZF_PARAMS = 0,   /* fp32 master parameters; writable while no submission of the group is pending.
                      There is no such array with split masters: use zf_read_state, zf_write_state */
  ZF_MOMENT_1 = 1, /* first moments (of set 0, if there are two), fp32 or bf16; writable like ZF_PARAMS */
  ZF_MOMENT_2 = 2, /* second moments; writable like ZF_PARAMS */
  ZF_GRADS_0 = 3,  /* gradients, of the group's grad_type; you may write them from the end of the last
                      submission of this buffer to the next */
  ZF_GRADS_1 = 4,  /* the second gradient buffer: fill it while the optimizer reads the first; not with
                      zf_group.grad_buffers 1 */
  ZF_STALE = 5,    /* fp32 snapshot of the last step's result; only with zf_group.stale */
  ZF_COPY = 6,     /* the same, rounded to copy_type; only with zf_group.copy_type. With split masters it
                      is the parameters, and writable like ZF_PARAMS: a write counts by itself */
  ZF_MOMENT_1_SET_1 = 7, /* the first moments of set 1, for the steps of ZF_GRADS_1; only with
                            zf_group.moment_sets 2 */
  ZF_MOMENT_2_SET_1 = 8  /* the second moments of set 1; writable like ZF_PARAMS */
};

/* Sets *pointer to an array of a group, and *bytes to its size (bytes may be NULL). The array is page-aligned
 * and stays at the same place until zf_close. It can be read also after the optimizer has died. Returns
 * ZF_ERROR_USAGE if there is no such group or array. */
ZF_API zf_status zf_buffer(zf_runtime* handle, size_t group, zf_buffer_kind kind, void** pointer,
                           size_t* bytes);

/* The factors of one step, ready for use (docs/arithmetic.md). All are finite. A decay of 0 is none. Compute
 * them by zf_adam_scalars, or by a rule of your own. */
typedef struct zf_scalars {
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float eps;
  float inv_sqrt_bias2; /* 1 / sqrt(1 - beta2^t) */
  float step_size;      /* -lr / (1 - beta1^t) */
  float decay;          /* ZF_ADAMW: -lr * weight_decay; ZF_ADAM: weight_decay */
  float grad_scale;     /* multiplies every gradient as it is read */
  int32_t mode;         /* ZF_ADAM or ZF_ADAMW */
  uint64_t seed; /* of the rounding of bf16 moments, with the number of the step, from 1 on. A moment's */
  uint64_t step; /* rounding depends on these two and the number of its element, and on nothing else. */
} zf_scalars;

/* The settings of Adam. They are plain numbers without a unit. */
typedef struct zf_adam {
  uint32_t struct_size;
  int32_t mode;            /* ZF_ADAM or ZF_ADAMW */
  double lr;               /* finite, as are all of these */
  double beta1;            /* 0 <= beta1 < 1 */
  double beta2;            /* 0 <= beta2 < 1 */
  double eps;              /* >= 0 */
  double weight_decay;     /* >= 0 */
  int32_t bias_correction; /* 0: off */
  uint32_t reserved;       /* 0 */
} zf_adam;

#define ZF_ADAM_INIT \
  { (uint32_t)sizeof(zf_adam), ZF_ADAMW, 1e-3, 0.9, 0.999, 1e-8, 0.0, 1, 0 }

/* Sets *scalars to the factors of step number `step`, from 1 to 2^62, with grad_scale 1 and seed 0: change
 * these two as you like. It depends on its arguments alone, and needs no handle. It computes as
 * torch.optim.AdamW does for a tensor: in double, with the C library's pow(), and rounds each factor once to
 * fp32. docs/arithmetic.md has the formulas, which are those of Kingma and Ba (Adam, 2015) and of Loshchilov
 * and Hutter (AdamW, 2019).
 * Returns ZF_ERROR_USAGE, and leaves *scalars alone, if a setting or the step is out of its range, or too
 * large for fp32; ZF_ERROR_ABI if struct_size is wrong. */
ZF_API zf_status zf_adam_scalars(const zf_adam* settings, uint64_t step, zf_scalars* scalars);

/* The kinds of work. */
enum {
  ZF_STEP = 0, /* an Adam step */
  ZF_NORM = 1, /* the sum of squares of the gradients, for zf_norm; nothing is changed */
  /* A step that may be taken back, bit for bit, with zf_group.speculative: to begin it before it is known
   * whether gradients are clipped. It writes no output and is not counted. The next ZF_STEP of the group,
   * with the same buffer, has the results that it would have without speculation. With equal scalars it keeps
   * what was speculated, else that is first taken back. More of the group may be speculated until then, with
   * equal scalars. ZF_TAKE_BACK takes it back alone. Until one of
   * them is done, do not touch parameters and moments, and do not write these gradients. (A ZF_NORM of them
   * may be submitted.) Meanwhile calls that read or write the state return ZF_ERROR_BUSY. zf_end takes back.
   * What cannot be taken back is left to the ZF_STEP: all with L2 decay, and what comes after infinities,
   * NaNs, or more large changes than the log has room for. */
  ZF_SPECULATE = 2,
  ZF_TAKE_BACK = 3 /* without scalars */
};

typedef struct zf_submit_args {
  uint32_t struct_size;
  uint32_t buffer;        /* which gradients: 0 or 1 */
  const uint32_t* groups; /* n_groups indexes, none twice; NULL: all groups. (Not NULL with n_groups 0 submits
                             nothing; the ticket is then the last one.) */
  size_t n_groups;
  const zf_scalars* scalars;  /* the factors of a ZF_STEP, with its number, zf_scalars.step, 1 to 2^62. NULL
                                 for a ZF_NORM. Equal scalars give the results of zf_local_step, bit for bit.
                                 The call copies them. */
  const uint32_t* scalars_of; /* for each group of the call the index of its scalars; NULL: one for all
                                 groups, or as many scalars as groups, in the same order */
  size_t scalar_count;
  uint32_t scalars_size; /* sizeof(zf_scalars), as the INIT macro sets it */
  uint32_t work;         /* ZF_STEP, ZF_NORM, ZF_SPECULATE or ZF_TAKE_BACK */
  const void* note; /* NULL, or zf_options.note_bytes bytes that belong to this ZF_STEP, for zf_get_note: what
                       the program needs to go on after the step. The call copies them. */
  uint64_t begin;
  uint64_t end;      /* ZF_SPECULATE: of each group only elements [begin, end), which no other ZF_SPECULATE of
                        this step has. Both are multiples of a chunk's elements (zf_options.chunk_bytes), or
                        the group's end. A step may have 64 of them. Else, and for all elements, 0. */
  uint32_t prepares; /* 1: the ZF_STEP is prepared and not submitted: zf_go does that. See "Several ranks" */
  uint32_t reserved; /* 0 */
} zf_submit_args;

#define ZF_SUBMIT_ARGS_INIT                                                                             \
  {                                                                                                     \
    (uint32_t)sizeof(zf_submit_args), 0, NULL, 0, NULL, NULL, 0, (uint32_t)sizeof(zf_scalars), ZF_STEP, \
        NULL, 0, 0, 0, 0                                                                                \
  }

/* Hands groups and their gradients to the optimizer, and returns at once. Submissions are done in order, and
 * each sees the results of those before it. All threads step the groups of one call together.
 * ticket: for zf_wait; may be NULL.
 * Returns ZF_ERROR_BUSY if a group's last submission with the same buffer is not done; then nothing is
 * submitted. (A ZF_STEP may follow a ZF_NORM of the same buffer at once.) */
ZF_API zf_status zf_submit(zf_runtime* handle, const zf_submit_args* args, uint64_t* ticket);

/* Submits the step that zf_submit_args.prepares has prepared, with its gradients, scalars and note. ticket:
 * for zf_wait; may be NULL. Another ZF_STEP, prepared or not, drops a prepared one. Returns ZF_ERROR_USAGE if
 * none is prepared. */
ZF_API zf_status zf_go(zf_runtime* handle, uint64_t* ticket);

/* Waits until a submission and all before it are done. Ticket 0 means everything that is submitted now.
 * timeout_ms: 0 only polls; a negative value waits as long as the optimizer lives.
 * A thread of this library notices the death of the optimizer within 0.1 s, also while no thread waits. The
 * optimizer is then restarted and finishes the step, with the same result, bit for bit (docs/recovery.md).
 * When max_restarts are used up, every wait for work that is not done returns ZF_WORKER_DIED.
 * After ZF_OK the parameters, moments and outputs are those of the ZF_STEP. Signals do not end the wait: a
 * program that wants to handle Ctrl-C should wait in short pieces. */
ZF_API zf_status zf_wait(zf_runtime* handle, uint64_t ticket, int64_t timeout_ms);

/* Tells how far a group's step is while it runs, so that a copy to the GPU can begin before the step ends.
 * Considers the last ZF_STEP of the group up to `ticket` (0: of those submitted now). Waits until it has
 * finished at_least elements from the start of the group (at most all; 0 only polls), and sets *elements to
 * the number that is finished. Parameters, moments and outputs of these elements are final and may be read
 * until the group is submitted again, whatever happens to the optimizer. The number grows in chunks
 * (zf_options.chunk_bytes), from the first to the last. For a group that was never submitted this returns at
 * once.
 *
 *   for (uint64_t sent = 0, done; sent < n; sent = done) {
 *     zf_progress(handle, ticket, group, sent + 1, -1, &done);
 *     ... start sending elements [sent, done) of ZF_COPY
 *   }
 *
 * timeout_ms and the result are as for zf_wait; *elements is set also with ZF_TIMEOUT and ZF_WORKER_DIED.
 * Only one thread at a time may be in zf_wait or zf_progress. */
ZF_API zf_status zf_progress(zf_runtime* handle, uint64_t ticket, size_t group, uint64_t at_least,
                             int64_t timeout_ms, uint64_t* elements);

/* Returns the result of the group's last ZF_NORM of a gradient buffer. Call it after zf_wait; before the
 * first ZF_NORM it gives zeros.
 * *sum_of_squares: in double, of the gradients without grad_scale. Its bits are the same on any number of
 * threads and any instruction set (if a gradient is NaN, it is some NaN). *finite: 0 if any gradient is
 * infinite or NaN.
 * Use it for clipping, and for skipping a step that overflowed: submit ZF_NORM, wait, then submit ZF_STEP
 * with the right scale, or nothing. */
ZF_API zf_status zf_norm(zf_runtime* handle, size_t group, uint32_t buffer, double* sum_of_squares,
                         int32_t* finite);

/* Sets *step to the number of the group's last step, which its scalars gave; 0 before the first. After
 * zf_import_state it is that of the file. Returns ZF_ERROR_BUSY and ZF_WORKER_DIED like zf_export_state. */
ZF_API zf_status zf_get_step(zf_runtime* handle, size_t group, uint64_t* step);

/* Copies the note of the last submission that had one to `note`, and sets *step to the number of its step (of
 * the first of its scalars). 0: there is none, and `note` is left alone. bytes: zf_options.note_bytes, else
 * ZF_ERROR_USAGE. May be called at any time. */
ZF_API zf_status zf_get_note(zf_runtime* handle, void* note, size_t bytes, uint64_t* step);

/* Does the same for the note of a step that is prepared and not submitted. */
ZF_API zf_status zf_get_prepared(zf_runtime* handle, void* note, size_t bytes, uint64_t* step);

/* Says that the program begins (1) or has ended (0) to write parameters or moments through their buffers. If
 * it dies in between, old values cannot be told from new ones, so with zf_options.keep the next zf_open
 * refuses what is kept (ZF_ERROR_STATE). Without keep this has no effect. zf_import_state and zf_write_state
 * do it themselves. May be called at any time. */
ZF_API zf_status zf_overwriting(zf_runtime* handle, int32_t begins);

/* Reads or writes elements [begin, begin + count) of parameters or moments as fp32, in any state format. kind
 * is ZF_PARAMS or one of the moments. What is written is rounded to nearest where the format has fewer bits;
 * of split masters both halves are written. They return ZF_ERROR_BUSY as said above, ZF_WORKER_DIED like
 * zf_export_state, and ZF_ERROR_USAGE if the group has no such elements. */
ZF_API zf_status zf_read_state(zf_runtime* handle, size_t group, zf_buffer_kind kind, uint64_t begin,
                               uint64_t count, float* values);
ZF_API zf_status zf_write_state(zf_runtime* handle, size_t group, zf_buffer_kind kind, uint64_t begin,
                                uint64_t count, const float* values);

/* Writes parameters, moments and step counts of all groups, with checksums, to a file (docs/recovery.md).
 * It writes a temporary file beside it, syncs that, and renames it. If path is a link, the file that it leads
 * to is replaced. What is no regular file (a device, a FIFO, a folder, /dev/stdout) is refused. zf_submit of
 * other threads waits meanwhile. It works also after the optimizer has died or was ended. On a file system
 * where files cannot be locked, it waits for up to 2 s if a temporary file is there (docs/recovery.md).
 * Returns ZF_ERROR_BUSY while a submitted step is not done or a speculated one not decided, ZF_WORKER_DIED
 * if the optimizer left a step half done for good, and ZF_ERROR_SYSTEM if the file cannot be written; then
 * the old file is untouched. If only its folder cannot be synced in the end, this also returns
 * ZF_ERROR_SYSTEM, and zf_last_error says that the file is written: the new file is there, but after a power
 * cut the old one may be. */
ZF_API zf_status zf_export_state(zf_runtime* handle, const char* path);

/* Begins an export beside the training, and returns. The file is the one that zf_export_state would write
 * when all that is submitted now is done. The optimizer copies parameters and moments of that moment in its
 * idle time, and the rest in the first step that is submitted later, or before other work. A thread of the
 * library writes the copy while it is made. The copy takes up to 12 bytes a parameter, from the first one on
 * until zf_close, or what memory has room for: then the first step that is submitted later waits for the
 * file. ZF_EXPORT_MIB in the environment is the most that it takes, in MiB: 2 or more. There may be one
 * export at a time. Until the copy is made (zf_wait waits for it), do not write parameters or moments. An
 * optimizer that dies and is restarted loses nothing of it. Returns ZF_ERROR_BUSY if an export is under way
 * or a speculated step is not decided, ZF_ERROR_SYSTEM if the file cannot be written or memory has no room
 * for the copy, ZF_WORKER_DIED like zf_submit, ZF_ERROR_USAGE after zf_end, and what the last export failed
 * with if no zf_export_wait has returned it. Then nothing has begun.
 */
ZF_API zf_status zf_export_begin(zf_runtime* handle, const char* path);

/* Waits until the file of zf_export_begin is there; ZF_OK also if none was begun. timeout_ms as for zf_wait.
 * Returns ZF_TIMEOUT if it is not there yet. If the export has failed, this returns once what zf_export_state
 * would return. It returns ZF_ERROR_SYSTEM also if memory ran out for the copy, and ZF_WORKER_DIED if the
 * optimizer died for good before the copy was made. By any thread, and after zf_end.
 * If a step waits for the file, zf_end and zf_close give the export up after half of close_timeout_ms, and
 * the step is finished. zf_close waits for the export, too, for at most zf_options.close_timeout_ms and the
 * time of the write or sync that is under way then. If the export is not done, zf_close gives it up and
 * returns ZF_TIMEOUT. */
ZF_API zf_status zf_export_wait(zf_runtime* handle, int64_t timeout_ms);

/* Copies the state as zf_export_begin does, for a program that writes the copy itself. zf_save_wait waits
 * until the copy is made, and returns what zf_export_wait does. zf_saved then tells where an array of a group
 * lies in it: ZF_PARAMS, which is fp32 in any state format, ZF_MOMENT_1 and _2, and those of set 1. It is
 * valid until zf_save_end. zf_save_begin returns what zf_export_begin does; it needs memory for the whole
 * copy, and is ZF_ERROR_BUSY before zf_save_end of the last one. All but zf_save_begin: also after zf_end.
 * zf_save_end of a copy that is not made gives it up, and waits until the optimizer writes no more of it, for
 * at most close_timeout_ms. It then returns ZF_TIMEOUT: until the optimizer answers, the next zf_save_begin
 * and zf_export_begin return ZF_ERROR_BUSY. zf_save_end need not be called again. */
ZF_API zf_status zf_save_begin(zf_runtime* handle);
ZF_API zf_status zf_save_wait(zf_runtime* handle, int64_t timeout_ms);
ZF_API zf_status zf_saved(zf_runtime* handle, size_t group, zf_buffer_kind kind, void** pointer,
                          size_t* bytes);
ZF_API zf_status zf_save_end(zf_runtime* handle);

/* Reads such a file back into the buffers. The training then continues, bit for bit, as it would have, on any
 * number of threads, any instruction set and any machine, if its scalars are the same. The number of groups,
 * their elements and sets of moments must equal those of the file. The next step writes ZF_STALE and ZF_COPY.
 * Everything is verified before anything is changed. Returns ZF_ERROR_STATE if the file is damaged or has
 * another version or other groups, ZF_ERROR_USAGE if there is no such file, ZF_ERROR_SYSTEM if it cannot be
 * read, and ZF_ERROR_BUSY and ZF_WORKER_DIED like zf_write_state. The file is read twice. If it fails or
 * changes between the two, zf_last_error says that the buffers may be partly overwritten: import a whole file
 * then. */
ZF_API zf_status zf_import_state(zf_runtime* handle, const char* path);

typedef struct zf_stats {
  uint32_t struct_size;
  int32_t worker_pid;
  uint32_t threads;     /* threads of the pool */
  int32_t worker_alive; /* 0: it has ended */
  uint64_t arena_bytes;
  uint64_t submitted;    /* groups submitted, over all submissions */
  uint64_t completed;    /* groups stepped */
  uint64_t batches;      /* how often all threads were started together */
  uint64_t last_step_ns; /* of one such batch */
  uint64_t total_step_ns;
  uint64_t start_ns;     /* time that the optimizer took to become ready */
  char isa[16];          /* "avx512" */
  char memory_note[200]; /* what was refused, as containers do: a memory policy (then memory lies where the
                            threads first touched it), huge pages, locking; "" if nothing was */
  uint32_t restarts;     /* how often the optimizer was restarted after its death, over the handle's life */
  uint32_t degraded; /* planned CPUs of the pool that had left when the optimizer was started; see cpu_note */
  char last_death[240]; /* why it died the last time; "" if it never did */
  /* On which nodes the memory lies, by move_pages when the optimizer was ready. It checks some 65,536 pages
   * of the arrays at most, evenly spread. */
  uint64_t pages_on_plan;   /* on the plan's memory nodes (any node, if it names none) */
  uint64_t pages_elsewhere; /* on others: they were full, or the policy was refused */
  uint64_t pages_absent;    /* nowhere */
  uint64_t huge_bytes;      /* of the arrays, in huge pages */
  uint64_t locked_bytes;    /* of the arena */
  /* The pool has its planned number of threads in any case. If CPUs of the plan have left (offline, or out of
   * the cpuset) when the optimizer is started again, this says where the threads run, such as "CPUs 7-8 of
   * the pool are gone: 5 threads run on 9-11". The next start takes the CPUs that have returned. "" if none
   * has left. */
  char cpu_note[200];
  char narrow_note[200]; /* why a thread of this process may still have the whole home, although narrow was
                            ZF_TRY; "" if none has */
  uint32_t
      narrowed_threads;  /* threads of this process that this handle's zf_open gave the training CPUs; those
                            that have them, if neighbours share the CPUs and only threads are divided */
  uint32_t home_threads; /* the right value of OMP_NUM_THREADS for the whole home, ... */
  uint32_t training_threads; /* ... and for the training CPUs; both 0 if ZF_BINDING did not tell */
  uint32_t was_kept;         /* 1: zf_open got the arena of a process that had ended (zf_options.keep) */
  char keep_note[200];       /* why nothing was kept, or is; "" if all is well */
} zf_stats;

#define ZF_STATS_INIT                                                                                       \
  {                                                                                                         \
    (uint32_t)sizeof(zf_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, {0}, 0, 0, {0}, 0, 0, 0, 0, 0, {0}, {0}, \
        0, 0, 0, 0, {                                                                                       \
      0                                                                                                     \
    }                                                                                                       \
  }

/* Fills *stats, up to its struct_size. Works also after the optimizer has died. Until a restarted optimizer
 * is ready, what an optimizer reports at its start (threads, isa, notes, pages) is that of the one before. */
ZF_API zf_status zf_get_stats(zf_runtime* handle, zf_stats* stats);

/* ---- In place: the same step on arrays of the caller, in the caller's process ----
 *
 *   zf_local_open(NULL, &local);
 *   tensor.p = p; tensor.g = g; tensor.state[0] = m; tensor.state[1] = v; tensor.elements = n;
 *   tensor.grad_type = ZF_F32;
 *   args.tensors = &tensor; args.tensor_count = 1; args.scalars = &scalars; args.scalar_count = 1;
 *   zf_local_step(local, &args);                        ... p, m and v are updated
 *   zf_local_close(local);
 *
 * There is no process and no arena. Equal scalars give the arena's results, bit for bit, on every instruction
 * set and number of threads. Nothing here binds the process or the calling thread: docs/runtime.md, "In
 * place".
 *
 * Threads. All handles of a process share one engine: calls of any threads and handles take turns.
 * zf_local_close: when no other call uses the handle. Inside an OpenMP parallel region the calling thread
 * works alone.
 * fork. A child may use the handle: there the calling thread works alone. */
typedef struct zf_local zf_local;

typedef struct zf_local_options {
  uint32_t struct_size;
  uint32_t abi_version;  /* ZF_ABI_VERSION */
  const char* plan_path; /* as in zf_options, but there need not be a plan: memory then lies where it is first
                            touched. Of a plan, memory nodes and memory policy are used. */
  int32_t rank;          /* as in zf_options; -1 */
  uint32_t threads;   /* the calling thread and our helpers; 0: one for each CPU that the calling thread may
                         use. Ignored where an OpenMP runtime runs the step. At most 4096. */
  int32_t use_openmp; /* whether the threads of an OpenMP runtime that the process has loaded run the step, as
                         many as omp_get_max_threads() says: ZF_NO, ZF_TRY, ZF_MUST. The INIT macro sets
                         ZF_TRY, and so do options of NULL. */
  int32_t reserved;   /* 0 */
} zf_local_options;

#define ZF_LOCAL_OPTIONS_INIT \
  { (uint32_t)sizeof(zf_local_options), ZF_ABI_VERSION, NULL, -1, 0, ZF_TRY, 0 }

/* One tensor: arrays of `elements` elements each, which begin at any multiple of their element's size. The
 * arrays of one tensor do not overlap. If p, state or copy of two tensors overlap, these are stepped one
 * after the other, in the order of the list. Gradients of one tensor may not overlap what the call writes of
 * another. */
typedef struct zf_tensor {
  void* p;           /* fp32 parameters; with `copy` their fp32 master; with split masters the low halves */
  const void* g;     /* gradients, of grad_type */
  void* state[2];    /* first and second moments: fp32, or bf16 with ZF_STATE_BF16 and _BF16_SPLIT */
  void* copy;        /* NULL, or the parameters in 16 bits, which are the truth: where copy is not p rounded,
                        p is taken from it before the step. After the step copy is the new p rounded. */
  uint64_t elements; /* may be 0; the pointers do not matter then */
  uint64_t first_element; /* the number of the first element in its optimizer: for bf16 moments */
  uint32_t scalars;       /* index into zf_local_step_args.scalars */
  uint8_t grad_type;      /* ZF_F32, ZF_BF16 or ZF_F16 */
  uint8_t copy_type;      /* ZF_NONE without copy, else ZF_BF16 or ZF_F16 */
  uint16_t format;        /* ZF_STATE_FP32, ...; others than fp32 only with copy_type ZF_NONE or ZF_BF16.
                             With split masters copy is the bf16 parameter: the master's high half. */
} zf_tensor;

typedef struct zf_local_step_args {
  uint32_t struct_size;
  uint32_t tensor_size;  /* sizeof(zf_tensor) */
  uint32_t scalars_size; /* sizeof(zf_scalars) */
  uint32_t range_size;   /* sizeof(zf_range) */
  const zf_tensor* tensors;
  size_t tensor_count; /* may be 0 */
  const zf_scalars* scalars;
  size_t scalar_count;
  float* const* counters; /* NULL, or for each tensor NULL or the address of a number. Each of these numbers
                             grows by 1 when all tensors are stepped, so that no exception between two calls
                             can part a step from its count. No address stands there twice. */
  const zf_range* ranges; /* NULL, or ranges in the order of tensors, and of positions in each */
  size_t range_count;
} zf_local_step_args;

#define ZF_LOCAL_STEP_ARGS_INIT                                                                      \
  {                                                                                                  \
    (uint32_t)sizeof(zf_local_step_args), (uint32_t)sizeof(zf_tensor), (uint32_t)sizeof(zf_scalars), \
        (uint32_t)sizeof(zf_range), NULL, 0, NULL, 0, NULL, NULL, 0                                  \
  }

typedef struct zf_local_statistics {
  uint32_t struct_size;
  uint32_t threads; /* that the calling thread's next step through this handle would use */
  char team[16];    /* who did the last step of this process, or would do the next one if there was none:
                       "openmp", "own" (the calling thread and our helpers), "caller" (it alone) */
  char isa[16];     /* "avx512" */
  char openmp[200]; /* the file of the OpenMP runtime that was found; "" if none was */
  uint64_t steps;   /* calls of zf_local_step in this process that stepped any tensor */
  uint64_t last_step_ns;
  uint64_t total_step_ns;
  uint32_t last_threads; /* threads that took part in the last step */
  uint32_t stolen;       /* parts of the last step that another thread did than the one that had got them */
  char memory_note[200]; /* what was refused to zf_local_place: a memory policy, huge pages; "" if nothing was
                          */
  char plan_note[200]; /* which CPUs the plan keeps from this process without use, and the command that makes
                          a plan without such; "" if there are none */
} zf_local_statistics;

#define ZF_LOCAL_STATISTICS_INIT                                                       \
  {                                                                                    \
    (uint32_t)sizeof(zf_local_statistics), 0, {0}, {0}, {0}, 0, 0, 0, 0, 0, {0}, { 0 } \
  }

/* Makes a handle. options: NULL for the defaults. On ZF_OK *out is the handle, otherwise NULL.
 * Returns ZF_ERROR_PLAN if a plan is named and is broken or not for this machine, ZF_ERROR_USAGE,
 * ZF_ERROR_ABI, and ZF_ERROR_SYSTEM if use_openmp is ZF_MUST and the process has loaded no OpenMP runtime. */
ZF_API zf_status zf_local_open(const zf_local_options* options, zf_local** out);

/* Steps all tensors of the list and returns when that is done. It copies the list and the scalars at once.
 * Returns ZF_ERROR_USAGE with the index of a wrong tensor, ZF_ERROR_ABI, or ZF_ERROR_SYSTEM if a helper
 * cannot be started. Nothing is stepped then. */
ZF_API zf_status zf_local_step(zf_local* handle, const zf_local_step_args* args);

/* One array to read, and what was found. */
typedef struct zf_reading {
  const void* array; /* elements of `type`, from any multiple of their size on */
  uint64_t elements; /* may be 0; the pointers do not matter then */
  void* copy;        /* NULL, or where the elements are copied to. It overlaps no array and no other copy. */
  uint32_t type;     /* ZF_F32, ZF_BF16 or ZF_F16 */
  uint32_t reserved; /* 0 */
  /* Results: */
  double sum_of_squares; /* with ZF_READ_NORM: that of zf_norm for the same elements, bit for bit. It is
                            finite if and only if all elements are. */
  uint64_t digest;       /* with ZF_READ_DIGEST: of the bytes. The bytes, their places and their number decide
                            it; a change of one element always changes it. */
} zf_reading;

/* What zf_local_read does beside copying. The values are added up. */
enum {
  ZF_READ_NORM = 1,   /* computes the sums of squares */
  ZF_READ_DIGEST = 2, /* computes the digests */
  ZF_READ_ALONE = 4   /* by the calling thread alone, which waits for no other call */
};

/* Reads all arrays of a list once, and returns when that is done: copies them, and sets the results that
 * `what` names. The results are the same, bit for bit, on any instruction set and number of threads. Without
 * ZF_READ_ALONE the threads of a step share the list; a short one is left to the calling thread.
 * readings: an array of `count` structs of reading_size bytes each, sizeof(zf_reading).
 * Returns ZF_ERROR_USAGE with the index of a wrong reading, ZF_ERROR_ABI, or ZF_ERROR_SYSTEM if a helper
 * cannot be started. Nothing is read or copied then. */
ZF_API zf_status zf_local_read(zf_local* handle, zf_reading* readings, size_t count, uint32_t reading_size,
                               uint32_t what);

/* Places memory that is allocated and not touched yet, for moments and masters: asks for huge
 * pages, sets the plan's memory policy, and lets the threads of a step touch its pages. It takes the whole
 * pages within the range, which must be writable. What the memory holds stays. What the machine refuses goes
 * to zf_local_statistics.memory_note, and is no error. */
ZF_API zf_status zf_local_place(zf_local* handle, void* pointer, size_t bytes);

/* For languages with objects: fills results[i] with function(get(list, i)), in the calling thread, so that
 * one call finds what would take one for each object, such as where tensors are. Returns ZF_ERROR_USAGE for a
 * null pointer (`list` may be one, and `results` of none), and ZF_ERROR_INTERNAL if a function throws; then
 * results are partly filled. */
ZF_API zf_status zf_call_each(void* (*get)(void* list, ptrdiff_t index), void* list,
                              void* (*function)(void* object), void** results, size_t count);

/* Fills *statistics, up to its struct_size. */
ZF_API zf_status zf_local_stats(zf_local* handle, zf_local_statistics* statistics);

/* Closes a handle. The last one of a process ends the helpers. For NULL it returns ZF_OK. */
ZF_API zf_status zf_local_close(zf_local* handle);

/* A file that replaces `path` in one step, or never, for libraries that write to a descriptor, or to its name
 * in /proc/self/fd. A reader of `path` finds the old file or the whole new one, also after a power cut. */
typedef struct zf_file zf_file;

/* Begins a file. On ZF_OK *descriptor is open for writing until zf_file_end, and *out is the handle,
 * otherwise NULL. Returns ZF_ERROR_SYSTEM if no file can be put there: `path` leads to a folder, a device, a
 * FIFO or an open file (/dev/stdout), into no folder or one that this user may not write in, or by a link in
 * a folder that others may write in, made neither by this user nor by the folder's owner. */
ZF_API zf_status zf_file_begin(const char* path, zf_file** out, int32_t* descriptor);

/* Puts the file in its place, if keep is not 0, and frees the handle in any case. Returns ZF_ERROR_SYSTEM if
 * it cannot be written: what was there before is then unchanged; or if only its folder cannot be synced, as
 * zf_export_state does. For NULL it returns ZF_OK. */
ZF_API zf_status zf_file_end(zf_file* file, int32_t keep);

/* Finds the local rank of the process with these variables ("NAME=value"; the last pointer is NULL): ZF_RANK,
 * or what its launcher has set (docs/launch.md). *rank is -1, and variable "", if nothing says it. Else
 * `variable`, of `bytes` bytes, names what says it; 64 are enough. Returns ZF_ERROR_USAGE if the value is not
 * a whole number of 0 or more. */
ZF_API zf_status zf_find_rank(const char* const* variables, int32_t* rank, char* variable, size_t bytes);

/* Finds in the same way how many ranks that launcher has started on this node. Returns ZF_ERROR_USAGE also if
 * the rank is not below that. */
ZF_API zf_status zf_find_ranks(const char* const* variables, int32_t* ranks, char* variable, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
