#include "measure/neighbours_json.hpp"

#include <nlohmann/json.hpp>

namespace zf {

Object neighbours_json(const std::vector<Neighbour>& neighbours) {
  Object list = Object::array();
  for (const Neighbour& neighbour : neighbours)
    list.push_back({{"process", neighbour.process}, {"pid", neighbour.pid}, {"cpus", neighbour.cpus}});
  return list;
}

}  // namespace zf
