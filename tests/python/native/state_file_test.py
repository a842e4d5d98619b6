"""A state file is what docs/recovery.md says, read here by a second implementation, and carries a training on. Tests
native/runtime.py."""

import dataclasses
import os
import struct
import tempfile
import unittest
import zlib

import support

np = support.need("numpy")
from zf_runtime import Group, Runtime, ZfStateError, adam_scalars  # noqa: E402

GROUPS = [Group(5000), Group(7), Group(0)]
SETTINGS = [{"lr": 0.25, "weight_decay": 0.5}, {"mode": "adam", "betas": (0.75, 0.5)}, {}]
GROUPS_OF_TWO_SETS = [dataclasses.replace(GROUPS[0], moment_sets=2), *GROUPS[1:]]


def read(path):
    """[{step, ..., arrays}] of each group. AssertionError where a checksum is wrong."""
    with open(path, "rb") as file:
        data = file.read()
    magic, version, count, size, first, table_crc, header_crc = struct.unpack_from("<8sIIQQII", data)
    assert (magic, version, size) == (b"ZFSTATE\n", 1, len(data))
    assert header_crc == zlib.crc32(data[:36]) and table_crc == zlib.crc32(data[40:first])
    groups = []
    for index in range(count):
        record = struct.Struct("<QQIIQ" + 5 * "QII")
        fields = record.unpack_from(data, 40 + record.size * index)
        group = dict(zip(("elements", "step", "moment_sets", "format", "first_element"), fields))
        group["arrays"] = []
        places = fields[5:]
        if group["moment_sets"] == 1:
            assert places[9:] == 2 * (0, 0, 0)
            places = places[:9]
        for offset, crc in zip(places[::3], places[1::3]):
            padded = data[offset:offset + -(-4 * group["elements"] // 4096) * 4096]
            assert offset % 4096 == 0 and zlib.crc32(padded) == crc
            group["arrays"].append(np.frombuffer(padded, np.float32, group["elements"]))
        groups.append(group)
    return groups


def take_steps(runtime, count):
    for _ in range(count):
        buffer = runtime.step(0) % 2
        for index in range(len(GROUPS)):
            runtime.grads(index, buffer)[:] = runtime.params(index) * 0.5 + 1
        scalars = [adam_scalars(runtime.step(0) + 1, **settings) for settings in SETTINGS]
        runtime.wait(runtime.submit(scalars, buffer=buffer))


def arrays_of(runtime, index):
    """The arrays that a file holds of a group, in its order."""
    arrays = [runtime.params(index)]
    for moment_set in range(runtime.groups[index].moment_sets):
        arrays += [runtime.exp_avg(index, moment_set), runtime.exp_avg_sq(index, moment_set)]
    return arrays


class StateFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "state")

    def check_documented(self, groups):
        with Runtime(support.plan(), groups=groups) as runtime:
            take_steps(runtime, 3)
            runtime.export_state(self.path)
            for index, (saved, group) in enumerate(zip(read(self.path), groups, strict=True)):
                self.assertEqual((saved["moment_sets"], saved["format"]), (group.moment_sets, 0))
                self.assertEqual((saved["elements"], saved["step"], runtime.step(index)), (group.elements, 3, 3))
                for got, wanted in zip(saved["arrays"], arrays_of(runtime, index), strict=True):
                    np.testing.assert_array_equal(got, wanted)

    def test_of_an_export_beside_training_is_of_its_begin(self):
        with Runtime(support.plan(), groups=GROUPS) as runtime:
            take_steps(runtime, 3)
            wanted = [[array.copy() for array in arrays_of(runtime, index)] for index in range(len(GROUPS))]
            runtime.export_begin(self.path)
            take_steps(runtime, 1)
            runtime.export_wait(timeout=60)
            runtime.export_wait()
        for group, arrays in zip(read(self.path), wanted, strict=True):
            self.assertEqual(group["step"], 3)
            for got, each in zip(group["arrays"], arrays, strict=True):
                np.testing.assert_array_equal(got, each)

    def test_is_as_documented(self):
        self.check_documented(GROUPS)

    def test_with_two_sets_of_moments_is_as_documented(self):
        self.check_documented(GROUPS_OF_TWO_SETS)

    def test_carries_a_training_on_bit_for_bit(self):
        for groups in (GROUPS, GROUPS_OF_TWO_SETS):
            with self.subTest(moment_sets=groups[0].moment_sets):
                self.check_carries_on(groups)

    def check_carries_on(self, groups):
        with Runtime(support.plan(), groups=groups) as whole, Runtime(support.plan(), groups=groups) as part:
            take_steps(whole, 5)
            take_steps(part, 2)
            part.export_state(self.path)
            take_steps(part, 1)  # to be forgotten
            part.import_state(self.path)
            take_steps(part, 3)
            for index in range(len(GROUPS)):
                self.assertEqual(whole.step(index), part.step(index))
                for wanted, got in zip(arrays_of(whole, index), arrays_of(part, index), strict=True):
                    np.testing.assert_array_equal(got, wanted)

    def test_another_number_of_sets_is_refused(self):
        with Runtime(support.plan(), groups=GROUPS) as one, Runtime(support.plan(), groups=GROUPS_OF_TWO_SETS) as two:
            two.export_state(self.path)
            with self.assertRaisesRegex(ZfStateError, "group 0 has 2 sets of moments, and 1 in this optimizer"):
                one.import_state(self.path)

    def test_damage_is_refused(self):
        with Runtime(support.plan(), groups=GROUPS) as runtime:
            runtime.export_state(self.path)
            with open(self.path, "r+b") as file:
                file.seek(5000)
                file.write(b"!")
            with self.assertRaisesRegex(ZfStateError, "parameters of group 0 are damaged"):
                runtime.import_state(self.path)


if __name__ == "__main__":
    unittest.main()
