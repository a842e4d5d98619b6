// Sample files of an interrupted sweep: any text goes on, is started anew or is refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "fuzzed_file.hpp"
#include "measure/sample_file.hpp"

namespace {

const std::string kHeader = R"({"schema":"zf-samples/5"})";

class NoMeter : public zf::Meter {
 public:
  std::vector<zf::SplitSample> measure(const zf::Split&, const zf::VisitLimits&) override { std::abort(); }
  std::uint64_t elements_per_rank() const override { return 1; }
  double scale() const override { return 1; }
  std::string isa() const override { return "scalar"; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  NoMeter meter;
  try {
    const zf::RecordingMeter recording(meter, fuzzed_file(data, size), kHeader, false);
  } catch (const zf::Error&) {  // it does not begin as ours do
  }
  // The corpus has another first line.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = text.find('\n');
  const std::string ours =
      kHeader + "\n" + std::string(first == std::string_view::npos ? text : text.substr(first + 1));
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(ours.data());
  const zf::RecordingMeter recording(meter, fuzzed_file(bytes, ours.size()), kHeader, false);
  return 0;
}
