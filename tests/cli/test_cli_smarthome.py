"""What a person sees of the smart home: the rooms in `play`, results by family in `eval`, floor plans in its report."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from sandlot.cli import app


def said(*arguments: str, text: str = "") -> str:
    result = CliRunner().invoke(app, arguments, input=text)
    assert result.exit_code == 0, result.output
    return result.output


def test_play_shows_the_rooms() -> None:
    output = said("play", "SmartHome", "--task", "train-small-4", text="/look\nfinish()\n")
    assert output.count("Espresso Machine: off") == 3 and "lx  [Anna]" in output  # at the start, asked for, at the end
    assert "no pictures" in said("play", "Corridor", "--seed", "0", text="/look\n/quit\n")


def test_eval_tells_results_by_family_and_draws_the_homes(tmp_path: Path) -> None:
    arguments = ("--policy", "oracle", "--tasks", "9", "--split", "valid_seen", "-k", "size=small")
    output = said("eval", "SmartHome", *arguments, "--out", str(tmp_path))
    for words in ("by family", "infeasible", "partial", "side", "precision", "recall", "refusal", "oracle", "kWh"):
        assert words in output
    report = next(tmp_path.rglob("report.html")).read_text(encoding="utf-8")
    assert "Results by family" in report and report.count('<svg class="picture"') >= 8 and "<rect" in report
    metrics = next(tmp_path.rglob("metrics.jsonl")).read_text(encoding="utf-8")
    assert '"by family/all/calls / oracle": ' in metrics
