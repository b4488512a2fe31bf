"""Exit codes, error messages and the signals that end a command."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import cast

import typer
from typer.completion import completion_init  # pyright: ignore[reportPrivateImportUsage]  # its only home

from seq2seq_suite.cli.arguments import short_of_memory, without_middles
from seq2seq_suite.cli.completion import COMPLETE
from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError, Interrupted, RunError, UserError, truncate
from seq2seq_suite.common.files import failure
from seq2seq_suite.common.lazy_imports import not_installed
from seq2seq_suite.common.user_code import raised_by
from seq2seq_suite.runs.signals import leave_terminal, stopping

# click's, of which newer versions of typer have their own copy; it has what is read of a BadParameter
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])


def finish(work: Callable[[], None], *, processes: int) -> int:
    """Run a command, report what went wrong, and return its exit code; under torchrun all `processes` run it."""
    stop_on_termination(once=processes > 1)
    try:
        if processes > 1:
            from seq2seq_suite.runs import distributed

            code, complaint = distributed.together(lambda: outcome(work))
        else:
            code, complaint = outcome(work)
    except KeyboardInterrupt:  # while the processes connect
        code, complaint = 130, "interrupted"
    if complaint:
        complain(complaint)
    return flush(code)


def start(app: typer.Typer, arguments: Sequence[str], program: str) -> None:
    """Carry out a command line by typer; leaves by SystemExit if the code is not 0.

    Raises:
        ConfigError: typer cannot read it.
    """
    if COMPLETE in os.environ:  # a shell asks what could follow
        completion_init()
    try:
        code = typer.main.get_command(app).main(
            list(arguments), prog_name=program, complete_var=COMPLETE, standalone_mode=False
        )
    except _UsageError as error:
        raise in_house_style(error, program) from None
    if code:
        sys.exit(code)


def in_house_style(error: typer.BadParameter, program: str) -> ConfigError:
    """An error of typer as a ConfigError."""
    context, got, option = error.ctx, error.format_message().rstrip("."), getattr(error, "option_name", "")
    path = context.command_path if context else program
    verbs = getattr(context.command, "list_commands", lambda _: ())(context) if context else ()
    if type(error).__name__ == "NoSuchOption" and (keys := _keys_named(option)):
        return ConfigError(
            f"{truncate(option)} is a key of the configuration",
            file=COMMAND_LINE,
            expected="key=value without dashes",
            remedy=" or ".join(f"{key}=VALUE" for key in keys[:4]),
        )
    usage = " ".join([path, *context.command.collect_usage_pieces(context)]) if context else "usage as of --help"
    expected = f"one of {', '.join(verbs)}" if verbs else usage
    return ConfigError(truncate(got, 300), file=COMMAND_LINE, expected=expected, remedy=f"{path} --help explains it")


def _keys_named(option: str) -> list[str]:
    """The keys of a configuration that resemble an unknown option, with or without their section."""
    from seq2seq_suite.config.config_file import key_list

    name = option.removeprefix("--").replace("-", "_")
    return [key for key in key_list() if name in (key, key.rpartition(".")[2])]


def outcome(work: Callable[[], None]) -> tuple[int, str]:
    """The exit code and the error message."""
    try:
        work()
    except SystemExit as stop:  # typer exits with the right code for wrong usage and Ctrl-C
        if place := raised_by(stop):
            return 2, f"{place}: the code ends the program: SystemExit: {stop}\n  remedy:   raise an exception instead"
        return int(stop.code or 0), "interrupted" if stop.code == 130 else ""
    except UserError as error:
        return 2, str(error)
    except RunError as error:
        return 1, str(error)
    except Interrupted:
        return 130, "interrupted; the state was saved, the same command with --resume continues"
    except ModuleNotFoundError as error:
        complaint = not_installed(error.name or "")
        if complaint is None:
            raise
        return 2, str(complaint)
    except OSError as error:  # an impossible file name is the user's mistake
        return 2 if error.errno in (errno.ENAMETOOLONG, errno.ELOOP) else 1, failure(error)
    except Exception as error:
        if complaint := short_of_memory(error):
            return 1, complaint
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or not (place := raised_by(error)):
            raise
        return 2, f"{place}: the code fails: {type(error).__name__}: {error}"
    return 0, ""


def stop_on_termination(*, once: bool) -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does: training saves first, everything exits with 130.

    Args:
        once: ignore further signals; torchrun passes on a Ctrl-C that the terminal has already sent to all.
    """
    numbers = stopping()

    def interrupt(came: int, _frame: object) -> None:
        for number in numbers if once else ():
            signal.signal(number, signal.SIG_IGN)
        if came == signal.SIGHUP:
            leave_terminal()
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for number in numbers if once else numbers[1:]:
            signal.signal(number, interrupt)


def complain(text: str) -> None:
    """A message on standard error, red on a terminal that wants colour."""
    text, red = without_middles(text), sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    print(f"\x1b[31m{text}\x1b[0m" if red else text, file=sys.stderr)


def flush(code: int) -> int:
    """Flush standard output; a closed pipe or a full disk gives a message instead of a stack trace."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            complain(f"standard output: {failure(error)}")
        return code or 1
    return code
