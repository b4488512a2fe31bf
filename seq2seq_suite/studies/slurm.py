"""Runs as jobs of a cluster, by submitit: SLURM's, or processes of this machine where there is no SLURM."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.lazy_imports import need
from seq2seq_suite.config import config_file

if TYPE_CHECKING:
    from submitit import Job
    from submitit.helpers import DelayedSubmission

_DEFAULTS = {"name": "seq2seq_suite", "timeout_min": 60}  # minutes; submitit's own are 2 and 5
_MOST_TIMEOUTS = 1000  # a run ends by its own limits
_LOOK, _GRACE = 1.0, 15.0  # seconds: between looks for results, and until a shared disk shows that of a job that left


class Cluster:
    """Submits runs and waits for them.

    Args:
        folder: where submitit keeps its files; all machines of the cluster must see it.
        options: a YAML file of submitit's parameters, such as `timeout_min`, `mem_gb`, `gpus_per_node` and
            `slurm_partition`; `cluster: local` gives processes of this machine even where SLURM is.
        jobs: most jobs that SLURM runs at a time; None sets no limit.

    Raises:
        ConfigError: submitit or SLURM is not installed, or submitit does not take a parameter.
    """

    def __init__(self, folder: Path, options: Path | None, *, jobs: int | None):
        need("submitit")
        import submitit

        self._options = options
        given: dict[str, Any] = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in (config_file.parse(options) if options else {}).items()
        }
        cluster, absent = given.pop("cluster", None), [name for name in ("srun", "sbatch") if not shutil.which(name)]
        if absent and (cluster == "slurm" or (cluster is None and "srun" not in absent)):
            raise ConfigError(
                f"this machine has no {' and no '.join(absent)}, of SLURM",
                file=str(options or ""),
                expected="a machine from which the cluster takes jobs",
                remedy="call it on a login node, or write cluster: local for processes of this machine",
            )
        try:
            if any(given.get(key, 1) != 1 for key in ("nodes", "tasks_per_node")):
                raise ValueError("a run is one task of one machine; with several gpus_per_node torchrun starts it")
            self._executor = submitit.AutoExecutor(
                folder, cluster=cluster, local_max_num_timeout=_MOST_TIMEOUTS, slurm_max_num_timeout=_MOST_TIMEOUTS
            )
            self._executor.update_parameters(**{**_DEFAULTS, "slurm_array_parallelism": jobs, **given})
            self._processes = int(given.get("gpus_per_node", 1))
        except (AssertionError, NameError, RuntimeError, TypeError, ValueError) as error:
            raise ConfigError(
                str(error).partition("\n")[0],
                file=str(options or ""),
                expected="submitit's parameters",
                remedy="see the example in seq2seq_suite/training/README.md",
            ) from None
        self._keeps_no_accounts = self._executor.cluster == "slurm" and _said("sacct", "-n") is None

    def run(self, commands: Mapping[Path, Callable[[], list[str]]]) -> dict[Path, str]:
        """Run the given runs; an interruption cancels the jobs.

        Args:
            commands: a run's directory -> gives the command that starts or resumes it.

        Returns:
            How each ended: `exit code 0`, or the state of a job that the cluster ended.
        """
        from submitit.core.utils import FailedJobError

        try:
            with self._executor.batch():
                jobs = {
                    directory: self._executor.submit(Run(command, log_of(directory), self._processes))
                    for directory, command in commands.items()
                }
        except FailedJobError as error:
            said = str(error).splitlines() or ["sbatch failed"]
            raise ConfigError(
                f"SLURM does not take the jobs: {said[0]}",
                file=str(self._options or ""),
                expected="a partition, time, memory and processors that the cluster has",
                remedy="sinfo -o '%P %l %m %c' lists partitions with their limits",
            ) from None
        print(f"{len(jobs)} jobs submitted; their outputs are the .log files beside the runs' directories", flush=True)
        try:
            return {directory: self._end(job) for directory, job in jobs.items()}
        except BaseException:
            for job in jobs.values():
                job.cancel(check=False)
            raise

    def _end(self, job: Job[int]) -> str:
        if self._keeps_no_accounts and _is_lost(job):
            return f"job {job.job_id} left the queue without a result"
        return f"exit code {job.result()}" if job.exception() is None else f"job {job.job_id} {job.state.lower()}"


def _is_lost(job: Job[int]) -> bool:
    """Wait until a job has a result or is no longer in SLURM's queue; submitit would wait for `sacct` to say so."""
    left = None
    while not job.paths.result_pickle.exists():
        queued = _said("squeue", "--noheader", "--array", "--format=%i", f"--user={getpass.getuser()}")
        left = None if queued is None or job.job_id in queued.split() else left or time.monotonic()
        if left is not None and time.monotonic() - left > _GRACE:
            return True
        time.sleep(_LOOK)
    return False


def _said(*command: str) -> str | None:
    """A command's output; None if it is not there or failed."""
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return None


def log_of(directory: Path) -> Path:
    """The file for the output of a run that does not go to the terminal."""
    return directory.with_suffix(directory.suffix + ".log")


class Run:
    """A run as a job. When its time is over it saves, is queued again and resumes; submitit calls `checkpoint`.

    Args:
        command: gives the command that starts or resumes the run.
        log: its output is appended to this file.
        processes: that share the run, more than one by torchrun.
    """

    def __init__(self, command: Callable[[], list[str]], log: Path, processes: int = 1):
        self.given = command, log, processes
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """The run's exit code."""
        make, log, processes = self.given
        python, *words = make()
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        command = [python, *(launcher if processes > 1 else ()), *words]
        with log.open("ab") as output:
            self.process = process = subprocess.Popen(command, stdout=output, stderr=output, preexec_fn=_ignore_warning)
        try:
            _wait(process)
        except BaseException:
            process.terminate()
            raise
        return process.wait()

    def checkpoint(self) -> DelayedSubmission:
        """Stop the job, which saves its state, and return what must be resubmitted."""
        from submitit.helpers import DelayedSubmission

        if self.process is not None:
            self.process.terminate()
            _wait(self.process)
        return DelayedSubmission(Run(*self.given))


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process; unlike Popen's, this takes no lock, which a signal's handler could not take again."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def _ignore_warning() -> None:
    """SLURM warns all processes of a job that its time is over, but only submitit should act on it."""
    from submitit import JobEnvironment

    signal.signal(getattr(signal, f"SIG{JobEnvironment.USR_SIG}"), signal.SIG_IGN)
