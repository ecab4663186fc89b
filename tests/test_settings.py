"""Settings are defined once; the config, the constructor, the documentation and the attributes of the component agree with them."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Span

from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.linker import DEFAULT_CONFIG, SapBertLinker, make_sapbert_linker
from spacy_sapbert.settings import Setting, Settings, default_config, shown_setting

ROOT = Path(__file__).parents[1]
NAMES = [setting.name for setting in fields(Settings)]


def documented_defaults() -> dict[str, str]:
    """Return setting -> default of the table in the documentation, as it is written there."""
    found: dict[str, str] = {}
    for path in (ROOT / "README.md", ROOT / "docs" / "guides" / "settings.md"):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        table = re.search(r"^\| setting \| default \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
        for line in table[1].splitlines() if table else ():
            names, defaults = (cell.strip() for cell in line.split("|")[1:3])
            for name, default in zip(names.split(", "), defaults.split(", "), strict=True):
                found[name.strip("`")] = default
    return found


def test_the_documentation_has_every_setting_with_its_default() -> None:
    found = documented_defaults()
    expected = {name: json.dumps(default) for name, default in default_config().items()}
    plain = {name: re.match(r"`?([^` ]+)`?", default)[1] for name, default in found.items() if name in expected}  # type: ignore[index]
    assert plain == expected
    for part, registry in (("model", "@architectures"), ("index", "@sapbert_indexes")):
        assert found[part] == f"`{DEFAULT_CONFIG[part][registry]}`"


def test_every_setting_has_a_line_in_the_docstring() -> None:
    arguments = (inspect.getdoc(Settings) or "").split("Args:")[1].split("Raises:")[0]
    described = re.findall(r"^    (\w+): \S", arguments, re.MULTILINE)
    assert described == [*NAMES, "component"]


def test_the_factory_takes_the_settings_by_name_and_type() -> None:
    parameters = inspect.signature(make_sapbert_linker).parameters
    assert list(parameters) == ["nlp", "name", "model", "index", "disambiguator", "scorer", *(name for name in NAMES if name != "language")]
    assert parameters["k"].annotation is int
    assert parameters["threshold"].annotation is float
    assert set(DEFAULT_CONFIG) == set(parameters) - {"nlp", "name"}


def test_a_misspelt_setting_is_refused_by_the_constructor() -> None:
    with pytest.raises(TypeError, match="treshold"):
        SapBertLinker(NameEncoder(), AnnoyIndex(), treshold=0.5)


def test_a_setting_is_an_attribute_that_is_checked_and_takes_effect_at_once(tiny_linker: Path) -> None:
    nlp = spacy.blank("en")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "threshold": 0.5})
    assert (linker.threshold, linker.rules.threshold, linker.k, linker.language) == (0.5, 0.5, 30, "en")
    linker.k = 7  # before it is loaded
    assert linker.settings.k == 7

    def answer() -> tuple[bool, str]:
        found = linker.find([("heart attacked", None)])[0].answer
        return found.linked, found.explain["id"]

    assert answer() == (True, "C9100003")
    linker.threshold = 0.999
    assert answer() == (False, "C9100003")  # the remembered answer is not used
    for setting, value, code in (("k", 0, "E002"), ("threshold", 2.0, "E002"), ("vocabularies", ["ICD9"], "E105"), ("coverage", 0.9, "E010")):
        with pytest.raises(SapbertError, match=code):
            setattr(linker, setting, value)
    assert (linker.k, linker.threshold, linker.vocabularies, linker.coverage) == (7, 0.999, None, None)
    assert answer() == (False, "C9100003")
    with pytest.raises(AttributeError, match="treshold"):
        _ = linker.treshold


def test_what_decides_the_linker_cannot_change(tiny_linker: Path) -> None:
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    for setting, value in (("linker_name", "hpo"), ("encoder", "fast")):
        with pytest.raises(SapbertError, match="cannot change after the component was added") as error:
            setattr(linker, setting, value)
        assert error.value.code == "E002"
    assert linker.linker_name == str(tiny_linker)


def test_another_attribute_is_declared(tiny_linker: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker)})
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    linker.attr_name = "later_ents"
    span = nlp("She has a fever.").ents[0]
    assert span._.later_ents[0][0] == span.kb_id_
    assert span._.later_explain["exact"]


def test_every_setting_is_an_attribute_of_the_class() -> None:
    assert [name for name, value in vars(SapBertLinker).items() if isinstance(value, Setting)] == NAMES
    assert SapBertLinker.rules.fset is None  # type: ignore[attr-defined]


def test_an_attribute_that_an_encoder_lacks_is_named(tiny_linker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An AttributeError while the encoder is loaded must not look like a missing attribute of the linker."""
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    monkeypatch.setattr(NameEncoder, "load", lambda self, folder: self.no_such_tokenizer)
    with pytest.raises(AttributeError, match="'NameEncoder' object has no attribute 'no_such_tokenizer'"):
        _ = linker.kb


def test_a_change_that_is_refused_declares_no_attribute(tiny_linker: Path) -> None:
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    with pytest.raises(SapbertError, match=r"E002.*linker_name"):
        linker.change_settings(attr_name="refused_ents", linker_name="hpo-fast")
    assert not Span.has_extension("refused_ents")
    assert linker.attr_name == "kb_ents"


def test_settings_change_when_the_folder_that_was_loaded_is_away(tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiny_linker.parent)
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": tiny_linker.name})
    linker.load()
    monkeypatch.chdir(tmp_path)
    linker.threshold = 0.7
    assert (linker.threshold, linker.settings.linker_name) == (0.7, tiny_linker.name)


def test_a_prediction_is_written_by_the_settings_that_made_it(tiny_linker: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker)})
    doc = nlp("She has a fever.")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    predictions = linker.predict([doc])
    linker.attr_name = "newer_ents"
    linker.set_annotations([doc], predictions)
    assert doc.ents[0]._.kb_ents[0][0] == "C9100027"
    assert doc.ents[0]._.newer_ents == []


def test_a_list_that_changes_later_does_not_change_the_settings() -> None:
    labels, types = ["A"], {"X": ["T047"]}
    settings = Settings(labels_discard=labels, types=types, vocabularies=(name for name in ["RXNORM"]))  # type: ignore[arg-type]
    labels.append("B")
    types["X"].append("T033")
    types["Y"] = ["T061"]
    assert (settings.labels_discard, settings.types, settings.vocabularies) == (("A",), {"X": ("T047",)}, ("RXNORM",))
    assert settings.scores_depend_on()["vocabularies"] == ["RXNORM"]  # a list, as in JSON
    with pytest.raises(SapbertError, match=r"E002.*labels_discard.*list of texts"):
        Settings(labels_discard="PROBLEM")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        (30, "30"),
        (True, "True"),
        ("names", "'names'"),
        (["HPO", "MONDO"], "HPO, MONDO"),
        ([f"T{number:03}" for number in range(7)], "T000, T001, T002, T003, T004, … (7 in all)"),
        ({"": ["T047"]}, "T047"),
        ({"DISO": ["T047", "T191"], "CHEM": ["T121"]}, "DISO: T047, T191; CHEM: T121"),
    ],
    ids=str,
)
def test_a_setting_in_a_message(value: Any, shown: str) -> None:
    assert shown_setting(value) == shown
