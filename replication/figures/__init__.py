"""Rows -> Figure. Nothing here reads a file or measures anything."""
