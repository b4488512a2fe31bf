"""The server's answers. Nothing of a request is opened as a file or run as code; errors are plain JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq_suite.common.errors import RunError, UserError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.files import to_json
from seq2seq_suite.report.page import drawings, render
from seq2seq_suite.serve.limits import Limits, Rate, Refused
from seq2seq_suite.serve.runs import OpenRun
from seq2seq_suite.serve.schema import Asked, document, read_options, read_question
from seq2seq_suite.serve.worker import Worker

_HOSTS = ("127.0.0.1", "localhost")
_SAFE = {  # of every answer: pages run their own scripts alone, and ask nothing but this server
    "content-security-policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data: blob:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}
_DRAINED = 2**26  # bytes that are read, and dropped, of what is too large: a client that is cut off sees no answer


def build(runs: Mapping[str, OpenRun], worker: Worker, limits: Limits) -> ASGIApp:
    """The application.

    Args:
        runs: by name; models compute in the worker's thread alone.
        worker: the thread.
        limits: of requests.
    """

    def state() -> dict[str, Any]:
        return {
            "runs": facts,
            "waiting": worker.waiting,
            "limits": {
                "text": limits.text,
                "megabytes": limits.megabytes,
                "seconds": limits.seconds,
                "queue": limits.queue,
                "rate": limits.rate,
            },
        }

    async def index(_: Request) -> Response:
        return HTMLResponse(page)

    async def docs(request: Request) -> Response:
        return HTMLResponse(_docs_page(schema, facts, f"http://{request.headers['host']}"))

    async def openapi(_: Request) -> Response:
        return _json(schema)

    async def list_runs(_: Request) -> Response:
        return _json(state())

    async def report(request: Request) -> Response:
        run = _named(runs, request)
        if run.name not in reports:
            reports[run.name] = await run_in_threadpool(run.report)
        return HTMLResponse(reports[run.name])

    async def example(request: Request) -> Response:
        run, number = _named(runs, request), request.query_params.get("number", "")
        if not number.isdecimal() or len(number) > 3 or int(number) >= len(run.files):
            raise Refused(404, "there is no such example", expected="run and number as listed by GET /api/runs")
        return Response(run.files[int(number)], media_type="audio/wav" if run.takes == "sound" else "image/png")

    async def predict(request: Request) -> Response:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != "application/json":
            raise Refused(
                415,
                "the request is not JSON by its Content-Type",
                expected="application/json",
                remedy="send the header, or a file to /api/predict/file",
            )
        question = read_question(await _body(request, limits.body, limits.seconds))
        size = sum(len(part) for part in (question.text, question.question, question.context) if part)
        if size > limits.text:
            raise Refused(413, f"{size:,} characters", expected=f"at most {limits.text:,}", remedy="cut the text")
        run = _chosen(runs, question)
        return await answered(
            run, question, lambda: run.example(text=question.text, question=question.question, context=question.context)
        )

    async def predict_file(request: Request) -> Response:
        asked = read_options(dict(request.query_params))
        run, content = _chosen(runs, asked), await _body(request, limits.file, limits.seconds)
        return await answered(run, asked, lambda: run.from_bytes(content))

    async def answered(run: OpenRun, asked: Asked, example: Callable[[], Example]) -> Response:
        return _json(await worker.result(lambda: run.answer(example(), asked)))

    reports: dict[str, str] = {}
    facts = [run.facts() for run in runs.values()]
    schema, page = document(limits), _live_page(state())
    routes = [
        Route("/", index),
        Route("/docs", docs),
        Route("/openapi.json", openapi),
        Route("/api/runs", list_runs),
        Route("/report", report),
        Route("/api/examples", example),
        Route("/api/predict", predict, methods=["POST"]),
        Route("/api/predict/file", predict_file, methods=["POST"]),
    ]
    handlers = {
        Refused: _refused,
        UserError: lambda _, error: _refusal(Refused.of(error)),
        HTTPException: _no_page,
        RunError: _failed,
        ClientDisconnect: lambda *_: Response(status_code=400),
        Exception: _failed,
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers), Rate(limits.rate))


class Guard:
    """Lets only requests of this machine's own pages and programs through, and not too many of them a second.

    A page of another site that has its name point to 127.0.0.1 sends its name as Host; one that posts here sends its
    own address as Origin.
    """

    def __init__(self, app: ASGIApp, rate: Rate):
        self.app, self.rate = app, rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), text.encode()) for name, text in _SAFE.items()),
                ]
            await send(message)

        refused = self._refused(headers, scope["method"])
        await (self.app if refused is None else refused)(scope, receive, send_safely)

    def _refused(self, headers: Headers, method: str) -> Response | None:
        host = headers.get("host", "")
        if host.rpartition(":")[0] not in _HOSTS and host not in _HOSTS:
            return _refusal(
                Refused(
                    403,
                    "the request is for another host",
                    expected=f"one of {', '.join(_HOSTS)}",
                    remedy="open the page by the address that `serve` prints",
                )
            )
        foreign = headers.get("origin", f"http://{host}") != f"http://{host}"
        other_site = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if foreign or (method == "POST" and other_site):
            return _refusal(
                Refused(
                    403,
                    "the request comes from another site",
                    expected="a page of this server",
                    remedy="open the page by the address that `serve` prints",
                )
            )
        if method == "POST" and not self.rate.passes():
            return _refusal(
                Refused(
                    429,
                    "too many requests",
                    expected=f"at most {self.rate.rate:g} a second",
                    remedy="wait, or start the server with a larger --rate",
                ),
                pause=self.rate.pause,
            )
        return None


async def _body(request: Request, most: int, seconds: float) -> bytes:
    """The body of a request; raises Refused if it is too large or too slow."""
    content, size = bytearray(), 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > _DRAINED:
                    break
                content += chunk if size <= most else b""
    except TimeoutError:
        raise Refused(408, f"the request took more than {seconds:g} seconds to arrive") from None
    if size > most:
        raise Refused(
            413,
            f"more than {most:,} bytes",
            expected=f"at most {most:,}",
            remedy="send less, or start the server with a larger --max-megabytes or --max-text",
        )
    return bytes(content)


def _named(runs: Mapping[str, OpenRun], request: Request) -> OpenRun:
    """The run that an address names; raises Refused."""
    run = runs.get(request.query_params.get("run", ""))
    if run is None:
        raise Refused(
            404, "there is no such run", expected=f"run: one of {', '.join(runs)}", remedy="GET /api/runs lists them"
        )
    return run


def _chosen(runs: Mapping[str, OpenRun], asked: Asked) -> OpenRun:
    """The run that a request is for; raises Refused."""
    found = [run for run in runs.values() if asked.run in (None, run.name) and asked.task in (None, run.task.name)]
    if len(found) == 1:
        return found[0]
    raise Refused(
        404 if not found else 422,
        "there is no such run" if not found else f"{len(found)} runs could answer",
        expected=f"run: one of {', '.join(runs)}",
        remedy="GET /api/runs lists them",
    )


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        to_json(value).encode("utf-8", errors="backslashreplace"), status, headers, media_type="application/json"
    )


def _refusal(error: Refused, *, pause: int = 1) -> Response:
    return _json(error.plain(), error.status, {"retry-after": str(pause)} if error.status in (429, 503) else None)


async def _refused(_: Request, error: Refused) -> Response:
    return _refusal(error)


async def _no_page(request: Request, error: HTTPException) -> Response:
    return _refusal(
        Refused(
            error.status_code,
            "there is no page at this address"
            if error.status_code == 404
            else f"{request.method} is not supported here",
            expected="an address listed in /docs",
        )
    )


async def _failed(_: Request, error: Exception) -> Response:
    """What failed while computing: plain to the client; the server prints what is a mistake of ours."""
    return _refusal(
        Refused(
            500,
            str(error) if isinstance(error, RunError) else "the run failed on this input",
            expected="an answer",
            remedy="see the server's messages",
        )
    )


def _live_page(state: dict[str, Any]) -> str:
    """The page to type, speak or drop a picture into.

    Args:
        state: as GET /api/runs gives it.
    """
    scripts = [*drawings(), "inspection.js", "live_input.js", "live_replay.js", "live.js"]
    return render("live.html", title="Try it", scripts=scripts, data={"live": state})


def _docs_page(schema: dict[str, Any], runs: Sequence[dict[str, Any]], address: str) -> str:
    """The JSON interface for a reader.

    Args:
        schema: OpenAPI.
        runs: what is open, for the examples.
        address: of the server.
    """
    places = [
        {"path": path, "method": method.upper(), **one}
        for path, methods in schema["paths"].items()
        for method, one in methods.items()
    ]
    return render(
        "docs.html",
        title="JSON interface",
        places=places,
        schemas=schema["components"]["schemas"],
        address=address,
        runs={run["takes"]: run["name"] for run in reversed(runs)},
    )
