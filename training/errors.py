"""Coded errors of the training package, built like `spacy_sapbert.errors`.

E50x pairs · E51x recipe and loop · E52x losses, mining and phases · E54x evaluation and report · E55x assets and project · E56x corpora ·
E57x baselines and similarity · E58x pictures · E59x grounding texts · E60x across languages · E61x distillation · E62x the recogniser of mentions.
"""

from __future__ import annotations

from typing import Any

from spacy_sapbert.errors import MissingFile, SapbertError


class Errors:
    """Message templates. `fail("E501", …)` makes the exception."""

    # pairs
    E501 = "'{kb}' gives no pair of names: {why}. A concept needs at least two names that no other concept has. Add synonyms or sources."
    E502 = "'{path}' is not a folder of pairs: {why}. Make one with `python -m training pairs`."
    E503 = "Setting '{setting}' of the pairs is {value!r}: {why}."
    # losses and mining
    E521 = "Setting '{setting}' of '{owner}' is {value!r}. Give a finite number {range}."
    E522 = "'{owner}' takes floating-point embeddings of shape (n, d) and integer labels of shape (n,); got {got}."
    E523 = "'{owner}' takes a miner's triplets (a, p, n) or pairs (a1, p, a2, n), each a one-dimensional tensor, or None; got the shapes {got}."
    E504 = "The mentions give no pair ({why}). A mention gives a pair if it has one concept, the knowledge base has that concept, and none of its names is written like the mention."
    # evaluation and report
    E540 = "Benchmark '{name}' is not known. Known: {known}; or a group: {groups}."
    E541 = "'{path}' is not an encoder's folder: {why}. Give --encoder NAME=FOLDER with a folder that `python -m training train` wrote; NAME= without a folder is the base encoder."
    E542 = "Benchmark '{name}' needs '{file}', which is not in the data folder '{data}'. {where}Give the folder that holds it by --data, or leave the benchmark out of --benchmarks."
    E543 = "Document {document}: the text at {start}-{end} is not that of the mention, which has {length} characters. Correct the offsets; they count characters from 0."
    E544 = "Benchmark '{name}' holds no queries: {why}."
    E545 = "No evaluation in '{path}'. Make one: python -m training evaluate --out {path}/evaluation.json"
    E546 = "{what} needs the package '{package}'. Install it: pip install {package}"
    E547 = "'{path}' is not {expected}: {why}"
    E548 = "Setting '{setting}' of the evaluation is {value!r}: {why}."
    E549 = "Pairs '{pairs}' were made from another knowledge base than '{kb}' (fingerprints {found} and {expected}). Make them again with `python -m training pairs`."
    # baselines and layouts
    E570 = "scispaCy's candidate generator is left out: it can't be imported ({why}). Install it with nmslib: pip install scispacy nmslib-metabrainz"
    E571 = "scispaCy's candidate generator is left out: it can't be built from {names} names ({why}). It needs character 3-grams that occur in at least ten names."
    E572 = "Line 1 has no column for {what}; it has {found}. The column may be called {known}."
    # recipe and loop
    E510 = "Recipe '{path}' can't be used: {why}"
    E511 = "Setting '{setting}' is {value!r}: {why}."
    E512 = "Base encoder '{name}' can't be loaded: {why}. Give the name of a Hugging Face or sentence-transformers model that this machine can download, or its folder (--paths.base FOLDER)."
    E513 = "GPU {gpu_id} was requested, but {why}. Give another number, or -1 for the CPU (--training.gpu_id -1)."
    E514 = (
        "'{path}' holds checkpoints of a training with other settings ({differences}). Give the same settings to resume it, "
        "or delete that folder to start again."
    )
    E515 = (
        "The loss is {loss} at step {step}. This step was not saved; {checkpoint}. Lower training.learning_rate, or set training.precision to 'fp32'."
    )
    E517 = "'{encoder}' can't be written as an adapter of '{base}': {why}. With --base, give the encoder that its training started from."
    E516 = "No disk space is left to write '{path}' ({error}). {checkpoint}. Free some space and give the same command again: it resumes there."
    E518 = "{failed} of {total} trainings of the comparison failed; {first}. The finished trainings are kept: correct the cause and give the same command again."
    E519 = "'{part}' can't be used both to fit and to test: the figures would be too high. Give different parts with --fit and --test."
    # phases, averages, scored pairs
    E528 = "'{path}' is named as the test part of a corpus. An encoder that was trained on it can't be measured on it. Give the training part, or --allow-test if the name is misleading."
    E529 = "The memory of GPU {gpu_id} is full ({error}). Each of these changes needs less memory: {lower}. Or end other programs that use the GPU."
    E530 = "The training that was run to measure its speed ended with {status}: {why}\nCorrect the cause, or plan without measuring: --seconds 0."
    E524 = "Phase '{phase}' failed ({why}). The phases before it are kept in '{folder}': correct the cause and give the same command again."
    E525 = "'{one}' and '{other}' can't be averaged: {why}. Average models of the same base whose recipes differ only in the seed or in settings of [training]."
    E526 = "'{path}', line {line} ('{text}…'): {why}. Correct the line or remove it."
    E527 = "'{path}' can't be used as scored pairs of texts: {why}."
    # distillation
    E610 = "'{path}' is not {expected}: {why}."
    E611 = "'{path}' holds nothing to learn from: {why}."
    # assets and project
    E551 = (
        "{count} of {total} assets are missing and can't be downloaded:\n{missing}\nEither connect the machine to a network that reaches their addresses "
        "(project.yml, section assets), or give a folder that holds them under the same paths: `python -m spacy project run all . --vars.mirror /data/mirror` "
        "(`python -m training assets --mirror /data/mirror`)."
    )
    E552 = "'{file}' from {source} has MD5 {found}; project.yml says {expected}. Nothing was kept. Download the file again, or correct the checksum if the new file is right."
    E553 = "'{name}' is neither an asset nor a folder of assets. Known: {known}."
    E554 = (
        "The UMLS release in '{folder}' is not complete: {missing} missing. UMLS is free but needs a licence: ask for the UMLS Metathesaurus licence of the U.S. "
        "National Library of Medicine (https://www.nlm.nih.gov/research/umls/), download a release, and put its tables (at least {wanted}, plain or "
        ".gz) into '{folder}', or give their folder: `python -m spacy project run umls . --vars.umls FOLDER`."
    )
    E555 = "'{file}' from {source} {why}."
    # corpora
    E560 = "'{path}', line {line} is not {expected}: it has {shape}. Correct the line, or give its layout by layout=."
    E561 = "Corpus layout '{name}' is not known. Known: {known}."
    E562 = "The layout of '{path}' is not recognised: line {number} has {shape}. Known: {known}. Give one of these by layout=."
    E563 = "'{path}' holds no mentions{kinds} ({documents} documents): an empty split measures nothing."
    E564 = "'{path}' holds {mentions} mentions in {where}, and no id of a concept in any of them, so there is nothing to link to."
    E565 = "No document of '{path}' has the span group '{group}'. It has the groups: {known}. Give one of them, or None for doc.ents."
    E566 = "'{path}' has mentions of {count} documents without a text: {documents}. Add their texts, or remove their mentions."
    E567 = "'{path}' can't be read as layout '{layout}': {why}."
    E568 = "Option '{option}' of layout '{layout}' is {value!r}: {why}."
    E569 = (
        "Benchmark '{name}': the dictionary ({dictionary}) has none of the corpus's gold ids, such as {example}. They are of {found}; the dictionary has names or "
        "codes of {known}. Give a dictionary of the corpus's vocabulary, or, for ids without a prefix, their vocabulary (vocabulary=SNOMEDCT_US)."
    )
    # the recogniser of mentions
    E620 = "Setting '{setting}' of the recogniser is {value!r}: {why}."
    E621 = "'{path}' has mentions of type '{found}', whose kind the recogniser does not know. Known: {known}. Add it to training/mentions/kinds.py."
    # across languages
    E600 = "'{path}' is not a folder of translations: {why}. Make one with `python -m training translations cross-lingual`."
    E601 = (
        "'{path}' has no column for {missing}; it has {found}. A table needs `english` and `translation`, and may have `language` and `concept_id`."
    )
    E602 = "The layout of '{path}' is not recognised: line {number} has {shape}. Known: {known}. Give one of these by --layout."
    E603 = "'{path}' does not say which language its translations are in. Give it by --language, such as de."
    E604 = "Setting '{setting}' of the translations is {value!r}: {why}."
    E605 = "{source} gives no translation: {why}."
    E606 = "'{path}' has translations without the English names. Build a knowledge base from it (`python -m spacy_sapbert kb build hpo {path} --languages en,…`) and give that instead."
    E607 = (
        "'{folder}' was made from another knowledge base than '{kb}' (fingerprints {found} and {expected}). Make it again from this knowledge base."
    )
    E608 = "No held-out translation in '{value}' in '{path}'. It has: {known}."
    E609 = "'{path}' holds no queries of XL-BEL{language}. The files are named by their language, such as `de_1k_test_query.txt`. Found: {found}."
    # pictures
    E580 = "No picture can be made of '{kb}': {found} concepts have {least} to {most} names that no other concept has, {count} are needed. Build it from more sources."
    E581 = "Setting '{setting}' of the projection is {value!r}: {why}."
    # grounding texts
    E590 = "Setting '{setting}' of the grounding texts is {value!r}: {why}."
    E591 = (
        "'{path}', line {line} has {found}. Generated definitions are tab-separated: two columns, id and text, or a header that names "
        "a column of ids ({ids}) and one of texts ({texts})."
    )
    E592 = "None of the {rows:,} definitions of '{path}' is of a concept of '{kb}' (the first ids are {ids}). Give CUIs, or ids or codes of {known}."
    E593 = "'{kb}' gives no pair with a grounding text: {why}. Add sources or files of definitions, or raise the share of names (--names)."
    E594 = "'{path}' holds no grounding texts: {why}. Make them with `python -m training definitions`."


def no_base(name: str, why: str) -> SapbertError:
    """Return the error for a base that is neither a folder nor on the hub.

    Args:
        name: The base.
        why: Why the hub does not give it.
    """
    return fail("E512", MissingFile, name=name, why=f"it is no folder, and the hub doesn't have it, or can't be reached ({why})")


def fail(code: str, cls: type[SapbertError] = SapbertError, **values: Any) -> SapbertError:
    """Return the exception for a code, ready to raise.

    Args:
        code: Name of a template, such as "E501".
        cls: Class of the exception.
        **values: Values of the template's placeholders.
    """
    return cls(code, getattr(Errors, code).format(**values))
