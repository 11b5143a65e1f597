"""Fine-tuning, and the making of the models that are installed; part of a checkout alone."""

from rulerag.lazy import say_where_modules_went

say_where_modules_went()
