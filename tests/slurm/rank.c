/* One rank of a job, as a trainer is: opens the runtime under the plan that `zf-tune exec` left in the
 * environment, steps once, and says where everything sits. One line of JSON on stdout:
 *   {"rank":0,"training":"0,4","optimizer":"1","threads":["1","1"],"arena_nodes":"0","own_nodes":"0","note":""}
 * optimizer: its CPUs as the environment has them; threads: the CPU list of each of its threads; *_nodes: the
 * nodes that pages lie on. */
#include <dirent.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zf_runtime.h"

enum { ELEMENTS = 1 << 20, MAX_NODES = 64, LINE = 4096 };

static void must(zf_status status, const char* what) {
  if (status == ZF_OK) return;
  fprintf(stderr, "test-rank: %s: %s: %s\n", what, zf_status_name(status), zf_last_error());
  exit(1);
}

/* "Cpus_allowed_list" of a thread, or "?". */
static const char* cpus_of(const char* status_path) {
  static char list[LINE];
  char line[LINE];
  strcpy(list, "?");
  FILE* const file = fopen(status_path, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "Cpus_allowed_list: %4095s", list) == 1) break;
  }
  if (file != NULL) fclose(file);
  return list;
}

static void print_threads(pid_t pid) {
  char path[512];
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR* const folder = opendir(path);
  const char* separator = "";
  for (struct dirent* entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)pid, entry->d_name);
    printf("%s\"%s\"", separator, cpus_of(path));
    separator = ",";
  }
  if (folder != NULL) closedir(folder);
}

/* Counts where the pages of an array lie; they are touched first, since for a shared page that this process
 * has not touched the kernel answers ENOENT. */
static void count_pages(char* memory, size_t bytes, size_t* pages_of_node) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t at = 0; at < bytes; at += page) {
    void* address = memory + at;
    int node = -1;
    (void)*(volatile char*)address;
    if (move_pages(0, 1, &address, NULL, &node, 0) == 0 && node >= 0 && node < MAX_NODES)
      ++pages_of_node[node];
  }
}

static void print_nodes(const size_t* pages_of_node) {
  const char* separator = "";
  for (int node = 0; node < MAX_NODES; ++node) {
    if (pages_of_node[node] == 0) continue;
    printf("%s%d", separator, node);
    separator = ",";
  }
}

int main(void) {
  zf_group group = ZF_GROUP_INIT;
  group.elements = ELEMENTS;
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  options.huge_pages = ZF_NO; /* each small page has a node of its own */
  must(zf_open(&options, &group, 1, &handle), "zf_open");

  size_t arena[MAX_NODES] = {0};
  size_t own[MAX_NODES] = {0};
  for (zf_buffer_kind kind = ZF_PARAMS; kind <= ZF_GRADS_1; ++kind) {
    void* array = NULL;
    size_t bytes = 0;
    must(zf_buffer(handle, 0, kind, &array, &bytes), "zf_buffer");
    count_pages(array, bytes, arena);
  }
  const size_t own_bytes = (size_t)4 << 20;
  char* const own_memory = malloc(own_bytes);
  if (own_memory == NULL) return 1;
  memset(own_memory, 1, own_bytes);
  count_pages(own_memory, own_bytes, own);
  free(own_memory);

  uint64_t ticket = 0;
  const zf_adam adam = ZF_ADAM_INIT;
  zf_scalars scalars;
  must(zf_adam_scalars(&adam, 1, &scalars), "zf_adam_scalars");
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  args.scalars = &scalars;
  args.scalar_count = 1;
  must(zf_submit(handle, &args, &ticket), "zf_submit");
  must(zf_wait(handle, ticket, 60000), "zf_wait");
  zf_stats stats = ZF_STATS_INIT;
  stats.struct_size = sizeof stats;
  must(zf_get_stats(handle, &stats), "zf_get_stats");

  const char* const rank = getenv("ZF_RANK");
  const char* const optimizer = getenv("ZF_OPTIMIZER_CPUS");
  printf("{\"rank\":%s,\"training\":\"%s\",\"optimizer\":\"%s\",\"threads\":[", rank == NULL ? "null" : rank,
         cpus_of("/proc/self/status"), optimizer == NULL ? "" : optimizer);
  print_threads(stats.worker_pid);
  printf("],\"arena_nodes\":\"");
  print_nodes(arena);
  printf("\",\"own_nodes\":\"");
  print_nodes(own);
  printf("\",\"note\":\"%s\"}\n", stats.memory_note);
  must(zf_close(handle), "zf_close");
  return 0;
}
