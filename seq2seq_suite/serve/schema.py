"""The JSON interface: requests, responses, and the OpenAPI document that describes them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import models_json_schema

from seq2seq_suite import __version__
from seq2seq_suite.common.errors import DataError, truncate
from seq2seq_suite.common.files import parse_json
from seq2seq_suite.serve.limits import MOST_OUTPUTS, Limits, Refused


class Asked(BaseModel):
    """Options of a request."""

    model_config = ConfigDict(extra="forbid")
    run: str | None = Field(None, description="A run's name; not needed where one run is open.")
    task: str | None = Field(None, description="A task, in place of the run's name, where one run has it.")
    n_best: int = Field(1, ge=1, le=MOST_OUTPUTS, description="How many outputs, best first.")
    trace: bool = Field(False, description="Return the decoder's steps, too.")
    inspect: bool = Field(False, description="Return attention and probabilities, too.")
    beam: int | None = Field(None, ge=1, le=MOST_OUTPUTS, description="Beam size; 1 is greedy.")
    temperature: float | None = Field(None, ge=0.01, le=10.0, description="Sample; the logits are divided by this.")
    top_p: float | None = Field(
        None, gt=0.0, le=1.0, description="Sample from the most probable symbols, up to this total probability."
    )
    seed: int | None = Field(
        None, ge=0, lt=2**31, description="Sample with this seed; 0 by default, with search.risk the run's."
    )

    @property
    def settings(self) -> dict[str, Any]:
        """The keys of the configuration that it changes."""
        sampled = None if self.temperature is self.top_p is self.seed is None else True
        asked = {"beam_size": self.beam, "sampling": sampled, "temperature": self.temperature, "top_p": self.top_p}
        return {f"search.{key}": value for key, value in asked.items() if value is not None}


class Question(Asked):
    """A request in JSON."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str | None = Field(None, description="A sentence, or a question and its context in the form of `predict`.")
    question: str | None = Field(None, description="A question.")
    context: str | None = Field(None, description="The text that the question is about.")


class Output(BaseModel):
    """One output."""

    text: str = Field(description="On one line, as `predict` prints it.")
    score: float | None = Field(description="Score of the search; higher is better.")
    drawn: str = Field(description="For a person at a terminal; may span lines.")
    shown: dict[str, Any] = Field(description="Data for the run's drawing.")


class Answer(BaseModel):
    """A run's prediction for an input."""

    run: str
    task: str
    outputs: list[Output]
    source: dict[str, Any] = Field(description="The input for the drawing; empty for files.")
    unknown: list[str] = Field(description="Words of the input that are not in the training data.")
    milliseconds: float = Field(description="Time of the prediction, without waiting in the queue.")
    trace: dict[str, Any] | None = Field(
        None,
        description=(
            "`kind` and `milliseconds`; by kind `passes`, each with the milliseconds at its end, its symbols and which "
            "of them it predicted; `frames` of CTC, [symbol, p]; `graph` with vertices and path; `predicted_length`; "
            "with search.risk `candidates` in place of these, the chosen first: [text, utility, how often found]."
        ),
    )
    inspection: dict[str, Any] | None = Field(
        None,
        description=(
            "`source` and `target`, names of positions; `pieces` of the output, [symbol, p, [[other, p], ...]]; "
            "`hypotheses`, [text, score]; `attention` by part: layers, heads, rows, columns and `values`, base64 of a "
            "byte for each weight."
        ),
    )


class RunFacts(BaseModel):
    """An open run."""

    name: str
    task: str
    verb: str = Field(description="What the task does, for a button.")
    takes: Literal["text", "question", "sound", "picture"]
    strategy: str
    drawing: str
    n_best: int = Field(description="Most outputs of an input.")
    controls: list[str] = Field(description="Search settings that a request may change: beam, sampling.")
    score: str = Field(description="Primary metric on the first split of the summary; may be empty.")
    examples: list[str] = Field(description="Inputs to try; for files GET /api/examples has them.")


class Runs(BaseModel):
    """The open runs."""

    runs: list[RunFacts]
    waiting: int = Field(description="Requests that wait or are computed.")
    limits: dict[str, float]


class Message(BaseModel):
    """The parts of an error message."""

    what: str
    expected: str
    remedy: str


class Failure(BaseModel):
    """An error."""

    error: Message


def read_question(body: bytes) -> Question:
    """A request in JSON; raises Refused."""
    try:
        return Question.model_validate(parse_json(body.decode("utf-8"), file=""))
    except UnicodeDecodeError as error:
        raise Refused(400, f"byte {error.start:,} is not UTF-8", expected="JSON in UTF-8") from None
    except DataError as error:
        raise Refused(400, error.got, expected="JSON", remedy="see /docs") from None
    except ValidationError as error:
        raise _refused(error) from None


def read_options(given: dict[str, str]) -> Asked:
    """The same of the options in an address; raises Refused."""
    try:
        return Asked.model_validate(given)
    except ValidationError as error:
        raise _refused(error) from None


def _refused(error: ValidationError) -> Refused:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(truncate(str(part)) for part in first["loc"])
    return Refused(
        422,
        f"{place}: {first['msg']}" if place else first["msg"],
        expected=f"an object with {', '.join(Question.model_fields)}",
        remedy="see /docs",
    )


def document(limits: Limits) -> dict[str, Any]:
    """The interface as OpenAPI 3.1."""
    models = (Question, Answer, Runs, Failure)
    refs, made = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    schema: dict[type[BaseModel], Any] = {model: refs[model, "validation"] for model in models}

    def content(model: type[BaseModel], text: str) -> dict[str, Any]:
        return {"description": text, "content": {"application/json": {"schema": schema[model]}}}

    failures = {
        str(status): content(Failure, text)
        for status, text in (
            (400, "The body is not JSON."),
            (403, "The request does not come from a page of this server."),
            (404, "No such run."),
            (
                413,
                f"More than {limits.body:,} bytes of JSON or {limits.file:,} of a file, or a recording or a picture "
                "too large.",
            ),
            (415, "Wrong input type."),
            (422, "Invalid input for this run."),
            (429, f"More than {limits.rate:g} requests a second."),
            (503, f"More than {limits.queue} requests wait, or no answer within {limits.seconds:g} seconds."),
        )
    }
    answered = {"200": content(Answer, "The outputs, best first."), **failures}
    options = [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": one.description or "",
            "schema": {
                key: value
                for key, value in Asked.model_json_schema()["properties"][name].items()
                if key not in ("title", "description")
            },
        }
        for name, one in Asked.model_fields.items()
    ]
    return {
        "openapi": "3.1.0",
        "info": {"title": "seq2seq_suite", "version": __version__},
        "paths": {
            "/api/predict": {
                "post": {
                    "summary": "Predict from text",
                    "responses": answered,
                    "requestBody": {"required": True, "content": {"application/json": {"schema": schema[Question]}}},
                }
            },
            "/api/predict/file": {
                "post": {
                    "summary": "Predict from a sound file or a picture, sent as the body",
                    "parameters": options,
                    "responses": answered,
                    "requestBody": {"required": True, "content": {"application/octet-stream": {}}},
                }
            },
            "/api/runs": {"get": {"summary": "List the open runs", "responses": {"200": content(Runs, "The runs.")}}},
            "/report": {
                "get": {
                    "summary": "The page of a run",
                    "parameters": [{"name": "run", "in": "query", "required": True, "schema": {"type": "string"}}],
                    "responses": {
                        "200": {"description": "HTML.", "content": {"text/html": {}}},
                        "404": failures["404"],
                    },
                }
            },
            "/api/examples": {
                "get": {
                    "summary": "A file of sound or a picture to try",
                    "parameters": [
                        {"name": "run", "in": "query", "required": True, "schema": {"type": "string"}},
                        {
                            "name": "number",
                            "in": "query",
                            "required": True,
                            "schema": {"type": "integer", "minimum": 0},
                        },
                    ],
                    "responses": {
                        "200": {"description": "Its bytes.", "content": {"application/octet-stream": {}}},
                        "404": failures["404"],
                    },
                }
            },
        },
        "components": {"schemas": made["$defs"]},
    }
