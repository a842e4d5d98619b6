// Sample files of an interrupted sweep: any text goes on or is started anew.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fuzzed_file.hpp"
#include "measure/sample_file.hpp"

namespace {

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
  const zf::RecordingMeter recording(meter, fuzzed_file(data, size), "zf-samples/4 fuzzed", false);
  return 0;
}
