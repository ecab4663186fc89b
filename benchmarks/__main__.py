"""`python -m benchmarks [linking|throughput|load|kb|umls|engines|encoders|size|all] [--data FOLDER]`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import List, Optional

SECTIONS = ("linking", "throughput", "load", "kb", "umls", "engines", "encoders", "size")


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Print the figures that the documentation gives.")
    parser.add_argument("section", nargs="?", default="all", choices=(*SECTIONS, "all"))
    parser.add_argument("--data", help="folder of ontologies, corpora and notes; default: $SPACY_SAPBERT_DATA")
    parser.add_argument("--no-peer-build", action="store_true", help="leave scispaCy out if its index is not built yet, which takes minutes")
    parser.add_argument(
        "--concepts", type=int, help="umls: number of concepts in the synthetic release; default: 200000 (a whole release has 4000000)"
    )
    parser.add_argument(
        "--size", type=int, help="engines: number of vectors like the real ones, such as 10000000; default: the real ones, and a million"
    )
    options = parser.parse_args(arguments)
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")

    from . import engines, scispacy_peer, umls
    from .common import REPORT, ROOT, Missing, Report, data_folder

    scispacy_peer.MAY_BUILD = not options.no_peer_build
    umls.SIZE = options.concepts or umls.SIZE
    engines.SIZES = (options.size,) if options.size else engines.SIZES
    report = Report()
    try:
        data = Path() if options.section == "umls" else data_folder(options.data)  # umls needs no data
        for name in SECTIONS if options.section == "all" else (options.section,):
            importlib.import_module(f"benchmarks.{name}").run(data, report)
    except Missing as why:
        print(why, file=sys.stderr)
        return 1
    print(f"Written to {REPORT.relative_to(ROOT)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
