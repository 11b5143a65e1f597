"""What the studio does, without a screen: sessions, systems, attacks, explanations as jobs.

Read :mod:`~rulerag.studio.service.studio` first: its methods are the actions, each one library
call; below it lie ``sessions`` and ``catalogue``. ``records`` are what they take and return.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.studio.service.jobs import Job as Job
    from rulerag.studio.service.records import (
        Add as Add,
        Beside as Beside,
        Change as Change,
        Configure as Configure,
        Delete as Delete,
        Edit as Edit,
        Goal as Goal,
        Inject as Inject,
        Limits as Limits,
        Move as Move,
        Probe as Probe,
        Reply as Reply,
        Session as Session,
        View as View,
    )
    from rulerag.studio.service.redteam import RedTeamRun as RedTeamRun
    from rulerag.studio.service.redteam_report import (
        RedTeamCell as RedTeamCell,
        RedTeamReport as RedTeamReport,
        RedTeamSuite as RedTeamSuite,
    )
    from rulerag.studio.service.studio import Studio as Studio
else:
    __getattr__ = lazy_names(__name__)
