"""Tests that the Python package declares what zf_runtime.h declares: members, functions and constants. Tests
native/abi.py."""

import ctypes
import dataclasses
import re
import unittest

import support

from zf_runtime.native import abi
from zf_runtime.native.handle import Stats

HEADER = re.sub(r"/\*.*?\*/", "", (support.SOURCE / "runtime/include/zf_runtime.h").read_text(), flags=re.DOTALL)

STRUCTS = {"zf_options": abi.Options, "zf_group": abi.Group, "zf_submit_args": abi.SubmitArgs, "zf_adam": abi.Adam,
           "zf_stats": abi.Stats, "zf_local_options": abi.LocalOptions, "zf_scalars": abi.Scalars,
           "zf_tensor": abi.Tensor, "zf_range": abi.Range, "zf_local_step_args": abi.LocalStepArgs,
           "zf_local_statistics": abi.LocalStatistics, "zf_reading": abi.Reading}
# These stand in arrays. The struct that points to the array has the size of one, under this name.
SIZED_BY_ANOTHER = {"zf_scalars": "scalars_size", "zf_tensor": "tensor_size", "zf_range": "range_size"}
SIZED_BY_AN_ARGUMENT = {"zf_reading": "reading_size"}
TYPES = {"uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16, "uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32,
         "uint64_t": ctypes.c_uint64, "int64_t": ctypes.c_int64, "size_t": ctypes.c_size_t, "float": ctypes.c_float,
         "double": ctypes.c_double,
         "char": ctypes.c_char, "void*": ctypes.c_void_p, "const void*": ctypes.c_void_p,
         "const char*": ctypes.c_char_p, "const uint32_t*": ctypes.POINTER(ctypes.c_uint32),
         "float* const*": ctypes.POINTER(ctypes.c_void_p),
         **{f"const {name}*": ctypes.POINTER(struct) for name, struct in STRUCTS.items()}}


def members_of(struct: str) -> list[tuple[str, type]]:
    """Returns the name and the type of each member in the header."""
    body = re.search(rf"typedef struct {struct} \{{(.*?)\}} {struct};", HEADER, re.DOTALL)[1]
    members = []
    for kind, name, length in re.findall(r"\s*(\w[\w ]*(?:\* ?(?:const\*)?)?)\s+(\w+)(?:\[(\d+)\])?;", body):
        members.append((name, TYPES[kind] * int(length) if length else TYPES[kind]))
    return members


class Header(unittest.TestCase):
    def test_every_member_of_a_struct(self):
        for struct, ours in STRUCTS.items():
            with self.subTest(struct):
                self.assertGreater(len(members_of(struct)), 2)
                self.assertEqual(list(ours._fields_), members_of(struct))

    def test_every_struct(self):
        self.assertEqual(set(re.findall(r"typedef struct (\w+) \{", HEADER)), set(STRUCTS))

    def test_every_struct_tells_its_size(self):
        for struct in STRUCTS:
            with self.subTest(struct):
                if struct in SIZED_BY_ANOTHER:
                    self.assertIn(SIZED_BY_ANOTHER[struct], dict(members_of("zf_local_step_args")))
                elif struct in SIZED_BY_AN_ARGUMENT:
                    self.assertRegex(HEADER, rf"{struct}\* \w+, [^;]*uint32_t {SIZED_BY_AN_ARGUMENT[struct]}[,)]")
                else:
                    self.assertEqual(members_of(struct)[0], ("struct_size", ctypes.c_uint32))

    def test_every_function(self):
        self.assertEqual(set(abi.FUNCTIONS), set(re.findall(r"^ZF_API .*?\b(zf_\w+)\(", HEADER, re.MULTILINE)))

    def test_every_constant(self):
        constants = {name: int(value) for body in re.findall(r"enum \{(.*?)\};", HEADER, re.DOTALL)
                     for name, value in re.findall(r"ZF_(\w+) = (\d+)", body)}
        self.assertGreater(len(constants), 30)
        ours = {name: value for name, value in vars(abi).items() if name.isupper() and isinstance(value, int)}
        self.assertEqual(ours, constants | {"ABI_VERSION": int(re.search(r"ZF_ABI_VERSION (\d+)u", HEADER)[1])})

    def test_every_statistic_is_there_for_python(self):
        reserved = {"struct_size", "reserved_2"}
        self.assertEqual({field.name for field in dataclasses.fields(Stats)},
                         {name for name, _ in members_of("zf_stats")} - reserved)


if __name__ == "__main__":
    unittest.main()
