"""What is noted with the steps of an engine that is kept, and taken back. Engines here only look like DeepSpeed's.
Tests deepspeed/keeping.py."""

import pickle
import sys
import types
import unittest
import unittest.mock

import support

torch = support.need("torch")
import zf_runtime.deepspeed  # noqa: E402
from zf_runtime.deepspeed import keeping  # noqa: E402
from zf_runtime.deepspeed.layout import Unsupported  # noqa: E402
from zf_runtime.optim.overlap import kept  # noqa: E402


def engine_without_zero() -> types.SimpleNamespace:
    operator = types.SimpleNamespace(powers=lambda number: (0, 0))
    optimizer = types.SimpleNamespace(ds_opt_adam=operator, opt_id=0, param_groups=[])
    zero = types.SimpleNamespace(loss_scaler=types.SimpleNamespace(cur_scale=1.0), optimizer=optimizer)
    return types.SimpleNamespace(
        optimizer=zero, lr_scheduler=None, global_steps=0, global_samples=0, micro_steps=0, skipped_steps=0, note=b"",
        _zf_lr_kwargs=None, managed_gradient_accumulation=lambda: True, train_batch_size=lambda: 8)


class Keeping(unittest.TestCase):
    def test_engines_have_kept_without_keep_too(self):
        """The loop of the page asks for it."""
        for variables in ({"ZF_TUNE": "off"}, {}):
            found = types.ModuleType("deepspeed.runtime.engine")
            found.DeepSpeedEngine = type("DeepSpeedEngine", (), {})
            modules = {"deepspeed": None, "deepspeed.runtime.engine": found}
            with (self.subTest(variables), unittest.mock.patch.dict("os.environ", variables),
                  support.stand_ins(modules)):
                try:
                    zf_runtime.deepspeed.install()
                except zf_runtime.ZfError as error:
                    self.assertEqual(variables, {}, error)  # there is no DeepSpeed
                self.assertIsNone(found.DeepSpeedEngine().kept)

    def test_a_note_that_is_no_bytes_is_refused(self):
        """bytes(3) would be three zeros."""
        engine = engine_without_zero()
        for note, is_taken in ((b"mine", True), (bytearray(4), True), (3, False), ("mine", False), ([1], False)):
            engine.note = note
            with self.subTest(note=note):
                if is_taken:
                    keeping._noted_of(lambda: engine, 1000)
                else:
                    with self.assertRaises(TypeError):
                        keeping._noted_of(lambda: engine, 1000)

    def test_the_same_parameters_in_another_order_of_a_partition_are_another_model(self):
        """That order is not the model's with round_robin_gradients."""
        first, second = torch.zeros(4), torch.zeros(2, 2)
        digests = {kept.digest_of(keeping.kinds_of(types.SimpleNamespace(bit16_groups=[[first, second]],
                                                                         round_robin_bit16_groups=[order])))
                   for order in ([first, second], [second, first])}
        self.assertEqual(len(digests), 2)

    def test_a_scheduler_that_counts_samples_steps_as_in_the_engine(self):
        """That of Megatron has no step() without their number."""
        steps = []
        engine = types.SimpleNamespace(train_batch_size=lambda: 8, lr_scheduler=types.SimpleNamespace(
            step=steps.append))
        keeping._step_scheduler(engine, {})
        self.assertEqual(steps, [8])

    def test_a_scheduler_is_given_again_what_engine_step_had_for_it(self):
        engine, found = engine_without_zero(), []
        step = keeping.noting(lambda its, lr_kwargs: found.append(
            keeping._noted_of(lambda: its, 1000)))
        for given in ((), ({"epoch": 3},), ()):
            step(engine, *given)
            engine.lr_scheduler = types.SimpleNamespace(step=lambda **words: found.append(words), state_dict=dict)
            keeping._step_scheduler(engine, keeping._Noted(*pickle.loads(found.pop())).lr_kwargs or {})
        self.assertEqual(found, [{}, {"epoch": 3}, {}])

    def test_what_cannot_be_pickled_is_refused_in_one_line(self):
        engine = engine_without_zero()
        for given in ({"epoch": lambda: 3}, {"epoch": sys}):
            with self.subTest(**given), self.assertRaisesRegex(zf_runtime.ZfError, "^with keep= .*lr_kwargs.*pickle"):
                engine._zf_lr_kwargs = given
                keeping._noted_of(lambda: engine, 1000)

    def test_a_pipeline_is_refused_before_anything_is_opened(self):
        pipeline = type("PipelineEngine", (), {})
        for kind in (pipeline, type("Mine", (pipeline,), {})):
            with self.assertRaisesRegex(zf_runtime.ZfError, "not tried with DeepSpeed's pipelines"):
                keeping.resuming(lambda engine: self.fail("it has begun"))(kind())

    def test_what_was_not_tried_is_refused(self):
        expert = types.SimpleNamespace(allreduce=False)
        for fact in ({"zenflow": True}, {"has_moe_layers": True}, {"model_parallel_group": object()},
                     {"fp16_groups": [[torch.ones(1)], [expert]]}):  # stage 3 has no has_moe_layers
            with (self.subTest(**fact), self.assertRaisesRegex(Unsupported, "ZenFlow|not tried with"),
                  unittest.mock.patch.object(torch.distributed, "get_world_size", lambda group: 2)):
                keeping.check(types.SimpleNamespace(**fact), [])

    def test_an_engine_that_is_made_again_says_what_to_do(self):
        self.assertRegex(keeping.with_way_out("a, rank 0 is in use by process 7; close its handle first, or keep this "
                                              "one under another name"),
                         "7; an engine that was made before .* start it again .* or call that engine's destroy\\(\\) "
                         "to free it, or keep this one under another name$")


if __name__ == "__main__":
    unittest.main()
