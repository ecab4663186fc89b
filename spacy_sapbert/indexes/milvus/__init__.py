"""Milvus (Zilliz): a local file (milvus-lite, in this process), a server or a cluster. The setting `uri` chooses one of them."""

from .index import MilvusIndex

__all__ = ["MilvusIndex"]
