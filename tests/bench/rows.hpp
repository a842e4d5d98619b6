// What benchmarks of the whole runtime share: rows of figures that take turns, each from a process of its
// own.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "zf_runtime.h"

namespace zf {

inline void check(zf_status status) {
  if (status != ZF_OK)
    throw Error(Exit::runtime_error, format_text("{}: {}", zf_status_name(status), zf_last_error()));
}

struct Row {
  std::string name;
  std::string command;                       ///< prints the figures, with blanks between them
  std::vector<std::vector<double>> samples;  ///< of each figure, one of each round
};

/// Returns how a command begins that uses the runtime of another build folder; "" for that of this one.
inline std::string variables_for(const std::string& folder) {
  return folder.empty()
             ? ""
             : format_text("LD_LIBRARY_PATH='{0}/lib' ZF_OPTIMIZER='{0}/bin/zf-optimizer' ", folder);
}

inline void measure(Row& row) {
  std::FILE* const pipe = ::popen(row.command.c_str(), "re");
  if (pipe == nullptr) throw_errno(errno, "popen");
  for (std::vector<double>& samples : row.samples) {
    double figure = 0;
    if (std::fscanf(pipe, "%lf", &figure) == 1) samples.push_back(figure);
  }
  if (::pclose(pipe) != 0) throw Error(Exit::runtime_error, "failed: " + row.command);
}

/// Measures the rows in turn, as often as there are rounds.
inline void measure(std::vector<Row>& rows, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) measure(row);
  }
}

inline double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

/// Returns the median, the least and the most.
inline std::array<double, 3> spread_of(const std::vector<double>& samples) {
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
  return {median(samples), *least, *most};
}

}  // namespace zf
