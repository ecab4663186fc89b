"""Run a training in several processes, with torch's launcher.

A `SapbertError` of a process goes to the launcher in the file that torch has for it. The launcher prints it once, without a traceback. An error that
has no code is a fault of ours: the traceback of the process and the report of torch's launcher are printed.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from spacy_sapbert.errors import SapbertError, fail
from spacy_sapbert.signals import Ended, describe_interrupt

OURS = "SPACY_SAPBERT_LAUNCHER"  # environment variable that is set in the processes that this launcher starts
PARENT_SAYS = "SPACY_SAPBERT_PARENT_SAYS"  # environment variable of a training whose parent process says which signal ended both
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # environment variable in which torch's launcher names the file of a process for its error


def start(processes: int, arguments: list[str]) -> NoReturn:
    """Replace this process by the launcher of several processes, so that a signal that ends this process ends the launcher.

    Args:
        processes: Number of processes.
        arguments: Arguments of `python -m training train`.
    """
    command = [sys.executable, "-c", "import sys; from training.launcher import main; main(*sys.argv[1:])", str(processes), *arguments]
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    os.execve(sys.executable, command, {"OMP_NUM_THREADS": threads, **os.environ})


def hand_over(error: SapbertError) -> bool:
    """Write an error of this process for the launcher.

    Returns:
        Whether our launcher started this process, so that it shows the error.
    """
    if not is_launched():
        return False
    text = json.dumps({"message": str(error), "code": error.code, "timestamp": int(time.time())})  # torch reads message and timestamp
    Path(os.environ[ERROR_FILE]).write_text(text, encoding="utf-8")
    return True


def is_launched() -> bool:
    """Say whether our launcher started this process."""
    return OURS in os.environ and ERROR_FILE in os.environ


def parent_says() -> bool:
    """Say whether another process says which signal ended this one."""
    return is_launched() or PARENT_SAYS in os.environ


def main(processes: str, *arguments: str) -> None:
    """Start the processes and wait for them.

    Raises:
        ChildFailedError: A process ended with an error that has no code.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    os.environ[OURS] = "1"
    logging.disable(logging.ERROR)  # torch's launcher logs each process that it ends after an error
    try:
        run(parse_args(["--standalone", "--nproc_per_node", processes, "-m", "training", "train", *arguments]))
    except SignalException as ended:  # a signal to this process; it has ended the others
        what, code = describe_interrupt(Ended(ended.sigval))
        if not parent_says():
            print(fail("E058", what=what), file=sys.stderr)
        sys.exit(code)
    except ChildFailedError as failed:
        coded = [failure for failure in failed.failures.values() if "code" in failure.error_file_data]
        if not coded:
            raise
        sys.exit(min(coded, key=lambda failure: failure.timestamp).message)
