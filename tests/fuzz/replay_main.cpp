// Runs a fuzz target over files and folders of kept inputs, without libFuzzer, so that every build can.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// Changes nothing: replaying mutates no input.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t*, std::size_t size, std::size_t) { return size; }

namespace {

void replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int count, char** folders) {
  for (int i = 1; i < count; ++i) {
    std::size_t inputs = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folders[i])) {
      if (!entry.is_regular_file()) continue;
      replay(entry.path());
      ++inputs;
    }
    std::printf("%zu inputs in %s\n", inputs, folders[i]);
    if (inputs == 0) return 1;  // an archive that was not unpacked
  }
  return count > 1 ? 0 : 1;
}
