// Steps parameters with gradients from stdin, and says how many bytes the log of each step would need if it
// were speculated (engine/rollback.hpp): scripts/benches/log_bytes.py trains a model with it.
//
// stdin: elements, elements of a slice; fp32 parameters; then per step a Request and fp32 gradients. stdout:
// per step an Answer and the new parameters. All numbers are of the machine's own form.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "candidates.hpp"
#include "engine/isa.hpp"
#include "engine/kernel.hpp"
#include "engine/rollback.hpp"
#include "engine/undo.hpp"

namespace {

using namespace zf;

struct Request {
  double lr, beta2, weight_decay;
  std::uint64_t step;
  double clip;  ///< the factor of the gradients. The speculation assumes 1.
};

struct Answer {
  std::uint64_t bytes;        ///< needed by the logs of all slices
  std::uint64_t full_slices;  ///< slices that need more than their log has
  std::uint64_t not_stepped;  ///< elements with an old value that cannot be computed again, and those behind
};

bool read_all(void* to, std::size_t bytes) { return std::fread(to, 1, bytes, stdin) == bytes; }

/// Speculates a slice with a log that has room for all, and takes it back.
void speculate(const AdamScalars& scalars, AdamArrays slice, const Buffer& log, Answer& answer) {
  const KernelVariant variant = {.decay = scalars.decay != 0.0F, .undo = true};
  UndoLog undo = {};
  slice.undo = &undo;
  begin_run(undo, 1, 0);
  auto& header = *log.as<RollbackHeader>();
  RollbackPlace place = rollback_place(header, slice.n, 0);
  place.end = place.whole + 3 * slice.n;
  const std::size_t stepped = speculate_kernel(chosen_isa(), variant)(scalars, slice, place);
  const auto* const end =
      reinterpret_cast<const std::uint8_t*>(rollback_place(header, slice.n, stepped).whole);
  const std::size_t bytes = sizeof header + static_cast<std::size_t>(end - place.codes);
  answer.bytes += bytes;
  answer.full_slices += bytes > rollback_bytes(slice.n) ? 1 : 0;
  answer.not_stepped += slice.n - stepped;
  begin_run(undo, 2, 0);
  slice.n = stepped;
  take_back_kernel(chosen_isa(), variant)(scalars, slice, place);
}

}  // namespace

int main() {
  std::uint64_t sizes[2];
  if (!read_all(sizes, sizeof sizes)) return 2;
  const auto [elements, slice] = sizes;
  std::vector<float> p(elements), g(elements), m(elements), v(elements);
  const Buffer log(16 * slice, 0);
  const auto part = [&](std::size_t begin, std::size_t n) {
    return AdamArrays{.p = &p[begin], .g = &g[begin], .m = &m[begin], .v = &v[begin], .n = n};
  };
  if (!read_all(p.data(), 4 * elements)) return 2;
  for (Request asked; read_all(&asked, sizeof asked) && read_all(g.data(), 4 * elements);) {
    const AdamSettings settings = {.lr = asked.lr, .beta2 = asked.beta2, .weight_decay = asked.weight_decay};
    AdamScalars scalars = adam_scalars(settings, asked.step);
    Answer answer = {};
    for (std::size_t begin = 0; begin < elements; begin += slice)
      speculate(scalars, part(begin, std::min(slice, elements - begin)), log, answer);
    scalars.grad_scale = static_cast<float>(asked.clip);
    adam_kernel(chosen_isa(), {.decay = scalars.decay != 0.0F})(scalars, part(0, elements));
    std::fwrite(&answer, sizeof answer, 1, stdout);
    std::fwrite(p.data(), 4, elements, stdout);
    std::fflush(stdout);
  }
  return 0;
}
