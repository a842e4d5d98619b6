#include "plan/plan_json.hpp"

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>

#include "base/crc32.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/atomic_file.hpp"
#include "os/file.hpp"
#include "plan/json_reader.hpp"
#include "plan/json_writer.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_fields.hpp"

namespace zf {
std::string print_plan(const Plan& plan) {
  Object object = json_of(plan);
  object["schema"] = kPlanSchema;
  return print_json(object);
}

std::string plan_id(const Plan& plan) {
  const std::string text = print_plan(plan);
  return format_text("{:08x}", crc32(0, std::as_bytes(std::span(text))));
}

Plan parse_plan(std::string_view text, std::string_view name) {
  const JsonDocument document(text, name);
  const Plan plan = read_as<Plan>(document.root().schema(kPlanSchema));
  if (const auto violation = find_violation(plan)) {
    throw Error(Exit::usage, format_text("{}: {}: {}", name, violation->field, violation->what),
                "make the plan again with zf-tune, or correct this");
  }
  return plan;
}

Plan load_plan(const std::filesystem::path& path) {
  const auto text = read_text_file_if_any(path);
  if (!text) {
    throw Error(Exit::usage, format_text("{}: {}", path.string(), errno_text(ENOENT)),
                "make a plan with zf-tune tune, or name another file");
  }
  return parse_plan(*text, path.string());
}

void save_plan(const Plan& plan, const std::filesystem::path& path, const std::function<void()>& before) {
  if (const auto violation = find_violation(plan)) {
    throw Error(Exit::runtime_error,
                format_text("{}: not written, the plan is unsound: {}: {}", path.string(), violation->field,
                            violation->what),
                "this is a bug in zf-tune: please report it");
  }
  const std::string text = print_plan(plan);
  AtomicFile file(path);
  file.write_at(0, std::as_bytes(std::span(text)));
  if (before) before();
  file.commit();
}

}  // namespace zf
