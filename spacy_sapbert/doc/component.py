"""The base class of this package's components: how they are called, and how they handle an error in a Doc."""

from collections.abc import Iterable, Iterator
from typing import Any

from spacy.pipeline import Pipe
from spacy.tokens import Doc


class DocComponent(Pipe):
    """A component that first predicts for Docs and then annotates them. Subclasses implement `load`, `predict` and `set_annotations`."""

    name: str

    def load(self) -> None:
        """Read the files that the component needs, if they have not been read yet."""
        raise NotImplementedError

    def predict(self, docs: Iterable[Doc]) -> Any:
        """Return one prediction for each Doc. The Docs are not changed."""
        raise NotImplementedError

    def set_annotations(self, docs: Iterable[Doc], predictions: Any) -> None:
        """Write each prediction into its Doc."""
        raise NotImplementedError

    def __call__(self, doc: Doc) -> Doc:
        """Annotate one Doc in place. An error is passed to spaCy's error handler."""
        self.load()
        self._annotate(doc)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream of Docs, one by one. An error is passed to spaCy's error handler; if that does not raise, the Doc is left out."""
        self.load()
        for doc in stream:
            if self._annotate(doc):
                yield doc

    def _annotate(self, doc: Doc) -> bool:
        """Predict for one Doc and annotate it. Return False if there was an error."""
        try:
            self.set_annotations([doc], self.predict([doc]))
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
            return False
        return True
