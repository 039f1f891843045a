"""`sandlot`: Gymnasium environments for language agents, an agent harness and thin trainers.

Importing it registers every environment: `gymnasium.make("sandlot/ALFWorld-v0")` then works, as does
`gymnasium.make("sandlot:sandlot/ALFWorld-v0")` without the import.
"""

import sandlot.envs as _envs  # registers
from sandlot.envs.games.kinds import register_player as _register_player
from sandlot.version import VERSION as __version__

__all__ = ["REGISTRY", "__version__"]

REGISTRY = _envs.REGISTRY
_register_player("policy", "sandlot.harness.players:PolicyPlayer")
