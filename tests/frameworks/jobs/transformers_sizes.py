"""Makes models of the transformers library on the meta device. Says for each line of standard input, a config.json:
{"params": N, "largest": N}, the elements of its parameters and of the largest one."""

import json
import sys

import report
import torch
import transformers

for line in sys.stdin:
    settings = json.loads(line)
    config = transformers.AutoConfig.for_model(**settings)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    sizes = [param.numel() for param in model.parameters()]
    report.say(params=sum(sizes), largest=max(sizes))
