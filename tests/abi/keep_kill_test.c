/* Kills trainers at random moments and lets others go on from what is kept, until a run has taken all its
 * steps. All parameters, moments and outputs are then those of a run that nothing disturbed, bit for bit.
 * Where the next gradients are written while a step is under way, each third step is exported, too.
 * With the argument "both", the optimizer process is killed with the trainer, before or after it.
 * ZF_KILLS: number of kills for each way of stepping (default 12). ZF_SEED: another sequence of random
 * choices. ZF_STATE: the state format of all groups. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeping.h"

static const int64_t NEVER = INT64_MAX;

static int also_kills_worker;
static _Atomic int* writes; /* a trainer writes its first parameters */

/* Runs a trainer to the end of the job. Writes its worker's number, and the digest of its results, to
 * `report`. */
static void train(const struct job* job, int report) {
  zf_runtime* handle = NULL;
  zf_group groups[KEPT_GROUPS];
  zf_options options = keep_options(job, "hunted");
  keep_groups(job, groups);
  EXPECT(zf_open(&options, groups, KEPT_GROUPS, &handle), ZF_OK);
  *writes = 1;
  const uint64_t step = begin_job(handle);
  *writes = 0;
  const int64_t worker[2] = {worker_of(handle), (int64_t)step};
  CHECK(write(report, worker, sizeof worker) == (ssize_t)sizeof worker);
  run_steps(handle, job, step, job->steps);
  const uint64_t digest = digest_of_state(handle, job);
  CHECK(write(report, &digest, sizeof digest) == (ssize_t)sizeof digest);
  EXPECT(zf_close(handle), ZF_OK);
  _exit(0);
}

static void kill_both(pid_t trainer, pid_t worker) {
  const int worker_first = also_kills_worker && random_below(2) == 0;
  if (worker_first) kill(worker, SIGKILL);
  kill(trainer, SIGKILL);
  if (also_kills_worker && !worker_first) kill(worker, SIGKILL);
}

/* Starts a trainer and kills it after `ns`, counted from the moment when it is open, or from its start if
 * that is negative. Returns 1 and its digest if it came to its end before. */
static int hunt(const struct job* job, int64_t ns, uint64_t* digest, uint64_t* resumed) {
  int report[2];
  int64_t worker[2] = {0, 0};
  *writes = 0;
  CHECK(pipe(report) == 0);
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) {
    close(report[0]);
    train(job, report[1]);
  }
  close(report[1]);
  if (ns == NEVER) {
    CHECK(read(report[0], worker, sizeof worker) == (ssize_t)sizeof worker);
  } else if (ns < 0) {
    usleep((useconds_t)(-ns / 1000));
    kill_unless_it_writes(trainer, writes);
  } else if (read(report[0], worker, sizeof worker) == (ssize_t)sizeof worker) {
    *resumed = (uint64_t)worker[1];
    usleep((useconds_t)(ns / 1000));
    kill_both(trainer, (pid_t)worker[0]);
  }
  int status = 0;
  CHECK(waitpid(trainer, &status, 0) == trainer);
  CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
  if (ns < 0 && read(report[0], worker, sizeof worker) != (ssize_t)sizeof worker) worker[0] = 0;
  const int came_to_its_end = read(report[0], digest, sizeof *digest) == (ssize_t)sizeof *digest;
  close(report[0]);
  while (waitpid(-1, NULL, WNOHANG) > 0) { /* workers and parents of keepers */
  }
  return came_to_its_end;
}

/* Returns the digest of a job that goes on from its last export, or from its first values. */
static uint64_t calm_digest(struct job job, const char* exported) {
  zf_runtime* handle = NULL;
  uint64_t step = open_job(&job, "calm", &handle);
  if (exported != NULL) {
    EXPECT(zf_import_state(handle, exported), ZF_OK);
    EXPECT(zf_get_step(handle, 0, &step), ZF_OK);
    CHECK(step > 0 && step < job.steps && step % 3 == 0); /* a kill in the last step leaves the one before */
  }
  job.exports = NULL;
  run_steps(handle, &job, step, job.steps);
  const uint64_t digest = digest_of_state(handle, &job);
  EXPECT(zf_close(handle), ZF_OK);
  return digest;
}

static void run(struct job job, int wanted) {
  int kills = 0;
  int rounds = 0;
  int resumptions = 0;
  uint64_t digest = 0;
  const uint64_t expected = calm_digest(job, NULL);
  /* With few kills, or a slow sanitizer, all may come before the first step: then it goes on. */
  while (kills < wanted || (resumptions == 0 && kills < 100 + wanted)) {
    uint64_t resumed = 0;
    /* One in six dies while it opens. */
    const int64_t ns =
        random_below(6) == 0 ? -(int64_t)(1000 + random_below(30000000)) : (int64_t)random_below(12000000);
    const int is_over = hunt(&job, ns, &digest, &resumed);
    resumptions += resumed > 0;
    if (!is_over) {
      ++kills;
      continue;
    }
    ++rounds;
    if (digest != expected) fprintf(stderr, "round %d, after %d kills: the results differ\n", rounds, kills);
    CHECK(digest == expected);
  }
  while (!hunt(&job, NEVER, &digest,
               &(uint64_t){0})) { /* a kill in the close leaves a kept state that is whole */
  }
  CHECK(digest == expected);
  if (job.exports != NULL) CHECK(calm_digest(job, job.exports) == expected);
  printf("state %d, overlapped %d, speculated %d: %d kills, %d resumptions, %d whole runs, all equal\n",
         (int)job.state_format, job.overlaps, job.speculates, kills, resumptions, rounds + 1);
  CHECK(resumptions > 0);
  expect_nothing_kept();
}

int main(int argc, char** argv) {
  const char* const kills = getenv("ZF_KILLS");
  const char* const seed = getenv("ZF_SEED");
  const int wanted = kills == NULL ? 12 : atoi(kills);
  struct job job = {write_plan(PLAN_SPLIT, NULL), ZF_STATE_FP32, 0, 0, 40, NULL, NULL, NULL};
  also_kills_worker = argc > 1 && strcmp(argv[1], "both") == 0;
  if (seed != NULL) seed_random(strtoull(seed, NULL, 10));
  writes = mmap(NULL, sizeof *writes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(writes != MAP_FAILED);
  use_own_keep_folder();
  for (job.state_format = ZF_STATE_FP32; job.state_format <= ZF_STATE_BF16_SPLIT; ++job.state_format) {
    job.overlaps = 0;
    job.exports = NULL;
    run(job, wanted);
    job.overlaps = 1;
    job.exports = write_file("old");
    run(job, wanted);
  }
  job.state_format = ZF_STATE_FP32;
  job.exports = NULL;
  job.speculates = 1;
  run(job, wanted);
  return 0;
}
