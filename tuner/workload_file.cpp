#include "tuner/workload_file.hpp"

#include "os/file.hpp"
#include "plan/json_fields.hpp"
#include "plan/workload_json.hpp"

namespace zf {

Workload load_workload(const std::filesystem::path& path) {
  const std::string name = path.string();
  const nlohmann::json document = parse_json(read_text_file(path), name);
  const Field file =
      Field(document, "", name)
          .schema("zf-workload/1")
          .object({"schema", "name", "params", "ranks", "update_interval", "training", "source"},
                  {"training"});
  return read_workload_fields(file);
}

Workload on_ranks(Workload workload, int ranks) {
  if (workload.training) {
    const auto spread = [&](std::uint64_t bytes) {
      return bytes * static_cast<std::uint64_t>(workload.ranks) / static_cast<std::uint64_t>(ranks);
    };
    workload.training->host_bytes = spread(workload.training->host_bytes);
    workload.training->copy_bytes = spread(workload.training->copy_bytes);
  }
  workload.ranks = ranks;
  return workload;
}

}  // namespace zf
