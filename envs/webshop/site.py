"""The shop as a web site on this machine: one small server, any number of visits.

A visit has a secret name in its address and its state on the server, so a page that is out of date (the browser's back
button, a second tab) can ask for nothing that the shop would not do: its action is refused like any other.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..core.errors import InvalidArgument, MissingExtra
from .core import Shelf
from .html import ASSETS, FOLDER, render
from .page import Page
from .pictures import draw

if TYPE_CHECKING:
    import flask

HOST = "127.0.0.1"
LONGEST_ACTION = 4_096  # characters
_LONGEST_REQUEST = 1 << 16  # bytes
_GUESTS = 100  # who came in by the front page; then the first one has to leave
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Visit(Protocol):
    """Somebody in the shop."""

    @property
    def shelf(self) -> Shelf:
        """The products, for their pictures."""
        ...

    def page(self) -> Page:
        """What is shown now."""
        ...

    def act(self, action: str) -> str:
        """Carry out an action; returns why it was refused, "" if it was not."""
        ...

    def left(self) -> None:
        """The visit is over."""
        ...


class Site:
    """The server; it runs in a thread of its own until `close`.

    Args:
        port: to listen on; 0 takes a free one.
        welcome: makes the visit of somebody who comes to the front page; None: only visits from `open` are let in.

    Raises:
        MissingExtra: Flask is not installed.
        InvalidArgument: the port is taken or not allowed.
    """

    def __init__(self, port: int = 0, welcome: Callable[[], Visit] | None = None) -> None:
        try:
            from werkzeug.serving import WSGIRequestHandler, make_server
        except ImportError:
            raise MissingExtra("flask", "webshop") from None

        class Quiet(WSGIRequestHandler):
            timeout = 2  # seconds until a connection on which nothing is asked is given up

            def log(self, type: str, message: str, *args: Any) -> None:
                """Say nothing: a visit's secret name is in every request."""

        self._visits: dict[str, tuple[Visit, threading.Lock]] = {}
        self._notices: dict[str, str] = {}
        self._welcomed: deque[str] = deque()
        self._welcome = welcome
        try:
            listener = socket.create_server((HOST, port))
        except (OSError, OverflowError) as error:
            raise InvalidArgument(f"cannot listen on port {port}: {error}; choose another one with --port") from None
        with listener:  # the server takes a duplicate
            self.port: int = listener.getsockname()[1]
            fd = listener.fileno()
            self._server = make_server(HOST, self.port, self._app(), threaded=True, request_handler=Quiet, fd=fd)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="sandlot-webshop-site")
        self._thread.start()

    @property
    def address(self) -> str:
        """Of the front page."""
        return f"http://{HOST}:{self.port}/"

    def open(self, visit: Visit) -> str:
        """Let somebody in; returns the name of the visit, to be given to `page_address` and `leave`."""
        name = secrets.token_urlsafe(12)
        self._visits[name] = visit, threading.Lock()
        return name

    def page_address(self, name: str) -> str:
        """Where the visit's page is."""
        return f"{self.address}s/{name}/"

    def leave(self, name: str) -> None:
        """End a visit."""
        visit, lock = self._visits.pop(name, (None, None))
        self._notices.pop(name, None)
        if visit is not None and lock is not None:
            with lock:
                visit.left()

    def close(self) -> None:
        """Stop serving. May be called twice."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        for name in list(self._visits):
            self.leave(name)

    def _app(self) -> flask.Flask:
        try:
            import flask
        except ImportError:
            raise MissingExtra("flask", "webshop") from None
        app = flask.Flask("sandlot-webshop", static_folder=None, template_folder=None)
        app.config.update(MAX_CONTENT_LENGTH=_LONGEST_REQUEST, TRUSTED_HOSTS=[HOST, "localhost"])
        app.add_url_rule("/", view_func=self._front)
        app.add_url_rule("/s/<name>/", view_func=self._show)
        app.add_url_rule("/s/<name>/act", view_func=self._act, methods=["GET", "POST"])
        app.add_url_rule("/s/<name>/picture/<asin>.svg", view_func=self._picture)
        app.add_url_rule("/static/<name>", view_func=self._static)

        @app.after_request
        def _protect(response: flask.Response) -> flask.Response:
            response.headers.update(_HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return app

    def _visit(self, name: str) -> tuple[Visit, threading.Lock]:
        import flask

        if name not in self._visits:
            flask.abort(404, "There is no such visit. It may have ended: go to the front page.")
        return self._visits[name]

    def _front(self) -> Any:
        import flask

        if self._welcome is None:
            flask.abort(404, "This shop has no front door.")
        name = self.open(self._welcome())
        self._welcomed.append(name)
        while len(self._welcomed) > _GUESTS:
            self.leave(self._welcomed.popleft())
        return flask.redirect(f"/s/{name}/", 303)

    def _show(self, name: str) -> str:
        visit, lock = self._visit(name)
        with lock:
            return render(visit.page(), self._notices.pop(name, ""))

    def _act(self, name: str) -> Any:
        import flask

        visit, lock = self._visit(name)
        sent = flask.request.values
        if "words" in sent:  # an opening bracket would be taken for the action's own
            action = f"search[{sent['words'].replace('[', ' ')}]"
        else:
            action = sent.get("action") or f"click[{sent.get('option', '')}]"
        if len(action) > LONGEST_ACTION:
            refusal = f"At most {LONGEST_ACTION} characters are accepted."
        else:
            with lock:
                refusal = visit.act(action)
        if refusal:
            self._notices[name] = refusal
        return flask.redirect(f"/s/{name}/", 303)

    def _picture(self, name: str, asin: str) -> Any:
        import flask

        try:
            title = self._visit(name)[0].shelf.find(asin).title
        except KeyError:
            flask.abort(404)
        drawing = flask.Response(draw(asin, title, flask.request.args.to_dict()), mimetype="image/svg+xml")
        drawing.headers["Cache-Control"] = "private, max-age=3600"
        return drawing

    def _static(self, name: str) -> Any:
        import flask

        if name not in ASSETS:
            flask.abort(404)
        return flask.send_from_directory(FOLDER, name, max_age=3600)
