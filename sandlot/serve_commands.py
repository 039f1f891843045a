"""`sandlot serve`: put something behind HTTP. Heavy imports are inside the commands."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Serve a model over HTTP.")


@app.command("model")
def model(
    path: Annotated[
        str, typer.Argument(help="A model folder (a run's `model`, or any local Hugging Face one), or smollm2-135m.")
    ],
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free port.")] = 8000,
    name: Annotated[str, typer.Option(help="What clients call the model.")] = "",
) -> None:
    """Serve a language model in the OpenAI protocol, with token ids and log-probabilities.

    Any client of the protocol can use it, for example sandlot's own, in another terminal:

      sandlot eval KeyDoor --policy openai:NAME@http://127.0.0.1:8000/v1
    """
    import threading

    from sandlot.harness.policies.smollm import load
    from sandlot.harness.serve.model import ModelServer

    policy = load(path)
    with ModelServer(policy, name=name or policy.name, host=host, port=port) as server:
        typer.echo(f"{server.name} at {server.url} (Ctrl-C stops it)")
        threading.Event().wait()
