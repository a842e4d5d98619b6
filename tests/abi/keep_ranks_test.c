/* Kills one rank of two, and then the other as a launcher does, and lets others go on from what is kept,
 * until both have taken all their steps. Whenever they come back, both are at one step. Their results are
 * those of a run that nothing disturbed, bit for bit. Half of the kills come at a random moment, half between
 * two instructions from the preparation of a step to its submission. ZF_KILLS: number of kills for each way
 * of stepping (default 4). ZF_SEED: another sequence of random choices. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeping.h"

enum { RANKS = 2, MOST_INSTRUCTIONS = 6000 };

/* Where the ranks of one start meet. */
struct meeting {
  _Atomic uint64_t prepared[RANKS]; /* steps */
  _Atomic uint64_t found[RANKS];    /* 1 + the last step that went, when the rank is open */
  uint64_t stops_at[RANKS]; /* the rank stops itself before it prepares this step or a later one; 0: never */
  uint64_t digest[RANKS];
  uint64_t resumed_at;
  int is_hunted;
  _Atomic int writes[RANKS]; /* the rank writes its first parameters */
  uint64_t went;             /* number of ranks that were behind */
};

static struct meeting* meeting;
static unsigned own_rank;

static void await(const _Atomic uint64_t* value, uint64_t least) {
  while (atomic_load(value) < least) usleep(20);
}

static void meet(uint64_t step) {
  atomic_store(&meeting->prepared[own_rank], step);
  await(&meeting->prepared[!own_rank], step);
  CHECK(atomic_load(&meeting->prepared[!own_rank]) <= step + 1);
}

/* Opens what is kept of this rank, and brings it to the step of the other one. */
static uint64_t open_rank(const struct job* job, zf_runtime** handle) {
  zf_group groups[KEPT_GROUPS];
  zf_options options = keep_options(job, own_rank == 0 ? "first" : "second");
  uint64_t note[2];
  uint64_t gone = 0;
  uint64_t prepared = 0;
  keep_groups(job, groups);
  EXPECT(zf_open(&options, groups, KEPT_GROUPS, handle), ZF_OK);
  EXPECT(zf_get_note(*handle, note, sizeof note, &gone), ZF_OK);
  EXPECT(zf_get_prepared(*handle, note, sizeof note, &prepared), ZF_OK);
  CHECK(prepared == 0 || prepared == gone + 1);
  atomic_store(&meeting->found[own_rank], gone + 1);
  await(&meeting->found[!own_rank], 1);
  const uint64_t others = atomic_load(&meeting->found[!own_rank]) - 1;
  if (others > gone) {
    CHECK(others == gone + 1 && prepared == others);
    EXPECT(zf_go(*handle, NULL), ZF_OK);
    EXPECT(zf_wait(*handle, 0, 60000), ZF_OK);
    meeting->went += 1;
  }
  atomic_store(&meeting->writes[own_rank], 1);
  const uint64_t step = begin_job(*handle);
  atomic_store(&meeting->writes[own_rank], 0);
  CHECK(step == (others > gone ? others : gone));
  meeting->resumed_at = step;
  return step;
}

static void stop_here(uint64_t step) {
  if (meeting->stops_at[own_rank] == 0 || step < meeting->stops_at[own_rank]) return;
  meeting->stops_at[own_rank] = 0;
  CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
  raise(SIGSTOP);
}

static pid_t start_rank(struct job job, unsigned rank) {
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer > 0) return trainer;
  zf_runtime* handle = NULL;
  own_rank = rank;
  job.begins = stop_here;
  job.meets = meet;
  const uint64_t first = open_rank(&job, &handle);
  run_steps(handle, &job, first, job.steps);
  meeting->digest[rank] = digest_of_state(handle, &job);
  if (meeting->stops_at[rank] != 0) raise(SIGKILL); /* it found nothing to do */
  while (meeting->is_hunted) pause();               /* a rank that had closed would have nothing kept */
  EXPECT(zf_close(handle), ZF_OK);
  _exit(0);
}

static void kill_rank(pid_t trainer, unsigned rank) {
  kill_unless_it_writes(trainer, &meeting->writes[rank]);
  CHECK(waitpid(trainer, NULL, 0) == trainer);
}

/* Lets a rank that has stopped itself execute some instructions, and kills it. */
static void kill_between_instructions(pid_t trainer, int instructions) {
  int status = 0;
  CHECK(waitpid(trainer, &status, 0) == trainer);
  while (WIFSTOPPED(status) && instructions-- > 0) {
    CHECK(ptrace(PTRACE_SINGLESTEP, trainer, NULL, NULL) == 0);
    CHECK(waitpid(trainer, &status, 0) == trainer);
  }
  if (WIFSTOPPED(status)) return kill_and_reap(trainer);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* else a check of the rank has failed */
}

/* Runs both ranks, and kills one and then the other if `kills` is set. Returns 1 if both came to their end.
 */
static int hunt(const struct job* job, int kills) {
  const unsigned victim = (unsigned)random_below(RANKS);
  const int is_stepped = kills && random_below(2) == 0;
  memset(meeting, 0, sizeof *meeting);
  meeting->is_hunted = kills;
  if (is_stepped) meeting->stops_at[victim] = 1 + random_below(job->steps);
  pid_t trainers[RANKS];
  for (unsigned rank = 0; rank < RANKS; ++rank) trainers[rank] = start_rank(*job, rank);
  int status = 0;
  if (is_stepped) {
    kill_between_instructions(trainers[victim], (int)random_below(MOST_INSTRUCTIONS));
  } else if (kills) {
    usleep((useconds_t)random_below(60000));
    kill_rank(trainers[victim], victim);
  }
  if (kills) {
    usleep((useconds_t)random_below(2000));
    kill_rank(trainers[!victim], !victim);
  }
  for (unsigned rank = 0; !kills && rank < RANKS; ++rank)
    CHECK(waitpid(trainers[rank], &status, 0) == trainers[rank] && status == 0);
  while (waitpid(-1, NULL, WNOHANG) > 0) { /* workers and parents of keepers */
  }
  return !kills;
}

static void run(struct job job, int kills) {
  int resumed = 0;
  int behind = 0;
  zf_runtime* calm = NULL;
  open_job(&job, "calm", &calm);
  run_steps(calm, &job, 0, job.steps);
  const uint64_t expected = digest_of_state(calm, &job);
  EXPECT(zf_close(calm), ZF_OK);
  for (int i = 0; i < kills; ++i) {
    hunt(&job, 1);
    resumed += meeting->resumed_at > 0;
    behind += (int)meeting->went;
    /* So that few kills find a job that has come to its end. */
    if (meeting->resumed_at < job.steps / 2) continue;
    hunt(&job, 0);
    CHECK(meeting->digest[0] == expected && meeting->digest[1] == expected);
  }
  hunt(&job, 0);
  CHECK(meeting->digest[0] == expected && meeting->digest[1] == expected);
  printf(
      "state %d, overlapped %d, speculated %d: %d kills, %d resumptions, %d with one rank behind, all "
      "equal\n",
      (int)job.state_format, job.overlaps, job.speculates, kills, resumed, behind);
  expect_nothing_kept();
}

int main(void) {
  const char* const kills = getenv("ZF_KILLS");
  const char* const seed = getenv("ZF_SEED");
  const int wanted = kills == NULL ? 4 : atoi(kills);
  struct job job = {write_plan(PLAN_SPLIT, NULL), ZF_STATE_FP32, 0, 0, 40, NULL, NULL, NULL};
  meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(meeting != MAP_FAILED);
  if (seed != NULL) seed_random(strtoull(seed, NULL, 10));
  use_own_keep_folder();
  for (job.state_format = ZF_STATE_FP32; job.state_format <= ZF_STATE_BF16_SPLIT; ++job.state_format) {
    for (job.overlaps = 0; job.overlaps <= 1; ++job.overlaps) run(job, wanted);
  }
  job.state_format = ZF_STATE_FP32;
  job.overlaps = 1;
  job.speculates = 1;
  run(job, wanted);
  return 0;
}
