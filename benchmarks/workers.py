"""Compare the speed of `annotate` by number of workers: processes of this machine, and actors of a Ray cluster on it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
from pathlib import Path
from typing import Any

from training.corpora import read_notes

from .common import ARTEFACTS, Report, Table, data_file, need
from .linking import MTSAMPLES
from .worker import measure

SECTION = "workers"
NOTES, PARTITION = 250, 5
WORKERS = {1: "one", 2: "two", 4: "four"}
ENGINES = {"local": "local", "ray": "Ray"}
ROUNDS = 3
CPUS = 4  # of the Ray node, whatever the machine has, so that four actors are started
PROTOCOL = (
    f"`annotate` over {NOTES:,} distinct MTSamples notes, {PARTITION} in a partition, with the default linker and concept_matcher; each worker has one thread. local: processes of "
    f"this machine; Ray: actors of a cluster with one node on the same machine, which is started beforehand, with RAY_worker_niceness=0. Times include the start of the workers. All runs in turn, each in a "
    f"fresh process, medians of {ROUNDS} rounds. All runs wrote the same bytes."
)


def run(data: Path, report: Report) -> None:
    """Measure local workers and Ray's."""
    need("ray", '"spacy-sapbert[ray]"')
    report.add(SECTION, workers(read_notes(data_file(data, MTSAMPLES), NOTES), ARTEFACTS / "workers"))


def workers(notes: list[str], folder: Path) -> Table:
    """Measure every number of workers with both engines.

    Raises:
        RuntimeError: two runs wrote different bytes.
    """
    # without this niceness, Ray's workers give way to all other processes, and local workers do not
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    from ray.cluster_utils import Cluster

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = (json.dumps({"id": str(number), "text": text}) for number, text in enumerate(notes))
    (folder / "notes.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": CPUS, "include_dashboard": False, "object_store_memory": 128 << 20})
    rates: dict[str, list[float]] = {}
    written = set()
    try:
        measure("annotate_notes", folder / "notes.jsonl", folder / "out", "local", 1, "")  # the first run builds the linker and fills the disk cache
        for _ in range(ROUNDS):
            for engine, label in ENGINES.items():
                for count, words in WORKERS.items():
                    found = measure("annotate_notes", folder / "notes.jsonl", folder / "out", engine, count, cluster.address)
                    rates.setdefault(f"{words} {label} worker{'s' * (count > 1)}", []).append(found["rate"])
                    written.add(found["bytes"])
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]
    if len(written) > 1:
        raise RuntimeError("annotate wrote other bytes with another number of workers or another engine")
    shutil.rmtree(folder)
    table = Table("annotate", f"Workers of `annotate`, {len(notes):,} notes", PROTOCOL, ["workers", "notes/s", "one local worker = 1"])
    speeds = {label: statistics.median(values) for label, values in rates.items()}
    for label, speed in speeds.items():
        table.add(label, speed, speed / next(iter(speeds.values())))
    return table


def annotate_notes(source: str, out: str, engine: str, count: str, address: str) -> dict[str, Any]:
    """Annotate a corpus into a new folder. Return notes per second and a hash of the files."""
    from spacy_sapbert.corpus.annotate import annotate

    shutil.rmtree(out, ignore_errors=True)
    found = annotate(
        source, out, engine=engine, workers=int(count), partition_size=PARTITION, ray_address=address if engine == "ray" else None, progress=False
    )
    digest = hashlib.sha256()
    for path in sorted(Path(out).glob("part-*.parquet")):
        digest.update(path.read_bytes())
    return {"rate": found.rate, "mentions": found.counts.mentions, "bytes": digest.hexdigest()}
