"""The benchmarks' own files: real slices of Spider, dbbench and BIRD-Interact, and fixtures of the right form."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sandlot.envs.core import InvalidArgument, MissingData, UnknownTask
from sandlot.envs.sql import official
from sandlot.envs.sql.actions import ALIASES, parse
from sandlot.envs.sql.interact import COSTS, TOOLS, SqlInteractEnv
from sandlot.envs.sql.official.bird import predictions
from sandlot.envs.sql.read import SqlReadEnv
from sandlot.envs.sql.sources import SqlTasks, load_task
from sandlot.envs.sql.write import SqlWriteEnv

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(os.environ.get("SANDLOT_TEST_DATA") or ROOT.parent / "shared" / "data") / "sql"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no benchmark files in {DATA}")

CITIES = """
CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, country TEXT, people INTEGER);
INSERT INTO city VALUES (1, 'Oslo', 'Norway', 700), (2, 'Bergen', 'Norway', 290), (3, 'Lima', 'Peru', 9700),
  (4, 'Cusco', 'Peru', 430), (5, 'Quito', 'Ecuador', NULL);
"""


def write_database(file: Path, script: str = CITIES) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(file)
    connection.executescript(script)
    connection.close()


def write_json(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.suffix == ".jsonl"
    file.write_text("\n".join(map(json.dumps, content)) if lines else json.dumps(content), encoding="utf-8")


def solve(env: Any, task_id: str) -> dict[str, Any]:
    _, info = env.reset(options={"task": task_id})
    for action in env.oracle():
        *_, info = env.step(action)
    return info


@pytest.fixture(scope="module")
def spider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The slice laid out as the benchmark's archive is: dev.json and database/<id>/<id>.sqlite."""
    if not DATA.is_dir():
        pytest.skip(f"no benchmark files in {DATA}")
    root = tmp_path_factory.mktemp("spider")
    items = [json.loads(line) for line in (DATA / "spider_dev" / "questions.jsonl").read_text().splitlines()]
    write_json(
        root / "dev.json",
        [{"db_id": each["db_id"], "question": each["question"], "query": each["gold"]} for each in items],
    )
    for name in {each["db_id"] for each in items}:
        write_database(
            root / "database" / name / f"{name}.sqlite", (DATA / "spider_dev" / name / "schema.sql").read_text()
        )
    return root


def test_spider_questions_are_solved_by_their_gold_statements(spider: Path) -> None:
    tasks = SqlTasks("read", "valid_unseen", "spider", spider)
    assert len(tasks) == len(json.loads((spider / "dev.json").read_text())) > 500
    env = SqlReadEnv("valid_unseen", source="spider", path=spider, copies=1)
    for task in tasks.first(60):
        assert solve(env, task.id)["success"], task.id
    observation, _ = env.reset(options={"task": "sql/spider/dev/0"})
    assert "How many singers do we have?" in observation and "concert_singer (sqlite)" in observation
    assert "count(" not in observation
    assert env.step("submit(DELETE FROM singer)")[1] == 0.0  # BIRD's scorer gives this 1
    env.close()


def test_the_lint_on_spider(spider: Path) -> None:
    faults = official.faults("spider", str(spider.resolve()))
    kinds = Counter(faults.values())
    assert set(kinds) == {"tie", "trivial", "empty"}  # none fails; an average over no rows is empty
    assert kinds["empty"] < 5
    assert 25 <= kinds["tie"] <= 60  # ties inside the order count as well as those at a LIMIT
    kept = SqlTasks("read", "valid_unseen", "spider", spider, lint=True)
    assert len(kept) == len(SqlTasks("read", "valid_unseen", "spider", spider)) - len(faults)
    assert kept.at(0).id not in faults


@needs_data
def test_spider_from_scripts_instead_of_sqlite_files(tmp_path: Path) -> None:
    write_json(
        tmp_path / "train_spider.json",
        [{"db_id": "pets_1", "question": "How many?", "query": "SELECT count(*) FROM pets"}],
    )
    folder = tmp_path / "database" / "pets_1"
    folder.mkdir(parents=True)
    (folder / "schema.sql").write_text((DATA / "spider_dev" / "pets_1" / "schema.sql").read_text())
    env = SqlReadEnv("train", source="spider", path=tmp_path)
    assert solve(env, "sql/spider/train_spider/0")["success"]
    env.close()


@needs_data
def test_dbbench_reads_and_writes(tmp_path: Path) -> None:
    items = [json.loads(line) for line in (DATA / "agentbench_dbbench" / "slice.jsonl").read_text().splitlines()]
    as_published = [
        {
            "description": each["question"],
            "add_description": "",
            "label": each["label"],
            "type": [each["type"]],
            "table": {
                "table_name": each["table_name"],
                "table_info": {"columns": each["columns"], "rows": each["rows"]},
            },
            "sql": {"query": each["gold_sql"], "length": len(each["gold_sql"])},
        }
        for each in items
    ]
    write_json(tmp_path / "standard.jsonl", as_published)
    for kind, env in (
        ("write", SqlWriteEnv("test", source="dbbench", path=tmp_path)),
        ("read", SqlReadEnv("test", source="dbbench", path=tmp_path, copies=0)),
    ):
        tasks = list(SqlTasks(kind, "test", "dbbench", tmp_path))
        assert len(tasks) == sum((each["type"] in ("INSERT", "UPDATE")) == (kind == "write") for each in items) > 10
        solved = sum(solve(env, task.id)["success"] for task in tasks)
        assert solved == len(tasks)
        env.close()
    writes = official.faults("dbbench", str(tmp_path.resolve()))
    assert not [task for task, fault in writes.items() if fault in ("fails", "no-op")]


def test_dbbench_leaves_out_questions_whose_statement_is_wrong(tmp_path: Path) -> None:
    table = {"table_name": "T", "table_info": {"columns": [{"name": "a", "type": "INT"}], "rows": [["1"], ["2"]]}}
    item = {"description": "?", "label": ["2"], "type": ["other"], "table": table}
    statements = ("SELECT MAX(a) FROM T", "SELECT MIN(a) FROM T", "SELECT aFROM T", "SELECT a FROM T WHERE a = '2'")
    write_json(tmp_path / "dev.jsonl", [{**item, "sql": {"query": statement}} for statement in statements])
    tasks = SqlTasks("read", "valid_unseen", "dbbench", tmp_path)
    assert [load_task(task).gold for task in tasks] == [statements[0], statements[3]]


@pytest.mark.parametrize("folder", [".", "dev_20240627", "minidev/MINIDEV"])
def test_bird(tmp_path: Path, folder: str) -> None:
    mini = folder.endswith("MINIDEV")
    root = tmp_path / folder
    write_database(root / "dev_databases" / "cities" / "cities.sqlite")
    item = {
        "question_id": 7,
        "db_id": "cities",
        "question": "How many big cities are there?",
        "evidence": "big means people > 400",
        "SQL": "SELECT COUNT(*) FROM city WHERE people > 400",
        "difficulty": "simple",
    }
    write_json(root / ("mini_dev_sqlite.json" if mini else "dev.json"), [item])
    env = SqlReadEnv("valid_unseen", source="bird", path=tmp_path)
    task_id = f"sql/bird/{'mini_dev_sqlite' if mini else 'dev'}/7"
    observation, _ = env.reset(options={"task": task_id})
    assert "big means people > 400" in observation and env.problem.level == "simple"
    assert solve(env, task_id)["success"]
    env.close()


def test_bird_predictions_file() -> None:
    text = predictions({"sql/bird/dev/0": ("SELECT 1", "cities"), "sql/bird/dev/1": ("SELECT 2", "cities")})
    assert json.loads(text)["1"] == "SELECT 2\t----- bird -----\tcities"


def spider2_folder(root: Path) -> Path:
    gold = root / "evaluation_suite" / "gold"
    write_database(root / "resource" / "databases" / "spider2-localdb" / "CITIES.sqlite")
    write_json(
        root / "spider2-lite.jsonl",
        [
            {
                "instance_id": "local001",
                "db": "CITIES",
                "question": "People per country?",
                "external_knowledge": "p.md",
            },
            {"instance_id": "local002", "db": "CITIES", "question": "Largest city?", "external_knowledge": None},
            {"instance_id": "bq001", "db": "cloud", "question": "?", "external_knowledge": None},
            {"instance_id": "local003", "db": "CITIES", "question": "without a result", "external_knowledge": None},
        ],
    )
    (root / "resource" / "documents").mkdir(parents=True)
    (root / "resource" / "documents" / "p.md").write_text("Missing numbers count as 0.")
    (gold / "exec_result").mkdir(parents=True)
    (gold / "exec_result" / "local001.csv").write_text("c,n\nNorway,990\nPeru,10130\nEcuador,0\n")
    (gold / "exec_result" / "local002_a.csv").write_text("name\nLima\n")
    (gold / "exec_result" / "local002_b.csv").write_text("name,people\nLima,9700\n")
    write_json(
        gold / "spider2lite_eval.jsonl",
        [
            {"instance_id": "local001", "condition_cols": [1], "ignore_order": True},
            {"instance_id": "local002", "condition_cols": [], "ignore_order": False},
        ],
    )
    (gold / "sql").mkdir()
    (gold / "sql" / "local002.sql").write_text("SELECT name FROM city ORDER BY people DESC LIMIT 1\n")
    return root


def test_spider2(tmp_path: Path) -> None:
    root = spider2_folder(tmp_path)
    env = SqlReadEnv("test", source="spider2", path=root)
    assert len(env.tasks) == 2
    observation, _ = env.reset(options={"task": "sql/spider2/local001"})
    assert "Missing numbers count as 0." in observation
    right = "SELECT SUM(people), country FROM city GROUP BY country"  # NULL counts as 0, other columns are free
    assert env.step(f"submit({right})")[1] == 1.0
    env.reset(options={"task": "sql/spider2/local001"})
    assert env.step("submit(SELECT people FROM city)")[1] == 0.0
    env.reset(options={"task": "sql/spider2/local001"})
    assert env.step("submit(SELECT nothing)")[1] == 0.0
    for task in env.tasks:
        assert solve(env, task.id)["success"]
    env.close()


def interact_folder(root: Path, sqlite: bool = True) -> Path:
    write_json(
        root / "mini_interact.jsonl",
        [
            {
                "instance_id": "cities_1",
                "selected_database": "cities",
                "query": "How many cities with more than 400 people are there per country?",
                "amb_user_query": "How many large cities are there per dense country?",
                "user_query_ambiguity": {
                    "critical_ambiguity": [
                        {"term": "large cities", "sql_snippet": "people > 400", "is_mask": True, "type": "x"}
                    ],
                    "non_critical_ambiguity": [],
                },
                "knowledge_ambiguity": [
                    {"term": "dense country", "sql_snippet": "country <> 'Peru'", "deleted_knowledge": 1}
                ],
                "sol_sql": [
                    "SELECT country, COUNT(*) FROM city WHERE people > 400 AND country <> 'Peru' "
                    "GROUP BY country ORDER BY 2"
                ],
                "conditions": {"decimal": -1, "distinct": False, "order": False},
                "category": "Query",
                "external_knowledge": [0, 1],
                "follow_up": {
                    "query": "And in Peru?",
                    "sol_sql": "SELECT COUNT(*) FROM city WHERE people > 400 AND country = 'Peru'",
                    "category": "Query",
                },
                "difficulty_tier": "Easy",
            },
            {"instance_id": "cities_M_1", "selected_database": "cities", "category": "Management", "sol_sql": ["x"]},
            {"instance_id": "cities_2", "selected_database": "cities", "category": "Query", "sol_sql": []},
        ],
    )
    folder = root / "cities"
    folder.mkdir()
    if sqlite:
        write_database(folder / "cities_template.sqlite")
    write_json(
        folder / "cities_kb.jsonl",
        [
            {
                "id": 0,
                "knowledge": "Town",
                "description": "d",
                "definition": "A city below 300.",
                "children_knowledge": -1,
            },
            {"id": 1, "knowledge": "Dense Country", "description": "d", "definition": "Every country but Peru."},
        ],
    )
    write_json(
        folder / "cities_column_meaning_base.json",
        {"cities|city|people": "thousands of people", "cities|city|name": {"column_meaning": "what it is called"}},
    )
    return root


def test_bird_interact(tmp_path: Path) -> None:
    root = interact_folder(tmp_path)
    env = SqlInteractEnv("test", source="bird_interact", path=root)
    assert [task.id for task in env.tasks] == ["sql/bird_interact/mini_interact/cities_1"]
    observation, info = env.reset(seed=0)
    assert "large cities" in observation and info["coins"] == 6 + 2 * 2 + 2 * 3
    assert "By large cities I mean: people > 400" in env.step("ask_user(What are large cities?)")[0]
    assert "Every country but Peru." in env.step("ask(Which country is dense?)")[0]
    assert env.step("get_all_external_knowledge_names()")[0].startswith("Town\n[")
    assert "thousands of people" in env.step("get_column_meaning(city.people)")[0]
    gold = env.problem.phases[0].gold
    assert "ORDER BY" not in gold  # the benchmark says that order does not count here
    assert solve(env, "sql/bird_interact/mini_interact/cities_1")["score"] == 1.0
    env.close()


@needs_data
def test_bird_interact_runs_speak_our_tools_at_our_prices() -> None:
    runs = json.loads((DATA / "bird_interact_samples" / "a_interact_samples.json").read_text())["samples"]
    talks = json.loads((DATA / "bird_interact_samples" / "c_interact_samples.json").read_text())["samples"]
    steps = [step for run in runs + talks for step in run["tool_trajectory"]]
    assert len(steps) == 185
    for step in steps:
        call = parse(json.dumps({"name": step["tool"], "arguments": step["args"]}), tuple(TOOLS))
        assert call is not None and call.tool == ALIASES[step["tool"]]
        assert bool(call.argument) == bool(step["args"])
        if step.get("cost") is not None:
            assert COSTS[call.tool] == step["cost"]
    for run in runs:
        start = run["tool_trajectory"][0]["budget_before"]
        assert start >= 6 + 2 * 3 and (start - 12) % 2 == 0  # 6 + 2 x things left open + 2 x 3


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("spider", "read", "expected dev.json"),
        ("bird", "read", "expected dev.json, train.json or mini_dev_sqlite.json"),
        ("spider2", "read", "expected spider2-lite.jsonl"),
        ("dbbench", "write", "expected standard.jsonl"),
        ("bird_interact", "interact", "expected bird_interact_data.jsonl"),
    ],
)
def test_an_empty_folder_says_what_is_missing(tmp_path: Path, source: str, kind: str, message: str) -> None:
    with pytest.raises(MissingData, match=message):
        SqlTasks(kind, "test", source, tmp_path)


def test_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("[{")
    with pytest.raises(MissingData, match=r"broken file .*dev\.json: not JSON"):
        SqlTasks("read", "valid_unseen", "spider", tmp_path)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"db_id": "x", "question": "?"}, "without a text 'query'"),
        ({"db_id": "x", "question": "?", "query": "SELECT 1"}, "no database 'x': expected"),
        (5, "without a text 'query'"),
    ],
)
def test_broken_items_are_named_when_they_are_played(tmp_path: Path, item: Any, message: str) -> None:
    write_json(tmp_path / "dev.json", [item])
    tasks = SqlTasks("read", "valid_unseen", "spider", tmp_path)
    with pytest.raises(MissingData, match=message):
        load_task(tasks.at(0))


def test_a_gold_statement_that_does_not_run_is_said_at_once(tmp_path: Path) -> None:
    write_database(tmp_path / "database" / "cities" / "cities.sqlite")
    golds = ("SELECT nowhere FROM city", "SELECT strftime('%Y', name) FROM city WHERE name GLOB 'O*'")
    write_json(tmp_path / "dev.json", [{"db_id": "cities", "question": "?", "query": gold} for gold in golds])
    env = SqlReadEnv("valid_unseen", source="spider", path=tmp_path)
    with pytest.raises(InvalidArgument, match=r"does not run \(no such column: nowhere\): lint=True leaves"):
        env.reset(options={"task": "sql/spider/dev/0"})
    env.close()
    env = SqlReadEnv("valid_unseen", source="spider", path=tmp_path, backend="duckdb")
    with pytest.raises(InvalidArgument, match="pass backend='sqlite'"):
        env.reset(options={"task": "sql/spider/dev/1"})
    env.close()


def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    write_json(tmp_path / "dev.json", [{"db_id": "x", "question": "?", "query": "SELECT 1"}])
    (tmp_path / "database" / "x").mkdir(parents=True)
    (tmp_path / "database" / "x" / "x.sqlite").write_text("version https://git-lfs")
    with pytest.raises(MissingData, match="is not a SQLite database"):
        load_task(SqlTasks("read", "valid_unseen", "spider", tmp_path).at(0))


def test_a_split_that_is_not_there_says_which_are(tmp_path: Path) -> None:
    root = spider2_folder(tmp_path)
    with pytest.raises(MissingData, match="no spider2 read tasks of split 'train'; it has test"):
        SqlTasks("read", "train", "spider2", root)
    tasks = SqlTasks("read", "test", "spider2", root)
    for wrong in ("sql/spider2/local009", "sql/spider2/", "nonsense"):
        with pytest.raises(UnknownTask):
            tasks.get(wrong)
    assert tasks.get("sql/read1/train/shop/0/easy-0").split == "train"


def test_missing_pieces_of_a_benchmark(tmp_path: Path) -> None:
    interact_folder(tmp_path / "a", sqlite=False)
    with pytest.raises(MissingData, match=r"no database 'cities': expected .*cities\.sqlite"):
        load_task(SqlTasks("interact", "test", "bird_interact", tmp_path / "a").at(0))
    root = spider2_folder(tmp_path / "b")
    (root / "resource" / "documents" / "p.md").unlink()
    with pytest.raises(MissingData, match="needs the document"):
        load_task(SqlTasks("read", "test", "spider2", root).at(0))
    write_json(tmp_path / "c" / "bird_interact_data.jsonl", [{"instance_id": "x", "category": "Query", "sol_sql": []}])
    with pytest.raises(MissingData, match=r"that can be played \(1: it has no sol_sql: ask the benchmark's authors"):
        SqlTasks("interact", "test", "bird_interact", tmp_path / "c")


def test_what_cannot_be_played_says_why(tmp_path: Path) -> None:
    interact = SqlTasks("interact", "test", "bird_interact", interact_folder(tmp_path / "a"))
    assert [task.id.rpartition("/")[2] for task in interact] == ["cities_1"]
    with pytest.raises(UnknownTask, match="cities_M_1 cannot be played: it changes the database"):
        interact.get("sql/bird_interact/mini_interact/cities_M_1")
    with pytest.raises(UnknownTask, match="cities_2 cannot be played: it has no sol_sql"):
        official.load("bird_interact", interact._path, "sql/bird_interact/mini_interact/cities_2")
    item = {"instance_id": "x_M_1", "category": "Management", "sol_sql": ["x"]}
    write_json(tmp_path / "b" / "bird_interact_data.jsonl", [item, {**item, "instance_id": "x_M_2"}])
    with pytest.raises(MissingData, match=r"no bird_interact tasks that can be played \(2: it changes the database"):
        SqlTasks("interact", "test", "bird_interact", tmp_path / "b")
    read = SqlTasks("read", "test", "spider2", spider2_folder(tmp_path / "c"))
    with pytest.raises(UnknownTask, match="bq001 cannot be played: it runs in the cloud"):
        read.get("sql/spider2/bq001")
    with pytest.raises(UnknownTask, match="local003 cannot be played: it has no result"):
        read.get("sql/spider2/local003")


def test_the_user_does_not_say_a_part_that_is_the_whole_statement(tmp_path: Path) -> None:
    root = interact_folder(tmp_path)
    items = [json.loads(line) for line in (root / "mini_interact.jsonl").read_text().splitlines()]
    gold = items[0]["sol_sql"][0]
    items[0]["user_query_ambiguity"]["critical_ambiguity"][0]["sql_snippet"] = f"({gold.upper()} -- all of it\n)"
    write_json(root / "mini_interact.jsonl", items)
    env = SqlInteractEnv("test", source="bird_interact", path=root)
    env.reset(seed=0)
    assert "User: I can't put that into other words." in env.step("ask(What are large cities?)")[0]
    env.close()
    del items[0]["user_query_ambiguity"]["critical_ambiguity"][0]["sql_snippet"]
    write_json(root / "mini_interact.jsonl", items)
    official.entries.cache_clear()
    with pytest.raises(MissingData, match="without a text 'sql_snippet'"):
        official.entries("bird_interact", str(root))["sql/bird_interact/mini_interact/cities_1"].build()


def test_a_follow_up_that_changes_the_database_is_left_out(tmp_path: Path) -> None:
    root = interact_folder(tmp_path)
    items = [json.loads(line) for line in (root / "mini_interact.jsonl").read_text().splitlines()]
    items[0]["follow_up"]["category"] = "Management"
    write_json(root / "mini_interact.jsonl", items)
    env = SqlInteractEnv("test", source="bird_interact", path=root)
    assert solve(env, "sql/bird_interact/mini_interact/cities_1")["score"] == 1.0
    assert len(env.problem.phases) == 1
    env.close()
