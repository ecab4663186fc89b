"""What the components of this package have in common: how they are called, and what happens to an error in a Doc."""

from collections.abc import Iterable, Iterator
from typing import Any

from spacy.pipeline import Pipe
from spacy.tokens import Doc


class DocComponent(Pipe):
    """A component that predicts on Docs, then writes on them. A subclass has `load`, `predict` and `set_annotations`."""

    name: str

    def load(self) -> None:
        """Read what the component needs, unless it was read before."""
        raise NotImplementedError

    def predict(self, docs: Iterable[Doc]) -> Any:
        """Return one prediction for each Doc. The Docs are not changed."""
        raise NotImplementedError

    def set_annotations(self, docs: Iterable[Doc], predictions: Any) -> None:
        """Write the predictions on their Docs."""
        raise NotImplementedError

    def __call__(self, doc: Doc) -> Doc:
        """Annotate one Doc in place. An error in it goes to spaCy's error handler."""
        self.load()
        self._annotate(doc)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream of Docs, one by one. A Doc with an error goes to spaCy's error handler, and is left out if that goes on."""
        self.load()
        for doc in stream:
            if self._annotate(doc):
                yield doc

    def _annotate(self, doc: Doc) -> bool:
        """Predict on one Doc and write on it; return whether there was no error."""
        try:
            self.set_annotations([doc], self.predict([doc]))
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
            return False
        return True
