// Evidence and trials in JSON, for the plan's file and for the sample file beside it. It needs nlohmann_json,
// so headers that others use do not include it.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "plan/evidence.hpp"
#include "plan/json_fields.hpp"
#include "plan/trial_result.hpp"

namespace zf {

inline constexpr int kMaxInt = std::numeric_limits<int>::max();

// Readers throw Error(usage) that names the field.

Object print_evidence(const Evidence& evidence);
Evidence read_evidence(const Field& field);

Object print_trial(const Trial& trial);
Trial read_trial(const Field& field);

/// Adds the fields of a SplitSample to an object that may have others.
void add_times(Object& object, const SplitSample& times);
/// Reads these fields. Precondition: object() was called with them, and they are present.
SplitSample read_times(const Field& field);

template <class T>
Object print_list(const std::vector<T>& items, Object (*print_item)(const T&)) {
  Object list = Object::array();
  for (const T& item : items) list.push_back(print_item(item));
  return list;
}
template <class T>
std::vector<T> read_list(const Field& field, T (*read_item)(const Field&)) {
  std::vector<T> items;
  for (const Field& item : field.items()) items.push_back(read_item(item));
  return items;
}

}  // namespace zf
