#include "keeping.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t elements[KEPT_GROUPS] = {90001, 13, 40037};

static char keep_folder[64];

void use_own_keep_folder(void) {
  snprintf(keep_folder, sizeof keep_folder, "/dev/shm/zf-keep-test-%d", (int)getpid());
  CHECK(setenv("ZF_KEEP_FOLDER", keep_folder, 1) == 0);
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
}

void expect_nothing_kept(void) {
  struct stat status;
  for (int64_t end = now_ns() + 10000000000; now_ns() < end;) {
    const pid_t ended = waitpid(-1, NULL, WNOHANG);
    if (ended == -1 && errno == ECHILD) {
      CHECK(stat(keep_folder, &status) == -1 && errno == ENOENT);
      return;
    }
    if (ended == 0) usleep(1000);
  }
  CHECK(!"a process is left");
}

zf_options keep_options(const struct job* job, const char* name) {
  zf_options options = ZF_OPTIONS_INIT;
  options.plan_path = job->plan;
  options.max_restarts = 100;
  options.chunk_bytes = 65536; /* so that a death comes between chunks, too */
  options.keep = name;
  options.note_bytes = 2 * sizeof(uint64_t);
  return options;
}

void keep_groups(const struct job* job, zf_group* groups) {
  for (int i = 0; i < KEPT_GROUPS; ++i) {
    const zf_group init = ZF_GROUP_INIT;
    groups[i] = init;
    groups[i].elements = elements[i];
    groups[i].grad_type = i == 1 ? ZF_F32 : ZF_BF16;
    groups[i].copy_type = ZF_BF16;
    groups[i].state_format = job->state_format;
    groups[i].speculative = (uint32_t)job->speculates;
    groups[i].first_element = (uint64_t)i << 20;
  }
}

/* Returns numbers that depend on their arguments alone. */
static uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
  return value ^ (value >> 31);
}

/* A bf16 number between 0.5 and 1. */
static uint16_t half_of(uint64_t value) { return (uint16_t)(0x3f00u + (mixed(value) & 0x7f)); }

static float float_of(uint64_t value) { return (float)(mixed(value) % 20001) / 10000.0f - 1.0f; }

static void fill_gradients(zf_runtime* handle, uint64_t step) {
  for (uint64_t i = 0; i < KEPT_GROUPS; ++i) {
    void* const grads = buffer_of(handle, i, step % 2 == 0 ? ZF_GRADS_0 : ZF_GRADS_1, NULL);
    for (uint64_t k = 0; k < elements[i]; ++k) {
      if (i == 1) {
        ((float*)grads)[k] = float_of(step << 40 | i << 32 | k);
      } else {
        ((uint16_t*)grads)[k] = half_of(step << 40 | i << 32 | k);
      }
    }
  }
}

uint64_t open_job(const struct job* job, const char* name, zf_runtime** handle) {
  zf_group groups[KEPT_GROUPS];
  zf_options options = keep_options(job, name);
  keep_groups(job, groups);
  EXPECT(zf_open(&options, groups, KEPT_GROUPS, handle), ZF_OK);
  return begin_job(*handle);
}

uint64_t begin_job(zf_runtime* handle) {
  uint64_t note[2] = {0, 0};
  uint64_t step = 0;
  EXPECT(zf_get_note(handle, note, sizeof note, &step), ZF_OK);
  CHECK(note[0] == step && note[1] == (step == 0 ? 0 : mixed(step)));
  for (size_t i = 0; i < KEPT_GROUPS; ++i) {
    uint64_t number = 0;
    EXPECT(zf_get_step(handle, i, &number), ZF_OK);
    CHECK(number == step);
  }
  for (uint64_t i = 0; step == 0 && i < KEPT_GROUPS; ++i) {
    static float values[100000];
    for (uint64_t k = 0; k < elements[i]; ++k) values[k] = float_of(i << 32 | k);
    EXPECT(zf_write_state(handle, i, ZF_PARAMS, 0, elements[i], values), ZF_OK);
  }
  return step;
}

static zf_submit_args arguments_of(uint64_t step, zf_scalars* scalars) {
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  for (unsigned i = 0; i < KEPT_GROUPS; ++i) scalars[i] = made_scalars(i + 1, step);
  args.buffer = (uint32_t)(step % 2);
  args.scalars = scalars;
  args.scalar_count = KEPT_GROUPS;
  return args;
}

static void speculate(zf_runtime* handle, uint64_t step) {
  zf_scalars scalars[KEPT_GROUPS];
  zf_submit_args args = arguments_of(step, scalars);
  args.work = ZF_SPECULATE;
  if (step % 3 == 0) scalars[0].grad_scale = 0.25f; /* it is taken back */
  EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
}

void run_steps(zf_runtime* handle, const struct job* job, uint64_t step, uint64_t last) {
  uint64_t tickets[2] = {0, 0}; /* of the last step of each gradient buffer */
  while (step < last) {
    zf_scalars scalars[KEPT_GROUPS];
    ++step;
    EXPECT(zf_wait(handle, job->overlaps ? tickets[step % 2] : 0, 60000), ZF_OK);
    fill_gradients(handle, step);
    if (job->exports != NULL && step % 3 == 1) {
      EXPECT(zf_export_wait(handle, 60000), ZF_OK);
      EXPECT(zf_export_begin(handle, job->exports), ZF_OK);
    }
    if (job->speculates) speculate(handle, step);
    const uint64_t note[2] = {step, mixed(step)};
    zf_submit_args args = arguments_of(step, scalars);
    args.note = note;
    args.prepares = job->meets != NULL;
    if (job->begins != NULL) job->begins(step);
    EXPECT(zf_submit(handle, &args, &tickets[step % 2]), ZF_OK);
    if (job->meets == NULL) continue;
    job->meets(step);
    EXPECT(zf_go(handle, &tickets[step % 2]), ZF_OK);
  }
  EXPECT(zf_wait(handle, 0, 60000), ZF_OK);
  EXPECT(zf_export_wait(handle, 60000), ZF_OK);
}

static uint64_t digest_of(uint64_t digest, const void* bytes, size_t count) {
  for (size_t k = 0; k < count; ++k)
    digest = (digest ^ ((const unsigned char*)bytes)[k]) * UINT64_C(0x100000001b3);
  return digest;
}

uint64_t digest_of_state(zf_runtime* handle, const struct job* job) {
  static const zf_buffer_kind kinds[] = {ZF_MOMENT_1, ZF_MOMENT_2, ZF_COPY};
  static float masters[100000];
  uint64_t digest = UINT64_C(0xcbf29ce484222325) + (uint64_t)job->state_format;
  for (size_t i = 0; i < KEPT_GROUPS; ++i) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
      size_t bytes = 0;
      const void* const array = buffer_of(handle, i, kinds[k], &bytes);
      digest = digest_of(digest, array, bytes);
    }
    EXPECT(zf_read_state(handle, i, ZF_PARAMS, 0, elements[i], masters), ZF_OK);
    digest = digest_of(digest, masters, elements[i] * sizeof(float));
  }
  return digest;
}

pid_t keeper_of(const char* name) {
  DIR* const processes = opendir("/proc");
  CHECK(processes != NULL);
  pid_t found = -1;
  for (const struct dirent* entry; found < 0 && (entry = readdir(processes)) != NULL;) {
    char path[300];
    char words[4096] = "";
    snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
    const int file = atoi(entry->d_name) > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const ssize_t size = file < 0 ? 0 : read(file, words, sizeof words - 1);
    if (file >= 0) close(file);
    int is_named = 0;
    int is_ours = 0; /* not that of a test that has failed, which may live for ten minutes */
    for (const char* word = words; word < words + (size < 0 ? 0 : size); word += strlen(word) + 1) {
      if (strcmp(word, "--keep") == 0 && strcmp(word + sizeof "--keep", name) == 0) is_named = 1;
      if (strcmp(word, getenv("ZF_KEEP_FOLDER")) == 0) is_ours = 1;
    }
    if (is_named && is_ours) found = atoi(entry->d_name);
  }
  closedir(processes);
  return found;
}

void kill_and_reap(pid_t child) {
  CHECK(child > 1 && kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

void kill_unless_it_writes(pid_t trainer, const _Atomic int* writes) {
  const int how = WSTOPPED | WEXITED | WNOWAIT;
  for (siginfo_t info;; usleep(100)) {
    CHECK(kill(trainer, SIGSTOP) == 0 && waitid(P_PID, (id_t)trainer, &info, how) == 0);
    if (*writes == 0) break;
    kill(trainer, SIGCONT);
  }
  kill(trainer, SIGKILL);
}
