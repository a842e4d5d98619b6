"""A step of mode exact, with clipping, is as near to torch's as a step in place. Costs 4 s."""

import copy
import math
import pathlib
import sys
import unittest

import torch
from case import AdamWTest, Reader

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from ulps import ELEMENTS, LR, ulps_between

CLIP = 100.0  # the norms are some 1,000


class NearTorch(AdamWTest):
    def distances(self, steps=10):
        """Steps 1M elements from the same p, m, v, g and coefficient with both, and goes on from what fused has made.
        Returns the largest distance in ulp, and that of the norms."""
        generator = torch.Generator().manual_seed(7)
        param, again = (torch.nn.Parameter(torch.zeros(ELEMENTS)) for _ in range(2))
        param.data = torch.randn(ELEMENTS, generator=generator)
        theirs = torch.optim.AdamW([param], lr=LR, fused=True)
        ours, reader = self.ours([again], "exact", lr=LR, clip_grad_norm=CLIP), Reader([again])
        furthest = norms = 0.0
        for _ in range(steps):
            again.data.copy_(param.data)
            if theirs.state[param]:
                ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
            gradient = torch.randn(ELEMENTS, generator=generator)
            param.grad = gradient.clone()
            reader.give([gradient])
            ours.step()
            ours.synchronize()
            norm = torch.linalg.vector_norm(gradient.double()).item()
            norms = max(norms, abs(ours.grad_norm / norm - 1))
            param.grad.mul_(CLIP / (norm + 1e-6))
            theirs.step()
            furthest = max(furthest, ulps_between(again.detach(), param.detach()))
        print(f"{furthest:.1f} ulp, norm {norms:.1e}")
        return furthest, norms

    def test_ten_steps_are_within_8_ulp_of_fused_and_norms_within_a_millionth(self):
        furthest, norms = self.distances()
        self.assertLessEqual(furthest, 8)
        self.assertLess(norms, 1e-6)
        self.assertGreater(math.sqrt(ELEMENTS) / CLIP, 2, "it clips")


if __name__ == "__main__":
    unittest.main()
