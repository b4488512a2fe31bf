"""Runs as jobs of a cluster, by submitit: SLURM's, or processes of this machine where there is no SLURM."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq_suite import config_file
from seq2seq_suite.lazy import need
from seq2seq_suite.types import ConfigError

if TYPE_CHECKING:
    from submitit import Job
    from submitit.helpers import DelayedSubmission

_DEFAULTS = {"name": "seq2seq_suite", "timeout_min": 60}  # minutes; submitit's own are 2 and 5
_MOST_TIMEOUTS = 1000  # a run ends by its own limits


class Cluster:
    """Submits runs and waits for them.

    Args:
        folder: where submitit keeps its files; all machines of the cluster must see it.
        options: a YAML file of submitit's parameters, such as `timeout_min`, `mem_gb`, `gpus_per_node` and
            `slurm_partition`; `cluster: local` gives processes of this machine even where SLURM is.
        jobs: most jobs that SLURM runs at a time; None sets no limit.

    Raises:
        ConfigError: submitit is not installed, or does not take a parameter.
    """

    def __init__(self, folder: Path, options: Path | None, *, jobs: int | None):
        need("submitit")
        import submitit

        given = {key: list(value) if isinstance(value, tuple) else value
                 for key, value in (config_file.parse(options) if options else {}).items()}
        try:
            if any(given.get(key, 1) != 1 for key in ("nodes", "tasks_per_node")):
                raise ValueError("a run is one task of one machine; with several gpus_per_node torchrun starts it")
            self._executor = submitit.AutoExecutor(folder, cluster=given.pop("cluster", None),
                                                   local_max_num_timeout=_MOST_TIMEOUTS,
                                                   slurm_max_num_timeout=_MOST_TIMEOUTS)
            self._executor.update_parameters(**{**_DEFAULTS, "slurm_array_parallelism": jobs, **given})
            self._processes = int(given.get("gpus_per_node", 1))
        except (AssertionError, NameError, RuntimeError, TypeError, ValueError) as error:
            raise ConfigError(str(error).partition("\n")[0], file=str(options or ""),
                              expected="parameters that submitit takes",
                              remedy="see the example in seq2seq_suite/training/README.md") from None

    def run(self, commands: Mapping[Path, Callable[[], list[str]]]) -> dict[Path, str]:
        """Run what is given; an interruption cancels the jobs.

        Args:
            commands: a run's directory -> gives the command that starts or resumes it.

        Returns:
            How each ended: `exit code 0`, or the state of a job that the cluster ended.
        """
        with self._executor.batch():
            jobs = {directory: self._executor.submit(Run(command, log_of(directory), self._processes))
                    for directory, command in commands.items()}
        print(f"{len(jobs)} jobs submitted; their outputs are the .log files beside the runs' directories", flush=True)
        try:
            return {directory: _end(job) for directory, job in jobs.items()}
        except BaseException:
            for job in jobs.values():
                job.cancel(check=False)
            raise


def _end(job: Job[int]) -> str:
    error = job.exception()
    return f"exit code {job.result()}" if error is None else f"job {job.job_id} {job.state.lower()}"


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
            self.process = subprocess.Popen(command, stdout=output, stderr=output, preexec_fn=_ignore_warning)
        try:
            self._wait()
        except BaseException:
            self.process.terminate()
            raise
        return self.process.wait()

    def checkpoint(self) -> DelayedSubmission:
        """End the run, which saves its state; what is to be queued again."""
        from submitit.helpers import DelayedSubmission

        if self.process is not None:
            self.process.terminate()
            self._wait()
        return DelayedSubmission(Run(*self.given))

    def _wait(self) -> None:
        """Wait for the process; unlike Popen's, this takes no lock, which a signal's handler could not take again."""
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


def _ignore_warning() -> None:
    """SLURM warns all processes of a job that its time is over, but only submitit is to act on it."""
    from submitit import JobEnvironment

    signal.signal(getattr(signal, f"SIG{JobEnvironment.USR_SIG}"), signal.SIG_IGN)
