"""Instruments for a replication of "Transformers are RNNs" (Katharopoulos et al. 2020)."""

import os

# Some virtual machines announce AMX and then stop every program that uses it, as PyTorch does for
# bfloat16. Nothing here is timed or trained in that; who wants it sets the variable beforehand.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
