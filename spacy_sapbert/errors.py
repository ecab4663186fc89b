"""Errors and warnings with codes: what went wrong, with which value, and what to do next. Also the package's logger.

E0xx set-up · E1xx knowledge base, encoder of a linker folder · E2xx index · E3xx encoder · E4xx data files · W0xx warnings.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from types import FrameType
from typing import Any

logger = logging.getLogger("spacy_sapbert")  # progress messages of the library; the command line shows them
logger.addHandler(logging.NullHandler())

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_BETWEEN = {"spacy", "thinc", "tqdm", "contextlib"}  # may lie between the user's code and this package on the call stack


class SapbertError(ValueError):
    """An error that this package raises on purpose.

    Attributes:
        code: code of the error, such as "E101"; it stays the same in later versions.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"[{code}] {message}")
        self.code = code

    def __reduce__(self) -> Any:  # so that a worker process can send it back
        return (_restore, (type(self), self.code, str(self)))


class MissingFile(SapbertError, FileNotFoundError):
    """A file or folder is missing."""


class DamagedFile(SapbertError):
    """A file is truncated, of another kind, or was changed since it was written."""


class ServerError(SapbertError):
    """A server does not answer, or answers wrongly. The request is not at fault, and may succeed later."""


class SapbertWarning(UserWarning):
    """A warning of this package.

    Attributes:
        code: code of the warning, such as "W001"; it stays the same in later versions.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"[{code}] {message}")
        self.code = code

    def __reduce__(self) -> Any:  # so that it can be copied, and sent by a worker process
        return (_restore, (type(self), self.code, str(self)))


def _restore(cls: type[SapbertError] | type[SapbertWarning], code: str, text: str) -> SapbertError | SapbertWarning:
    return cls(code, text.removeprefix(f"[{code}] "))


class Errors:
    """Message templates: `Errors.E001.format(...)` gives the text, `raise fail("E001", ...)` raises the error."""

    # set-up
    E001 = "linker_name '{name}' is not known. Known: {known}. For your own, pass the folder that `python -m spacy_sapbert index` wrote.{more}"
    E002 = "Setting '{setting}' of '{component}' is {value!r}: {why}"
    E003 = "'{component}' has no {what} yet. Call nlp.initialize(), load it with from_disk(), or leave linker_name empty for the default linker."
    E004 = "The package '{package}' is needed here and is not installed. Install it: pip install {install}"
    E005 = "Extension '{attr}' of Span exists already with other settings. Choose another attr_name for '{component}'."
    E006 = "'{what}' is a {got}, not a {expected}."
    E007 = "Folder '{path}' has been locked by another build for more than {seconds:.0f} s. If no build is running, delete '{lock}'."
    E008 = "No room left to write '{path}' ({error}). No incomplete file was kept. Free some space, or give another folder. If the folder is in the cache, set {env} to another one."
    E009 = "'{path}' can't be written ({error}). Give another file."
    E010 = (
        "Setting '{setting}' of '{component}' needs a calibration, and linker '{path}' has none{why}. Fit one on annotated notes: "
        "`python -m spacy_sapbert calibrate LINKER GOLD.spacy`, or linker.calibrate(docs)."
    )
    E011 = "{what} = {value} can't be reached on the {n:,} mentions that the calibration was fit on ({fit_on}): at most {best:.3f}. Set a lower target, or fit on more mentions."
    E012 = "A calibration needs at least {fewest} annotated mentions, with right and with wrong links; {n} were given, and {right} of them have a right link. Annotate more."
    E013 = "{what} needs the package '{package}'. Install it: pip install {package}"
    E014 = "The annotated Docs hold no span with a kb_id ({where}). Set span.kb_id_ to the id of the gold concept; write `|` between alternatives."
    E015 = "Calibration '{path}' is damaged: {why}. Delete it, or fit it again: `python -m spacy_sapbert calibrate`."
    E016 = (
        "None of the {n:,} gold ids is in the knowledge base ({examples}): nothing can be learned from them. They are ids of {theirs}; the knowledge base has {ours}. "
        "Use its ids in the annotations, such as {known}, or codes of its vocabularies, such as MESH:D003924."
    )
    E017 = (
        "'{path}' was started with other settings or another input: {differences}. Give the same settings and input to resume it, give another "
        "folder, or delete this one."
    )
    E018 = "'{path}' is being written by another `annotate`. Wait until it ends, or give another folder. If no other one is running, delete '{lock}'."
    E019 = "No room left to write '{path}' ({error}). Finished partitions are kept: free some space, and run the same command again."
    E020 = "No Ray cluster answers at '{address}' ({error}). Give the address of a running cluster, or leave --ray-address out to start one on this machine."
    E021 = "A worker died {times} times while it loaded the pipeline ({why}). If memory ran out, use fewer --workers: each of them loads the whole pipeline."
    E022 = "No name can be added to concept '{id}': {why}. linker.add_concept('{id}', names) adds it as a new concept."
    E023 = "The linker's additions can't be read from '{path}': {why}. Delete that file, and add the names again."
    E024 = "{name!r} can't be a name: it must be a text with a letter or a digit, of at most {most} characters."
    E025 = "Concept '{id}' is already in the knowledge base ({name}). linker.add_alias('{id}', name) adds a name to it."
    E045 = "'{path}' holds no sense model. Give a folder that `python -m training senses` wrote, or \"clinical\" for the one of this package."
    E046 = "Sense model '{path}' is damaged: {why}. Make it again with `python -m training senses`, or install this package again."
    E047 = 'A ranker can\'t be trained on these {n:,} distinct mentions that are no exact match: {why}. Annotate more, or set rank="cosine", which needs no ranker.'
    E048 = "Ranker '{path}' is damaged: {why}. Delete it, or train it again: `python -m spacy_sapbert train-ranker`."
    E049 = (
        "Ranker '{path}' uses other features ({theirs}) than this version does ({ours}). Delete it, or train it again: "
        "`python -m spacy_sapbert train-ranker`."
    )
    E050 = "rank=\"learned\" of '{component}' needs a ranker, and linker '{path}' has none{why}. Train one: `python -m spacy_sapbert train-ranker LINKER GOLD.spacy`."
    E051 = "A ranker works with one encoder only, and this encoder has no fingerprint that identifies it. Give the encoder a `fingerprint` that changes with its weights."
    E052 = "The {what} '{name}' is not registered here (in `{registry}`). Install the package that provides it, or build the linker again."
    E053 = "The operating system can't use '{path}' ({error}). Check that it exists and that you have the permission, or give another one."
    E054 = "{count:,} of {total:,} notes could not be linked (the others were); the first that failed is '{note}': {why}. Correct these notes, or leave them out."
    E055 = "The cache '{path}' can't be used ({error}). Set {env} to a folder that can be written."
    E056 = "rerank=\"{rerank}\" of '{component}' works only with {fitting}, and linker '{path}' has another encoder. Leave `rerank` out, or take a linker with a fitting encoder, such as 'hpo'."
    E057 = "The reranker of this package, '{path}', is damaged: {why}. Install this package again."
    E058 = (
        "Stopped by {what} before the end. What was there before is unchanged. Run the same command again: `annotate`, `index` and trainings "
        "continue after the last part that was finished, other commands begin again."
    )
    E059 = "A worker of `annotate` can't load the pipeline ({error}). `link` with the same settings shows where this happens."
    E026 = "The names of '{out}' are being encoded by another build, into '{path}'. Wait until it ends, or give another folder."
    E027 = (
        "One of {count} processes that encode names died ({error}), often because memory ran out. Complete shards are kept: run the same command "
        "again with fewer processes. A script that builds a linker with processes needs `if __name__ == '__main__':`."
    )
    E028 = (
        "Not enough {what} for {names:,} names of {dim} dimensions and {engine}: about {need:.1f} GB are needed, {free:.1f} GB are free. {advice} "
        "Nothing was encoded. To build anyway, pass check=False or --no-check."
    )
    E029 = "No room left to write '{path}' ({error}). Complete shards are kept there: free some space and build again, or delete that folder."
    E030 = "'{path}' holds no saved concept_matcher that can be read: {why} Save the pipeline again, or add the component again."
    E031 = (
        "No name can be removed from concept '{id}': {why}. Give the id of a concept: `python -m spacy_sapbert lookup NAME --linker-name FOLDER` shows those "
        "of a name. linker.add_stop_names(name) keeps a text from being linked at all."
    )
    E032 = "'{name}' is no name of concept '{id}', so it can't be removed. Its names: {known}. linker.add_stop_names(name) keeps a text from being linked at all."
    E033 = (
        "'{name}' is not on the stop list, which has: {known}. linker.additions.removed holds all removed names. linker.add_alias(concept_id, name) brings "
        "back a name that was removed from one concept."
    )
    E034 = (
        "Linker '{name}' is shared: all programs of this user that use it would change with it. Add `--out FOLDER` to `{command}` to write a changed copy, and "
        "use it with `--linker-name FOLDER`. To change the shared linker for all of them, add `--shared`."
    )
    E040 = (
        "'{path}' holds no recogniser of mentions that can be read: {why}. Train it again (`python -m spacy project run mentions`), "
        "install the package again, or leave `model` empty for the recogniser that comes with it."
    )
    # exports
    E060 = (
        "Note '{note}' can't be written for brat: the text at {start}-{end} is not that of the mention (the note has {length} characters). "
        "Give the text that was linked, without changes."
    )
    # service
    E070 = "The request's body has more than {most:,} bytes, which is the limit of this service. Send fewer texts at once (`serve --max-body-bytes` changes it)."
    E071 = "The request is not valid: {why}"
    E072 = "{waiting:,} texts are waiting, and at most {most:,} may wait. Try again in {seconds} s (`serve --max-queue` changes the limit)."
    E073 = "The request was not answered within {seconds:g} s. Send fewer texts at once, or try again later (`serve --timeout` changes the limit)."
    E074 = "The API key is missing or wrong. Give it as `Authorization: Bearer KEY` or `X-API-Key: KEY`."
    E075 = "The service is not ready: it is loading its linker, or is being stopped. Try again later; /ready shows whether it is ready."
    E076 = "Setting '{setting}' can't be changed by a request. This service allows: {known} (`serve --allow` changes it)."
    E077 = "This service has no such {what}. {advice}"
    E078 = "The service failed ({why}). Look for the id of the request in the log."
    E079 = "The service can't listen on {host}, port {port} ({error}). Give another --host or --port."
    # review
    E080 = "'{path}' holds no review that can be read: {why}. Give another file, or an earlier copy of this one."
    E081 = "The review '{path}' can't be used ({error}). Check that the disk has free space and that the folder can be written, and try again."
    E082 = "The event that a reviewer sent is not valid: {why}"
    E083 = "The review already has a note with the id '{id}' and another text. Give this note another id."
    E084 = "The review has no such {what}."
    E085 = "The review can't be opened under this host name. Use http://127.0.0.1 or http://localhost, with the port of the service."
    E086 = "A review holds notes, and other machines can reach the host {host}. Set {env} to an API key, which the page then asks for, or listen on 127.0.0.1."
    E087 = (
        "rerank=\"names\" of '{component}' is for linkers without a ranker: the ranker of linker '{path}' already compares all candidates by the fast encoder. "
        'Leave `rerank` out, or set rank="cosine", too.'
    )
    # knowledge base
    E101 = "No knowledge base at '{path}': {why}"
    E102 = (
        "Knowledge base '{path}' is damaged or was changed: {why}. Build it again with `python -m spacy_sapbert kb build`; "
        "the default linker's cached folder can just be deleted."
    )
    E103 = "The sources hold no names after filtering ({detail}), so there is nothing to link to. Use fewer filters or other sources."
    E104 = "Semantic type or group '{value}' is not known. Use a TUI such as T047, or a group: {groups}."
    E105 = "Vocabulary '{value}' is not in this knowledge base. It has: {known}."
    E106 = "'{path}' was written in format {found}; this version reads {expected}. Build it again, or install the matching spacy-sapbert."
    E107 = "Language '{value}' is not in this knowledge base. It has names in: {known}."
    E108 = "Knowledge base '{path}' was replaced (by `kb update`, or a new build) since it was opened. Load the pipeline again."
    E109 = "No encoder at '{path}': {why} Build the linker again with `python -m spacy_sapbert index`, or get a complete copy of its folder."
    E110 = (
        "Encoder '{path}' is damaged or was changed: {why}. Build the linker again with `python -m spacy_sapbert index`, or get an unchanged copy "
        "of its folder; the default linker's cached folder can just be deleted."
    )
    # index
    E201 = "No index at '{path}': {why}"
    E202 = "Index '{path}' is damaged or was changed: {why}. Build it again with `python -m spacy_sapbert index`."
    E203 = "The parts of the linker don't belong together: they differ in {different}. The index holds {index} vectors of {dim} dimensions and was built with encoder {built}; {names} names and encoder {encoder} with {width} dimensions were loaded. Build the index again with the encoder you load."
    E204 = "Vectors must be finite floats of shape (n, {dim}); got {got}."
    E205 = "Index '{name}' needs the package '{package}' ({error}). Install it: pip install {package}. Other engines: {known}."
    E206 = "k must be at least 1; got {k}."
    E230 = "Milvus at '{uri}' can't be reached within {seconds:g} s ({why}). Start it, or give another uri or a longer timeout."
    E231 = (
        "Milvus at '{uri}' refuses the token ({why}). The environment variable {env} {what}. Set the variable to a valid token, 'user:password' "
        "or an API key, whose role has the permission."
    )
    E232 = "Milvus at '{uri}' was asked to {doing} and did not answer within {seconds:g} s, {times} times. Try later, or give a longer timeout."
    E233 = (
        "Collection '{collection}' is not in Milvus at '{uri}': it was dropped, or the index was built elsewhere. Give the uri it was built on, or build "
        "the index again with `python -m spacy_sapbert index`."
    )
    E234 = (
        "Collection '{collection}' in Milvus at '{uri}' is not the one this index was built with: {why}. Build the index again with "
        "`python -m spacy_sapbert index`; that replaces it."
    )
    E235 = (
        "'{path}' is in use by another process, and milvus-lite lets only one process write. Wait until that process ends, or serve the file to all: "
        "`milvus-lite server --data-dir FILE.db`, and uri http://localhost:19530."
    )
    E237 = (
        "Index '{path}' uses the Milvus server '{uri}': the vectors of your mentions, and your token if you have one, would be sent there. If you trust this "
        'server, set uri = "{uri}" in the settings of the index, or name it in the environment variable {env}.'
    )
    E236 = "Milvus at '{uri}' was asked to {doing} and says: {why}"
    # encoder
    E301 = "Encoder '{name}' can't be loaded: {why} Give a Hugging Face or sentence-transformers name, or a folder that holds config.json."
    E302 = "Encoder is not initialised: nothing is read before initialize(). Call encoder.initialize()."
    E303 = "pooling must be 'cls', 'mean' or 'auto'; got '{pooling}'."
    E304 = "Encoder '{name}' gave NaN or infinite values for {count} of {total} names. Try dtype='float32'."
    E305 = "There is no GPU {gpu}. GPUs that PyTorch sees: {there}. Name some of these, or -1 alone for the CPU."
    E306 = (
        "Encoder '{name}' needs Python code from its own repository, which is not run by default. Use a model that transformers loads without such code. "
        "If you trust the repository, and its code makes a model of one of transformers' own classes, run it with "
        "`python -m spacy_sapbert index KB --encoder NAME --trust-remote-code`; a model of its own classes is refused (E308)."
    )
    E307 = (
        "The encoder of linker '{path}' needs Python code ({why}). Code in a linker's folder is never run, whatever the settings are. Build the linker "
        "again with an encoder that transformers loads without code of its own, or get an unchanged copy of the folder."
    )
    E308 = (
        "Encoder '{name}' consists of Python code from its own repository ({classes}). A linker's folder is loaded without such code, so a linker with this "
        "encoder could not be opened, and none was written. Use a model whose architecture is part of transformers."
    )
    E309 = (
        "The encoder of linker '{path}' refers to files outside its folder: {why}. Nothing outside was read. Build the linker again with "
        "`python -m spacy_sapbert index`, or get an unchanged copy of the folder."
    )
    E310 = "Encoder '{name}' can't be copied ({error}), so another one can't be loaded while this one is in use. Register a function under `architectures` that makes it."
    E315 = "'{setting}' is '{value}': {why}. Give numbers of GPUs separated by commas, such as 0,1."
    E316 = (
        "The memory of {device} is full ({error}). A batch had {names} names: lower the encoder's batch_tokens ({batch_tokens}), stop other programs that "
        "use the GPU, or encode on the CPU."
    )
    # data files
    E401 = "'{path}' does not exist."
    E402 = "'{path}' is not {expected}: {why}"
    E403 = "'{path}', line {line}: {why}"
    E404 = "'{path}' is not valid UTF-8 near line {line}. Convert it: iconv -f latin1 -t utf-8."
    E405 = "'{path}': {bad:,} of {total:,} rows are malformed (first at lines {lines}), more than the allowed {share:.1%}: {why}"
    E406 = "Reader '{name}' is not known. Known: {known}."
    E407 = "Reading '{path}' needs the package '{package}'. Install it: pip install {package}"
    E408 = "'{path}' has no {what} '{name}' ({option}). It has: {known}."
    E409 = (
        "{count:,} of {total:,} partitions could not be finished: {which}. All others are finished and kept. Each was tried {times} times; the last error: {why}. "
        "Run the same command again to try only these."
    )
    E410 = "'{path}', line {line}: it has more than {limit:g} MB. If such lines are intended, set {variable} to the megabytes that a line may have."
    E411 = (
        "'{path}' has {size:,} bytes and unpacks to more than {limit:g} times as many. If this is intended, unpack the file, or set {variable} to the "
        "ratio that is allowed."
    )
    E412 = (
        "'{path}' has {found:,} {what}, but MRFILES.RRF says that it has {listed:,}: the file was cut short. Copy or unpack the file again. If you left out "
        "rows on purpose, remove MRFILES.RRF from the copy."
    )
    E413 = "'{path}' ends in the middle of row {line:,}, which has {found} of {width} columns: the file was cut short. Copy or unpack the file again."
    E414 = "'{path}' looks like a file, and does not exist. Correct its name. If it is a text, give it by standard input: `echo TEXT | python -m spacy_sapbert link -`."
    # warnings
    W001 = "{bad:,} of {total:,} rows of '{path}' were malformed and left out (lines {lines}): {why}"
    W002 = "The calibration of '{path}' was fit for another {what}: probabilities are left out. Fit it again: `python -m spacy_sapbert calibrate`."
    W004 = "The calibration of '{path}' was fit with other settings ({differences}), so its probabilities may be wrong. Fit it again with these settings."
    W005 = "{count:,} of {n:,} gold ids are not in the knowledge base ({examples}): their links count as wrong. Check the ids, or add their source."
    W006 = "{names:,} translations are left out, because no other source has their {concepts:,} ids ({examples}): translations are only added to concepts of other sources. Give the source that has these ids."
    W007 = "{what} in '{path}' were damaged since they were written; these names are encoded again."
    W008 = "The vectors in '{path}' are from another build ({differences}) and are not used: all names are encoded."
    W009 = (
        "The names that '{component}' looks for can't be kept in the cache '{path}' ({error}), so each process prepares them itself. Set {env} to a "
        "folder that can be written."
    )
    W010 = "The ranker in '{path}' was trained for another encoder and is not used: candidates are ordered by their cosines. Train it again: `python -m spacy_sapbert train-ranker`."
    W011 = "The ranker in '{path}' is of another version and is not used: candidates are ordered by their cosines. Train it again: `python -m spacy_sapbert train-ranker`."
    W012 = (
        "{count:,} of {total:,} concepts of MRCONSO have no semantic type in MRSTY (such as {example}): the tables in '{path}' seem to be of different "
        "releases. Take all tables from one release, as it was downloaded or as MetamorphoSys wrote it."
    )
    W013 = "The release '{path}' has no MRSTY, so its concepts have no semantic types: filters by type find none of them. Add MRSTY.RRF of the same release."
    W014 = (
        "{count:,} of {total:,} concepts of {table} are not in MRCONSO (such as {example}): a table in '{path}' was cut short, or they are of different "
        "releases. Take all tables from one release; if you left out rows of MRCONSO on purpose, ignore this."
    )
    W015 = (
        "{table} in '{path}' ends at {last}, but {count:,} of {total:,} concepts of MRCONSO come after it: the file seems to be cut short. Copy or "
        "unpack the file again; if you left out rows on purpose, ignore this."
    )
    W016 = "The release '{path}' has no {what} '{missing}', which a filter asks for; it has: {others}. Correct the spelling of the filter."
    W020 = "The service listens on {host}, where other machines may reach it, and requires no API key. Set {env}, or leave --host out."
    W022 = (
        "The recogniser in '{path}' was trained with another version of the fast encoder, whose word vectors it reads, so it may find less. "
        "Train it again (`python -m training recogniser fit`), or use the version of spacy-sapbert that trained it."
    )
    W021 = "A worker died while it annotated {part}: {why}. Another worker tries this partition again."
    W003 = "No setting of the index reaches an Acc@1 within {points:.1f} points of exact search; the best one found is used (Acc@1 {acc:.4f}, exact {exact:.4f})."


def fail(code: str, cls: type[SapbertError] = SapbertError, **values: Any) -> SapbertError:
    """Return the exception of a code, ready to raise: `raise fail("E401", MissingFile, path=path)`.

    Args:
        code: number of a template in `Errors`.
        cls: class of the exception.
        values: values for the fields of the template.
    """
    return cls(code, getattr(Errors, code).format(**values))


def warn(code: str, **values: Any) -> None:
    """Issue a `SapbertWarning`: `warn("W005", count=3, n=10, examples="X:1")`.

    Python shows the line that called this package, even if spaCy or tqdm lies between them on the call stack.

    Args:
        code: number of a template in `Errors`.
        values: values for the fields of the template.
    """
    caller = _caller()
    seen = caller.f_globals.setdefault("__warningregistry__", {})  # where Python records the warnings that a module has shown
    message = SapbertWarning(code, getattr(Errors, code).format(**values))
    warnings.warn_explicit(message, SapbertWarning, caller.f_code.co_filename, caller.f_lineno, caller.f_globals.get("__name__", "<unknown>"), seen)


def _caller() -> FrameType:
    """Return the frame of the nearest caller that is neither in this package nor in a library of `_BETWEEN`."""
    frame: FrameType | None = sys._getframe(1)
    nearest = last = sys._getframe(1)  # nearest: the first outside the package
    while frame is not None:
        last, frame = frame, frame.f_back
        if last.f_code.co_filename.startswith(_PACKAGE):
            continue
        if nearest.f_code.co_filename.startswith(_PACKAGE):
            nearest = last
        if last.f_globals.get("__name__", "").partition(".")[0] not in _BETWEEN:
            return last
    return nearest
