"""What every test may ask for: data folders by name, and graphs small enough to count by hand."""

from __future__ import annotations

import os
import re
import signal
import tomllib
from collections.abc import Callable, Generator, Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rulerag.cache import cache_root
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import KnowledgeGraph
from rulerag.models import SOURCE
from rulerag.parallel import fault_handlers_kept
from rulerag.types import Fact
from tests.endpoints import Server, serving

ROOT = Path(__file__).resolve().parent.parent

# The same examples in every run, and no deadline: a busy machine must not fail a test.
settings.register_profile("rulerag", deadline=None, derandomize=True)
settings.load_profile("rulerag")

# A shell that starts this in the background ignores Ctrl-C for it, and so for the programs that
# tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _finder(kind: str, variable: str, fallback: Path) -> Callable[[str], Path]:
    base = Path(os.environ.get(variable) or fallback)

    def find(name: str) -> Path:
        folder = base / name
        if not folder.exists():
            pytest.skip(f"{kind} folder '{name}' is not here (set {variable})")
        return folder

    return find


@pytest.fixture(scope="session")
def graph_folder() -> Callable[[str], Path]:
    """A function from a name such as ``icews14`` to its folder; skips, by name, when missing."""
    return _finder("data", "RULERAG_DATA", ROOT.parent / "shared" / "data")


@pytest.fixture(scope="session")
def reference_folder() -> Callable[[str], Path]:
    """A function from a name such as ``amie`` to the published results; skips when missing."""
    return _finder("reference", "RULERAG_REFERENCE", ROOT.parent / "shared" / "reference")


def _with_all_they_need(requirements: list[Requirement]) -> set[str]:
    """The distributions of some requirements and of everything that these require in turn."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        try:
            waiting += map(Requirement, requires(name) or ())
        except PackageNotFoundError:
            continue  # the import that misses it will say so
    return found


@pytest.fixture(scope="session")
def lean_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables for a subprocess in which only the core's packages can be imported.

    Every other installed package (torch, transformers, faiss, the test tools) raises
    ``ModuleNotFoundError``, as it would after `pip install rulerag` alone.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = _with_all_they_need([Requirement(line) for line in project["dependencies"]])
    missing = sorted(
        module
        for module, owners in packages_distributions().items()
        if module != "rulerag" and core.isdisjoint(map(canonicalize_name, owners))
    )
    folder = tmp_path_factory.mktemp("lean")
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.modules.update(dict.fromkeys({missing!r}))\n", encoding="utf-8"
    )
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Torch on one thread: tiny models run many times faster than on two that wait for another."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--models``: run what needs a pretrained model; ``--core``: no extra is installed."""
    parser.addoption("--models", action="store_true", help="run tests of pretrained models")
    parser.addoption("--core", action="store_true", help="pass over what needs an extra")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _without_extras(collector.config, (yield))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _without_extras(item.config, (yield))


def _without_extras(config: pytest.Config, report: Any) -> Any:
    """With ``--core``, a failure for want of a package is passed over by its name."""
    told = "\n".join([report.longreprtext, *(text for _, text in report.sections)])
    missing = re.search(r"No module named '[^']+'|the package '[^']+' is n", told)
    if config.getoption("--core") and report.failed and missing:
        report.outcome, report.longrepr = "skipped", (report.nodeid, 0, missing[0])
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip, by name, what needs a model that was not asked for."""
    if not config.getoption("--models"):
        reason = "runs a pretrained model: make test-all, or --models"
        for item in items:
            if item.get_closest_marker("models"):
                item.add_marker(pytest.mark.skip(reason=reason))


# Tests have cache folders of their own; models lie in the user's.
_MODELS = cache_root() / "models"


@pytest.fixture(scope="session")
def pretrained() -> Callable[[str], Path]:
    """A function from a model's name to its folder; who asks for models must have fetched them."""

    def find(name: str) -> Path:
        if not (_MODELS / name / SOURCE).is_file():
            pytest.fail(f"the model {name} is not here (rulerag models fetch {name})")
        return _MODELS / name

    return find


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An OpenAI-compatible endpoint on this machine; ``say`` decides what it answers."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving() as running:
        yield running


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A local Ray of three CPUs, started once for all tests; skips where ray is not installed.

    Ray ends the process (``SystemExit``) when its servers are not up in time; on a busy machine
    they may need a second try.
    """
    ray = pytest.importorskip("ray")
    # Ray gives its workers a low priority: on a busy machine they would hardly run.
    os.environ.setdefault("RAY_worker_niceness", "0")
    with fault_handlers_kept():
        try:
            ray.init("local", num_cpus=3, log_to_driver=False, include_dashboard=False)
        except (SystemExit, ConnectionError, RuntimeError):
            ray.shutdown()
            ray.init("local", num_cpus=3, log_to_driver=False, include_dashboard=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def toy_graph() -> KnowledgeGraph:
    """Ten static training facts, two validation and two test facts, six people and three towns.

    Counts of three rules over the training facts, by hand (support, body pairs, PCA body pairs;
    ``lives_in`` has 4 facts, ``married_to`` 3, ``born_in`` 3):

    * ``born_in(x, y) => lives_in(x, y)``: 2, 3, 3 (ann and bob stay, cid moves to york; each has
      some ``lives_in`` fact), so head coverage 1/2, standard and PCA confidence 2/3;
    * ``lives_in(x, y) => born_in(x, y)``: 2, 4, 3 (dee, born nowhere here, is not counted against
      it), so head coverage 2/3, standard confidence 1/2, PCA confidence 2/3;
    * ``married_to(y, x) => married_to(x, y)``: 2, 3, 2 (ann and bob both ways; cid to dee one
      way, and dee has no ``married_to`` fact), so head coverage 2/3, standard confidence 2/3,
      PCA confidence 1.
    """
    train = [
        ("ann", "born_in", "bath"),
        ("bob", "born_in", "bath"),
        ("cid", "born_in", "ely"),
        ("ann", "lives_in", "bath"),
        ("bob", "lives_in", "bath"),
        ("cid", "lives_in", "york"),
        ("dee", "lives_in", "york"),
        ("ann", "married_to", "bob"),
        ("bob", "married_to", "ann"),
        ("cid", "married_to", "dee"),
    ]
    valid = [("dee", "married_to", "cid"), ("eve", "born_in", "ely")]
    test = [("eve", "lives_in", "ely"), ("fay", "born_in", "york")]
    return KnowledgeGraph.from_facts(train, valid=valid, test=test, name="toy")


@pytest.fixture(scope="session")
def toy_temporal_graph() -> KnowledgeGraph:
    """Ten dated training facts (days 0 to 6), two validation and two test facts, three countries.

    Day 0 is 2014-01-01. Relations in train: ``criticise`` 4 facts, ``visit`` 4, ``praise`` 2.
    The rule ``visit(x, y) at t <- criticise(x, y) before t`` has body support 4 and support 2: the
    criticism of day 0 (italy, france) is followed by the visit of day 2, that of day 3 (italy,
    spain) by the visit of day 6; that of day 1 (france, italy) comes after its only visit, on
    day 0; that of day 5 (spain, france) is never followed. Both visits and the criticism before
    each occur once, so counting groundings and counting pairs agree.
    """
    train = [
        Fact("italy", "criticise", "france", 0),
        Fact("france", "visit", "italy", 0),
        Fact("france", "criticise", "italy", 1),
        Fact("italy", "praise", "spain", 1),
        Fact("italy", "visit", "france", 2),
        Fact("italy", "criticise", "spain", 3),
        Fact("spain", "praise", "italy", 4),
        Fact("spain", "criticise", "france", 5),
        Fact("france", "visit", "spain", 5),
        Fact("italy", "visit", "spain", 6),
    ]
    valid = [Fact("spain", "visit", "france", 7), Fact("france", "praise", "italy", 7)]
    test = [Fact("france", "visit", "italy", 8), Fact("spain", "criticise", "italy", 9)]
    calendar = Calendar(unit="day", origin="2014-01-01")
    return KnowledgeGraph.from_facts(train, valid=valid, test=test, calendar=calendar, name="toy")
