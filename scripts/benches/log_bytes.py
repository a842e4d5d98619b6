"""Trains a small GPT on the repository's pages, and says how many bytes a parameter the log of each step would need if
the step were speculated (docs/recovery.md). tests/bench/log_bytes.cpp steps and measures.

Gradients are clipped to the norm --limit, and --spike multiplies those of each 20th step. A speculated step has them
unclipped. With --gradients bf16 weights and gradients are rounded to that. Words are numbers below 4096, made of the
pages' words. Slices have 512 Ki elements, those of a piece of 2 MiB in bf16 with two threads."""

import argparse
import re
import statistics
import struct
import subprocess
import zlib

from bench_paths import SOURCE

import gpt
import torch

TOKENS, SLICE = 128, 512 << 10
ANSWER = struct.Struct("3Q")


def text() -> torch.Tensor:
    words = re.findall(r"\w+|[^\w\s]", "".join(page.read_text() for page in sorted((SOURCE / "docs").glob("*.md"))))
    return torch.tensor([zlib.crc32(word.encode()) % gpt.VOCABULARY for word in words])


def say(name: str, found: list[tuple[float, float]]):
    if found:
        needed, full = zip(*found)
        print(f"{name}: {len(found)} steps, bytes a parameter: median {statistics.median(needed):.2f}, most "
              f"{max(needed):.2f}; {statistics.mean(full):.1%} of slices are full at 2.25", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(SOURCE / "build/bin/log_bytes"))
    parser.add_argument("--gradients", choices=("fp32", "bf16"), default="bf16")
    for name, value in {"steps": 200, "texts": 2, "lr": 1e-3, "beta2": 0.999, "decay": 0.1, "limit": 3.0,
                        "spike": 100.0}.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    options = parser.parse_args()
    torch.manual_seed(1)
    model, words = gpt.Gpt(width=256, layers=4, tokens=TOKENS), text()
    params = list(model.parameters())
    flat = torch.nn.utils.parameters_to_vector(params).detach()
    rounded = (lambda tensor: tensor.bfloat16().float()) if options.gradients == "bf16" else lambda tensor: tensor
    found = {"the first 5": [], "not clipped": [], "clipped": [], "spike": []}
    with subprocess.Popen([options.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        program.stdin.write(struct.pack("2Q", len(flat), SLICE) + flat.numpy().tobytes())
        for step in range(1, options.steps + 1):
            with torch.no_grad():
                torch.nn.utils.vector_to_parameters(rounded(flat), params)
            begins = torch.randint(len(words) - TOKENS, (options.texts,))
            loss = gpt.loss_of(model, torch.stack([words[at:at + TOKENS + 1] for at in begins]))
            gradients = rounded(torch.cat([each.flatten() for each in torch.autograd.grad(loss, params)]))
            if is_spike := step % 20 == 0:
                gradients *= options.spike
            clip = min(1.0, options.limit / (float(gradients.norm()) + 1e-6))
            lr = options.lr * min(1, step / 20)
            program.stdin.write(struct.pack("3dQd", lr, options.beta2, options.decay, step, clip))
            program.stdin.write(gradients.numpy().tobytes())
            program.stdin.flush()
            needed, full, not_stepped = ANSWER.unpack(program.stdout.read(ANSWER.size))
            assert not_stepped == 0, "a value is not finite"
            flat = torch.frombuffer(bytearray(program.stdout.read(4 * len(flat))), dtype=torch.float32)
            name = "the first 5" if step <= 5 else "spike" if is_spike else "clipped" if clip < 1 else "not clipped"
            found[name].append((needed / len(flat), full / -(-len(flat) // SLICE)))
        program.stdin.close()
    print(f"{len(flat) / 1e6:.1f}M parameters, the last loss: {loss.item():.2f}")
    for name, each in found.items():
        say(name, each)


if __name__ == "__main__":
    main()
