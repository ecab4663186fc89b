"""The kinds of index that Milvus has, and their settings."""

from __future__ import annotations

from typing import Any

# kind of index -> Milvus's name for the setting `search`; "" if there is no such setting
SEARCH_SETTINGS: dict[str, str] = {
    "AUTOINDEX": "",
    "FLAT": "",
    "HNSW": "ef",
    "HNSW_SQ": "ef",
    "HNSW_PQ": "ef",
    "HNSW_PRQ": "ef",
    "IVF_FLAT": "nprobe",
    "IVF_SQ8": "nprobe",
    "IVF_PQ": "nprobe",
    "IVF_RABITQ": "nprobe",
    "SCANN": "nprobe",
    "DISKANN": "search_list",
}
LITE = ("AUTOINDEX", "FLAT", "HNSW", "HNSW_SQ", "IVF_FLAT", "IVF_SQ8")  # the kinds that milvus-lite has
BUILD: dict[str, dict[str, Any]] = {"ef": {"M": 16, "efConstruction": 128}, "nprobe": {"nlist": 1024}}
SEARCH_TO_TRY: dict[str, list[int]] = {
    "ef": [32, 64, 128, 256, 512, 1024],
    "nprobe": [4, 8, 16, 32, 64, 128, 256],
    "search_list": [64, 128, 256, 512, 1024],
}
MOST_CANDIDATES = 16_384  # Milvus returns no more per query; if that is too few, rows are searched exactly
