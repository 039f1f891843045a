"""Git history repair: what was lost, broken or left behind is still in the history."""

from __future__ import annotations

from ..dice import Dice
from ..draft import Draft
from ..git_objects import Repository

_COMMON = """
def git(*arguments):
    return run("git", "-C", str(APP), "-c", "safe.directory=*", *arguments).stdout.strip()
"""
_RESTORED = """
def test_file_is_back():
    assert read(GOLD["file"]) == GOLD["text"]


def test_it_is_committed():
    assert git("show", "HEAD:" + GOLD["file"]) == GOLD["text"].strip()


def test_history_is_kept():
    assert GOLD["head"] in git("rev-list", "HEAD").split()
"""
_REVERTED = """
def test_value_is_right():
    assert GOLD["right"] in read(GOLD["file"]) and GOLD["wrong"] not in read(GOLD["file"])


def test_later_work_is_kept():
    assert read(GOLD["file"]) == GOLD["text"]


def test_culprit_is_named():
    assert read("culprit.txt").strip() == GOLD["culprit"]


def test_it_is_committed():
    assert git("show", "HEAD:" + GOLD["file"]) == GOLD["text"].strip()
"""
_RESCUED = """
def test_branch_exists():
    assert git("rev-parse", "--verify", "refs/heads/" + GOLD["branch"])


def test_branch_holds_the_work():
    assert git("rev-parse", "refs/heads/" + GOLD["branch"]) == GOLD["commit"]


def test_merged_into_main():
    assert GOLD["commit"] in git("rev-list", "main").split()
    assert GOLD["main"] in git("rev-list", "main").split()


def test_both_files_are_there():
    for name, text in GOLD["files"].items():
        assert git("show", "main:" + name) == text.strip(), name
"""


def draft(dice: Dice, level: int) -> Draft:
    """Level 1: a deleted file; 2: find the bad commit and undo it; 3: a deleted branch, rescued and merged."""
    return (_deleted, _bad_commit, _lost_branch)[level - 1](dice)


def _notes(dice: Dice, lines: int = 4) -> str:
    return "".join(f"{dice.word()} {dice.word()} {dice.number(100, 999)}\n" for _ in range(lines))


def _deleted(dice: Dice) -> Draft:
    name, other = (f"{word}.txt" for word in dice.words(2))
    repo, files = Repository(), {other: _notes(dice), "README.md": f"# {dice.word()}\n"}
    repo.commit(files, "Start")
    for _ in range(dice.number(1, 2)):
        files[name] = _notes(dice)
        repo.commit(files, f"Edit {name}")
    text = files.pop(name)
    head = repo.commit(files, "Clean up")
    for _ in range(dice.number(1, 3)):
        files[other] = _notes(dice)
        head = repo.commit(files, f"Edit {other}")
    return Draft(
        instruction=(
            f"/app is a Git repository. The file {name} was deleted by mistake some commits ago. Bring back its last "
            "version in the working tree and commit it on the branch main. Keep the history as it is."
        ),
        files=repo.files(),
        solution=(
            f'git checkout "$(git rev-list -n 1 HEAD -- {name})^" -- {name}',
            f"git commit -q -m 'Bring back {name}'",
        ),
        checks=_COMMON + _RESTORED,
        gold={"file": name, "text": text, "head": head},
        hint=f"git log --diff-filter=D -- {name} finds the commit that deleted it; its parent still has the file.",
    )


def _bad_commit(dice: Dice) -> Draft:
    name, key = "settings.conf", f"{dice.word()}_limit"
    right, wrong = f"{key} = {dice.number(20, 90)}", f"{key} = {dice.number(1000, 9000)}"
    others = dice.words(dice.number(8, 12))
    repo, known, line, culprit, body = Repository(), [others[0]], right, "", ""
    when = dice.number(3, len(others) - 3)
    for number, word in enumerate(others):
        if number == when:
            line = wrong
        known = [*known, word] if number else known
        text = "".join(f"{entry} = on\n" for entry in known)
        # The setting lies in the middle, away from the lines that later commits add, so that a revert applies cleanly.
        body = f"{line}\n\n# options\n# one per line\n# in order of appearance\n\n{text}"
        commit = repo.commit({name: body}, f"Add {word}", author=dice.choice(("Dev", "Ops")))
        culprit = commit if number == when else culprit
    return Draft(
        instruction=(
            f"/app is a Git repository. In {name} the value of {key} was once right and was changed by mistake in one "
            f"of "
            f"the commits, along with other work. Set {key} back to what it was before, keep everything else of the "
            "file, commit that on the branch main, and write the full id of the commit that broke it to "
            "/app/culprit.txt (which need not be committed)."
        ),
        files=repo.files(),
        solution=(
            f"CULPRIT=$(git log --format=%H -S'{wrong}' -- {name} | tail -n 1)",
            f"OLD=$(git show \"$CULPRIT^:{name}\" | grep '^{key} =')",
            f'sed -i "s/^{key} = .*/$OLD/" {name}',
            f"git commit -q -m 'Set {key} back' {name}",
            'echo "$CULPRIT" > culprit.txt',
        ),
        checks=_COMMON + _REVERTED,
        gold={
            **{"file": name, "right": right, "wrong": wrong, "culprit": culprit},
            "text": body.replace(wrong, right),
        },
        hint=f"git log -p -G'{key}' -- {name} shows the commits that touched the setting.",
    )


def _lost_branch(dice: Dice) -> Draft:
    base, feature, extra = (f"{word}.txt" for word in dice.words(3))
    branch = f"feature-{dice.word()}"
    repo, files = Repository(), {base: _notes(dice)}
    repo.commit(files, "Start")
    work = dict(files)
    fork = repo.commit(files | {"README.md": "# Work\n"}, "Add README")
    work |= {"README.md": "# Work\n"}
    commit = head = fork
    for number in range(dice.number(2, 3)):
        work[feature] = _notes(dice)
        commit = repo.commit_on(commit, work, f"{branch}: part {number + 1}", branch)
    main = dict(files) | {"README.md": "# Work\n"}
    for _ in range(dice.number(1, 3)):
        main[extra] = _notes(dice)
        head = repo.commit(main, f"Edit {extra}")
    repo.delete(branch)
    return Draft(
        instruction=(
            f"/app is a Git repository. The branch {branch} was deleted before it was merged. Make it again at its "
            f"last "
            "commit, and merge it into the branch main."
        ),
        files=repo.files(),
        solution=(
            f"COMMIT=$(git log -g --format='%H %gs' HEAD | grep '{branch}: part' | head -n 1 | cut -d' ' -f1)",
            f'git branch {branch} "$COMMIT"',
            f"git merge -q --no-edit {branch}",
        ),
        checks=_COMMON + _RESCUED,
        gold={
            **{"branch": branch, "commit": commit, "main": head},
            "files": {feature: work[feature], extra: main[extra], base: main[base]},
        },
        hint="git reflog still lists the commits of the branch; git fsck --lost-found finds its tip as well.",
    )
