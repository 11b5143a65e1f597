"""How components are named and set: registry, typed settings, configuration files.

Read :mod:`~rulerag.composition.registry` first; a component states its settings in its constructor.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.composition.config import (
        Config as Config,
        load_config as load_config,
        merged_values as merged_values,
        parse_file as parse_file,
        parse_override as parse_override,
        parse_settings as parse_settings,
        read_values as read_values,
        to_yaml as to_yaml,
        with_overrides as with_overrides,
    )
    from rulerag.composition.registry import (
        FAMILIES as FAMILIES,
        Entry as Entry,
        find as find,
        innermost as innermost,
        known_keys as known_keys,
        names as names,
        register as register,
        retriever_name as retriever_name,
    )
    from rulerag.composition.settings import (
        Settings as Settings,
        check_choice as check_choice,
        check_range as check_range,
    )
else:
    __getattr__ = lazy_names(__name__)
