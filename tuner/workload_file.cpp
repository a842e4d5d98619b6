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
          .object({"schema", "name", "params", "ranks", "update_interval", "training", "source"},
                  {"training"});
  file["schema"].one_of({"zf-workload/1"});
  return read_workload_fields(file);
}

}  // namespace zf
