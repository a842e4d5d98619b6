"""A parameter waits for its own share of a step, and for nothing behind that. The arena only looks like ours, and does
a share when it is told. Tests optim/overlap/turn.py."""

import threading
import types
import unittest

import case  # noqa: F401
import torch
from zf_runtime import ZfError
from zf_runtime.optim.overlap.timeline import Timeline
from zf_runtime.optim.overlap.turn import Overlap, Share, Turn
from zf_runtime.optim.tensors.hashing import kind
from zf_runtime.optim.tensors.streams import device_of

CPU = torch.device("cpu")


class Arena:
    """Gives each parameter its index as its new value."""

    def __init__(self, count):
        self.counts, self.begun = torch.zeros(count), {}
        self.runtime = types.SimpleNamespace(progress=self.progress, wait=lambda ticket: None)
        self.done = [threading.Event() for _ in range(count)]
        self.asked, self.submitted, self.error = [], None, None

    def submit(self, scalars, indexes, counted, note, *, buffer, scalars_of):
        if self.error:
            raise self.error
        self.submitted = indexes
        return 1

    def progress(self, index, elements, *, ticket):
        self.asked.append(index)
        self.done[index].wait(20)  # s: a step in another order ends, too


def place(index):
    param = torch.zeros(4)
    reading = device_of(CPU).current().read([param], digest=True)[0]
    return types.SimpleNamespace(index=index, local=param, tensors=[param], kind=kind(param), digest=reading.digest,
                                 values=torch.full((4,), float(index)), shape=types.SimpleNamespace(elements=4),
                                 ends=[4])


class Turns(unittest.TestCase):
    def setUp(self):
        self.arena, self.places = Arena(4), [place(index) for index in range(4)]
        self.overlap = Overlap(self.arena, {CPU: device_of(CPU)}, Timeline())
        self.addCleanup(self.overlap.follower.end)
        self.addCleanup(lambda: [each.set() for each in self.arena.done])  # first: the thread waits for them

    def begin(self, *shares, is_late=False):
        turn = Turn(1, [Share([self.places[index] for index in share]) for share in shares], 0, [], [], [], {},
                    is_late=is_late, note=None)
        self.overlap.begin(turn)
        return turn

    def values(self):
        return [int(each.local[0]) for each in self.places]

    def test_shares_are_stepped_and_sent_in_their_order_and_each_is_waited_for_alone(self):
        turn = self.begin([3, 1], [2])
        self.assertEqual(self.arena.submitted, [3, 1, 2])
        self.arena.done[1].set()  # the last of the first share, which is done when all of it is
        self.overlap.wait_for(self.places[3:])
        self.assertEqual((self.values(), self.arena.asked[0]), ([0, 1, 0, 3], 1))
        self.assertFalse(turn.shares[1].sent.is_set)
        self.overlap.wait_for(self.places[:1])  # it is not stepped
        self.assertEqual([self.overlap.is_under_way(each) for each in self.places], [False, True, True, False])
        self.arena.done[2].set()
        self.assertEqual((self.overlap.finish(), self.values()), ([], [0, 1, 2, 3]))
        self.assertIsNone(self.overlap.turn)
        self.assertEqual(self.arena.counts.tolist(), [0, 1, 1, 1])

    def test_what_the_program_writes_meanwhile_stays_and_is_told(self):
        self.begin([1, 2])
        self.places[1].local.fill_(7)
        self.arena.done[2].set()
        self.assertEqual((self.overlap.finish(), self.values()), ([self.places[1]], [0, 7, 2, 0]))
        self.assertEqual(self.overlap.finish(), [], "it is told once")

    def test_a_late_step_is_sent_when_it_is_published(self):
        turn = self.begin([1, 2], is_late=True)
        self.arena.done[2].set()
        self.assertFalse(turn.ended.wait(0.05))
        self.assertEqual((self.values(), self.overlap.is_just_begun()), ([0, 0, 0, 0], False))
        self.overlap.publish()
        self.overlap.wait_for(self.places[1:2])
        self.assertEqual(self.values(), [0, 1, 2, 0])

    def test_a_step_that_is_refused_is_raised_and_the_next_one_goes(self):
        self.arena.error = ZfError("lr is infinite")
        with self.assertRaisesRegex(ZfError, "lr is infinite"):
            self.begin([1])
        self.assertEqual(self.overlap.finish(), [], "it is raised once")
        self.arena.error = None
        self.arena.done[1].set()
        self.begin([1])
        self.overlap.finish()
        self.assertEqual(self.values(), [0, 1, 0, 0])

    def test_a_death_after_the_submission_is_raised_by_each_wait(self):
        def dies(*given, **more):
            self.arena.progress(*given, **more)
            raise ZfError("the optimizer process has died")

        self.arena.runtime.progress = dies
        self.begin([1])
        self.arena.done[1].set()
        for _ in range(2):
            with self.assertRaisesRegex(ZfError, "has died"):
                self.overlap.wait_for(self.places[1:2])


if __name__ == "__main__":
    unittest.main()
