#include <nlohmann/json.hpp>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "launchers/openmp_variables.hpp"
#include "plan/json_fields.hpp"
#include "where/where.hpp"

namespace zf {

std::string where_json(const Where& where, const Environment& environment) {
  Object object{{"schema", "zf-where/1"},
                {"rank", where.launch.rank},
                {"source", where.source},
                {"plan", where.plan},
                {"file", where.is_file},
                {"cpus", print(where.launch.cpus)},
                {"mems", print(where.launch.mems)},
                {"set", where.launch.set},
                {"notes", where.launch.notes},
                {"openmp", Object::array()}};
  for (const OpenmpBinding& found : openmp_bindings(environment, {where.launch.cpus}))
    object["openmp"].push_back(format_text("{}={}", found.variable, found.value));
  return print_json(object);
}

std::string where_text(const Where& where) {
  const Launch& launch = where.launch;
  std::string text =
      format_text("rank {}{} is on {}{}, by {}\n", launch.rank,
                  where.source.empty() ? "" : " (" + where.source + ")", print_cpus(launch.cpus),
                  launch.mems.empty() ? "" : ", memory preferred on " + print_nodes(launch.mems), where.plan);
  for (const std::string& note : launch.notes) text += format_text("note: {}\n", one_line(note));
  return text;
}

}  // namespace zf
