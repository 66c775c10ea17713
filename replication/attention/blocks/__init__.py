"""What numba compiles: registers, tiles, and the passes made of them. Imported on first use."""
