"""Each engine has all that an optimizer asks of one, with the same arguments. Tests optim/engine.py."""

import inspect
import unittest

import case  # noqa: F401
from zf_runtime.optim.backward.engine import BackwardEngine
from zf_runtime.optim.engine import Engine
from zf_runtime.optim.in_place.engine import InPlaceEngine
from zf_runtime.optim.overlap.engine import OverlapEngine

ASKED = {name: value for name, value in vars(Engine).items() if not name.startswith("_")}


class Engines(unittest.TestCase):
    def test_each_has_all_that_is_asked(self):
        self.assertIn("step", ASKED)
        for engine in (InPlaceEngine, OverlapEngine, BackwardEngine):
            for name, asked in ASKED.items():
                with self.subTest(engine=engine.__name__, name=name):
                    found = inspect.getattr_static(engine, name)
                    if not isinstance(asked, property):  # else an attribute serves as well
                        self.assertEqual(*(list(inspect.signature(each).parameters) for each in (found, asked)))


if __name__ == "__main__":
    unittest.main()
