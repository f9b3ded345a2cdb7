"""Builds the one compiled part, parsers/kernels.c. All else about the package: pyproject.toml."""

import os
import shutil
import sys

from setuptools import Extension, setup

# Where the machine has no C compiler, that of a PyPI package serves for the build.
COMPILER = shutil.which("cc") is not None
if not COMPILER:
    os.environ["CC"] = f"{sys.executable} -m ziglang cc"

setup(
    ext_modules=[
        Extension(
            "parsers._kernels",
            ["parsers/kernels.c"],
            extra_compile_args=["-O3"],
            optional=True,  # without it large logs are read more slowly, to the same records
        )
    ],
    setup_requires=[] if COMPILER else ["ziglang"],
)
