#!/usr/bin/env python3
"""Compiles a unit as on a machine whose compiler finds no headers of CUDA: others than those of nvcc lie in its folders.

    without_cuda.py COMPILER UNIT FOLDERS    the folders that it includes from, divided by ":"
"""
import subprocess
import sys
from pathlib import Path

compiler, unit, folders = sys.argv[1:]
said = subprocess.run([compiler, "-xc++", "-E", "-v", "/dev/null"], capture_output=True, text=True, check=True).stderr
standard = said.split("<...> search starts here:\n")[1].split("End of search list")[0].split("\n ")
standard = [folder.strip() for folder in standard if folder.strip()]
with_cuda = [folder for folder in standard if (Path(folder) / "cuda_runtime.h").exists()]
print("without", *with_cuda or ["nothing: no folder has headers of CUDA"])
flags = [f"-isystem{folder}" for folder in standard if folder not in with_cuda]
sys.exit(subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-nostdinc", "-nostdinc++", *flags,
                         *(f"-I{folder}" for folder in folders.split(":") if folder), unit]).returncode)
