/* A trainer under zf-tune exec: opens the runtime, takes a step, and prints as JSON where its optimizer's
 * threads may run and on which nodes its memory lies: by its own move_pages, and by zf_stats. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zf_runtime.h"

enum { NODES = 64, PAGE = 4096 };

static void must(zf_status status, const char* call) {
  if (status == ZF_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, zf_status_name(status), zf_last_error());
  exit(1);
}

/* Pages of one array by node. Each is touched before: move_pages does not tell of pages that the asking
 * process has not mapped. */
static void count_pages(const char* array, size_t bytes, unsigned long* by_node, unsigned long* unknown) {
  for (size_t at = 0; at < bytes; at += PAGE) {
    void* page = (void*)(uintptr_t)(array + at);
    int node = -1;
    (void)*(const volatile char*)page;
    const int found =
        syscall(SYS_move_pages, 0, 1UL, &page, NULL, &node, 0) == 0 && node >= 0 && node < NODES;
    ++*(found ? &by_node[node] : unknown);
  }
}

static void print_threads(int worker) {
  char path[300];
  char line[4096];
  const char* comma = "";
  snprintf(path, sizeof path, "/proc/%d/task", worker);
  DIR* const tasks = opendir(path);
  if (tasks == NULL) exit(1);
  for (struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", worker, task->d_name);
    FILE* const status = fopen(path, "re");
    if (status == NULL) exit(1);
    while (fgets(line, sizeof line, status) != NULL) {
      if (strncmp(line, "Cpus_allowed_list:\t", 19) != 0) continue;
      line[strcspn(line, "\n")] = 0;
      printf("%s\"%s\"", comma, line + 19);
      comma = ", ";
    }
    fclose(status);
  }
  closedir(tasks);
}

int main(void) {
  zf_group groups[2] = {ZF_GROUP_INIT, ZF_GROUP_INIT};
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  zf_stats stats = ZF_STATS_INIT;
  unsigned long by_node[NODES] = {0};
  unsigned long unknown = 0;
  groups[0].elements = 1000003;
  groups[1].elements = 50001;
  groups[1].copy_type = ZF_BF16;
  groups[1].stale = 1;
  options.huge_pages = ZF_NO; /* each small page has a node of its own */
  must(zf_open(&options, groups, 2, &handle), "zf_open");
  const zf_adam adam = ZF_ADAM_INIT;
  zf_scalars scalars;
  must(zf_adam_scalars(&adam, 1, &scalars), "zf_adam_scalars");
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  args.scalars = &scalars;
  args.scalar_count = 1;
  must(zf_submit(handle, &args, NULL), "zf_submit");
  must(zf_wait(handle, 0, 60000), "zf_wait");
  must(zf_get_stats(handle, &stats), "zf_get_stats");
  for (size_t group = 0; group < 2; ++group) {
    for (zf_buffer_kind kind = ZF_PARAMS; kind <= ZF_COPY; ++kind) {
      void* array = NULL;
      size_t bytes = 0;
      if (zf_buffer(handle, group, kind, &array, &bytes) == ZF_OK)
        count_pages(array, bytes, by_node, &unknown);
    }
  }
  printf("{\"threads\": [");
  print_threads(stats.worker_pid);
  printf("], \"nodes\": {");
  for (int node = 0, printed = 0; node < NODES; ++node) {
    if (by_node[node] != 0) printf("%s\"%d\": %lu", printed++ ? ", " : "", node, by_node[node]);
  }
  printf("}, \"unknown\": %lu, \"on_plan\": %llu, \"elsewhere\": %llu, \"note\": \"%s\"}\n", unknown,
         (unsigned long long)stats.pages_on_plan, (unsigned long long)stats.pages_elsewhere,
         stats.memory_note);
  must(zf_close(handle), "zf_close");
  return 0;
}
