/* Every wrong start and every wrong call gives one clear line and the right status, and leaves nothing
 * behind. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static zf_status open_with(const char* plan, const zf_group* groups, size_t n) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = (zf_runtime*)&options;
  options.plan_path = plan;
  const zf_status status = zf_open(&options, groups, n, &handle);
  CHECK(status == ZF_OK || handle == NULL);
  if (status == ZF_OK) zf_close(handle);
  return status;
}

static zf_group group_of(uint64_t elements) {
  zf_group group = ZF_GROUP_INIT;
  group.elements = elements;
  return group;
}

static void plans(void) {
  const zf_group group = group_of(10);
  unsetenv("ZF_PLAN");
  EXPECT(open_with(NULL, &group, 1), ZF_ERROR_PLAN);
  expect_error("ZF_PLAN is not set");
  EXPECT(open_with("/nowhere/plan.json", &group, 1), ZF_ERROR_PLAN);
  expect_error("/nowhere/plan.json");
  EXPECT(open_with(write_file("{ garbage"), &group, 1), ZF_ERROR_PLAN);
  expect_error("/tmp/zf-abi-test-");
  EXPECT(open_with(write_file("{ \"schema\": \"zf-plan/9\" }"), &group, 1), ZF_ERROR_PLAN);
  expect_error("zf-plan/9");
  EXPECT(open_with(write_plan_for("0,5000-5001", "0", "5000-5001", 0, 2, 0.5 / 3), &group, 1), ZF_ERROR_PLAN);
  expect_error("CPUs 5000-5001 of rank 0's optimizer");
  EXPECT(open_with(write_plan_for("0", "0", "0", 1, 1, 0.5), &group, 1), ZF_ERROR_PLAN);
  expect_error("made on a machine of another class: CPUs 0-8191 in the plan");
  EXPECT(open_with(write_plan_of_model("Z80"), &group, 1), ZF_ERROR_PLAN);
  expect_error("CPU model: Z80 in the plan");

  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  options.rank = 3;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_USAGE);
  expect_error("3");
  setenv("ZF_RANK", "one", 1);
  EXPECT(open_with(options.plan_path, &group, 1), ZF_ERROR_USAGE);
  expect_error("ZF_RANK");
  unsetenv("ZF_RANK");
  setenv("ZF_PLAN", options.plan_path, 1);
  EXPECT(open_with(NULL, &group, 1), ZF_OK);
}

/* With ZF_TUNE=off no plan is read, whatever is named, and everything works. */
static void without_tuning(void) {
  zf_options options = ZF_OPTIONS_INIT;
  const zf_group group = group_of(10);
  zf_runtime* handle = NULL;
  zf_stats stats = ZF_STATS_INIT;
  int cpus[MAX_CPUS];
  options.plan_path = "/nowhere/plan.json";
  setenv("ZF_TUNE", "off", 1);
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.threads == allowed_cpus(cpus));
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 5000), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
  unsetenv("ZF_TUNE");
}

static void workers(void) {
  const char* const plan = write_plan(PLAN_SPLIT, NULL);
  const zf_group group = group_of(10);
  setenv("ZF_OPTIMIZER", "/nowhere/zf-optimizer", 1);
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_WORKER);
  expect_error("ZF_OPTIMIZER=/nowhere/zf-optimizer is not an executable file");
  setenv("ZF_OPTIMIZER", "/bin/true", 1);
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_WORKER);
  expect_error("ended with status 0");
  const char* const no_program = write_file("neither script nor ELF\n");
  CHECK(chmod(no_program, 0755) == 0);
  setenv("ZF_OPTIMIZER", no_program, 1);
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_WORKER);
  expect_error(no_program);
  const char* const sleeper = write_file("#!/bin/sh\nexec sleep 60\n");
  CHECK(chmod(sleeper, 0755) == 0);
  setenv("ZF_OPTIMIZER", sleeper, 1);
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = plan;
  options.start_timeout_ms = 100;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_TIMEOUT);
  expect_error("was not ready after 100 ms");
  unsetenv("ZF_OPTIMIZER");
  setenv("ZF_ISA", "mmx", 1); /* the worker refuses, and its words arrive */
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_WORKER);
  expect_error("mmx");
  unsetenv("ZF_ISA");
}

static void versions(void) {
  const char* const plan = write_plan(PLAN_SPLIT, NULL);
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = group_of(10);
  zf_runtime* handle = NULL;
  options.plan_path = plan;
  CHECK(zf_abi_version() == ZF_ABI_VERSION && zf_version()[0] != 0);

  options.abi_version = ZF_ABI_VERSION + 1;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_ABI);
  expect_error("built for ABI version 2");
  options.abi_version = ZF_ABI_VERSION;
  options.struct_size = 0;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_ABI);
  expect_error("zf_options.struct_size is 0");
  options.struct_size = sizeof options - 8; /* less than its first version */
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_ABI);
  group.struct_size = 0;
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_ABI);

  /* A program of the future has longer structs. Zeros at the end are accepted, other values are not. */
  struct {
    zf_group known;
    uint64_t future;
  } groups[2] = {{group_of(10), 0}, {group_of(20), 0}};
  groups[0].known.struct_size = groups[1].known.struct_size = (uint32_t)sizeof groups[0];
  EXPECT(open_with(plan, &groups[0].known, 2), ZF_OK);
  groups[1].future = 1;
  EXPECT(open_with(plan, &groups[0].known, 2), ZF_ERROR_ABI);
  expect_error("does not have");
#define EXPECT_NAMED(status) CHECK(strcmp(zf_status_name(status), #status) == 0)
  EXPECT_NAMED(ZF_OK);
  EXPECT_NAMED(ZF_TIMEOUT);
  EXPECT_NAMED(ZF_WORKER_DIED);
  EXPECT_NAMED(ZF_ERROR_USAGE);
  EXPECT_NAMED(ZF_ERROR_PLAN);
  EXPECT_NAMED(ZF_ERROR_SYSTEM);
  EXPECT_NAMED(ZF_ERROR_WORKER);
  EXPECT_NAMED(ZF_ERROR_ABI);
  EXPECT_NAMED(ZF_ERROR_FORKED);
  EXPECT_NAMED(ZF_ERROR_BUSY);
  EXPECT_NAMED(ZF_ERROR_INTERNAL);
  EXPECT_NAMED(ZF_ERROR_STATE);
  CHECK(strcmp(zf_status_name(ZF_ERROR_STATE + 1), "?") == 0 && strcmp(zf_status_name(-1), "?") == 0);
}

static void groups(void) {
  const char* const plan = write_plan(PLAN_SPLIT, NULL);
  zf_group group = group_of(10);
  EXPECT(open_with(plan, NULL, 0), ZF_ERROR_USAGE);
  EXPECT(open_with(plan, &group, 0), ZF_ERROR_USAGE);
  group.copy_type = ZF_F32;
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_USAGE);
  group = group_of(10);
  group.moment_sets = 3;
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_USAGE);
  expect_error("group 0: moment_sets is 3; it must be 1 or 2, or 0 for 1");
  group.moment_sets = -1;
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_USAGE);
  group = group_of(10);
  group.grad_buffers = 3;
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_USAGE);
  expect_error("group 0: grad_buffers is 3; it must be 1 or 2, or 0 for 2");
  group.grad_buffers = 1;
  group.moment_sets = 2;
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_USAGE);
  expect_error("group 0: moment_sets is 2; it must be at most grad_buffers");
  group = group_of((uint64_t)1 << 47); /* 2 PiB: more than any machine's memory */
  EXPECT(open_with(plan, &group, 1), ZF_ERROR_SYSTEM);
  expect_error("the arena needs");
}

/* A later version of zf_group may have a size that is no multiple of 8, so the second of two is misaligned.
 */
static void groups_of_any_size(void) {
  enum { STRIDE = sizeof(zf_group) + 4 };
  _Alignas(zf_group) unsigned char two[2 * STRIDE] = {0};
  const char* const plan = write_plan(PLAN_SPLIT, NULL);
  zf_group group = group_of(10);
  group.struct_size = STRIDE;
  for (int i = 0; i < 2; ++i) memcpy(two + i * STRIDE, &group, sizeof group);
  EXPECT(open_with(plan, (const zf_group*)two, 2), ZF_OK);
}

static void calls(void) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 10);
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  const zf_scalars scalars = made_scalars(0, 1);
  const uint32_t twice[] = {0, 0};
  const uint32_t other = 1;
  void* pointer = NULL;
  EXPECT(zf_buffer(NULL, 0, ZF_PARAMS, &pointer, NULL), ZF_ERROR_USAGE);
  EXPECT(zf_buffer(handle, 1, ZF_PARAMS, &pointer, NULL), ZF_ERROR_USAGE);
  EXPECT(zf_buffer(handle, 0, ZF_STALE, &pointer, NULL), ZF_ERROR_USAGE);
  expect_error("no buffer of kind 5");
  EXPECT(zf_buffer(handle, 0, (zf_buffer_kind)-1, &pointer, NULL), ZF_ERROR_USAGE);
  EXPECT(zf_buffer(handle, 0, (zf_buffer_kind)77, &pointer, NULL), ZF_ERROR_USAGE);
  EXPECT(zf_buffer(handle, 0, ZF_PARAMS, NULL, NULL), ZF_ERROR_USAGE);
  EXPECT(zf_wait(handle, 1, 0), ZF_ERROR_USAGE);
  expect_error("ticket 1 was never given out: the last one is 0");
  EXPECT(zf_wait(handle, 0, 0), ZF_OK);
  args.buffer = 2;
  EXPECT(zf_submit(handle, &args, NULL), ZF_ERROR_USAGE);
  args.buffer = 0;
  EXPECT(zf_submit(handle, &args, NULL), ZF_ERROR_USAGE);
  expect_error("scalars is NULL; zf_adam_scalars computes those of a step");
  EXPECT(zf_submit(handle, NULL, NULL), ZF_ERROR_USAGE);
  args.scalars = &scalars;
  args.scalar_count = 1;
  args.groups = twice;
  args.n_groups = 2;
  EXPECT(zf_submit(handle, &args, NULL), ZF_ERROR_USAGE);
  args.groups = &other;
  args.n_groups = 1;
  EXPECT(zf_submit(handle, &args, NULL), ZF_ERROR_USAGE);
  expect_error("there is no group 1: the number of groups is 1");
  EXPECT(submit_all(handle, NULL), ZF_OK); /* none of this has hurt */
  EXPECT(zf_wait(handle, 0, 5000), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
  EXPECT(zf_close(NULL), ZF_OK);
}

static void files(void) {
  zf_file* file = NULL;
  int32_t descriptor = -1;
  const char* const path = write_file("old");
  EXPECT(zf_file_begin(NULL, &file, &descriptor), ZF_ERROR_USAGE);
  EXPECT(zf_file_begin(path, NULL, &descriptor), ZF_ERROR_USAGE);
  EXPECT(zf_file_begin(path, &file, NULL), ZF_ERROR_USAGE);
  EXPECT(zf_file_begin("/nowhere/file", &file, &descriptor), ZF_ERROR_SYSTEM);
  expect_error("/nowhere/file");
  CHECK(file == NULL);
  for (int32_t keep = 0; keep <= 1; ++keep) {
    EXPECT(zf_file_begin(path, &file, &descriptor), ZF_OK);
    CHECK(write(descriptor, "newer", 5) == 5);
    EXPECT(zf_file_end(file, keep), ZF_OK);
    struct stat status;
    CHECK(stat(path, &status) == 0 && status.st_size == (keep ? 5 : 3));
  }
  EXPECT(zf_file_end(NULL, 1), ZF_OK);
}

static void ranks(void) {
  const char* const variables[] = {"LOCAL_RANK=3", "not a variable", "LOCAL_WORLD_SIZE=8", NULL};
  const char* const none[] = {NULL};
  const char* const broken[] = {"LOCAL_RANK=three", NULL};
  int32_t number = 0;
  char name[64] = "";
  EXPECT(zf_find_rank(variables, &number, name, sizeof name), ZF_OK);
  CHECK(number == 3 && strcmp(name, "LOCAL_RANK") == 0);
  EXPECT(zf_find_ranks(variables, &number, name, sizeof name), ZF_OK);
  CHECK(number == 8 && strcmp(name, "LOCAL_WORLD_SIZE") == 0);
  EXPECT(zf_find_rank(none, &number, name, sizeof name), ZF_OK);
  CHECK(number == -1 && name[0] == '\0');
  EXPECT(zf_find_rank(broken, &number, name, sizeof name), ZF_ERROR_USAGE);
  expect_error("LOCAL_RANK=\"three\" is not a whole number");
  EXPECT(zf_find_rank(variables, &number, name, sizeof "LOCAL_RANK" - 1), ZF_ERROR_USAGE);
  expect_error("too few bytes");
  EXPECT(zf_find_rank(NULL, &number, name, sizeof name), ZF_ERROR_USAGE);
  EXPECT(zf_find_rank(variables, NULL, name, sizeof name), ZF_ERROR_USAGE);
  EXPECT(zf_find_ranks(variables, &number, NULL, 0), ZF_ERROR_USAGE);
}

int main(void) {
  const size_t descriptors = count_descriptors();
  plans();
  without_tuning();
  workers();
  versions();
  groups();
  groups_of_any_size();
  calls();
  files();
  ranks();
  CHECK(count_arena_mappings() == 0);
  CHECK(count_children() == 0);
  CHECK(count_descriptors() == descriptors);
  return 0;
}
