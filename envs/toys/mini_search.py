"""MiniSearch: questions that need two or three look-ups in a synthetic corpus of fifty documents."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..core.errors import InvalidArgument
from ..core.tasks import Task
from ..core.text_env import Outcome
from .tasks import NumberedTasks, pick, shuffled
from .toy import Toy, check_size

ADJECTIVES = (
    *("Silver", "Hidden", "Burning", "Quiet", "Crooked", "Golden", "Broken", "Distant"),
    *("Frozen", "Painted", "Hollow", "Scarlet", "Endless", "Sunken", "Wandering", "Patient"),
)
NOUNS = (
    *("Harbour", "Orchard", "Lantern", "Bridge", "Mirror", "Garden", "Compass", "Tower"),
    *("River", "Meadow", "Clock", "Island", "Staircase", "Violin", "Winter", "Letter"),
)
GIVEN = ("Mira", "Oren", "Talia", "Jonas", "Edda", "Luca", "Sanna", "Piet", "Ilse", "Marek", "Nadia", "Tomas")
FAMILY = ("Tolan", "Fisk", "Brandt", "Okoro", "Vance", "Lindahl", "Moreau", "Quill", "Sato", "Weiss", "Ibarra", "Dunne")
TOWN_STARTS = ("Vel", "Kar", "Ost", "Bren", "Mal", "Tor", "Lim", "Sel", "Hav", "Dor")
TOWN_ENDS = ("mar", "dale", "wick", "stad", "field", "burg", "haven")
RIVERS = ("Osk", "Lenna", "Tarn", "Ybbs", "Morva", "Sill", "Dray", "Ulme", "Fenn", "Arlo", "Nith", "Isen")
WORKS, NAMESAKES, PEOPLE, TOWNS = 12, 8, 15, 15  # documents of each kind: fifty in all
CORPORA = 100_000
MOST_WORDS = 32  # of a query that are looked at
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Document:
    """One passage and the names in it."""

    title: str
    text: str
    names: tuple[str, ...]


class Corpus:
    """Fifty documents and their index, a function of the number alone.

    Novel -> its author -> the author's town of birth -> its river. `namesakes` are films with the title of a novel and
    another person behind them: a search for the title finds them before the novel.
    """

    def __init__(self, number: int) -> None:
        seed = f"corpus {number}"
        titles = shuffled([f"The {a} {n}" for a in ADJECTIVES for n in NOUNS], seed, "titles")[:WORKS]
        people = shuffled([f"{g} {f}" for g in GIVEN for f in FAMILY], seed, "people")[:PEOPLE]
        towns = shuffled([a + b for a in TOWN_STARTS for b in TOWN_ENDS], seed, "towns")[:TOWNS]
        self.author = {title: people[i] for i, title in enumerate(titles)}
        self.town = {person: towns[pick(TOWNS, seed, "born", person)] for person in people}
        self.river = {town: RIVERS[pick(len(RIVERS), seed, "river", town)] for town in towns}
        self.titles = tuple(titles)
        # The order decides ties of the search: a name finds its own passage first, a title the film before the novel.
        documents = [Document(t, f"{t} is a town on the river {r}.", (t, r)) for t, r in self.river.items()]
        documents += [Document(p, f"{p} was born in {t}.", (p, t)) for p, t in self.town.items()]
        for i, title in enumerate(titles[:NAMESAKES]):
            other = people[(i + 3) % PEOPLE]
            documents.append(Document(f"{title} (film)", f"The film {title} was directed by {other}.", (title, other)))
        documents += [Document(t, f"{t} is a novel by {a}.", (t, a)) for t, a in self.author.items()]
        self.documents = tuple(documents)
        self._index = [frozenset(_words(f"{d.title} {d.text}")) for d in documents]
        shared = Counter(word for words in self._index for word in words)
        self._rarity = {word: math.log(len(documents) / count) for word, count in shared.items()}

    def search(self, query: str, most: int) -> list[int]:
        """The documents that share words with `query`, best first: rare words count more, ties by number."""
        words = sorted(set(_words(query)[:MOST_WORDS]) & self._rarity.keys())
        scores = [sum(self._rarity[word] for word in words if word in held) for held in self._index]
        ranked = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        return [i for i in ranked[:most] if scores[i] > 0]

    def find(self, title: str) -> int:
        """The number of the document with this title."""
        return next(i for i, document in enumerate(self.documents) if document.title == title)


corpus = lru_cache(maxsize=32)(Corpus)


class MiniSearch(Toy):
    """Answer a question about the author of a novel by searching a corpus that exists nowhere else.

    ## Description
    The question names a novel; its answer needs the author (first hop), the author's town of birth (second hop) and,
    with `hops=3`, the town's river. Searches are limited by a budget. With `misleading=True` only novels are asked for
    that share their title with a film: the first passage found is about the film and its director.

    ## Action Space
    Text. `search <words>` and `answer <name>`. Any words can be searched and any name answered; listed are those made
    of the names read so far.

    ## Observation Space
    Text. The passages found (title and text), the question and the searches left.

    ## Starting State
    Nothing searched. A task is a corpus with one question.

    ## Rewards
    1 for the right answer (case and punctuation do not matter), else 0.

    ## Episode End
    Terminated by the first answer. Registered limit: 12 steps.

    ## Information
    `progress`: share of the hops' documents that were found. `admissible`: searches and answers made of the names read
    so far, the answers leaving out the novel; other words are accepted too.

    ## Privileged Information
    `oracle()`: searches hop by hop, then the answer. `hint()`: the answer. `anchors()`: the passages that
    support it. `verify()`: which were found, and the answer. `optimal_value()`: 1.

    ## State Key
    The task, the documents found in order, the searches used and the answer.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint corpora; with `corpus` disjoint questions).
    - `hops` (2): 2 or 3.
    - `budget` (5): searches, `hops` to 20. A search beyond it is refused.
    - `passages` (3): passages per search, 2 to 10.
    - `misleading` (False): see Description.
    - `corpus` (None): a number fixes the corpus for all tasks (12 questions); None gives each task its own.

    ## Source and Licence
    Written for this project; Apache-2.0. All names are invented.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        hops: int = 2,
        budget: int = 5,
        passages: int = 3,
        misleading: bool = False,
        corpus: int | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.hops = check_size("hops", hops, 2, 3)
        self.budget = check_size("budget", budget, hops, 20)
        self.passages = check_size("passages", passages, 2, 10)
        self.misleading = misleading
        self.fixed = None if corpus is None else check_size("corpus", corpus, 0, CORPORA - 1)
        if misleading and corpus is not None:
            raise InvalidArgument("misleading=True leaves 8 questions in one corpus, too few: do without corpus=…")
        kind = f"minisearch-{hops}{'m' if misleading else ''}{'' if corpus is None else f'c{corpus}'}"
        tasks = NumberedTasks(kind, CORPORA if corpus is None else WORKS, self._question, split)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)

    def _question(self, number: int) -> dict[str, int]:
        if self.fixed is not None:
            return {"corpus": self.fixed, "work": number}
        return {"corpus": number, "work": pick(NAMESAKES if self.misleading else WORKS, "question", number)}

    def start(self, task: Task) -> tuple[tuple[int, ...], int, str | None]:
        """Documents found, searches used, answer."""
        return ((), 0, None)

    def describe(self) -> str:
        """The question and the searches left."""
        _, used, answer = self.state
        if answer is not None:
            return "Right." if self._success() else "That is not the answer."
        return f"Question: {self._instruction()} Searches left: {self.budget - used}."

    def canonical(self, action: str) -> str:
        """The verb in lower case, single spaces, no colon after the verb."""
        verb, _, rest = " ".join(action.split()).partition(" ")
        return f"{verb.lower().removesuffix(':')} {rest}".strip()

    def actions(self) -> tuple[str, ...]:
        """Searches and answers made of the names read so far."""
        found, used, _ = self.state
        title = self._title()
        names = dict.fromkeys([title, *(name for i in found for name in self._corpus().documents[i].names)])
        searches = [f"search {name}" for name in names] if used < self.budget else []
        return (*searches, *(f"answer {name}" for name in names if name != title))

    def _step(self, action: str) -> Outcome:
        verb, _, rest = self.canonical(action).partition(" ")
        if verb not in ("search", "answer") or not _words(rest):
            return self.refuse("Write `search` and some words, or `answer` and a name.")
        if verb == "search" and self.state[1] >= self.budget:
            return self.refuse("No searches are left: answer.")
        return self.apply(f"{verb} {rest}")

    def apply(self, action: str) -> Outcome:
        """Search or answer."""
        verb, _, rest = action.partition(" ")
        found, used, _ = self.state
        if verb == "answer":
            self.state = (found, used, _plain(rest))
            return Outcome(self.describe(), float(self._success()), terminated=True)
        hits = self._corpus().search(rest, self.passages)
        self.state = ((*found, *(i for i in hits if i not in found)), used + 1, None)
        documents = (self._corpus().documents[i] for i in hits)
        lines = [f"[{document.title}] {document.text}" for document in documents] or ["Nothing was found."]
        return Outcome("\n".join([*lines, self.describe()]))

    def oracle(self) -> Iterator[str]:
        """Search what the next missing passage is about, then answer; answer at once when the budget is used up."""
        while self.state[2] is None:
            missing = [i for i in self._gold() if i not in self.state[0]]
            if missing and self.state[1] < self.budget:
                yield f"search {self._corpus().documents[missing[0]].title}"
            else:
                yield f"answer {self._answer()}"

    def hint(self) -> str:
        """The answer."""
        return f"The answer is {self._answer()}."

    def anchors(self) -> tuple[str, ...]:
        """The passages that support the answer, in the order of the hops."""
        return tuple(self._corpus().documents[i].text for i in self._gold())

    def verify(self) -> dict[str, float]:
        """Per hop, whether its passage was found; and whether the answer is right."""
        hops = {f"hop {n + 1}": float(i in self.state[0]) for n, i in enumerate(self._gold())}
        return hops | {"answer": float(self._success())}

    def optimal_value(self) -> float:
        """1: one search per hop is enough, and the budget allows it."""
        return 1.0

    def _corpus(self) -> Corpus:
        return corpus(self.task.params["corpus"])

    def _title(self) -> str:
        return self._corpus().titles[self.task.params["work"]]

    def _gold(self) -> tuple[int, ...]:
        author = self._corpus().author[self._title()]
        titles = (self._title(), author, self._corpus().town[author])
        return tuple(self._corpus().find(title) for title in titles[: self.hops])

    def _answer(self) -> str:
        town = self._corpus().town[self._corpus().author[self._title()]]
        return town if self.hops == 2 else self._corpus().river[town]

    def _success(self) -> bool:
        return self.state[2] == _plain(self._answer())

    def _progress(self) -> float:
        return sum(i in self.state[0] for i in self._gold()) / self.hops

    def _instruction(self) -> str:
        novel = f"the author of the novel {self._title()}"
        if self.hops == 2:
            return f"In which town was {novel} born?"
        return f"On which river lies the town in which {novel} was born?"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _plain(text: str) -> str:
    return " ".join(_words(text))
