"""Config templating: fill templates from defaults and overrides."""

from __future__ import annotations

import json

from ..dice import Dice
from ..draft import Draft

_CHECKS = """
def test_some_file():
    assert any((APP / name).is_file() for name in GOLD["files"])


def test_no_placeholder_is_left():
    for name in GOLD["files"]:
        assert "{{" not in read(name), name


def test_contents():
    for name, text in GOLD["files"].items():
        assert read(name).rstrip("\\n") == text.rstrip("\\n"), name
"""
_KEYS = ("host", "port", "user", "log_level", "workers", "timeout")
_TEMPLATE = """# {name}
[server]
listen = {{{{host}}}}:{{{{port}}}}
workers = {{{{workers}}}}
timeout = {{{{timeout}}}}

[log]
level = {{{{log_level}}}}
file = /var/log/{name}/{{{{user}}}}.log
"""


def draft(dice: Dice, level: int) -> Draft:
    """Level 1: one file of values; 2: defaults and overrides of one environment; 3: all environments, some derived."""
    name = dice.word()
    values = {
        **{"host": f"{dice.word()}.example.com", "port": str(dice.number(1024, 9999)), "user": dice.names(1)[0]},
        **{"log_level": dice.choice(("debug", "info", "warning")), "workers": str(dice.number(2, 16))},
        "timeout": str(dice.number(5, 90)),
    }
    template = _TEMPLATE.format(name=name)
    begin = f"/app/{name}.conf.template holds placeholders of the form {{{{key}}}}. "
    if level == 1:
        return Draft(
            instruction=(
                f"{begin}Fill them with the values of /app/values.env (lines KEY=value) and write the result to "
                f"/app/{name}.conf."
            ),
            files={f"{name}.conf.template": template, "values.env": _env(dice, values)},
            solution=(_fill(f"{name}.conf", name, "values.env"),),
            checks=_CHECKS,
            gold={"files": {f"{name}.conf": _filled(template, values)}},
            hint="sed -e 's/{{key}}/value/g', once per line of values.env.",
            secrets=(_filled(template, values),),
        )
    stages = dice.sample(("dev", "test", "stage", "live"), level)
    overrides = {stage: {key: _other(dice, key) for key in dice.sample(_KEYS, dice.number(2, 3))} for stage in stages}
    files = {f"{name}.conf.template": template, "defaults.env": _env(dice, values)}
    files |= {f"{stage}.env": _env(dice, given) for stage, given in overrides.items()}
    wanted = stages if level == 3 else stages[:1]
    gold = {f"out/{name}.{stage}.conf": _filled(template, values | overrides[stage]) for stage in wanted}
    which = f"the environment {stages[0]}" if level == 2 else f"each of the environments {', '.join(stages)}"
    solution = ["mkdir -p out", *(_fill(f"out/{name}.{s}.conf", name, f"{s}.env defaults.env") for s in wanted)]
    extra = ""
    if level == 3:
        summary = {stage: int((values | overrides[stage])["port"]) for stage in sorted(stages)}
        gold["out/ports.json"] = json.dumps(summary, indent=2)
        extra = (
            " Also write /app/out/ports.json: an object of environment and port (a number), keys in alphabetical "
            "order, "
            "indented by two spaces."
        )
        ports = (
            "import json, glob, re",
            f"paths = glob.glob('out/{name}.*.conf')",
            "found = {p.split('.')[-2]: int(re.search(r':(\\d+)', open(p).read())[1]) for p in paths}",
            "open('out/ports.json', 'w').write(json.dumps(found, indent=2, sort_keys=True) + '\\n')",
        )
        solution.append("python3 - <<'END'\n" + "\n".join(ports) + "\nEND")
    return Draft(
        instruction=(
            f"{begin}/app/defaults.env holds their values (lines KEY=value), and /app/ENVIRONMENT.env those that are "
            f"different in an environment. Write /app/out/{name}.ENVIRONMENT.conf for {which}.{extra}"
        ),
        files=files,
        solution=tuple(solution),
        checks=_CHECKS,
        gold={"files": gold},
        hint="Fill in the environment's own values first, then the defaults for what is left.",
        secrets=tuple(gold.values()),
    )


def _env(dice: Dice, values: dict[str, str]) -> str:
    return "".join(f"{key.upper()}={values[key]}\n" for key in dice.shuffled(sorted(values)))


def _filled(template: str, values: dict[str, str]) -> str:
    for key, value in values.items():
        template = template.replace(f"{{{{{key}}}}}", value)
    return template


def _other(dice: Dice, key: str) -> str:
    if key in ("port", "workers", "timeout"):
        return str(dice.number(100, 999))
    return f"{dice.word()}.example.org" if key == "host" else dice.word()


def _fill(target: str, name: str, sources: str) -> str:
    return (
        f"cp {name}.conf.template {target} && cat {sources} | while IFS== read -r key value; do "
        f'sed -i "s/{{{{${{key,,}}}}}}/$value/g" {target}; done'
    )
