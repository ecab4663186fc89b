"""Benchmarks from a user's files, and the papers' benchmarks; expected values are computed by hand on small invented files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spacy_sapbert.build import linker as building
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from training.data.similarity import TextPair, read_mednli, read_medsts
from training.evaluation import baselines, benchmarks, catalogue, dictionaries, systems
from training.evaluation import evaluate as ev

NAMES = "22298006||heart attack\n22298006||myocardial infarction\n84229001||fatigue\n25064002||headache\n"
TSV = "heart attack\t22298006\nsore head\t25064002\nmigraine\t37796009\nnothing\t-1\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a table of SNOMED CT names and a table of mentions."""
    folder = tmp_path / "data"
    write(folder / "snomed.txt", NAMES)
    write(folder / "mine.tsv", TSV)
    return folder


def write(path: Path, text: str, encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding=encoding)


def reader(data: Path, *given: str, kb: Path | None = None) -> benchmarks.BenchmarkReader:
    return benchmarks.BenchmarkReader(data, kb or data / "kb", data / "pairs", data / "work", sets=catalogue.parse_sets(given, data))


def exact(benchmark):
    outcomes = systems.outcomes_of(benchmark, baselines.exact_match(benchmark.dictionary.names, benchmark.queries))
    return ev.figures(benchmark, outcomes)


# -- benchmarks of a user -----------------------------------------------------------------------------------------------


def test_a_set_of_mentions_and_a_table_of_names(data):
    made = reader(data, "mine=mine.tsv,snomed.txt,tsv,vocabulary=SNOMEDCT_US").make("mine")
    assert made.queries == ["heart attack", "sore head", "migraine"]
    assert [gold.missing for gold in made.golds] == [(), (), ("SNOMEDCT_US:37796009",)]
    assert (made.counts["mentions"], made.counts["without_id"], made.counts["unanswerable"]) == (4, 1, 1)
    assert made.dictionary.about["source"] == "snomed.txt"
    assert exact(made)["strict_at1"] == pytest.approx(100 / 3)
    assert not made.public  # the corpus may be licensed, so its mentions are not written into the results
    assert set(made.files) == {"mine.tsv", "snomed.txt"}


@pytest.mark.parametrize("name", ["names.tsv", "table.tsv", "kb"])
def test_any_dictionary(data, name):
    """A dictionary may be `id TAB name` without a header, a table with a header, or a knowledge base."""
    write(data / "names.tsv", NAMES.replace("||", "\t"))
    write(data / "table.tsv", "concept_id\tname\n" + "".join(f"SNOMEDCT_US:{line}\n" for line in NAMES.replace("||", "\t").splitlines()))
    build_kb([building.read_source(data / "table.tsv")], data / "kb")
    made = reader(data, f"mine=mine.tsv,{name},tsv,vocabulary=SNOMEDCT_US").make("mine")
    assert exact(made)["strict_at1"] == pytest.approx(100 / 3)
    assert sorted(made.dictionary.names) == ["fatigue", "headache", "heart attack", "myocardial infarction"]


def test_paths_from_here_and_from_the_data_folder(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "near.tsv", "fatigue\t84229001\n")
    made = reader(data, "mine=near.tsv,snomed.txt,tsv,vocabulary=SNOMEDCT_US").make("mine")
    assert made.queries == ["fatigue"]
    assert set(made.files) == {"near.tsv", "snomed.txt"}  # the results do not say where the files are
    assert str(tmp_path) not in json.dumps(made.files)


def test_a_layout_that_is_recognised_and_its_options(data):
    write(
        data / "p.txt",
        "7|t|Flu and aspirin.\n7|a|\n7\t0\t3\tFlu\tDisease\tD000001\n7\t8\t15\taspirin\tChemical\tD000002\n8|t|Flu\n8|a|\n8\t0\t3\tFlu\tDisease\tD000001\n",
    )
    write(data / "mesh.txt", "D000001||influenza|flu\nD000002||aspirin\n")
    write(data / "test_pmids.txt", "7\n")
    options = "kinds=Disease+Symptom,split=test_pmids.txt"
    assert reader(data, "p=p.txt,mesh.txt").make("p").queries == ["flu", "aspirin", "flu"]
    assert reader(data, f"p=p.txt,mesh.txt,pubtator,{options}").make("p").queries == ["flu"]
    assert reader(data, "p=p.txt,mesh.txt,kinds=Chemical").make("p").queries == ["aspirin"]


def test_a_set_with_an_earlier_part(data):
    write(data / "train.tsv", "sore head\t25064002\nsore head\t84229001\nsore head\t25064002\nmigraine\t37796009\n")
    given = reader(data, "mine=mine.tsv,snomed.txt,tsv,vocabulary=SNOMEDCT_US,train=train.tsv")
    assert exact(given.make("mine"))["at1"] == pytest.approx(100 / 3)
    back_off = given.make("mine-backoff")
    assert exact(back_off)["at1"] == pytest.approx(200 / 3)  # "sore head" is headache twice and fatigue once; migraine is in no dictionary
    assert "sore head" not in back_off.dictionary.names
    assert "dictionary back-off of Basaldella" in back_off.protocol
    assert benchmarks.NO_PREFERENCE not in back_off.protocol
    published = given.make("mine-published")
    assert "sore head" in published.dictionary.names
    assert exact(published)["at1"] == pytest.approx(100 * 2.5 / 3)  # in this dictionary it is a name of two concepts
    assert set(back_off.files) == {"mine.tsv", "train.tsv", "snomed.txt"}
    assert back_off.train == {"sore head", "migraine"}


def test_mentions_off_their_offsets_are_counted(data):
    write(data / "p.txt", "7|t|Flu.\n7|a|\n7\t1\t4\tFlu\tDisease\tD000001\n")
    write(data / "mesh.txt", "D000001||flu\n")
    made = reader(data, "p=p.txt,mesh.txt").make("p")
    assert (made.queries, made.counts["off_their_offsets"]) == (["flu"], 1)
    assert "1 mentions are not at their offsets and are taken as written." in ev.remarks(made.counts)


def test_paths_of_a_user_that_begin_with_a_dot_are_below_the_data_folder(data):
    assert reader(data, "mine=./mine.tsv,./snomed.txt,tsv,vocabulary=SNOMEDCT_US").make("mine").queries == ["heart attack", "sore head", "migraine"]


def test_the_phrases_of_patients_are_a_benchmark_whose_files_are_in_the_repository(tmp_path):
    concepts = [Concept("HP:0100785", "HPO", names=[Name("insomnia", "HPO")], types=["T184"])]
    made = reader(tmp_path, kb=build_kb([Source("made up", concepts)], tmp_path / "kb").path).make("patients-dev-codes")
    assert made.queries[0] == "can't sleep at night"
    assert list(made.files) == ["./examples/patients/dev.tsv"]


def test_sets_are_what_is_measured_unless_others_are_named(data):
    sets = catalogue.parse_sets(["b=mine.tsv,snomed.txt", "a=mine.tsv,hpo"], data)
    assert catalogue.chosen_benchmarks([], sets) == ["b", "a"]
    assert catalogue.chosen_benchmarks(["a-sapbert,ncbi-dev"], sets) == ["ncbi-dev", "a-sapbert"]
    assert sets["a"].dictionary == "hpo"
    with pytest.raises(SapbertError, match=r"\[E540\] Benchmark 'a-published'"):  # the corpus has no earlier part
        catalogue.chosen_benchmarks(["a-published"], sets)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("mine.tsv,snomed.txt", r"E548.*'--set' of the evaluation is 'mine\.tsv,snomed\.txt': it must be NAME=CORPUS,DICTIONARY"),
        ("mine=mine.tsv", "E548.*it must be NAME=CORPUS,DICTIONARY"),
        ("mine=mine.tsv,", "E548.*it must be NAME=CORPUS,DICTIONARY"),
        ("mine=mine.tsv,kinds=x,snomed.txt", "E548.*it must be"),
        ("mine=a,b,tsv,d", "E548.*it must be"),
        ("biosses=mine.tsv,snomed.txt", "E548.*the name 'biosses' is taken"),
        ("ncbi-dev=mine.tsv,snomed.txt", "E548.*the name 'ncbi-dev' is taken"),
        ("mine=mine.tsv,snomed.txt,tvs", r"E561.*'tvs' is not known. Known: askapatient"),
        ("mine=nowhere.tsv,snomed.txt", "E401.*'nowhere.tsv' does not exist"),
        ("mine=mine.tsv,nowhere.txt", "E401.*'nowhere.txt' does not exist"),
        ("mine=mine.tsv,snomed.txt,train=nowhere", "E401.*'nowhere'"),
    ],
)
def test_a_set_that_is_not_well_given(data, given, expected):
    with pytest.raises(SapbertError, match=expected):
        catalogue.parse_sets([given], data)


def test_a_name_is_taken_once(data):
    with pytest.raises(SapbertError, match=r"E548.*the name 'a' is taken"):
        catalogue.parse_sets(["a=mine.tsv,snomed.txt", "a=mine.tsv,hpo"], data)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("mine=mine.tsv,snomed.txt,tsv,granularity=general", "E568.*'granularity' of layout 'tsv'"),
        ("mine=empty.tsv,snomed.txt,tsv", "E544.*'mine' holds no queries: .E563"),
        ("mine=nil.tsv,snomed.txt,tsv", "E544.*'mine' holds no queries: .E564"),
        (
            "mine=mine.tsv,mesh.txt,tsv,vocabulary=SNOMEDCT_US",
            r"E569.*'mine': the dictionary \(mesh\.txt\) has none.*such as SNOMEDCT_US:22298006.*They are of SNOMEDCT_US; .* codes of SNOMEDCT_US",
        ),
        ("mine=mine.tsv,words.txt,tsv", "E402.*words.txt"),
    ],
)
def test_a_set_that_cannot_be_measured(data, given, expected):
    write(data / "empty.tsv", "\n")
    write(data / "nil.tsv", "flu\t-1\n")
    write(data / "mesh.txt", "7||influenza|flu\n")
    write(data / "words.txt", "influenza\nflu\n")
    with pytest.raises(SapbertError, match=expected):
        reader(data, given).make("mine")


def test_the_command_measures_a_set(data, tmp_path, command):
    arguments = ["--set", "mine=mine.tsv,snomed.txt,tsv,vocabulary=SNOMEDCT_US", "--data", str(data), "--work", str(tmp_path / "work")]
    shown = command("evaluate", [*arguments, "--baselines", "--out", str(tmp_path / "e.json")])
    result = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))
    assert list(result["benchmarks"]) == ["mine"]
    assert result["benchmarks"]["mine"]["systems"][baselines.EXACT]["at1"] == pytest.approx(100 / 3)
    assert "confusions" not in result["benchmarks"]["mine"]
    assert "1 mentions without an id" in shown
    assert str(tmp_path) not in (tmp_path / "e.json").read_text(encoding="utf-8")


# -- the papers' benchmarks ---------------------------------------------------------------------------------------------

COMETA_HEAD = "ID\tTerm\tGeneral SNOMED Label\tGeneral SNOMED ID\tSpecific SNOMED Label\tSpecific SNOMED ID\tExample\n"


def cometa(*rows: tuple[str, str]) -> str:
    return COMETA_HEAD + "".join(f"{i}\t{term}\tx\t{code}\ty\t1\tMy {term} again\n" for i, (term, code) in enumerate(rows))


@pytest.mark.parametrize(("name", "folder"), [("cometa-stratified", "stratified_general"), ("cometa-zeroshot", "zeroshot_general")])
def test_cometa_with_its_back_off(data, name, folder):
    splits = data / "corpora/cometa/splits" / folder
    write(splits / "train.csv", cometa(("banging head", "25064002"), ("Banging head", "84229001"), ("banging head", "25064002")))
    write(splits / "test.csv", cometa(("banging head", "25064002"), ("Heart attack", "22298006"), ("blue", "84229001")))
    write(data / "dictionaries/snomed.txt", NAMES)
    plain, names, back_off = (reader(data).make(f"{name}-test{variant}") for variant in ("", "-sapbert", "-backoff"))
    assert [exact(made)["at1"] for made in (plain, names, back_off)] == pytest.approx([100 / 3, 100 / 3, 200 / 3])
    assert "banging head" not in names.dictionary.names  # SapBERT's dictionary is only SNOMED CT
    assert benchmarks.AS_WRITTEN in names.protocol
    assert plain.given[0].document == "0"
    assert "general SNOMED CT id" in plain.protocol


def test_askapatient_in_ten_folds(data):
    """Nine folds with one mention that is found, and one with three, of which one is found: (9 x 100 + 100 / 3) / 10; in all, 10 of 12 mentions."""
    for fold in range(10):
        rows = "22298006\tMyocardial infarction\theart attack\n" + ("84229001\tFatigue\tzonked\n25064002\tHeadache\tmigrañe\n" if fold == 3 else "")
        write(data / f"corpora/askapatient/AskAPatient.fold-{fold}.test.txt", rows, "latin-1")
    write(data / "dictionaries/AskAPatient.dict.txt", NAMES)
    made = reader(data).make("askapatient-test-sapbert")
    assert made.queries[5] == "migrañe"
    found = exact(made)
    assert found["at1"] == pytest.approx(100 * (9 + 1 / 3) / 10)
    assert found["answerable_at1"] == found["at1"]
    means = np.array([100.0] * 9 + [100 / 3])
    assert found["lenient_at1_folds_sd"] == pytest.approx(means.std(ddof=1))
    outcomes = systems.outcomes_of(made, baselines.exact_match(made.dictionary.names, made.queries))
    assert float((outcomes.values["lenient_at1"] * made.weights()).mean()) == pytest.approx(found["at1"] / 100)
    assert len(set(made.units().tolist())) == 12  # no mention has a document, so each is a unit
    half = benchmarks.limited(made, 6, 0)
    assert len(half.folds) == len(half.queries) == 6
    assert "figures of the folds are averaged" in made.protocol
    (data / "corpora/askapatient/AskAPatient.fold-7.test.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"E542.*fold-7.*It is from Limsopatham and Collier, ACL 2016: https://doi\.org.*\(CC BY 4\.0\)"):
        reader(data).make("askapatient-test-sapbert")


def test_medmentions_by_its_lists_of_documents(data):
    text = "7|t|Flu.\n7|a|\n7\t0\t3\tFlu\tT047\tUMLS:C0021400\n\n8|t|Fits.\n8|a|\n8\t0\t4\tFits\tT184\tC0036572\n"
    write(data / "corpora/medmentions/st21pv/data/corpus_pubtator.txt.gz", text)  # an unpacked file that still has the name .gz
    for part, number in (("trng", "7"), ("test", "8")):
        write(data / f"corpora/medmentions/full/data/corpus_pubtator_pmids_{part}.txt", f"{number}\n")
    write(data / "umls.tsv", "concept_id\tname\nC0036572\tfits\nC0021400\tflu\n")
    build_kb([building.read_source(data / "umls.tsv")], data / "kb")
    made = reader(data).make("medmentions-st21pv-test-sapbert")
    assert made.queries == ["fits"]
    assert exact(made)["at1"] == 100.0
    assert made.train == {"flu"}
    assert made.dictionary.about["source"] == "the knowledge base of --kb"


def test_what_is_missing_is_named_with_where_to_get_it(data, tmp_path, command):
    write(data / "similarity/MayoSRS.csv", "Mean,CUI1,CUI2,TERM1,TERM2\n1,C1,C2,flu,flux\n2,C1,C3,flu,zebra\n4,C1,C4,fluke,flu\n")
    write(data / "corpora/smm4h/test.tsv", "7\tso sleepy\t10041349\n")
    write(data / "dictionaries/meddra.txt", "10000125||abnormal dreams\n")  # not the code of the corpus
    write(data / "corpora/twimed/gold/pubmed/1.ann", "T1\tSymptom 0 3\tlow\nN1\tReference T1 Concepts:C0011570\tDepression\n")  # looked up in UMLS
    arguments = ["--baselines", "--data", str(data), "--work", str(tmp_path / "work"), "--kb", str(data / "no-kb"), "--out", str(tmp_path / "e.json")]
    shown = command("evaluate", ["--benchmarks", "papers", *arguments])
    result = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))
    assert list(result["benchmarks"]) == ["mayosrs"]
    missing = {note.partition(":")[0] for note in result["notes"]}
    assert missing >= set(catalogue.GROUPS["papers"]) - {"mayosrs"}
    assert "cadec-sapbert: [E542] Benchmark 'cadec' needs 'corpora/cadec'" in shown
    assert "https://data.csiro.au/collection/csiro:10948 (CSIRO Data Licence: free, for research)" in shown
    assert "smm4h-sapbert: [E569]" in shown
    assert "twimed-pubmed-sapbert: [E101] No knowledge base at" in shown
    with pytest.raises(FileNotFoundError, match="E542"):  # named directly, it is an error
        command("evaluate", ["--benchmarks", "papers,cadec", *arguments])


def test_if_everything_is_missing_each_set_has_its_own_line(tmp_path, command):
    arguments = [
        "--baselines",
        "--data",
        str(tmp_path),
        "--work",
        str(tmp_path / "work"),
        "--kb",
        str(tmp_path / "no-kb"),
        "--out",
        str(tmp_path / "e.json"),
    ]
    with pytest.raises(SapbertError) as error:
        command("evaluate", ["--benchmarks", "papers", *arguments])
    first, *lines = str(error.value).splitlines()
    papers = catalogue.GROUPS["papers"]
    assert first == (
        f"[E548] Setting '--benchmarks' of the evaluation is '{','.join(papers[:3])} and {len(papers) - 3} others': "
        "none of the systems can be measured on any of them"
    )
    assert [line.partition(":")[0] for line in lines[: len(papers)]] == [f"- {name}" for name in papers]
    assert all("[E542]" in line for line in lines[: len(papers)])


def test_every_row_says_what_is_needed():
    for name, source in catalogue.CORPORA.items():
        assert source.dictionary in catalogue.DICTIONARIES, name
        assert set(source.variants) <= set(catalogue.VARIANTS), name
        assert set(source.groups) <= set(source.files), name
        assert all(part in source.files and variant in ("", *source.variants) for part, variant in source.paper), name
        assert source.origin or set(source.groups) | set(source.earlier) | {"train"} >= set(source.files), name  # an asset, or with an origin
    assert all(source.origin or source.group for source in catalogue.SIMILARITY.values())
    assert {source.metric for source in catalogue.SIMILARITY.values()} == {"spearman", "pearson"}
    papers = set(catalogue.GROUPS["papers"])
    assert {"ncbi-test-sapbert", "bc5cdr-test-sapbert", "bc5cdr-chemicals-test-sapbert", "medmentions-full-test-sapbert"} <= papers
    assert {"medmentions-st21pv-test-sapbert", "askapatient-test-sapbert", "cometa-stratified-test-backoff", "cometa-zeroshot-test-sapbert"} <= papers
    assert {"psytar-sapbert", "smm4h-sapbert", "twimed-pubmed-sapbert", "twimed-twitter-sapbert", "cadec-sapbert"} <= papers
    assert {"medsts", "mednli-s", "biosses", "sick", "stsb-test", "ehr-relb", "mayosrs", "umnsrs-similarity", "umnsrs-relatedness"} <= papers


# -- pairs of texts -----------------------------------------------------------------------------------------------------


def test_medsts_with_its_scores_in_a_file_of_their_own():
    pairs = ["the pain is worse\tpain has worsened", "no fever \the walks"]
    assert read_medsts(pairs, ["4.5", "0.5", ""]) == [TextPair("the pain is worse", "pain has worsened", 4.5), TextPair("no fever", "he walks", 0.5)]
    assert read_medsts([f"{line}\t1" for line in pairs])[1] == TextPair("no fever", "he walks", 1.0)  # the training part
    with pytest.raises(ValueError, match="2 pairs but 1 scores"):
        read_medsts(pairs, ["4.5"])
    with pytest.raises(ValueError, match="row 1 has 2 cells"):
        read_medsts(pairs)


def test_mednli_as_scored_pairs(data):
    rows = [("the patient is febrile", "the patient has a fever", "entailment"), ("a", "b", "contradiction"), ("a", "bc", "neutral")]
    lines = [json.dumps({"sentence1": left, "sentence2": right, "gold_label": label, "pairID": "x"}) for left, right, label in rows]
    assert [pair.score for pair in read_mednli(lines)] == [2.0, 0.0, 1.0]
    write(data / "similarity/MedNLI/mli_test_v1.jsonl", "\n".join(lines))
    made = reader(data).make("mednli-s")
    assert made.metric == "pearson"
    assert made.protocol.startswith("Pearson's (and also Spearman's)")
    assert "contradiction 0" in made.protocol
    write(data / "similarity/MedNLI/mli_test_v1.jsonl", lines[0].replace("entailment", "-"))
    with pytest.raises(SapbertError, match=r"E547.*mli_test_v1.*'mednli-s'.*KeyError"):
        reader(data).make("mednli-s")


def test_pearson_is_reported_first_where_the_papers_have_it():
    pairs = [TextPair("a", "b", score) for score in (0.0, 1.0, 2.0, 7.0)]
    made = benchmarks.SimilarityBenchmark("s", "S", "Pearson's.", pairs, metric="pearson")
    result = ev.as_result([made], {"x": {"s": np.array([0.0, 1.0, 3.0, 2.0])}}, {})
    entry = result["benchmarks"]["s"]
    assert entry["metric"] == "pearson"
    row = entry["systems"]["x"]
    # deviations -2.5, -1.5, -0.5, 4.5 and -1.5, -0.5, 1.5, 0.5: 6.0 / sqrt(29 * 5); ranks 1, 2, 3, 4 and 1, 2, 4, 3
    assert row["pearson"] == pytest.approx(100 * 6 / (29 * 5) ** 0.5)
    assert row["spearman"] == pytest.approx(80)
    assert "pearson_ci" in row
    assert "spearman_ci" not in row
    assert ev.cell(entry, "x") == f"{row['pearson']:.1f}"


def test_the_kind_of_a_dictionary(tmp_path):
    for text, kind in ((NAMES, "biosyn"), (NAMES.replace("||", "\t"), "biosyn"), ("concept_id\tname\n1\tx\n", "table"), ("[Term]\nid: X:1\n", "obo")):
        write(tmp_path / "names", text)
        assert dictionaries.dictionary_kind(tmp_path / "names") == kind


# -- real corpora -------------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("ncbi-dev", "x=corpora/ncbi_disease/devel.pubtator.txt.gz,dictionaries/medic_06Jul2012.txt.gz"),
        ("bc5cdr-dev", "x=corpora/bc5cdr/dev.pubtator.txt.gz,dictionaries/medic_06Jul2012.txt.gz,pubtator,kinds=Disease"),
        ("gsc-dev", "x=corpora/gsc_plus/GSCplus_dev_gold.tsv,hpo"),
    ],
)
def test_a_set_gives_what_the_named_benchmark_gives(data_folder, tmp_path, name, given):
    sets = catalogue.parse_sets([given], data_folder)
    both = benchmarks.BenchmarkReader(data_folder, tmp_path, tmp_path, tmp_path / "work", sets=sets)
    ours, theirs = both.make(name), both.make("x")
    assert ours.queries == theirs.queries
    assert ours.golds == theirs.golds
    assert ours.dictionary.names == theirs.dictionary.names
    assert np.array_equal(ours.dictionary.rows, theirs.dictionary.rows)
    assert np.array_equal(ours.dictionary.labels, theirs.dictionary.labels)
    assert (ours.rule, ours.counts["unanswerable"]) == (theirs.rule, theirs.counts["unanswerable"])
