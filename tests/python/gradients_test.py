"""With overlap=False gradients live in the shared memory from the moment that autograd has made them. Needs torch 2.1."""

import unittest

import support

torch = support.need("torch")
import adamw_case  # noqa: E402
from models import make_data, make_model  # noqa: E402

if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
    raise unittest.SkipTest(f"torch {torch.__version__} has no register_post_accumulate_grad_hook: step() copies")


def shared(optimizer) -> list[bool]:
    """Returns, for each parameter, whether its gradient lies in the shared memory."""
    group, = optimizer._groups
    return [param.grad.data_ptr() == view.data_ptr() for param, view in zip(group.params, group.grads[0])]


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
        for model, optimizer in ((theirs, torch.optim.AdamW(theirs.parameters(), lr=1e-2)), (self.model, self.optimizer)):
            for step in range(20):
                train(model, optimizer, step)
        self.assert_same(self.model, theirs)

    def test_backward_puts_them_there_and_step_leaves_them(self):
        self.backward()
        self.assertEqual(shared(self.optimizer), [True] * 4)
        grads = [param.grad for param in self.model.parameters()]
        self.optimizer.step()
        for param, grad in zip(self.model.parameters(), grads):
            self.assertIs(param.grad, grad)

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

    def test_keep_their_values_when_the_optimizer_is_closed(self):
        self.backward()
        before = [param.grad.clone() for param in self.model.parameters()]
        self.optimizer.close()
        for param, value in zip(self.model.parameters(), before):
            self.assertTrue(torch.equal(param.grad, value))
        self.backward()
        self.assertTrue(torch.equal(self.model[0].weight.grad, 2 * before[0]), "nothing of ours is called any more")

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
