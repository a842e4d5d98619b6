#include "survey/node_record.hpp"

#include <utility>

#include "machine/fingerprint.hpp"
#include "plan/field_check.hpp"
#include "plan/json_reader.hpp"
#include "plan/json_writer.hpp"
#include "plan/plan_fields.hpp"

namespace zf {

constexpr Real kAboveZero{.low = 0, .ends = Real::Ends::low_excluded};

template <class Io, MaybeConst<RecordedMemory> Struct>
void fields(Io& io, Struct& memory) {
  io.required("node", memory.node);
  io.required("memory_bytes", memory.memory_bytes);
  io.optional("bytes_per_s", memory.bytes_per_s, kAboveZero);
}

/// All fields but the schema, which comes first.
template <class Io, MaybeConst<NodeRecord> Struct>
void fields(Io& io, Struct& record) {
  io.required("name", record.name, NotEmpty{});
  io.required("at", record.at, Shaped{TextShape::utc_time});
  io.required("by", record.by);
  io.required("kernel", record.kernel);
  io.required("machine", record.machine);
  io.optional("offline", record.offline);
  io.optional("gpus", record.gpus);
  io.required("numa", record.numa);
  io.optional("bytes_per_s", record.bytes_per_s, kAboveZero);
  io.optional("not_measured", record.not_measured);
}

namespace {

constexpr const char* kNodeSchema = "zf-node/1";

}  // namespace

NodeRecord record_of(const Topology& topology, std::string name) {
  NodeRecord record;
  record.name = std::move(name);
  record.machine = machine_class_of(topology);
  record.offline = topology.complete_cpus - topology.cpus;
  record.gpus = gpu_places_of(topology);
  for (const NumaNode& node : topology.nodes) {
    if (!comes_with_a_driver(node)) record.numa.push_back({node.id, node.memory_bytes});
  }
  return record;
}

std::string print_record(const NodeRecord& record) {
  Object object{{"schema", kNodeSchema}};
  JsonWriter writer(object);
  fields(writer, record);
  return print_json(object);
}

NodeRecord parse_record(std::string_view text, std::string_view name) {
  const JsonDocument document(text, name, "run zf-tune survey add again on that node");
  Keys keys = keys_of<NodeRecord>();
  keys.all.insert(keys.all.begin(), "schema");
  const Field file = document.root().schema(kNodeSchema).need_keys(keys);
  NodeRecord record;
  JsonReader reader(file);
  fields(reader, record);
  if (const auto found = check_fields(record)) file.fail_at(found->field, found->what);
  return record;
}

}  // namespace zf
