"""Milvus (Zilliz): a local file (milvus-lite, in this process), a server or a cluster; which one is a single line, the `uri`."""

from .index import MilvusIndex

__all__ = ["MilvusIndex"]
