"""Which head copies: weights of all heads -> rows of the one that looks where it should."""

import numpy as np
import pandas as pd
from jaxtyping import Float


def copying_head(weights: Float[np.ndarray, "L H Q K"], due: dict[int, int]) -> pd.DataFrame:
    """Columns layer, head (both from 1), query, key, weight, due, of one out of L x H heads.

    ``due`` maps a query to the key that holds what must be written next. The head with the
    largest mean weight there is taken, and the queries that ``due`` names.
    """
    queries, keys = list(due), list(due.values())
    share = weights[:, :, queries, keys].mean(-1)
    layer, head = np.unravel_index(share.argmax(), share.shape)
    grid = np.meshgrid(queries, np.arange(weights.shape[-1]), indexing="ij")
    rows = {"layer": int(layer) + 1, "head": int(head) + 1}
    rows |= {"query": grid[0].ravel(), "key": grid[1].ravel()}
    rows |= {"weight": weights[layer, head, queries].ravel()}
    rows |= {"due": (grid[1] == np.array(keys)[:, None]).ravel()}
    return pd.DataFrame(rows)
