// Tests zf_runtime.hpp: the calls of the C interface with ownership, spans and exceptions.
#include "zf_runtime.hpp"

#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "support.h"

namespace {

using zf::runtime::Error;
using zf::runtime::File;
using zf::runtime::Local;
using zf::runtime::Optimizer;

static_assert(!std::is_copy_constructible_v<File> && std::is_nothrow_move_constructible_v<File>);
static_assert(!std::is_copy_constructible_v<Local> && std::is_nothrow_move_constructible_v<Local>);
static_assert(!std::is_copy_constructible_v<Optimizer> && !std::is_copy_assignable_v<Optimizer>);
static_assert(std::is_nothrow_move_constructible_v<Optimizer> &&
              std::is_nothrow_move_assignable_v<Optimizer>);

std::vector<zf_group> two_groups() {
  std::vector<zf_group> groups = {zf::runtime::group(1000), zf::runtime::group(10)};
  groups[1].grad_type = ZF_BF16;
  groups[1].copy_type = ZF_BF16;
  groups[1].stale = 1;
  groups[1].moment_sets = 2;
  return groups;
}

Optimizer open_two() {
  zf_options options = zf::runtime::options();
  options.plan_path = write_plan(PLAN_SPLIT, nullptr);
  options.max_restarts = -1;
  options.close_timeout_ms = 5000;
  return Optimizer(two_groups(), options);
}

/// Returns the scalars of a step, until the next call.
std::span<const zf_scalars> one_step(std::uint64_t step) {
  static zf_scalars scalars;
  scalars = zf::runtime::adam_scalars(zf::runtime::adam(), step);
  return std::span(&scalars, 1);
}

template <class Call>
zf_status status_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.what()[0] != '\0');
    return error.status();
  }
  return ZF_OK;
}

void steps() {
  Optimizer optimizer = open_two();
  CHECK(optimizer.params(0).size() == 1000 && optimizer.copy(1).size() == 10 &&
        optimizer.stale(1).size() == 10);
  for (float& grad : optimizer.grads<float>(0, 1)) grad = 2.0F;
  for (std::uint16_t& grad : optimizer.grads<std::uint16_t>(1, 1)) grad = 0x4000;  // 2 in bf16
  optimizer.submit_norm({.buffer = 1});
  CHECK(optimizer.wait());
  CHECK(optimizer.norm(0, 1).sum_of_squares == 4000.0 && optimizer.norm(1, 1).finite);
  const std::vector<std::uint32_t> first = {0};
  zf_scalars halved = zf::runtime::adam_scalars(zf::runtime::adam(), 1);
  halved.grad_scale = 0.5F;
  const std::uint64_t ticket =
      optimizer.submit({.scalars = std::span(&halved, 1), .groups = first, .buffer = 1});
  CHECK(optimizer.progress(ticket, 0, 1000) == 1000);
  CHECK(optimizer.wait(ticket));
  CHECK(optimizer.step(0) == 1 && optimizer.step(1) == 0);
  for (std::size_t i = 0; i < 1000; ++i) {
    CHECK(optimizer.params(0)[i] != 0.0F && optimizer.moment1(0)[i] == static_cast<float>(1.0 - 0.9));
    CHECK(optimizer.moment2(0)[i] == static_cast<float>(1.0 - 0.999));
  }
  CHECK(optimizer.wait(optimizer.submit({.scalars = one_step(41), .buffer = 1})));  // 2 in bf16, to set 1
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(optimizer.moment1(1)[i] == 0.0F &&
          optimizer.moment1(1, 1)[i] == static_cast<float>(1.0 - 0.9) * 2.0F);
    CHECK(optimizer.moment2(1)[i] == 0.0F &&
          optimizer.moment2(1, 1)[i] == static_cast<float>(1.0 - 0.999) * 4.0F);
  }

  const char* const path = write_file("");
  optimizer.export_state(path);
  optimizer.export_begin(path);
  CHECK(optimizer.export_wait());
  Optimizer other = open_two();
  other.import_state(path);
  CHECK(other.step(0) == 41 && other.params(0)[999] == optimizer.params(0)[999]);
  optimizer.close();
}

void scalars() {
  Optimizer optimizer = open_two();
  zf_scalars scalars = {};
  scalars.step_size = -0.5F;
  scalars.one_minus_beta1 = scalars.one_minus_beta2 = scalars.inv_sqrt_bias2 = scalars.grad_scale = 1.0F;
  scalars.mode = ZF_ADAMW;
  scalars.step = 9;
  for (float& grad : optimizer.grads<float>(0, 0)) grad = 2.0F;
  const std::vector<std::uint32_t> first_for_both = {0, 0};
  const std::span<const zf_scalars> one(&scalars, 1);
  CHECK(optimizer.wait(optimizer.submit({.scalars = one, .scalars_of = first_for_both})));
  CHECK(optimizer.params(0)[999] == -0.5F && optimizer.step(0) == 9 && optimizer.step(1) == 9);
  CHECK(status_of([&] { optimizer.submit({}); }) == ZF_ERROR_USAGE);
  const std::span<const std::uint32_t> short_list = std::span(first_for_both).first(1);
  CHECK(status_of([&] { optimizer.submit({.scalars = one, .scalars_of = short_list}); }) == ZF_ERROR_USAGE);
}

void state_formats() {
  zf_group group = zf::runtime::group(10);
  group.copy_type = ZF_BF16;
  group.state_format = ZF_STATE_BF16_SPLIT;
  zf_options options = zf::runtime::options();
  options.plan_path = write_plan(PLAN_SPLIT, nullptr);
  Optimizer optimizer(std::span(&group, 1), options);
  const std::vector<float> values(4, 0.75F);
  std::vector<float> read(4);
  optimizer.write_state(0, ZF_PARAMS, 6, values);
  optimizer.write_state(0, ZF_MOMENT_2, 6, values);
  optimizer.read_state(0, ZF_PARAMS, 6, read);
  CHECK(read == values && optimizer.copy(0)[5] == 0 && optimizer.copy(0)[6] == 0x3f40);
  CHECK(optimizer.moment2<std::uint16_t>(0)[6] == 0x3f40 && optimizer.moment1<std::uint16_t>(0)[6] == 0);
  CHECK(status_of([&] { optimizer.params(0); }) == ZF_ERROR_USAGE);
  CHECK(status_of([&] { optimizer.moment1(0); }) == ZF_ERROR_USAGE);
  CHECK(status_of([&] { optimizer.read_state(0, ZF_PARAMS, 7, read); }) == ZF_ERROR_USAGE);
}

void held_copies() {
  Optimizer optimizer = open_two();
  CHECK(optimizer.wait(optimizer.submit({.scalars = one_step(1)})));
  optimizer.params(0)[999] = 0.25F;
  optimizer.save_begin();
  CHECK(status_of([&] { optimizer.save_begin(); }) == ZF_ERROR_BUSY);
  CHECK(optimizer.save_wait());
  optimizer.params(0)[999] = 0.5F;
  CHECK(optimizer.saved(0, ZF_PARAMS)[999] == 0.25F && optimizer.saved(1, ZF_MOMENT_2).size() == 10);
  CHECK(status_of([&] { optimizer.saved<std::uint16_t>(0, ZF_MOMENT_1); }) == ZF_ERROR_USAGE);
  CHECK(optimizer.save_end());
  CHECK(status_of([&] { optimizer.saved(0, ZF_PARAMS); }) == ZF_ERROR_USAGE);
}

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void files() {
  const char* const path = write_file("old");
  {
    File dropped(path);
    CHECK(write(dropped.descriptor(), "no", 2) == 2);
  }
  CHECK(text_of(path) == "old");
  File begun(path);
  File kept = std::move(begun);
  CHECK(write(kept.descriptor(), "new", 3) == 3);
  kept.keep();
  CHECK(text_of(path) == "new" && kept.descriptor() == -1);
  CHECK(status_of([] { File("/nowhere/file"); }) == ZF_ERROR_SYSTEM);
}

/// Checks that an empty list of groups does not mean all groups.
void chosen_groups() {
  Optimizer optimizer = open_two();
  std::vector<std::uint32_t> chosen;
  CHECK(optimizer.submit({.scalars = one_step(1), .groups = chosen}) == 0 &&
        optimizer.submit_norm({.groups = chosen}) == 0);
  CHECK(optimizer.submit({.scalars = one_step(1), .groups = std::span<const std::uint32_t>()}) == 0);
  CHECK(optimizer.wait() && optimizer.stats().submitted == 0 && optimizer.step(0) == 0);
  chosen.push_back(1);
  const std::uint64_t ticket = optimizer.submit({.scalars = one_step(1), .groups = chosen});
  CHECK(optimizer.submit({.scalars = one_step(2), .groups = std::span(chosen).first(0)}) == ticket &&
        optimizer.wait(ticket));
  CHECK(optimizer.step(0) == 0 && optimizer.step(1) == 1);
  CHECK(optimizer.wait(optimizer.submit({.scalars = one_step(2)})) && optimizer.step(0) == 2 &&
        optimizer.step(1) == 2);
}

void ownership() {
  {
    Optimizer one = open_two();
    Optimizer other = std::move(one);
    // NOLINTNEXTLINE(bugprone-use-after-move): what is left of it is promised
    CHECK(count_children() == 1 && one.handle() == nullptr && other.stats().worker_alive == 1);
    one = std::move(other);
    CHECK(one.stats().threads >= 1);
    one.end();
    CHECK(count_children() == 0 && one.params(0)[0] == 0.0F);
  }
  CHECK(count_children() == 0 && count_arena_mappings() == 0);
}

void errors() {
  CHECK(status_of([] { Optimizer({}, zf::runtime::options()); }) == ZF_ERROR_USAGE);
  Optimizer optimizer = open_two();
  CHECK(status_of([&] { optimizer.params(2); }) == ZF_ERROR_USAGE);
  CHECK(status_of([&] { optimizer.stale(0); }) == ZF_ERROR_USAGE);
  CHECK(status_of([&] { optimizer.moment1(0, 1); }) == ZF_ERROR_USAGE);
  CHECK(status_of([&] { optimizer.moment2(1, 2); }) == ZF_ERROR_USAGE);
  CHECK(status_of([&] { optimizer.grads<float>(1, 0); }) == ZF_ERROR_USAGE);
  CHECK(status_of([&] { optimizer.grads<float>(0, 2); }) == ZF_ERROR_USAGE);
  CHECK(status_of([&] { optimizer.import_state("/nowhere/state"); }) == ZF_ERROR_USAGE);
  const pid_t worker = optimizer.stats().worker_pid;
  CHECK(kill(worker, SIGSTOP) == 0);
  const std::uint64_t ticket = optimizer.submit({.scalars = one_step(1)});
  CHECK(!optimizer.wait(ticket, std::chrono::milliseconds(1)));
  CHECK(optimizer.progress(ticket, 0, 1, std::chrono::milliseconds(1)) == 0);
  CHECK(status_of([&] { optimizer.submit({.scalars = one_step(1)}); }) == ZF_ERROR_BUSY);
  CHECK(kill(worker, SIGKILL) == 0);
  CHECK(status_of([&] { optimizer.wait(ticket); }) == ZF_WORKER_DIED);
}

void in_place() {
  std::vector<float> p(1000);
  std::vector<float> g(1000, 1.0F);
  std::vector<float> m(1000);
  std::vector<float> v(1000);
  zf_tensor tensor = {};
  tensor.p = p.data();
  tensor.g = g.data();
  tensor.state[0] = m.data();
  tensor.state[1] = v.data();
  tensor.elements = p.size();
  tensor.grad_type = ZF_F32;
  const zf_scalars scalars = {0.9F, 0.25F, 0.999F, 0.5F, 0.0F, 1.0F, -1.0F, 0.0F, 1.0F, ZF_ADAM, 0, 0};
  float count = 0.0F;
  float* const counters[] = {&count};
  Local one;
  Local local = std::move(one);
  std::vector<float> read_from(1000, 2.0F);
  std::vector<float> copied(1000);
  zf_reading reading = {};
  reading.array = read_from.data();
  reading.copy = copied.data();
  reading.elements = 1000;
  reading.type = ZF_F32;
  local.read(std::span(&reading, 1), ZF_READ_NORM | ZF_READ_ALONE);
  CHECK(reading.sum_of_squares == 4000.0 && copied == read_from);
  local.place(std::span(m));
  local.step({&tensor, 1}, {&scalars, 1}, counters);
  local.step({&tensor, 1}, {&scalars, 1});
  CHECK(m[999] == 0.25F * 0.9F + 0.25F && v[0] == 0.5F * 0.999F + 0.5F && count == 1.0F && p[500] < 0.0F);
  CHECK(local.stats().steps == 2);
  CHECK(status_of([&] { local.step({&tensor, 1}, {}); }) == ZF_ERROR_USAGE);
  CHECK(status_of([&] { local.step({}, {}, counters); }) == ZF_ERROR_USAGE);
  zf_local_options options = zf::runtime::local_options();
  options.threads = 5000;
  CHECK(status_of([&] { Local wrong(options); }) == ZF_ERROR_USAGE);
}

}  // namespace

int main() {
  in_place();
  steps();
  scalars();
  state_formats();
  held_copies();
  files();
  chosen_groups();
  ownership();
  errors();
  CHECK(count_children() == 0 && count_arena_mappings() == 0);
  return 0;
}
