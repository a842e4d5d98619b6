"""With overlap=False gradients live in the shared memory as soon as autograd has made them. Needs torch 2.1."""

import gc
import os
import signal
import time
import unittest

import support

torch = support.need("torch")
import adamw_case  # noqa: E402
import zf_runtime  # noqa: E402
from models import groups_of, make_data, make_model  # noqa: E402

if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
    raise unittest.SkipTest(f"torch {torch.__version__} has no register_post_accumulate_grad_hook: step() copies")


def shared(optimizer) -> list[bool]:
    """Returns, for each parameter with a gradient, whether that lies in its place in the shared memory."""
    pairs = [pair for group in optimizer._groups for pair in zip(group.params, group.grads[0])]
    return [param.grad.is_set_to(view) for param, view in pairs if param.grad is not None]


class Gradients(adamw_case.AdamWTest):
    def setUp(self):
        self.model = make_model()
        self.optimizer = self.ours(self.model.parameters(), lr=1e-2, overlap=False)

    def backward(self, model=None, step=0, **options):
        model = model or self.model
        inputs, targets = make_data()
        torch.nn.functional.mse_loss(model(inputs[step]), targets[step]).backward(**options)

    def compare(self, train):
        """Trains as train(model, optimizer, step) does, with torch's optimizer and with ours."""
        theirs = make_model()
        plain = torch.optim.AdamW(theirs.parameters(), lr=1e-2)
        for model, optimizer in ((theirs, plain), (self.model, self.optimizer)):
            for step in range(20):
                train(model, optimizer, step)
        self.assert_same(self.model, theirs)

    def test_backward_puts_them_there_and_step_leaves_them(self):
        self.backward()
        self.assertEqual(shared(self.optimizer), [True] * 4)
        before = [param.grad.clone() for param in self.model.parameters()]
        self.optimizer.step()
        self.assertEqual(shared(self.optimizer), [True] * 4)
        for param, value in zip(self.model.parameters(), before):
            self.assertTrue(torch.equal(param.grad, value))

    def test_accumulated_and_clipped(self):
        def train(model, optimizer, step):
            optimizer.zero_grad()
            self.backward(model, step)
            self.backward(model, step + 20)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()

        self.compare(train)
        self.assertEqual(shared(self.optimizer), [True] * 4)

    def test_zeroed_in_place(self):
        def train(model, optimizer, step):
            optimizer.zero_grad(set_to_none=False)
            self.backward(model, step)
            optimizer.step()

        self.compare(train)
        self.assertEqual(shared(self.optimizer), [True] * 4)

    def test_never_zeroed(self):
        def train(model, optimizer, step):
            self.backward(model, step)
            optimizer.step()

        self.compare(train)

    def test_given_by_the_program(self):
        def train(model, optimizer, step):
            for number, param in enumerate(model.parameters()):
                param.grad = torch.full_like(param, 0.1 * (number + 1) * (-1) ** step)
            optimizer.step()

        self.compare(train)

    def test_that_can_be_differentiated_again_stay_autograds(self):
        self.backward(create_graph=True)
        self.assertEqual(shared(self.optimizer), [False] * 4)
        self.assertTrue(self.model[0].weight.grad.requires_grad)
        self.optimizer.step()

    def test_pointed_elsewhere_by_the_program(self):
        def train(model, optimizer, step):
            optimizer.zero_grad()
            self.backward(model, step)
            for param in model.parameters():
                param.grad.data = param.grad.data.clamp(-0.01, 0.01)
            model[0].weight.grad = model[0].weight.grad[:1].expand_as(model[0].weight)
            optimizer.step()

        self.compare(train)

    def test_saved_for_another_backward(self):
        """One accumulated gradient must not look to autograd like a change of all of them."""
        self.backward()
        sum((param.grad * param).sum() for param in self.model.parameters()).backward()
        self.assertEqual(shared(self.optimizer), [True] * 4)

    def test_of_several_groups_and_of_one_that_is_added(self):
        model, extra = make_model(), torch.nn.Parameter(torch.ones(3))
        optimizer = self.ours(groups_of(model), overlap=False)
        self.backward(model)
        grads = [param.grad.clone() for param in model.parameters()]
        optimizer.add_param_group({"params": [extra]})
        for param, value in zip(model.parameters(), grads):
            self.assertTrue(torch.equal(param.grad, value))
        self.assertEqual(shared(optimizer), [False] * 4, "the memory of before is gone")
        optimizer.zero_grad()
        self.backward(model)
        (extra * extra).sum().backward()
        self.assertEqual(shared(optimizer), [True] * 5)

    def test_stay_autograds_while_an_interrupted_step_reads_the_memory(self):
        self.backward()
        for group in self.optimizer._groups:
            group.busy = True
        self.optimizer.zero_grad()
        self.backward()
        self.assertEqual(shared(self.optimizer), [False] * 4)

    def test_of_a_forked_child_are_its_own(self):
        group, = self.optimizer._groups
        param, view = group.params[1], group.grads[0][1]
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            param.grad = torch.ones(33)
            group._take_over(1, param)  # what backward() does; but PyTorch's threads do not survive a fork
            os._exit(param.grad.is_set_to(view))
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertFalse(view.any())

    def test_do_not_keep_an_optimizer_that_was_dropped(self):
        model = make_model(torch.bfloat16)
        optimizer = zf_runtime.OverlappedAdamW(model.parameters(), plan=support.plan(), overlap=False)
        worker = optimizer.runtime.stats().worker_pid
        del optimizer
        gc.collect()
        for _ in range(500):
            if not os.path.exists(f"/proc/{worker}"):
                return
            time.sleep(0.02)
        self.fail(f"zf-optimizer {worker} is still there")

    def test_keep_their_values_when_the_optimizer_is_closed(self):
        self.backward()
        group, = self.optimizer._groups
        views, before = list(group.grads[0]), [param.grad.clone() for param in group.params]
        self.optimizer.close()
        for param, value, view in zip(group.params, before, views):
            self.assertTrue(torch.equal(param.grad, value))
            self.assertFalse(param.grad.is_set_to(view))
            param.grad = None
        self.backward()
        for param, view in zip(group.params, views):
            self.assertFalse(param.grad.is_set_to(view), "the hooks are gone")

    def test_without_alias_they_are_copied(self):
        model = make_model()
        optimizer = self.ours(model.parameters(), overlap=False, alias=False)
        self.backward(model)
        self.assertEqual(shared(optimizer), [False] * 4)

    def test_of_half_precision_parameters(self):
        model = make_model(torch.bfloat16)
        optimizer = self.ours(model.parameters(), overlap=False)
        model(torch.ones(4, 10, dtype=torch.bfloat16)).float().square().mean().backward()
        self.assertEqual(shared(optimizer), [True] * 4)
        optimizer.step()


if __name__ == "__main__":
    unittest.main()
