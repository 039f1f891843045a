"""What a docker-compose.yaml asks for beyond one container: each such thing is named, so that it can be refused."""

from __future__ import annotations

from pathlib import Path

from .fields import Fields, read_yaml
from .task import Setting

# Keys of a service that change nothing here: the sandbox has its own way to name, start and limit a container.
_HARMLESS = {
    *("build", "command", "container_name", "cpus", "deploy", "entrypoint", "environment", "hostname", "image", "init"),
    *("labels", "logging", "mem_limit", "memswap_limit", "network_mode", "platform", "pull_policy", "restart"),
    *("shm_size", "stdin_open", "stop_grace_period", "tty", "volumes", "working_dir", "user"),
}


def needs(path: Path, main: tuple[str, ...]) -> tuple[str, ...]:
    """What the compose file at `path` needs that one isolated container cannot give, in words.

    Args:
        path: the file; nothing is needed where it does not exist.
        main: names under which the format knows the container of the agent.
    """
    if not path.exists():
        return ()
    services = read_yaml(path).table("services")
    found = []
    others = [name for name in services.values if name not in main]
    if others:
        found.append(f"compose services ({', '.join(sorted(others))})")
    for name in main:
        if name in services.values:
            found += _service_needs(services.table(name))
    return tuple(found)


def environment(path: Path, main: tuple[str, ...]) -> dict[str, str]:
    """The environment that the compose file gives the agent's container, entries with `${...}` left out."""
    if not path.exists():
        return {}
    services = read_yaml(path).table("services")
    found: dict[str, str] = {}
    for name in main:
        given = services.table(name).values.get("environment") if name in services.values else None
        pairs = given.items() if isinstance(given, dict) else [str(item).partition("=")[::2] for item in given or ()]
        found |= {str(key): str(value) for key, value in pairs if "${" not in str(value)}
    return found


def refusal(name: str, setting: Setting, backend: str) -> str | None:
    """Why `backend` cannot play the task, or None if it can."""
    if not setting.needs:
        return None
    return f"{name} needs {', '.join(setting.needs)}; the {backend} backend gives one isolated Linux container"


def _service_needs(service: Fields) -> list[str]:
    found = []
    if service.values.get("privileged"):
        found.append("a privileged container")
    if service.values.get("network_mode") == "host":
        found.append("the host's network")
    volumes = [str(volume) for volume in service.values.get("volumes") or ()]
    if any("docker.sock" in volume for volume in volumes):
        found.append("the Docker socket")
    devices = (service.values.get("deploy") or {}).get("resources", {}).get("reservations", {}).get("devices")
    if devices:
        found.append("a GPU")
    unknown = set(service.values) - _HARMLESS - {"privileged"}
    if unknown:
        found.append(f"compose settings ({', '.join(sorted(unknown))})")
    return found
