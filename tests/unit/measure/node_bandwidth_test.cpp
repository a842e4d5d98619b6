#include "measure/node_bandwidth.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

TEST(NodeBandwidth, BusyCpusAreThoseThatWereNotIdle) {
  // user nice system idle iowait irq softirq steal guest
  EXPECT_DOUBLE_EQ(*busy_cpus("cpu  0 0 0 0 0 0 0 0 0\ncpu0 9", "cpu  10 0 10 60 0 0 0 20 10\n", 4), 1.6);
  EXPECT_DOUBLE_EQ(*busy_cpus("cpu 5 0 0 5 0", "cpu 5 0 0 100 5", 2), 0);
  EXPECT_FALSE(busy_cpus("", "", 2));
  EXPECT_FALSE(busy_cpus("cpu 1 2 3 4", "cpu 1 2 3 4", 2));
}

TEST(NodeBandwidth, IsOfEveryNumaNodeAndOfAll) {
  MachineSource source;
  source.with_io = false;
  source.keep_isolated = true;
  const Machine machine = read_machine(source);
  const auto measured = measure_node_bandwidth(machine, std::chrono::milliseconds(4500));
  if (!measured) GTEST_SKIP() << "this machine is too busy to measure it within 4.5 s";
  ASSERT_FALSE(measured->nodes.empty());
  for (const auto& of_node : measured->nodes) EXPECT_GT(of_node.bytes_per_s, 1e8);
  EXPECT_GT(measured->all, 1e8);
}

TEST(NodeBandwidth, IsNotMeasuredWhereTheNodeIsNotWhole) {
  MachineSource source;
  source.with_io = false;
  Machine machine = read_machine(source);
  machine.allowed.cpus = {};
  EXPECT_EQ(why_not_whole_and_idle(machine)->substr(0, 24), "this process may not use");
  machine.topology.is_this_machine = false;
  machine.topology.source = "a file";
  EXPECT_EQ(why_not_whole_and_idle(machine), "a file is not this machine");
}

}  // namespace
}  // namespace zf
