"""Experiments as an array of a real SLURM: the figures of one process; a killed job goes on."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.common.slurm import SlurmBackend
from benchmarks.experiments.command import main
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.errors import RuleRAGError
from rulerag.synthetic import World

pytestmark = pytest.mark.slow
PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "sbatch")
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
SlurmctldPort={port}
SlurmdPort={other}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/d.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    pytest.importorskip("submitit")
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid():
        pytest.skip(f"no SLURM can be started here: {', '.join(missing) or 'not root'}")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    ports = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            ports.append(probe.getsockname()[1])
    host = socket.gethostname().partition(".")[0]
    about = {"host": host, "folder": folder, "port": ports[0], "other": ports[1]}
    (folder / "slurm.conf").write_text(CONFIG.format(**about))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        if subprocess.run(["munge", "-n"], capture_output=True).returncode:
            Path("/run/munge").mkdir(exist_ok=True)
            shutil.chown("/run/munge", "munge")
            subprocess.run(["su", "-s", "/bin/sh", "munge", "-c", "munged"], check=True)
        for name in ("slurmctld", "slurmd"):
            subprocess.run([name], check=True)
        for _ in range(60):
            shown = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True)
            if shown.stdout.strip() == "idle":
                break
            time.sleep(0.5)
        yield
        for pid in ("ctld.pid", "d.pid"):
            os.kill(int((folder / pid).read_text()), 15)


def flaky(marks: Path, number: int) -> int:
    """Kills itself the first time that the second item is asked for."""
    mark = marks / str(number)
    if number == 1 and not mark.exists():
        mark.write_text("was here")
        os.kill(os.getpid(), 9)
    return number * number


@pytest.mark.usefixtures("slurm")
def test_a_killed_job_is_named_and_the_same_command_goes_on(tmp_path: Path) -> None:
    from functools import partial

    work = partial(flaky, tmp_path)
    with pytest.raises(RuleRAGError, match=r"1 jobs did not end well: .*send the same command"):
        list(SlurmBackend(tmp_path / "jobs", ["timeout_min=5"]).map(work, range(4)))
    again = SlurmBackend(tmp_path / "jobs", ["timeout_min=5"]).map(work, range(4))
    assert list(again) == [0, 1, 4, 9]


@pytest.mark.usefixtures("slurm")
def test_an_array_gives_what_one_process_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(Path(__file__).resolve().parents[3])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    world = World.generate(1200)
    for name in ("here", "there"):
        world_dataset(world, mine_world(world)[0]).save(tmp_path / name / "dataset")
    # A world has no balanced set: those six runs fail, in an array as in one process.
    assert main(["run", "ruleqa-i", "--out", str(tmp_path / "here")]) == 2
    assert main(["run", "ruleqa-i", "--out", str(tmp_path / "there"), "--slurm"]) == 2
    for kind in ("bm25__symbolic", "bm25-guided__symbolic", "symbolic__symbolic"):
        runs = [tmp_path / n / f"{kind}-full" / "predictions.jsonl" for n in ("here", "there")]
        assert runs[0].read_bytes() == runs[1].read_bytes()
    assert "6 runs failed" in capsys.readouterr().err
