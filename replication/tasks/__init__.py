"""What is learnt: one task a file. A task makes batches and knows what a good answer is."""

from replication.tasks.copy_task import Batch, EarlierCopy, PaperCopy, Prompt, hashed

TASKS = {"paper": PaperCopy, "earlier": EarlierCopy}
"""The copy task in the paper's setting and in that of the earlier replication."""

__all__ = ["TASKS", "Batch", "EarlierCopy", "PaperCopy", "Prompt", "hashed"]
