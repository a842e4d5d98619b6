"""With overlap=True parameters are one step late, and nothing else differs."""

import copy
import unittest

import support

torch = support.need("torch")
import adamw_case  # noqa: E402
from models import make_model, train  # noqa: E402


class Overlapped(adamw_case.AdamWTest):
    def test_parameters_are_one_step_late(self):
        param = torch.nn.Parameter(torch.zeros(5))
        optimizer = self.ours([param], lr=1.0, weight_decay=0)
        seen = []
        for _ in range(3):
            param.grad = torch.ones(5)
            optimizer.step()
            seen.append(round(param[0].item(), 4))
        self.assertEqual(seen, [0, -1, -2])
        optimizer.synchronize()
        self.assertAlmostEqual(param[0].item(), -3, 4)

    def test_it_is_torchs_adamw_on_late_gradients(self):
        models = make_model(), make_model()
        ours = self.ours(models[1].parameters(), lr=1e-2)
        losses = train(models[1], ours, 20)
        ours.synchronize()
        late, theirs = copy.deepcopy(models[0]), torch.optim.AdamW(models[0].parameters(), lr=1e-2)
        wanted = []
        for step in range(20):  # gradients at the parameters of the step before
            before = copy.deepcopy(models[0])
            wanted += train(late, _Grads(late, models[0]), 1, first=step)
            theirs.step()
            late.load_state_dict(before.state_dict())
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(wanted), **adamw_case.ROUNDING)
        self.assert_same(models[1], models[0])

    def test_parameters_come_back_while_the_step_runs(self):
        """Each parameter is copied as soon as it is finished, before the next one is waited for."""
        params = [torch.nn.Parameter(torch.zeros(4096, dtype=torch.bfloat16)) for _ in range(500)]
        optimizer = self.ours(params, lr=1.0, weight_decay=0, runtime_options={"chunk_bytes": 8192})
        for param in params:
            param.grad = torch.ones_like(param)
        asked = []
        progress = optimizer.runtime.progress

        def watched(group, at_least, **keywords):
            if asked:  # the one before was copied before this one is waited for
                self.assertEqual(params[asked[-1] // 4096 - 1][0].item(), -1)
            asked.append(at_least)
            return min(at_least, progress(group, at_least, **keywords))

        optimizer.runtime.progress = watched
        optimizer.step()
        optimizer.synchronize()
        self.assertEqual(asked, [4096 * (number + 1) for number in range(500)])
        self.assertTrue(all((param == -1).all() for param in params))

    def test_a_write_during_a_step_is_warned_of(self):
        param = torch.nn.Parameter(torch.zeros(5))
        optimizer = self.ours([param], lr=1.0, weight_decay=0)
        param.grad = torch.ones(5)
        optimizer.step()
        with torch.no_grad():
            param.fill_(4)
        with self.assertWarnsRegex(UserWarning, "synchronize"):
            optimizer.step()
        optimizer.synchronize()
        self.assertAlmostEqual(param[0].item(), 3, 4)


class _Grads:
    """Stands in for an optimizer: hands one model's gradients to another of the same shape."""

    def __init__(self, source, target):
        self.pairs = list(zip(source.parameters(), target.parameters()))

    def zero_grad(self):
        for source, _ in self.pairs:
            source.grad = None

    def step(self):
        for source, target in self.pairs:
            target.grad = source.grad.clone()


if __name__ == "__main__":
    unittest.main()
