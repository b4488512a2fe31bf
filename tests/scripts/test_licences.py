"""What the suite installs is under permissive licences, but for eSpeak NG, which stays in an extra, and CUDA."""

from scripts.licences import licence, main, problem, required


def test_everything_that_is_installed_is_permissive(capsys):
    assert main() == 0, capsys.readouterr().out
    assert "espeakng-loader              extra" in capsys.readouterr().out


def test_requirements_are_followed_without_extras_that_are_not_asked_for():
    found = required(["datasets>=3.0"])
    assert {"datasets", "numpy", "huggingface-hub"} <= found and "torch" not in found
    assert required(["no-such-package-here"]) == set()


def test_a_copyleft_or_nameless_licence_is_a_problem():
    assert problem("x", "GNU General Public License v3 (GPLv3)", optional=True).startswith("copyleft")
    assert (
        problem("x", "AGPL-3.0", optional=True)
        and problem("x", "", optional=True)
        and problem("espeakng-loader", "", optional=False)
    )
    assert problem("x", licence("numpy"), optional=False) == ""


def test_libraries_of_cuda_may_have_a_licence_of_nvidia_but_no_copyleft():
    assert problem("nvidia-cublas", "LicenseRef-NVIDIA-Proprietary", optional=False) == ""
    assert problem("cuda-toolkit", "", optional=False) == ""
    assert problem("nvidia-cublas", "GPL-3.0-only", optional=False).startswith("copyleft")
    assert problem("cublas", "LicenseRef-NVIDIA-Proprietary", optional=False).startswith("not known")
