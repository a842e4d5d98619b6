"""An engine is told of each compilation before it begins, also after torch has forgotten who listens. Tests
optim/overlap/compiled.py."""

import unittest

import case
import torch
from zf_runtime.optim.overlap import compiled


class Engine:
    def __init__(self):
        self.told = []

    def compiles(self):
        self.told.append(compiled.is_used())


class Told(unittest.TestCase):
    def setUp(self):
        case.forget_compiled()
        self.addCleanup(case.forget_compiled)
        self.engine = Engine()
        compiled.tell(self.engine)

    def compile(self):
        torch.compile(lambda values: values + 1, backend="eager")(torch.ones(2))

    def test_before_anything_is_compiled_nothing_is_said(self):
        self.assertEqual((compiled.is_used(), self.engine.told), (False, []))

    def test_a_compilation_is_told_and_remembered(self):
        self.compile()
        self.assertEqual((self.engine.told, compiled.is_used(), compiled.has_compiled()), ([True], True, True))

    def test_after_a_reset_it_is_told_too(self):
        self.compile()
        torch._dynamo.reset()
        self.compile()
        self.assertEqual(self.engine.told, [True, True])


if __name__ == "__main__":
    unittest.main()
