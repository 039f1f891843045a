"""`sandlot/WebShop-v0`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from gymnasium.error import ResetNeeded

from ..core import InvalidArgument, Outcome, Task, TextEnv
from . import oracle
from .core import BUY, CLICK, HITS, NEXT, SEARCH, ShopCore, parse
from .expert import Expert, searches
from .goals import Goal
from .html import render
from .nouns import tagger
from .page import PER_PAGE, Kind, Page, clickables, nodes, text, text_rich, url
from .product import Product
from .reward import Verdict
from .session import Session
from .shop import Shop, no_tagger
from .sources import WebShopTasks, load

MODES = ("text", "text_rich", "html", "url")
PRINCETON = "princeton"
_MOST_SEARCHES = 16


class WebShopEnv(TextEnv):
    """An online shop: search, look at products, choose options and buy what the instruction asks for.

    ## Description
    WebShop (Yao et al., NeurIPS 2022) with the original's pages, search order (Lucene's BM25) and rewards. Where the
    user has the benchmark's data, its products and goals; else a generated shop: 48 kinds of products in 8 departments,
    each product among near copies that miss one wish of the goal. All environments and processes share one catalogue.

    ## Action Space
    Text: `search[words]` on the start page, `click[x]` elsewhere, x being a button, a product's number or an option's
    value as shown, in any case. What follows the last bracket is ignored, a verb in capitals is not understood.

    ## Observation Space
    Text, one of four modes: `text` (what is visible, parts joined with `[SEP]`; chosen options are not marked),
    `text_rich` (one part per line, buttons and choices marked), `html` (the page), `url` (its address). After a refused
    action the first line says why, then comes the same page.

    ## Starting State
    The start page, with the instruction and a search bar. A task is a goal over a shop.

    ## Rewards
    At the purchase, in [0, 1]: type * (attributes met + options met + price kept) / (their number); else 0. The type
    factor is 1, 0.5, 0.1 or 0, by the nouns of the titles.

    ## Episode End
    Terminated by the purchase, right or wrong. Registered limit: 15 steps.

    ## Information
    The contract's keys. `success`: the reward is 1. `score`: the reward. `progress`: the share of five sub-goals (kind,
    attributes, options, price, bought) met by the product that is open. `admissible`: every click; None where there is
    a search bar, unless `suggestions` asks for some searches made of the instruction's words. `page_kind`: start,
    search_results, item_page, item_sub_page or done. `noun_tagger`: who finds the nouns of titles: "catalogue" (a
    generated shop knows them), a spaCy model, or "heuristic". `expert()` shops without privileges: it reads pages and
    knows common ways to say things; `hasty()` does so without reading features; `rule()` searches for the instruction
    and buys the first hit.

    ## Privileged Information
    `oracle()` finds and buys the goal's product from any state; `hint()` names it; `verify()` gives the sub-goals.

    ## State Key
    Hash of the task, page kind, query, page number, product, sub page, chosen options and reward; where the mode shows
    which products were visited, of these, too.

    ## Arguments
    - `split`: `train`, `valid_seen` (generated only), `valid_unseen` or `test`. Generated kinds of products in
      `valid_unseen` and `test` occur in no training goal; official goals have the benchmark's 500 for `test`, its 1000
      "eval" ones for `valid_unseen`, and the rest.
    - `mode`: of observations, see above.
    - `source`: "generated", "official", or "auto": official where `data` is given.
    - `data`: the folder with the benchmark's `items_shuffle*.json`, `items_ins_v2*.json` and `items_human_ins.json`.
    - `products`: the shop's size; None is 4000 generated products or all official ones.
    - `seed`: of the generated shop; of official price bounds and of prices within a range.
    - `goals`: official ones: "human" or "synthetic".
    - `language`: of generated instructions: "human" or "template" (the benchmark's synthetic wording).
    - `compat`: "princeton" opens what the original's site allows (searching on any page, `next >` without end, going on
      after a purchase, refusals without a word) and compares options loosely as it does; None does the latter with
      official data only.
    - `nouns`: for official titles: "spacy", "heuristic" or "auto": spaCy where it and its model are installed.
    - `departments`: of generated goals, some of fashion, beauty, electronics, home, kitchen, grocery, pets, outdoors;
      None is all. The shop stays whole.
    - `per_page`: products on a page of results, 1 to 50; the original has 10.
    - `suggestions`: how many searches to list on the start page, 0 to 16, for policies that choose from a list.
    - `cache`: where shops are kept; None is the user's cache folder.
    - `max_steps`, `render_mode`: see `TextEnv`.

    ## Source and Licence
    https://github.com/princeton-nlp/WebShop (MIT): rules, page texts and constants. Generated products are ours.

    ## Version History
    - v0: first version.
    """

    waits: ClassVar[bool] = False
    max_observation: ClassVar[int] = 65_536
    extra_info: ClassVar[tuple[str, ...]] = ("page_kind", "noun_tagger")

    def __init__(
        self,
        split: str = "train",
        mode: str = "text",
        source: str = "auto",
        data: str | Path | None = None,
        products: int | None = None,
        seed: int = 0,
        goals: str = "human",
        language: str = "human",
        compat: str | None = None,
        nouns: str = "auto",
        departments: Sequence[str] | None = None,
        per_page: int = PER_PAGE,
        suggestions: int = 0,
        cache: str | Path | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if mode not in MODES:
            raise InvalidArgument(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
        if compat not in (None, PRINCETON):
            raise InvalidArgument(f"compat must be None or {PRINCETON!r}, not {compat!r}")
        if type(suggestions) is not int or not 0 <= suggestions <= _MOST_SEARCHES:
            raise InvalidArgument(f"suggestions must be an integer from 0 to {_MOST_SEARCHES}, not {suggestions!r}")
        if type(per_page) is not int or not 1 <= per_page <= HITS:
            raise InvalidArgument(f"per_page must be an integer from 1 to {HITS}, not {per_page!r}")
        tasks = WebShopTasks(split, source, data, products, seed, goals, language, cache, departments)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)
        self._official = tasks.official
        self._tagger = tagger(nouns) if tasks.official else no_tagger()
        self._mode, self._suggestions, self._cache, self._per_page = mode, suggestions, cache, per_page
        self._original = compat == PRINCETON
        self._quirks = self._original or tasks.official
        self._shop: Shop | None = None
        self._verdicts: dict[str, Verdict] = {}
        self._expert: Expert | None = None

    # -- what other parts of the shop stand on ----------------------------------------------------------------------

    @property
    def shop(self) -> Shop:
        """Privileged: the shop being played in."""
        if self._shop is None:
            raise ResetNeeded("call reset() first")
        return self._shop

    @property
    def core(self) -> ShopCore:
        """The shop as a function."""
        return self._core

    @property
    def session(self) -> Session:
        """Privileged: where the agent is, with its goal."""
        return self._session

    @property
    def page(self) -> Page:
        """What the agent sees, before it is put into text."""
        return self._page

    # -- the contract -------------------------------------------------------------------------------------------------

    def _reset(self, task: Task) -> str:
        self._shop, goal = load(task, self._cache)
        self._core = self._shop.core(self._original, self._quirks, self._tagger, self._per_page)
        self._verdicts, self._expert = {}, None
        self._go(self._core.start(goal, task.id.rsplit("/", 1)[-1]))
        return self._observe()

    def _step(self, action: str) -> Outcome:
        step = self._core.step(self._session, action, self._page)
        if step.refusal:
            shown = self._observe()
            return Outcome(shown if self._original else f"{step.refusal}\n{shown}", valid=False)
        self._go(step.session)
        return Outcome(self._observe(), step.reward, step.bought)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """See `TextEnv.step`; under `compat="princeton"` a purchase does not stop the episode, as in the original."""
        if self._original:
            self._ended = False
        return super().step(action)

    def _go(self, session: Session) -> None:
        self._session, self._page = session, self._core.page(session)

    def _observe(self) -> str:
        """The page as the agent gets it."""
        page = self._page
        if self._mode == "text":
            return text(nodes(page))
        if self._mode == "text_rich":
            return text_rich(nodes(page), url(page))
        return url(page) if self._mode == "url" else render(page)

    def canonical(self, action: str) -> str:
        """`verb[argument]` in lower case, without what follows it; anything else as it is."""
        parsed = parse(action)
        return f"{parsed[0]}[{parsed[1]}]" if parsed else action

    def _state(self) -> str:
        here = self._session
        visited = sorted(here.visited) if self._mode in ("text_rich", "html") else ()
        return repr((here.kind, here.query, here.number, here.asin, here.sub_page, here.chosen, here.reward, visited))

    def _save(self) -> Session:
        return self._session

    def _load(self, state: Session) -> None:
        self._expert = None
        self._go(state)

    def _success(self) -> bool:
        return self._session.kind is Kind.DONE and self._session.reward == 1.0

    def _score(self) -> float:
        return self._session.reward or 0.0

    def _instruction(self) -> str:
        return self._session.goal.instruction

    def _extra_info(self) -> dict[str, str | int | float | bool | None]:
        return {"page_kind": str(self._session.kind), "noun_tagger": self._tagger.name}

    def _admissible(self) -> tuple[str, ...] | None:
        if self._session.kind is Kind.DONE:
            return ()
        if self._session.kind is Kind.START:
            found = searches(self._instruction(), self._suggestions)
            return tuple(f"{SEARCH}[{query}]" for query in found) or None
        shown = clickables(self._page)
        if self._session.kind is Kind.RESULTS and not self._core.more(self._session):
            shown = tuple(name for name in shown if name != NEXT)
        # By the original's rule of reading actions, a value with a bracket cannot be clicked.
        return tuple(f"{CLICK}[{name}]" for name in shown if name != SEARCH and parse(f"{CLICK}[{name}]"))

    def _progress(self) -> float:
        criteria = self.verify()
        return sum(criteria.values()) / len(criteria)

    def verify(self) -> dict[str, float]:
        """Privileged: how far the open (or bought) product meets the goal; all 0 where none is."""
        here = self._session
        if not here.asin:
            return dict.fromkeys(("kind", "attributes", "options", "price", "bought"), 0.0)
        verdict = self._verdict(self.shop.catalogue.find(here.asin), here.goal, dict(here.chosen))
        return {
            "kind": verdict.r_type,
            "attributes": verdict.r_att,
            "options": 1.0 if verdict.r_option is None else verdict.r_option,
            "price": float(verdict.r_price),
            "bought": float(self._success()),
        }

    def _verdict(self, product: Product, goal: Goal, chosen: dict[str, str]) -> Verdict:
        key = f"{product.asin} {chosen}"
        if key not in self._verdicts:
            self._verdicts[key] = self.shop.judge(product, goal, chosen, self._quirks, self._tagger)
        return self._verdicts[key]

    def oracle(self) -> Iterator[str]:
        """Privileged: the way to the goal's product and its options, and the purchase."""
        while self._session.kind is not Kind.DONE:
            yield oracle.next_action(self._session, self._core, self.shop.catalogue)

    def expert(self) -> Iterator[str]:
        """Actions of the `Expert`, who sees what the agent sees; take one, step it, take the next."""
        return self._shopper(hasty=False)

    def hasty(self) -> Iterator[str]:
        """The same of one who reads no features: what it does follows from the page alone."""
        return self._shopper(hasty=True)

    def _shopper(self, hasty: bool) -> Iterator[str]:
        if self._expert is None or self._expert.hasty != hasty:
            self._expert = Expert(self._instruction(), hasty=hasty)
        while not self._ended:
            yield self._expert.act(self._page)

    def rule(self) -> Iterator[str]:
        """The benchmark's rule baseline: search for the instruction, open the first hit, buy it."""
        while not self._ended:
            kind, cards = self._page.kind, self._page.cards
            if kind is Kind.START:
                yield f"{SEARCH}[{self._instruction()}]"
            elif kind is Kind.RESULTS and cards:
                yield f"{CLICK}[{cards[0].asin.lower()}]"
            else:
                yield f"{CLICK}[{BUY if kind is Kind.ITEM else 'back to search'}]"

    def hint(self) -> str:
        """Privileged: the product and the options to look for."""
        if self._session.kind is Kind.DONE:
            return ""
        goal = self._session.goal
        options = ", ".join(value for _, value in goal.options)
        return f"Buy product {goal.asin} ({goal.title})" + (f" with {options}" if options else "") + "."
