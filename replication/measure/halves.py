"""Products of half types on processors that announce more than they can do.

Some virtual machines announce AMX, and kill who uses it: a product in bfloat16 then ends the whole
process, without an error. PyTorch's library for products (oneDNN) can be told to do without.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

VARIABLE, LESS = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"
"""Read when the library first computes, and inherited by all processes that are started."""
PATIENCE = 60
"""Seconds for the trial, on a busy machine."""
TRIAL = "import torch; x = torch.ones(64, 64).bfloat16(); x @ x"


@cache
def mend() -> str:
    """To be called before the first product: see to it that none ends this process. What was
    found, or nothing where all is well. Where AMX is not announced it takes no time."""
    if VARIABLE in os.environ or not announced():
        return ""
    try:
        tried = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return ""
    if tried.returncode >= 0:
        return ""
    os.environ[VARIABLE] = LESS
    return f"This processor announces AMX, but has none: {VARIABLE} is set to {LESS}."


def announced() -> bool:
    try:
        return "amx_bf16" in Path("/proc/cpuinfo").read_text()
    except OSError:  # no Linux
        return False
