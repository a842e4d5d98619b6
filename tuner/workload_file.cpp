#include "tuner/workload_file.hpp"

#include "os/file.hpp"
#include "plan/json_fields.hpp"

namespace zf {

Workload load_workload(const std::filesystem::path& path) {
  const std::string name = path.string();
  const nlohmann::json document = parse_json(read_text_file(path), name);
  const Field file =
      Field(document, "", name).object({"schema", "name", "params", "ranks", "update_interval", "source"});
  file["schema"].one_of({"zf-workload/1"});
  Workload workload;
  workload.name = file["name"].text();
  workload.params = file["params"].integer<std::uint64_t>(1, 1'000'000'000'000'000);
  workload.ranks = file["ranks"].integer(1, 4096);
  workload.update_interval = file["update_interval"].integer(1, 1'000'000);
  return workload;
}

}  // namespace zf
