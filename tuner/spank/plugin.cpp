// srun --zf-tune: Slurm itself does to each task what `zf-tune exec --force` does, after Slurm's own binding
// and before the command starts. In plugstack.conf:
//   optional zf_tune.so [default=on|off] [run=/run/zf-tune] [omp=remove|keep] [memory-policy=plan|keep]
// default: the setting for steps without the option (off). run: the folder where the Prolog publishes plans.
// The last two are as in zf-tune exec; a step may give them, too: srun --zf-tune=on,omp=keep.
//
// The plugin never stops a task: an error becomes a line on the task's stderr, and the task starts unbound.
#include <sys/stat.h>

extern "C" {  // spank.h declares only parts of itself extern "C"
#include <slurm/slurm.h>
#include <slurm/spank.h>
}

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "launch/apply_launch.hpp"
#include "launch/resolve_launch.hpp"

#pragma GCC visibility push(default)
extern "C" {  // constants have internal linkage in C++ unless declared extern
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
}
SPANK_PLUGIN(zf_tune, 1)
#pragma GCC visibility pop

namespace {

struct Settings {
  bool on = false;
  std::filesystem::path run = "/run/zf-tune";
  zf::OpenmpVariables openmp = zf::OpenmpVariables::removed;
  std::optional<zf::MemoryChoice> memory = {};
};

/// Reads a word that the option and plugstack.conf share. Returns false if it is none.
bool read_word(std::string_view word, Settings& settings) {
  if (word == "omp=remove") {
    settings.openmp = zf::OpenmpVariables::removed;
  } else if (word == "omp=keep") {
    settings.openmp = zf::OpenmpVariables::kept;
  } else if (word == "memory-policy=plan") {
    settings.memory = zf::MemoryChoice::plan;
  } else if (word == "memory-policy=keep") {
    settings.memory = zf::MemoryChoice::keep;
  } else {
    return false;
  }
  return true;
}

/// Reads the option: "on" or "off", and words of read_word(), with commas between them. Without one of the
/// first two it is on. Returns false if a word is not known.
bool read_option(const char* text, Settings& settings) {
  settings.on = true;
  std::string_view rest = text == nullptr ? "on" : text;
  while (true) {
    const auto comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    if (word == "on" || word == "off") {
      settings.on = word == "on";
    } else if (!read_word(word, settings)) {
      return false;
    }
    if (comma == std::string_view::npos) return true;
    rest.remove_prefix(comma + 1);
  }
}

int accept_option(int, const char* text, int) {
  Settings settings;
  return read_option(text, settings) ? 0 : -1;
}

spank_option option() {
  static char name[] = "zf-tune";
  static char argument[] = "on|off,omp=remove|keep,memory-policy=plan|keep";
  static char usage[] = "run each task under its node's plan: bound, its memory near it (docs/slurm.md)";
  return {name, argument, usage, 2, 0, accept_option};
}

/// Reads a word of plugstack.conf. Returns false if it is not known.
bool read_setting(std::string_view word, Settings& settings) {
  if (word.starts_with("run=")) {
    settings.run = word.substr(4);
    return true;
  }
  if (word != "default=on" && word != "default=off") return read_word(word, settings);
  settings.on = word == "default=on";
  return true;
}

/// Returns the settings of plugstack.conf; the step's own option overrides them.
Settings settings_of(spank_t spank, int count, char** words) {
  Settings settings;
  for (int i = 0; i < count; ++i) read_setting(words[i], settings);
  spank_option asked = option();
  char* value = nullptr;
  if (spank_option_getopt(spank, &asked, &value) == ESPANK_SUCCESS) read_option(value, settings);
  return settings;
}

/// Returns the environment of the task.
zf::Environment task_environment(spank_t spank) {
  std::map<std::string, std::string> variables;
  char** words = nullptr;
  if (spank_get_item(spank, S_JOB_ENV, &words) != ESPANK_SUCCESS) return {};
  for (; words != nullptr && *words != nullptr; ++words) {
    const std::string_view word = *words;
    const auto equals = word.find('=');
    if (equals != std::string_view::npos) variables.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return zf::Environment(std::move(variables));
}

/// Returns the path of the plan that the Prolog published in the folder `run`. In a heterogeneous job each
/// component has a number of its own, by which its Prolog publishes, but tasks have the number of the first
/// one.
std::filesystem::path published_plan(const zf::Environment& environment, const std::filesystem::path& run,
                                     std::uint32_t job) {
  const std::filesystem::path own = run / (std::to_string(job) + ".json");
  std::error_code ignored;
  if (std::filesystem::exists(own, ignored)) return own;
  for (const auto& [name, value] : environment.all()) {
    if (!name.starts_with("SLURM_JOB_ID_HET_GROUP_") && !name.starts_with("SLURM_JOB_ID_PACK_GROUP_"))
      continue;
    if (value.empty() || value.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::filesystem::path components = run / (value + ".json");
    if (std::filesystem::exists(components, ignored)) return components;
  }
  return own;
}

/// Returns the path of the job's own plan (ZF_PLAN), else of the plan that the Prolog published. Empty if
/// users other than root could have written the published plan.
std::filesystem::path plan_path(const zf::Environment& environment, const std::filesystem::path& run,
                                std::uint32_t job) {
  if (const auto own = environment.get("ZF_PLAN"); own && !own->empty()) return *own;
  struct stat status = {};
  if (::lstat(run.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return {};
  if (status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return {};
  return published_plan(environment, run, job);
}

void bind_task(spank_t spank, const Settings& settings) {
  const zf::Environment environment = task_environment(spank);
  if (!settings.on || zf::switched_off(environment)) return;
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  int task = 0;
  std::uint32_t tasks = 0;
  if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS ||
      step >= SLURM_MAX_NORMAL_STEP_ID) {
    return;  // a batch script starts the ranks; it is not a rank
  }
  const std::filesystem::path plan = plan_path(environment, settings.run, job);
  if (plan.empty()) return;

  zf::LaunchRequest request{plan, task, true, static_cast<int>(tasks)};
  request.openmp = settings.openmp;
  request.memory = settings.memory;
  request.by = zf::LaunchedBy::plugin;
  zf::Launch launch = zf::resolve_launch(request, environment);
  zf::apply_launch(launch, true);
  for (const std::string& name : launch.unset) spank_unsetenv(spank, name.c_str());
  for (const auto& [name, value] : launch.set) spank_setenv(spank, name.c_str(), value.c_str(), 1);
  for (const std::string& note : launch.notes) slurm_spank_log("zf-tune: %s", zf::one_line(note).c_str());
}

}  // namespace

[[gnu::visibility("default")]] int slurm_spank_init(spank_t spank, int count, char** words) {
  Settings ignored;
  for (int i = 0; i < count && spank_context() == S_CTX_REMOTE; ++i) {
    if (!read_setting(words[i], ignored))
      slurm_error(
          "zf-tune: plugstack.conf: \"%s\" is not known and has no effect; there are default=on|off, "
          "run=FOLDER, omp=remove|keep and memory-policy=plan|keep",
          words[i]);
  }
  spank_option known = option();
  return spank_option_register(spank, &known) == ESPANK_SUCCESS ? 0 : -1;
}

[[gnu::visibility("default")]] int slurm_spank_task_init(spank_t spank, int count, char** words) {
  try {
    bind_task(spank, settings_of(spank, count, words));
  } catch (const std::exception& error) {
    slurm_spank_log("zf-tune: %s; going on, bound to nothing", error.what());
  }
  return 0;
}
