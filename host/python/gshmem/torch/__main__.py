"""python -m gshmem.torch: compiles the backend for the torch that is installed, and prints where it is."""
from . import _build

print(_build.library())
