"""Instruments for a replication of "Transformers are RNNs" (Katharopoulos et al. 2020)."""
