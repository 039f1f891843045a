"""The language-model designer: good, broken and hostile answers, repair, memory, and a real small model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandlot.envs.core.errors import MissingExtra
from sandlot.envs.selfplay.designer import GrammarDesigner
from sandlot.envs.selfplay.gates import Gates
from sandlot.envs.selfplay.pool import Pool
from sandlot.envs.selfplay.program import Program
from sandlot.envs.selfplay.reasons import Reason
from sandlot.harness.designer import ModelDesigner, describe, read_blocks, write_blocks
from sandlot.harness.policies.scripted import ScriptedPolicy
from sandlot.harness.policy import Sampling

GRAMMAR = GrammarDesigner(seed=21)
GOOD = [GRAMMAR.compose(number, difficulty=2, tags=tags) for number, tags in enumerate((("locks",), ("dialogue",)))]


@pytest.fixture(scope="module")
def gates() -> Iterator[Gates]:
    with Gates() as gates:
        yield gates


def spoilt(program: Program, old: str, new: str) -> str:
    text = write_blocks(program)
    assert old in text
    return text.replace(old, new, 1)


def test_blocks_are_read_as_they_are_written() -> None:
    for program in GOOD:
        found = read_blocks(f"Here it is:\n{write_blocks(program)}\nHave fun.")
        assert Program.from_dict(found).id == program.id
    assert read_blocks("I cannot do that.") == {}
    assert read_blocks("```toml\nno = [\n```\n```python\nx = 1") == {"source": "x = 1\n"}
    # a manifest cannot smuggle in a lineage, and sources written before it stay
    assert read_blocks('```python\nclass Game: 1\n```\n```toml\ntitle = "t"\nlineage = 3\n```') == {
        "title": "t",
        "source": "class Game: 1\n",
    }


def test_a_good_answer_is_accepted_at_once(gates: Gates) -> None:
    designer = ModelDesigner(gates)
    (design,) = designer.design(ScriptedPolicy([write_blocks(GOOD[0])]), [0], generation=3)
    assert design.accepted and len(design.calls) == 1 and design.program is not None
    assert design.program.id == GOOD[0].id
    assert (design.program.lineage.designer, design.program.lineage.generation) == ("model", 3)


def test_reports_lead_to_a_repair(gates: Gates) -> None:
    # First no program, then one that needs a module that is not allowed, then a good one.
    broken = spoilt(GOOD[1], "import random\n", "import random\nimport os\n")
    policy = ScriptedPolicy(["I will think about it.", broken, write_blocks(GOOD[1])])
    (design,) = ModelDesigner(gates, repairs=2).design(policy, [0])
    assert design.accepted and len(design.calls) == 3
    assert design.reports[0].startswith("[manifest]") and design.reports[1].startswith("[import]")
    said = design.calls[2].context.messages
    assert [message.role for message in said] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "'os' may not be imported" in said[-1].text and said[2].call == design.calls[0].id
    assert design.program is not None and design.program.lineage.operation == "repair"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("        self.taken = 0\n", "        while True: pass\n", Reason.TIMEOUT),
        (
            "        self.taken = 0\n",
            "        self.taken = 0\n        [[0] * 10**8 for _ in range(99)]\n",
            Reason.MEMORY,
        ),
        ("        self.taken = 0\n", "        open('/etc/passwd')\n", Reason.NAME),
        ("import random\n", "import random\nimport socket\n", Reason.IMPORT),
        ("1.0, True", "7.0, True", Reason.REWARD),
        ("        self.taken += 1\n", "        self.taken += random.random()\n", Reason.NAME),
        ("class Game:", "class Game(", Reason.SYNTAX),
        ("        self.taken = 0\n", "        self.taken = 0\n        self.at = 1 / 0\n", Reason.EXCEPTION),
    ],
)
def test_broken_and_hostile_programs_are_reported(gates: Gates, old: str, new: str, reason: Reason) -> None:
    (design,) = ModelDesigner(gates, repairs=0).design(ScriptedPolicy([spoilt(GOOD[0], old, new)]), [0])
    assert not design.accepted and reason in design.verdict.reasons, design.reports
    assert design.reports[0].startswith("[") and len(design.reports[0]) <= 2_000


def test_two_equal_answers_are_one_program(gates: Gates) -> None:
    first, second = write_blocks(GOOD[0]), spoilt(GOOD[0], 'title = "', 'title = "Another ')
    policy = ScriptedPolicy(lambda context: first if context.session.endswith("/0") else second)
    one, two = ModelDesigner(gates, repairs=0).design(policy, [0, 1])
    assert one.accepted and two.verdict.reasons == (Reason.SAME_BEHAVIOUR,)


def test_documents_and_memory_reach_the_prompt(gates: Gates, tmp_path) -> None:
    designer = ModelDesigner(gates, documents=["On lighthouses.", "On beekeeping.\x1b[2J"], example=GOOD[1])
    with Pool(tmp_path / "pool") as pool:
        for design in designer.design(ScriptedPolicy([write_blocks(GOOD[0])]), [0], known=pool.known()):
            assert design.program is not None
            pool.add(design.program, design.verdict)
        for design in ModelDesigner(gates, repairs=0).design(ScriptedPolicy(["no"]), [0]):
            pool.reject(design.program, design.verdict)
        pool.record(GOOD[0].id, hinted=[1.0, 1.0], plain=[0.0, 1.0])
        memory = pool.memory(8)
    assert [describe(entry) for entry in memory] == [
        f"- {GOOD[0].manifest.title} (locks): accepted, regret 0.50",
        "- no program (unknown): manifest",
    ]
    text = designer.prompt(1, memory)[1].text
    assert "On beekeeping." in text and "\x1b" not in text and "lighthouses" not in text
    assert "regret 0.50" in text and "class Solution" in text
    assert "random" in designer.prompt(0)[0].text


def test_a_real_small_model_fails_the_gates_and_is_told_so(gates: Gates) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra: train)")
    from sandlot.harness.policies.hf import HFPolicy
    from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama

    designer = ModelDesigner(gates, repairs=1, sampling=Sampling(max_tokens=24))
    texts = [message.text for message in designer.prompt(0)] + [write_blocks(GOOD[0])]
    tokenizer = build_word_tokenizer(texts)
    policy = HFPolicy(tiny_llama(len(tokenizer), d_model=32, layers=1, seed=1), tokenizer, name="tiny")
    designs = designer.design(policy, [0, 0], seed=4)
    for design in designs:
        assert not design.accepted and design.verdict.reasons == (Reason.MANIFEST,)
        assert 1 <= len(design.calls) <= 2 and all(len(call.logprobs) for call in design.calls)
        assert all(call.role == "designer" for call in design.calls)
    assert designs[0].calls[0].text != designs[1].calls[0].text


@pytest.mark.slow
@pytest.mark.llm
def test_a_pretrained_small_model_goes_as_far_as_it_can(gates: Gates) -> None:
    """SmolLM2 with 135 million weights: what it answers is read, judged, told back, and never accepted unseen."""
    smollm = pytest.importorskip("sandlot.harness.policies.smollm", reason="torch is not installed (extra: train)")
    try:
        policy = smollm.load("smollm2-135m")
    except MissingExtra as missing:
        pytest.skip(str(missing))
    designer = ModelDesigner(gates, repairs=1, sampling=Sampling(max_tokens=200, temperature=0.7))
    (design,) = designer.design(policy, [0], seed=1)
    assert design.calls[0].finish != "context" and design.calls[0].text.strip()  # the prompt fits, and is answered
    assert design.accepted or (design.reports and len(design.calls) == 2)
    assert design.accepted == (design.verdict.passed and design.program is not None)
