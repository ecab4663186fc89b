"""`serve` and `warm`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..corpus.pipeline import load_components, make_pipeline, run_code
from ..errors import MissingFile, fail
from ..memory import leave_out_of_collections
from .app import (
    ABBREVIATIONS,
    CODE,
    ENCODER,
    LINKER_NAME,
    PIPELINE,
    RERANK,
    TARGET_PRECISION,
    THRESHOLD,
    TYPES,
    VOCABULARIES,
    app,
    command,
    split_list,
)


@command(app, "serve")
def serve(
    host: str = typer.Option(
        "127.0.0.1", help="Address to listen on. With 0.0.0.0 other machines can reach the service: then set SPACY_SAPBERT_API_KEY."
    ),
    port: int = typer.Option(8000, help="Port to listen on; 0: any free port, which is then shown."),
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
    pipeline: str | None = PIPELINE,
    threshold: float | None = THRESHOLD,
    types: str = TYPES,
    vocabularies: str = VOCABULARIES,
    abbreviations: bool = ABBREVIATIONS,
    target_precision: float | None = TARGET_PRECISION,
    rerank: str | None = RERANK,
    code: Path | None = CODE,
    threads: int | None = typer.Option(None, help="Number of threads for linking; default: PyTorch's default."),
    allow: str | None = typer.Option(
        None, help="Settings of the linker that a request may change, separated by commas; '': none; default: all that a request can change."
    ),
    cors: str = typer.Option("", help="Origins (CORS) whose pages may call the service, separated by commas; default: none."),
    max_body_bytes: int = typer.Option(8_000_000, help="Maximum number of bytes in the body of a request."),
    max_texts: int = typer.Option(100, help="Maximum number of texts or mentions in one request."),
    max_characters: int = typer.Option(1_000_000, help="Maximum number of characters in one text."),
    max_queue: int = typer.Option(256, help="Maximum number of texts that wait. When the queue is full, a request is refused with status 429."),
    batch_size: int = typer.Option(16, help="Maximum number of texts that are linked in one batch. They may come from several requests."),
    timeout: float = typer.Option(60.0, help="Maximum time for a request, in seconds."),
    athena: Path | None = typer.Option(
        None, help="Folder with CONCEPT.csv and CONCEPT_RELATIONSHIP.csv from Athena, or its zip archive, for the concept ids of /link?format=omop."
    ),
    review: Path | None = typer.Option(None, help="File of a review, written by `review add`: the review page is then served at /."),
) -> None:
    """Serve the linker over HTTP. To require an API key, set the environment variable SPACY_SAPBERT_API_KEY."""
    from ..corpus.annotator import AnnotationSettings
    from ..exports.athena import check_files
    from ..service.settings import CHANGEABLE, ServiceSettings, key_of_environment

    settings = ServiceSettings(
        host=host,
        port=port,
        api_key=key_of_environment(),
        allow=CHANGEABLE if allow is None else split_list(allow),
        cors_origins=split_list(cors),
        max_body_bytes=max_body_bytes,
        max_texts=max_texts,
        max_characters=max_characters,
        max_queue=max_queue,
        batch_size=batch_size,
        timeout=timeout,
        athena=athena,
        review=review,
    )
    if athena is not None:
        check_files(athena)
    if review is not None and not review.is_file():
        raise fail("E401", MissingFile, path=review)
    try:
        from ..service.run import serve as run
    except ImportError as error:
        raise fail("E013", what="`serve`", package="spacy-sapbert[serve]") from error
    kept = split_list(types), split_list(vocabularies)
    what = AnnotationSettings(linker_name, pipeline, threshold, *kept, encoder=encoder, target_precision=target_precision, rerank=rerank)

    def make() -> Any:
        run_code(code)
        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        nlp = make_pipeline(what.config(), pipeline, abbreviations, alone=True)
        load_components(nlp)
        leave_out_of_collections()
        return nlp

    run(make, settings, lambda url: typer.echo(f"Listening on {url}", err=True))


@command(app, "warm")
def warm(
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
    pipeline: str | None = PIPELINE,
) -> None:
    """Build or open the linker and fill the cache of the pipeline, so that a later start takes seconds."""
    import time

    from ..corpus.annotator import AnnotationSettings
    from ..render.records import count
    from ..service.linking import Linking

    start = time.perf_counter()
    linking = Linking(make_pipeline(AnnotationSettings(linker_name, pipeline, encoder=encoder).config(), pipeline, alone=True))
    linking.warm_up()
    typer.echo(f"{linking.linker.folder}: {count(len(linking.linker.kb), 'concept')}, ready in {time.perf_counter() - start:.1f} s")
