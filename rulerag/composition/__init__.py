"""How components are named and set: registry, typed settings, configuration files.

Read :mod:`~rulerag.composition.registry` first; a component states its settings in its constructor.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.composition.config import (
        Config,
        load_config,
        merged_values,
        parse_file,
        parse_override,
        parse_settings,
        read_values,
        to_yaml,
        with_overrides,
    )
    from rulerag.composition.registry import (
        FAMILIES,
        Entry,
        find,
        innermost,
        known_keys,
        names,
        register,
        retriever_name,
    )
    from rulerag.composition.settings import Settings, check_choice, check_range
else:
    __getattr__ = lazy_names(__name__)
