"""What the native optimizer does not take of DeepSpeed, and why. The optimizers here only look like DeepSpeed's. Tests
deepspeed/__init__.py, deepspeed/attach.py, deepspeed/layout.py, deepspeed/superoffload.py, optim/overlap/steps.py."""

import contextlib
import io
import types
import unittest
import unittest.mock

import support

torch = support.need("torch")
import zf_runtime.deepspeed  # noqa: E402
from zf_runtime import ZfError  # noqa: E402
from zf_runtime.deepspeed import attach, fused, keeping, layout, local_step, operator, superoffload  # noqa: E402
from zf_runtime.native.runtime import Runtime  # noqa: E402
from zf_runtime.optim.overlap.steps import Steps  # noqa: E402


class Stage2:
    """Has what a ZeRO optimizer of stage 2 has. Its functions do nothing."""

    def __init__(self, elements=32, dtype=torch.float32, **more):
        for name in ("step", *fused.NEEDED[2], *layout.READERS[2], *layout.WRITERS[2]):
            setattr(self, name, lambda: None)
        param = torch.zeros(elements, dtype=dtype)
        param.grad = torch.zeros_like(param)
        self.single_partition_of_fp32_groups = [param]
        self.param_buffer_of_bit16_for_cpu_offload_groups = [param.to(torch.bfloat16)]
        vars(self).update(more)


class SuperOffload(Stage2):
    __module__ = "deepspeed.runtime.superoffload.superoffload_stage3"


def cpu_adam(**more) -> types.SimpleNamespace:
    return types.SimpleNamespace(**{"fp32_optimizer_states": True, "param_groups": [{}], "adam_w_mode": True} | more)


class Refused(unittest.TestCase):
    def test_what_can_be_taken(self):
        found, = layout.partitions_of(Stage2(), cpu_adam(), "late")
        self.assertEqual((found.param.numel(), found.copy_dtype), (32, torch.bfloat16))

    def test_stage_1_needs_overlap_comm_so_that_steps_begin_in_backward(self):
        stage = types.SimpleNamespace(SPECULATION_NEEDS=())  # the module itself needs PyTorch 2
        for is_stage_2, overlaps in ((True, False), (False, True), (False, False)):
            said, can = io.StringIO(), is_stage_2 or overlaps
            zero = Stage2(partition_gradients=is_stage_2, overlap_comm=overlaps)
            with (self.subTest(is_stage_2=is_stage_2, overlaps=overlaps), contextlib.redirect_stderr(said),
                  unittest.mock.patch.object(attach, "_exact", lambda zero: stage)):
                self.assertEqual(attach._can_speculate(zero, "exact", "fp32"), can)
                self.assertEqual("takes all gradients when backward has ended" in said.getvalue(), not can)

    def test_each_reason_is_named(self):
        two_dimensions = torch.zeros(4, 8)
        two_dimensions.grad = torch.zeros_like(two_dimensions)
        for zero, optimizer, mode, reason in (
                (SuperOffload(), cpu_adam(), "wait", "SuperOffload begins steps in backward by itself"),
                (Stage2(swap_optimizer=True), cpu_adam(), "wait", "the optimizer's state is on NVMe"),
                (Stage2(zenflow=True), cpu_adam(), "late", "ZenFlow has its own order of steps"),
                (Stage2(), cpu_adam(fp32_optimizer_states=False), "wait", "the moments are in half precision"),
                (Stage2(), cpu_adam(param_groups=[{}, {"amsgrad": True}]), "wait", "amsgrad is on"),
                (Stage2(dtype=torch.bfloat16), cpu_adam(), "wait", "partition 0 is torch.bfloat16"),
                (Stage2(single_partition_of_fp32_groups=[two_dimensions]), cpu_adam(), "wait",
                 "partition 0 is not flat: its shape is (4, 8)"),
                (Stage2(single_partition_of_fp32_groups=[torch.zeros(32)]), cpu_adam(), "wait",
                 "partition 0 has no fp32 gradient of its own shape"),
                (Stage2(param_buffer_of_bit16_for_cpu_offload_groups=[]), cpu_adam(), "wait",
                 "Stage2 has 1 flat partitions and 0 copies of them"),
                (Stage2(elements=0), cpu_adam(), "wait", "no partition is on the CPU")):
            with self.subTest(reason=reason):
                with self.assertRaises(layout.Unsupported) as refused:
                    layout.partitions_of(zero, optimizer, mode)
                self.assertIn(reason, str(refused.exception))

    def test_moments_in_bf16_are_for_bf16_and_fp32_weights_without_zenflow(self):
        half = [torch.zeros(32, dtype=torch.float16)]
        for zero, reason in ((Stage2(param_buffer_of_bit16_for_cpu_offload_groups=half), "the weights are fp16"),
                             (Stage2(zenflow=True), "ZenFlow's moments are fp32")):
            with self.subTest(reason), self.assertRaisesRegex(layout.Unsupported, reason):
                layout.partitions_of(zero, cpu_adam(), "wait", "bf16")
        self.assertEqual(len(layout.partitions_of(Stage2(), cpu_adam(), "wait", "bf16")), 1)

    def test_each_rank_and_partition_has_numbers_of_its_own(self):
        zero = Stage2()
        zero.single_partition_of_fp32_groups *= 2
        zero.param_buffer_of_bit16_for_cpu_offload_groups *= 2
        with unittest.mock.patch.object(layout, "_place_among_ranks", lambda: (1, 3)):
            found = layout.partitions_of(zero, cpu_adam(), "wait", "bf16")
        self.assertEqual([partition.first_element for partition in found], [32, 3 * 32 + 32])

    def test_who_steps_then_is_said_and_true(self):
        """The optimizer in the training process, in place; SuperOffload's by DeepSpeed's own operator."""
        in_training = "There is no optimizer process: DeepSpeedCPUAdam steps in the training process"
        for kind, mode, who in ((Stage2, "wait", in_training),
                                (SuperOffload, "wait", "DeepSpeed's own optimizer is used"),
                                (Stage2, "late", in_training + ", and mode \"late\" has no effect")):
            own, said = unittest.mock.Mock(), io.StringIO()
            ours = operator.CpuAdamOperator(lambda own=own: own)
            ours.create_adam(0, 1e-3, 0.9, 0.999, 1e-8, 0.0, True, False)
            with self.subTest(kind.__name__, mode=mode), contextlib.redirect_stderr(said):
                attach.attach(kind(swap_optimizer=True, optimizer=cpu_adam(ds_opt_adam=ours)), mode, {})
                with unittest.mock.patch.object(local_step, "step") as in_place:
                    ours.adam_update(0, 1, 1e-3, 0.9, 0.999, 1e-8, 0.0, True, *torch.zeros(4, 16))
                self.assertIn(f". {who}\n", said.getvalue())
                self.assertEqual((in_place.called, own.adam_update.called), (kind is Stage2, kind is SuperOffload))

    def test_where_another_rank_has_no_process_an_arena_stays_unless_it_has_a_log(self):
        for speculates, opened in ((False, 1), (True, 2)):
            ours = cpu_adam(ds_opt_adam=operator.CpuAdamOperator(unittest.mock.Mock()), state={})
            with self.subTest(speculates=speculates), contextlib.ExitStack() as stack:
                for name, value in (("all_ranks_can", False), ("_possible_mode", "exact"), ("_can_speculate", True),
                                    ("unpin", None), ("finish", None)):
                    stack.enter_context(unittest.mock.patch.object(attach, name, lambda *_, value=value: value))
                stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
                made = stack.enter_context(unittest.mock.patch.object(attach, "FlatArena", wraps=attach.FlatArena))
                attach.attach(Stage2(optimizer=ours, params_in_partition=[[]], dp_process_group=None), "exact",
                              {"plan": support.plan()}, speculates=speculates)
                arena = ours.ds_opt_adam.arena
                self.addCleanup(arena.close)
                self.assertEqual((made.call_count, arena.mode, arena.speculation), (opened, "wait", None))

    def test_where_the_log_has_no_memory_no_step_begins_in_backward_and_nothing_is_kept(self):
        init, said = Runtime.__init__, io.StringIO()

        def refusing(runtime, *given, groups=(), **more):
            if any(group.speculative for group in groups):
                raise ZfError("no memory", "ZF_ERROR_SYSTEM")
            init(runtime, *given, groups=groups, **more)

        zero = Stage2(round_robin_bit16_groups=[])
        given = zero, layout.partitions_of(zero, cpu_adam(), "exact"), "exact", {"plan": support.plan()}, "fp32", True
        with unittest.mock.patch.object(Runtime, "__init__", refusing), contextlib.redirect_stderr(said):
            arena = attach._open(*given, Steps(None))
            self.addCleanup(arena.close)
            with self.assertRaisesRegex(ZfError, "no memory"):
                attach._open(*given, Steps("mine"))
        self.assertIsNone(arena.speculation)
        self.assertEqual(said.getvalue().count("no step begins in backward, since its log has no memory: no memory"), 1)

    def test_superoffload_stays_in_all_ranks_where_one_has_no_plan(self):
        for plan, others, in_place in ((support.plan(), True, True), (support.plan(), False, False),
                                       ("/none.json", True, False)):
            stage_3 = unittest.mock.Mock()
            make = superoffload.by_stage_3(plan, stage_3)(SuperOffload)
            with (self.subTest(plan=plan, others=others), contextlib.redirect_stderr(io.StringIO()),
                  support.stand_ins({SuperOffload.__module__: unittest.mock.Mock()}),
                  unittest.mock.patch.object(superoffload, "all_ranks_can",
                                             lambda _, can, others=others: can and others)):
                made = make(dp_process_group=None)
                self.assertEqual((stage_3.called, isinstance(made, SuperOffload)), (in_place, not in_place))

    def test_what_cannot_be_kept_is_refused_before_deepspeed_is_changed(self):
        for options, kind, said in (({"mode": "late", "keep": "mine"}, ZfError, "one step older than what is kept"),
                                    ({"keep_s": 5}, ValueError, "keep_s or note_bytes is given without keep"),
                                    ({"keep": "mine"}, ZfError, "DeepSpeed cannot be imported")):
            absent = dict.fromkeys(("deepspeed", "deepspeed.ops.adam"))
            with (self.subTest(options), support.stand_ins(absent),
                  self.assertRaisesRegex(kind, said)):
                zf_runtime.deepspeed.install(**options)
        with unittest.mock.patch.dict("os.environ", ZF_KEEP="ours"), self.assertRaisesRegex(ZfError, "keep='ours'"):
            zf_runtime.deepspeed.install("late")

    def test_an_option_that_it_does_not_have_is_refused_at_once(self):
        """And not by the first engine. What the call before has installed stays."""
        undo = unittest.mock.Mock()
        with unittest.mock.patch.object(zf_runtime.deepspeed, "_undo", [undo]):
            for options in ({"moed": "exact"}, {"groups": []}, {"spin_us": 5, "keeps": 5}):
                said = f"^install.. has no option {[*options][-1]!r}; it has mode, .*keep, .*spin"
                with self.subTest(options), self.assertRaisesRegex(TypeError, said):
                    zf_runtime.deepspeed.install(**options)
        undo.assert_not_called()

    def test_partitions_that_cannot_be_kept_are_refused_in_all_ranks(self):
        on_nvme = {"fp32_partitioned_groups_flat": [torch.zeros(8)], "fp16_partitioned_groups_flat": [None]}
        needed = {"parallel_partitioned_bit16_groups": [], "real_dp_process_group": [], "round_robin_bit16_groups": [],
                  "update_lp_params": None}
        for more, why in (({"zenflow": True}, "ZenFlow has state"), ({}, "has no parallel_partitioned"),
                          (on_nvme | {"_post_step": None, "_partition_all_parameters": None}, "weights are on NVMe"),
                          (needed, "stepped on the GPU")):
            with self.subTest(why), self.assertRaisesRegex(layout.Unsupported, why):
                keeping.check(Stage2(**more), [])
        ranks = unittest.mock.Mock()
        zero = Stage2(swap_optimizer=True,
                      optimizer=cpu_adam(ds_opt_adam=operator.CpuAdamOperator(unittest.mock.Mock())))
        with (unittest.mock.patch("zf_runtime.optim.overlap.ranks.of_this_job", lambda name: ranks),
              self.assertRaisesRegex(ZfError, "keep='mine', and ZeRO's partitions cannot be kept: .*on NVMe")):
            attach.attach(zero, "wait", {"keep": "mine"})
        self.assertIn("on NVMe", ranks.agree.call_args.args[0].refusal, "the other ranks wait for this one")

    def test_an_engine_without_partitions_is_refused(self):
        class Engine:
            @keeping.resuming
            def __init__(self, optimizer):
                self.optimizer = optimizer

        for optimizer in (Stage2(optimizer=cpu_adam()), torch.optim.SGD([torch.zeros(1)], lr=1.0)):
            with self.assertRaisesRegex(ZfError, "this engine has no ZeRO partitions on the CPU"):
                Engine(optimizer)
        Engine(None)  # it trains nothing

    def test_steps_in_place_are_refused(self):
        ours = operator.CpuAdamOperator(unittest.mock.Mock(), "mine")
        ours.create_adam(0, 1e-3, 0.9, 0.999, 1e-8, 0.0, True, False)
        with self.assertRaisesRegex(ZfError, "keep='mine', and a DeepSpeedCPUAdam outside"):
            ours.adam_update(0, 1, 1e-3, 0.9, 0.999, 1e-8, 0.0, True, *torch.zeros(4, 16))

    def test_hooks_of_the_optimizers_step_are_refused(self):
        for hooks in "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks":
            zero = Stage2(optimizer=types.SimpleNamespace(**{hooks: {1: None}}))
            keeping.step_together(zero, types.SimpleNamespace(mode="exact"))
            with self.subTest(hooks), self.assertRaisesRegex(ZfError, "behind all hooks"):
                zero.step()
        zero = Stage2(optimizer=types.SimpleNamespace())  # torch 1 has none
        keeping.step_together(zero, types.SimpleNamespace(mode="exact"))
        zero.step()

    def test_an_optimizer_that_lacks_a_name_is_not_known(self):
        for name in fused.NEEDED[2] + layout.READERS[2] + layout.WRITERS[2]:
            zero = Stage2()
            delattr(zero, name)
            with self.subTest(name=name), self.assertRaisesRegex(layout.Unsupported, f"has no {name}, so its layout"):
                layout.partitions_of(zero, cpu_adam(), "wait")


if __name__ == "__main__":
    unittest.main()
