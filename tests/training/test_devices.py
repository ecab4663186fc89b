"""Which GPU a command uses: which GPUs are visible at which moment, with a fake driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from spacy_sapbert.errors import SapbertError
from training import devices

ROOT = Path(__file__).parents[2]
# A driver with four GPUs. Like CUDA, it reads its list when the first library that uses it is imported; PyTorch then sees this list.
DRIVER = """
import importlib.abc, importlib.machinery, json, os, sys
LIBRARIES = ("spacy", "torch", "cupy", "transformers")
GPUS = ["0", "1", "2", "3"]
class Driver(importlib.abc.MetaPathFinder):
    visible = None
    def find_spec(self, name, path=None, target=None):
        if name not in LIBRARIES:
            return None
        text = os.environ.get("CUDA_VISIBLE_DEVICES")
        with open(os.environ["DRIVER_LOG"], "a") as log:
            log.write(json.dumps([name, text]) + "\\n")
        if Driver.visible is None:
            Driver.visible = GPUS if text is None else [gpu for gpu in text.split(",") if gpu in GPUS]
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if name == "torch" and spec is not None:
            run = spec.loader.exec_module
            def load(module):
                run(module)
                module.cuda.device_count = lambda: len(Driver.visible)
                module.cuda.set_device = lambda device: print("computes on", device, "of", ",".join(Driver.visible), flush=True)
            spec.loader.exec_module = load
        return spec
sys.meta_path.insert(0, Driver())
"""


@pytest.mark.parametrize(
    ("arguments", "gpu"),
    [
        (["evaluate", "--encoder", "a=", "--gpu-id", "2"], 2),
        (["evaluate", "--gpu-id=3"], 3),
        (["train", "x.cfg", "--training.gpu_id", "1"], 1),
        (["train", "x.cfg", "--training.gpu_id", "1", "--training.gpu_id", "-1"], -1),
        (["train", "{recipe}"], 1),
        (["train", "{recipe}", "--training.gpu_id", "0"], 0),
        (["train", "nowhere.cfg"], None),
        (["evaluate", "--gpu-id", "x"], None),
        (["evaluate", "--gpu-id"], None),
        (["report"], None),
    ],
)
def test_the_gpu_that_a_command_asks_for(tmp_path: Path, arguments: List[str], gpu: Any) -> None:
    recipe = tmp_path / "one.cfg"
    recipe.write_text('[paths]\nout = "${paths.base}"\n[training]\ngpu_id = 1\n')
    assert devices.asked_for([word.format(recipe=recipe) for word in arguments]) == gpu


def test_the_gpu_is_the_only_one_also_for_processes_that_are_started() -> None:
    seen: Dict[str, str] = {"CUDA_VISIBLE_DEVICES": "GPU-a, GPU-b,5"}
    devices.choose(["train", "--gpu-id", "1"], seen)
    assert seen["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    devices.choose(["train", "--gpu-id", "1"], seen)  # a process that is started by the first one
    assert seen["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    devices.choose(["train", "--gpu-id", "2"], seen)
    assert seen["CUDA_VISIBLE_DEVICES"] == "5"
    with pytest.raises(SapbertError, match=r"\[E513\] GPU 3 .*'GPU-a, GPU-b,5': there are 0, 1, 2"):
        devices.choose(["train", "--gpu-id", "3"], seen)
    all_of_them: Dict[str, str] = {}
    devices.choose(["train", "--gpu-id", "3"], all_of_them)
    assert all_of_them["CUDA_VISIBLE_DEVICES"] == "3"


@pytest.mark.parametrize("environment", [{"LOCAL_RANK": "1"}, {}])
def test_torchrun_and_the_cpu_keep_the_list(environment: Dict[str, str]) -> None:
    before = dict(environment)
    devices.choose(["train", "--gpu-id", "0" if environment else "-1"], environment)
    assert environment == before


@pytest.mark.parametrize("text", ["0,,1", "0,1,", ",0", " , "])
def test_a_list_with_an_empty_part_is_refused(text: str) -> None:
    with pytest.raises(SapbertError, match=r"\[E315\] 'CUDA_VISIBLE_DEVICES'"):
        devices.choose(["train", "--gpu-id", "0"], {"CUDA_VISIBLE_DEVICES": text})


def with_driver(tmp_path: Path, *words: str, **environment: str) -> Any:
    """Run Python on a machine with four fake GPUs; return the process and what each library saw when it was imported."""
    (tmp_path / "sitecustomize.py").write_text(DRIVER)
    log = tmp_path / "log"
    log.unlink(missing_ok=True)
    kept = {key: value for key, value in os.environ.items() if key not in ("CUDA_VISIBLE_DEVICES", devices.CHOSEN, devices.BEFORE)}
    given = {**kept, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "DRIVER_LOG": str(log), **environment}
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=given, capture_output=True, text=True, timeout=900)
    seen: Dict[str, Any] = {}
    for name, visible in map(json.loads, log.read_text().splitlines() if log.is_file() else []):
        seen.setdefault(name, visible)
    return done, seen


USES = "import sys; sys.argv[0] = 'x'; from training.devices import choose; choose(sys.argv[1:]); import spacy; from training.devices import use; "
ARGUMENTS = """
from training import fit
from training.recipe import Prepared
recipe = fit.resolve(fit.load(fit.Path(sys.argv[2]), {}))
import torch
torch.cuda.is_available = lambda: True
torch.cuda.is_bf16_supported = lambda *_, **__: True
made = fit._arguments(recipe, Prepared([], 8, None, None, None, None), fit.Path("checkpoints"), False)
print(made.n_gpu, made.train_batch_size, made.bf16, made.dataloader_pin_memory, made.dataloader_num_workers)
"""


@pytest.mark.e2e
def test_what_is_visible_when_the_driver_reads_its_list(tmp_path: Path) -> None:
    done, seen = with_driver(tmp_path, "-c", USES + "print(use(2))", "evaluate", "--gpu-id", "2")
    assert done.stdout.splitlines() == ["computes on 0 of 2", "cuda:0"], done.stderr
    assert seen["spacy"] == seen["torch"] == "2"
    # the command itself: no library is imported before the list is set
    done, seen = with_driver(tmp_path, "-m", "training", "train", "no.cfg", "--training.gpu_id", "3")
    assert done.returncode == 1
    assert set(seen.values()) == {"3"}


@pytest.mark.e2e
def test_a_gpu_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    done, seen = with_driver(tmp_path, "-c", USES + "use(7)", "evaluate", "--gpu-id", "7")
    assert seen["torch"] == "7"
    assert "[E513] GPU 7 was requested, but there are 0, 1, 2, 3." in done.stderr
    done, _ = with_driver(tmp_path, "-m", "training", "evaluate", "--gpu-id", "2", CUDA_VISIBLE_DEVICES="0,,1")
    assert done.stderr.startswith("[E315] 'CUDA_VISIBLE_DEVICES' is '0,,1'"), done.stderr


@pytest.mark.e2e
def test_a_process_that_sees_four_gpus_trains_on_one(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.cfg"
    text = (ROOT / "training" / "configs" / "sap.cfg").read_text().replace("gpu_id = -1", "gpu_id = 0")
    recipe.write_text(text)
    done, seen = with_driver(tmp_path, "-c", "import sys" + ARGUMENTS, "x", str(recipe))  # a call from Python, where nobody has chosen a GPU
    assert seen["torch"] is None
    assert done.stdout.split()[-5:] == ["1", "8", "True", "True", "4"], done.stderr[-2000:]
