"""Run every attack against every backend and write what came out: `python tests/sandboxes/attacks/record.py`.

It writes outcomes.json and the table of docs/security.md. It needs root, Docker's programs and the base image.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks.cases import BACKENDS, LIMITS, all_attacks
from attacks.shooting import VARIABLE, Range
from attacks.table import BEGIN, END, OUTCOMES, PAGE, table

from sandlot.sandboxes import RootfsImage, SandboxSpec
from sandlot.sandboxes.debian import build_base
from sandlot.sandboxes.docker.daemon import PrivateDaemon


def main() -> int:
    """Record; the exit code is 1 if something came out that should not."""
    attacks = all_attacks()
    outcomes: dict[str, dict[str, str]] = {attack.name: {} for attack in attacks}
    spec = SandboxSpec(image=RootfsImage(build_base()), limits=LIMITS)
    os.environ[VARIABLE] = "key-of-the-host"
    bad = 0
    with ExitStack() as stack:
        daemon = PrivateDaemon(Path(tempfile.gettempdir()) / f"sandlot-record-{os.getpid()}")
        daemon.start()
        stack.callback(daemon.stop)
        for backend in BACKENDS:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.chmod(0o755)
            with ExitStack() as one:
                shooting = Range(backend, spec, daemon.url, folder, one)
                for attack in attacks:
                    outcome = shooting.run(attack)
                    outcomes[attack.name][backend] = outcome
                    if outcome not in attack.expect[backend]:
                        bad += 1
                        print(f"{backend} {attack.name}: {outcome}, expected {attack.expect[backend]}")
    if not bad:
        OUTCOMES.write_text(json.dumps(outcomes, indent=1) + "\n", encoding="utf-8")
        text = PAGE.read_text(encoding="utf-8")
        before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
        PAGE.write_text(before + table(attacks, outcomes) + after, encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
