"""What is noted with the steps of an engine that is kept, and taken back. Engines here only look like DeepSpeed's."""

import sys
import types
import unittest
import unittest.mock

import support

torch = support.need("torch")
import zf_runtime.deepspeed  # noqa: E402
from zf_runtime.deepspeed import keeping  # noqa: E402
from zf_runtime.optim.overlap import kept  # noqa: E402


class Keeping(unittest.TestCase):
    def test_engines_have_kept_without_keep_too(self):
        """The loop of the page asks for it."""
        for variables in ({"ZF_TUNE": "off"}, {}):
            found = types.ModuleType("deepspeed.runtime.engine")
            found.DeepSpeedEngine = type("DeepSpeedEngine", (), {})
            modules = {"deepspeed": None, "deepspeed.runtime.engine": found}
            with (self.subTest(variables), unittest.mock.patch.dict("os.environ", variables),
                  unittest.mock.patch.dict(sys.modules, modules)):
                try:
                    zf_runtime.deepspeed.install()
                except zf_runtime.ZfError as error:
                    self.assertEqual(variables, {}, error)  # there is no DeepSpeed
                self.assertIsNone(found.DeepSpeedEngine().kept)


if __name__ == "__main__":
    unittest.main()
