"""`python -m benchmarks [linking|throughput|load|kb|engines|encoders|all] [--data FOLDER]`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from typing import List, Optional

SECTIONS = ("linking", "throughput", "load", "kb", "engines", "encoders")


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Print the figures that README claims.")
    parser.add_argument("section", nargs="?", default="all", choices=(*SECTIONS, "all"))
    parser.add_argument("--data", help="folder of ontologies, corpora and notes; default: $SPACY_SAPBERT_DATA or ../shared/data")
    parser.add_argument("--no-peer-build", action="store_true", help="leave scispaCy out where its index is not built yet (20 minutes and more each)")
    options = parser.parse_args(arguments)
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")

    from . import scispacy_peer
    from .common import REPORT, ROOT, Missing, Report, data_folder

    scispacy_peer.MAY_BUILD = not options.no_peer_build
    report = Report()
    try:
        data = data_folder(options.data)
        for name in SECTIONS if options.section == "all" else (options.section,):
            importlib.import_module(f"benchmarks.{name}").run(data, report)
    except Missing as why:
        print(why, file=sys.stderr)
        return 1
    print(f"Written to {REPORT.relative_to(ROOT)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
