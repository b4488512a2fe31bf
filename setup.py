"""What pyproject.toml cannot say: the presets, which people read in `tasks/`, are installed inside the package."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["seq2seq_suite*"]), "seq2seq_suite.presets"],
    package_dir={"seq2seq_suite.presets": "tasks"},
)
