// A line of a sample file (docs/tuning.md): one measured period of a split.
#pragma once

#include <limits>
#include <string>

#include "plan/evidence.hpp"
#include "plan/evidence_fields.hpp"
#include "plan/field_rules.hpp"

namespace zf {

struct SampleLine {
  std::string split;  ///< its label
  int visit = 0;      ///< of this split, from 0
  SplitSample times;
};

template <class Io, MaybeConst<SampleLine> Struct>
void fields(Io& io, Struct& line) {
  io.required("split", line.split);
  io.required("visit", line.visit, Whole{0, std::numeric_limits<int>::max() - 1});
  fields(io, line.times);
}

}  // namespace zf
