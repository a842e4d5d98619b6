"""Tests registration with CUDA against a stand-in for its runtime, so that no GPU is needed. Tests native/cuda.py."""

import unittest
from unittest import mock

import support

torch = support.need("torch")
from zf_runtime.native.cuda import HostRegistration  # noqa: E402


class Registration(unittest.TestCase):
    def setUp(self):
        self.cudart = mock.Mock()
        self.cudart.cudaHostRegister.return_value = 0
        patch = mock.patch("torch.cuda.cudart", return_value=self.cudart)
        patch.start()
        self.addCleanup(patch.stop)
        self.arrays = [torch.zeros(10), torch.zeros(0), torch.zeros(6, dtype=torch.bfloat16)]

    def test_every_array_once_and_back(self):
        registration = HostRegistration(self.arrays)
        self.assertEqual(registration.note, "")
        places = [(array.data_ptr(), size, 0) for array, size in ((self.arrays[0], 40), (self.arrays[2], 12))]
        self.assertEqual([call.args for call in self.cudart.cudaHostRegister.call_args_list], places)
        registration.release()
        registration.release()
        self.assertEqual([call.args[0] for call in self.cudart.cudaHostUnregister.call_args_list],
                         [place[0] for place in places])

    def test_a_refusal_is_noted_and_leaves_nothing_registered(self):
        self.cudart.cudaHostRegister.side_effect = [0, 2]
        registration = HostRegistration(self.arrays)
        self.assertRegex(registration.note, "12 bytes with error 2")
        self.cudart.cudaHostUnregister.assert_called_once_with(self.arrays[0].data_ptr())


if __name__ == "__main__":
    unittest.main()
