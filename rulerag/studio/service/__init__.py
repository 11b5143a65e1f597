"""What the studio does, without a screen: sessions, systems, attacks, explanations as jobs.

Read :mod:`~rulerag.studio.service.studio` first: its methods are the actions, each one library
call; below it lie ``sessions`` and ``catalogue``. ``records`` are what they take and return.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.studio.service.jobs import Job
    from rulerag.studio.service.records import (
        Add,
        Beside,
        Change,
        Configure,
        Delete,
        Edit,
        Goal,
        Inject,
        Limits,
        Move,
        Probe,
        Reply,
        Session,
        View,
    )
    from rulerag.studio.service.redteam import RedTeamRun
    from rulerag.studio.service.redteam_report import RedTeamCell, RedTeamReport, RedTeamSuite
    from rulerag.studio.service.studio import Studio
else:
    __getattr__ = lazy_names(__name__)
