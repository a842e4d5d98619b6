// The keys of `zf-tune survey DIR --format json`:
//
//   schema      "zf-survey/1"
//   nodes       how many answered, and should
//   classes[]   machine (as in a plan), gpus, nodes, names (folded), numa[]: node, memory_bytes[], bandwidth;
//               bandwidth: median_bytes_per_s, distance, nodes; typical, slowest, slowest_share
//   odd[]       name, as (fingerprint of a class), but[] (clauses)
//   silent, unlisted, old, unmeasured   folded names
//   left_out[]  file, why
#include "base/error.hpp"
#include "plan/field_check.hpp"
#include "plan/json_reader.hpp"
#include "plan/json_writer.hpp"
#include "plan/plan_fields.hpp"
#include "survey/node_names.hpp"
#include "survey/survey.hpp"

namespace zf {

template <class Io, MaybeConst<ClassBandwidth> Struct>
void fields(Io& io, Struct& bandwidth) {
  io.required("median_bytes_per_s", bandwidth.median_bytes_per_s, Real{.ends = Real::Ends::low_excluded});
  io.required("distance", bandwidth.distance, Real{});
  io.required("nodes", bandwidth.nodes);
}

template <class Io, MaybeConst<ClassMemory> Struct>
void fields(Io& io, Struct& memory) {
  io.required("node", memory.node);
  io.required("memory_bytes", memory.memory_bytes, NotEmpty{});
  io.optional("bandwidth", memory.bandwidth);
}

template <class Io, MaybeConst<NodeClass> Struct>
void fields(Io& io, Struct& one) {
  io.required("machine", one.machine);
  io.optional("gpus", one.gpus);
  io.required("nodes", one.nodes);
  io.required("names", one.names);
  io.required("numa", one.numa);
  io.optional("bandwidth", one.bandwidth);
  io.required("typical", one.typical);
  io.optional("slowest", one.slowest);
  io.optional("slowest_share", one.slowest_share);
}

template <class Io, MaybeConst<OddNode> Struct>
void fields(Io& io, Struct& odd) {
  io.required("name", odd.name);
  io.required("as", odd.as);
  io.required("but", odd.but);
}

template <class Io, MaybeConst<LeftOutFile> Struct>
void fields(Io& io, Struct& file) {
  io.required("file", file.file);
  io.required("why", file.why);
}

namespace {

constexpr const char* kSurveySchema = "zf-survey/1";

}  // namespace

std::string survey_json(const Survey& survey) {
  return print_json(Object{{"schema", kSurveySchema},
                           {"nodes", survey.nodes},
                           {"classes", json_of(survey.classes)},
                           {"odd", json_of(survey.odd)},
                           {"silent", folded_names(survey.silent)},
                           {"unlisted", folded_names(survey.unlisted)},
                           {"old", folded_names(survey.old)},
                           {"unmeasured", folded_names(survey.unmeasured)},
                           {"left_out", json_of(survey.left_out)}});
}

std::vector<NodeClass> classes_in_json(std::string_view text, std::string_view name) {
  const JsonDocument document(text, name, "make it again with zf-tune survey DIR --format json");
  const Field file = document.root().schema(kSurveySchema);
  if (!file.has("classes")) file.fail("has no classes");
  std::vector<NodeClass> classes;
  read_value(file["classes"], classes);
  if (const auto found = check_fields(classes)) file.fail_at("classes" + found->field, found->what);
  if (classes.empty()) file["classes"].fail("is empty: no node had answered");
  return classes;
}

}  // namespace zf
