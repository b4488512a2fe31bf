"""The verbs of the lab: `python -m seq2seq_suite lab VERB`.

Exit codes: 0 all laws hold, 1 some do not, 2 wrong usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""A course with an autograder.

\b
Examples:
  python -m seq2seq_suite lab list
  python -m seq2seq_suite lab start attention labs/attention
  python -m seq2seq_suite lab check labs/attention --watch
""",
)

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="Of an assignment, or its number.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="The folder that `start` made.")]
Seed = Annotated[int | None, typer.Option(metavar="N", show_default=False, help="Other numbers for the laws.")]


@app.command("list")
def list_(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where your folders lie.")] = Path("labs"),
) -> None:
    """The assignments, their points and how far you are.

    \b
    Example:
      python -m seq2seq_suite lab list
    """
    from seq2seq_suite.lab import overview

    overview.print_list(directory)


@app.command()
def start(
    name: Name,
    directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A new folder.")],
    student: Annotated[str, typer.Option(metavar="ID", help="Yours: your numbers are drawn from it.")] = "",
    language: Annotated[str, typer.Option(metavar="en|zh", help="Of the handout and of all messages.")] = "en",
    html: Annotated[bool, typer.Option("--html", help="Write the handout as a page too.")] = False,
) -> None:
    """Write what to fill in, the handout and the experiment.

    \b
    Example:
      python -m seq2seq_suite lab start attention labs/attention --student b10902001
    """
    from seq2seq_suite.lab import overview

    overview.begin(name, directory, student=student, language=language, html=html)


@app.command()
def check(
    directory: Folder,
    part: Annotated[str | None, typer.Argument(metavar="PART", show_default=False, help="One file alone.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Check again whenever a file is saved.")] = False,
    seed: Seed = None,
    hint: Annotated[bool, typer.Option("--hint", help="Add the handout's hints on the first law that fails.")] = False,
) -> None:
    """Try the laws on what you wrote. Grading tries the same laws with other numbers.

    \b
    Examples:
      python -m seq2seq_suite lab check labs/attention
      python -m seq2seq_suite lab check labs/attention attend --seed 5
      python -m seq2seq_suite lab check labs/attention --watch
    """
    from seq2seq_suite.lab.launch import FORKS, Launched

    launched = Launched() if FORKS else None
    try:
        from seq2seq_suite.lab import verbs

        work = verbs.watch if watch else verbs.check
        code = work(directory, part, launched, seed=seed, hint=hint)
    finally:
        if launched is not None:
            launched.close()
    _exit(code)


@app.command()
def run(
    directory: Folder,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", show_default=False, help=("Those of experiment.yaml; by default all.")),
    ] = None,
) -> None:
    """Plug your code into the core and train what experiment.yaml says.

    \b
    Example:
      python -m seq2seq_suite lab run labs/attention
    """
    from seq2seq_suite.lab import running

    running.run(directory, runs or ())


@app.command("next")
def next_(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", show_default=False, help=("Folders that `start` made."))
    ],
) -> None:
    """What to do next: the first open part, as file:line.

    \b
    Example:
      python -m seq2seq_suite lab next labs/*
    """
    from seq2seq_suite.lab import overview

    _exit(overview.print_next(directories))


@app.command()
def submit(
    directory: Folder,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help=("Where to write; by default NAME-ID.zip beside DIR.")),
    ] = None,
) -> None:
    """Put what is graded into one zip.

    \b
    Example:
      python -m seq2seq_suite lab submit labs/attention
    """
    from seq2seq_suite.lab import submitting

    submitting.submit(directory, output)


@app.command()
def grade(
    submissions: Annotated[
        Path,
        typer.Argument(
            metavar="SUBMISSIONS",
            show_default=False,
            help=("A folder or zip of one student, or a folder or zip of many, as a learning platform gives them."),
        ),
    ],
    json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help=("Of one submission: as Gradescope takes it; of many: all of it.")
        ),
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", show_default=False, help="A line for each.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", show_default=False, help="A page of the class.")] = None,
    seed: Seed = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Submissions at a time.")] = 1,
) -> None:
    """Grade one submission or a class, offline.

    \b
    Examples:
      python -m seq2seq_suite lab grade attention-b10902001.zip
      python -m seq2seq_suite lab grade handed-in --csv grades.csv --html class.html --seed 90817
    """
    from seq2seq_suite.cli.arguments import check_targets

    check_targets({"--json": json, "--csv": csv, "--html": html})
    from seq2seq_suite.lab import grading

    _exit(grading.grade(submissions, json=json, csv=csv, html=html, seed=seed, jobs=jobs))


@app.command()
def pack(
    name: Name,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where to write.")] = Path("autograder.zip"),
) -> None:
    """Write the zip that Gradescope runs.

    \b
    Example:
      python -m seq2seq_suite lab pack attention --output autograder.zip
    """
    from seq2seq_suite.lab import gradescope

    gradescope.pack(name, output)


def _exit(code: int) -> None:
    if code:
        raise typer.Exit(code)
