// Reads the plot of a page back: its rows, and what is drawn in them.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

namespace zf {

/// A row of the plot beside that of the plan.
struct PlotRow {
  std::string label;
  std::string kind;      ///< CSS classes
  std::string sentence;  ///< for who cannot see it, without its full stop
  std::string figures;
  std::string verdict;
  double low = 0;  ///< per cent of the width
  double high = 0;
  std::string drawing;
};

inline std::string without_escapes(std::string text) {
  for (std::size_t at = 0; (at = text.find("&quot;", at)) != std::string::npos; ++at)
    text.replace(at, 6, "\"");
  return text;
}

inline std::vector<PlotRow> rows_in(const std::string& plot) {
  static const std::regex row(
      R"re(<tr><th scope="row">([^<]*)</th><td class="plot"><svg role="img" class="([a-z ]*)"><title>([^<]*)\.</title>)re"
      R"re((.*?)</svg></td><td class="figures">([^<]*)</td><td class="verdict">([^<]*)</td></tr>)re");
  static const std::regex interval(R"re(class="interval" x1="([0-9.]+)%" x2="([0-9.]+)%")re");
  std::vector<PlotRow> rows;
  for (std::sregex_iterator at(plot.begin(), plot.end(), row), end; at != end; ++at) {
    const std::smatch& match = *at;
    PlotRow one{match[1], match[2], without_escapes(match[3]), match[5], match[6], 0, 0, match[4]};
    std::smatch drawn;
    if (std::regex_search(one.drawing, drawn, interval)) {
      one.low = std::stod(drawn[1]);
      one.high = std::stod(drawn[2]);
    } else {
      ADD_FAILURE() << "no interval for " << one.label;
    }
    rows.push_back(one);
  }
  return rows;
}

/// Returns how far the plot reaches to its right end, in per cent.
inline double reach_of(const std::string& plot) {
  static const std::regex last(R"re(\+([0-9]+) %</text></svg>)re");
  std::smatch match;
  if (std::regex_search(plot, match, last)) return std::stod(match[1]);
  ADD_FAILURE() << "no ticks";
  return 1;
}

}  // namespace zf
