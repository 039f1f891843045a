"""Environments. Importing this package registers all of them with Gymnasium and loads none."""

from .core.registry import REGISTRY, find, make, register

__all__ = ["REGISTRY", "find", "make", "register"]

register(id="sandlot/Corridor-v0", entry_point="toys.corridor:Corridor", max_episode_steps=12, family="toys")
register(id="sandlot/KeyDoor-v0", entry_point="toys.keydoor:KeyDoor", max_episode_steps=20, family="toys")
register(id="sandlot/Bandit-v0", entry_point="toys.bandit:Bandit", max_episode_steps=4, family="toys")
register(
    id="sandlot/ALFWorld-v0",
    entry_point="alfworld.env:AlfworldEnv",
    max_episode_steps=50,
    family="alfworld",
    extra="alfworld",
)
register(id="sandlot/ToolForm-v0", entry_point="toys.tool_form:ToolForm", max_episode_steps=12, family="toys")
register(id="sandlot/Hint-v0", entry_point="toys.hint:Hint", max_episode_steps=8, family="toys")
register(id="sandlot/NoisyAnchor-v0", entry_point="toys.noisy_anchor:NoisyAnchor", max_episode_steps=12, family="toys")
register(id="sandlot/MiniSearch-v0", entry_point="toys.mini_search:MiniSearch", max_episode_steps=12, family="toys")
register(id="sandlot/Rooms-v0", entry_point="toys.rooms:Rooms", max_episode_steps=24, family="toys")
register(
    id="sandlot/TextWorldCooking-v0",
    entry_point="textworld.cooking:TextWorldCooking",
    max_episode_steps=50,
    family="textworld",
    extra="textworld",
)
register(
    id="sandlot/TextWorldCoin-v0",
    entry_point="textworld.coin:TextWorldCoin",
    max_episode_steps=50,
    family="textworld",
    extra="textworld",
)
register(
    id="sandlot/TextWorldTreasure-v0",
    entry_point="textworld.treasure:TextWorldTreasure",
    max_episode_steps=40,
    family="textworld",
    extra="textworld",
)
register(id="sandlot/SQL-v0", entry_point="sql.read:SqlReadEnv", max_episode_steps=20, family="sql", extra="sql")
register(id="sandlot/SQLWrite-v0", entry_point="sql.write:SqlWriteEnv", max_episode_steps=20, family="sql", extra="sql")
register(
    id="sandlot/SQLInteract-v0",
    entry_point="sql.interact:SqlInteractEnv",
    max_episode_steps=40,
    family="sql",
    extra="sql",
)
register(
    id="sandlot/WebShop-v0",
    entry_point="webshop.env:WebShopEnv",
    max_episode_steps=15,
    family="webshop",
    extra="webshop",
)
register(
    id="sandlot/WebShopSite-v0",
    entry_point="webshop.site_env:WebShopSiteEnv",
    max_episode_steps=15,
    family="webshop",
    extra="browser",
)
register(
    id="sandlot/Terminal-v0",
    entry_point="terminal.env:TerminalEnv",
    max_episode_steps=30,
    family="terminal",
    extra="terminal",
)
register(
    id="sandlot/SmartHome-v0",
    entry_point="smarthome.env:SmartHomeEnv",
    max_episode_steps=30,
    family="smarthome",
)
register(
    id="sandlot/RockPaperScissors-v0",
    entry_point="games.rps_env:RockPaperScissors",
    max_episode_steps=20,
    family="games",
)
register(
    id="sandlot/Leduc-v0", entry_point="games.poker_env:Leduc", max_episode_steps=64, family="games", extra="games"
)
register(
    id="sandlot/Holdem-v0", entry_point="games.poker_env:Holdem", max_episode_steps=80, family="games", extra="games"
)
register(
    id="sandlot/SelfPlay-v0",
    entry_point="selfplay.env:SelfPlayEnv",
    max_episode_steps=50,
    family="selfplay",
)
