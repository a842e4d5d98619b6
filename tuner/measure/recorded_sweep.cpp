#include "measure/recorded_sweep.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "measure/sample_line.hpp"
#include "plan/json_reader.hpp"

namespace zf {
namespace {

/// A line that begins like this names the splits of a round. The lines of their samples follow.
constexpr std::string_view kRoundBegin = R"({"round":)";

/// Removes the first line from `text`. Returns false if no whole line is left.
bool next_line(std::string_view& text, std::string_view& line) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return false;
  line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return true;
}

/// Adds the line that begins a round, or one sample. Throws Error if it is neither.
void add_line(RecordedSweep& sweep, std::string_view line, const std::string& name) {
  const JsonDocument document(line, name);
  auto& rounds = sweep.finished;
  if (line.starts_with(kRoundBegin)) {
    const Field begin = document.root().object({"round", "splits"});
    RecordedRound& round = rounds.emplace_back();
    for (const Field& label : begin["splits"].items()) round.visits[label.text()];
    ++sweep.rounds;
    return;
  }
  const auto sample = read_as<SampleLine>(document.root());
  if (rounds.empty() || !rounds.back().visits.contains(sample.split))
    throw Error(Exit::runtime_error, name + ": a sample is of no split of its round");
  auto& visits = rounds.back().visits[sample.split];
  if (visits.empty() || sample.visit != sweep.visits[sample.split] - 1) {
    visits.emplace_back();
    sweep.visits[sample.split] = sample.visit + 1;
  }
  visits.back().push_back(sample.times);
}

}  // namespace

bool RecordedRound::is_finished() const {
  return std::none_of(visits.begin(), visits.end(), [](const auto& split) { return split.second.empty(); });
}

bool RecordedRound::has_splits(const std::vector<std::string>& labels) const {
  return labels.size() == visits.size() &&
         std::all_of(labels.begin(), labels.end(),
                     [&](const std::string& label) { return visits.contains(label); });
}

int RecordedSweep::finished_visits() const {
  std::size_t count = 0;
  for (const RecordedRound& round : finished) {
    for (const auto& [label, visits_of_split] : round.visits) count += visits_of_split.size();
  }
  return static_cast<int>(count);
}

std::optional<RecordedSweep> recorded_sweep(std::string_view text, const std::string& name,
                                            std::string_view header) {
  RecordedSweep sweep;
  std::string_view rest = text;
  std::string_view line;
  if (!next_line(rest, line) || line != header) return std::nullopt;
  try {
    while (next_line(rest, line)) {
      if (line == kSweepDone) return std::nullopt;
      add_line(sweep, line, name);
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  std::erase_if(sweep.finished, [](const RecordedRound& round) { return !round.is_finished(); });
  sweep.bytes = text.size() - rest.size();
  return sweep;
}

}  // namespace zf
