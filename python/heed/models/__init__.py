"""Models that the program `heed` saved, as modules; heed.open_model opens their folders."""

from ._counts import CountsModel
from ._form import Form
from ._open import open_model
from ._table import Answers, Batch, TableModel
from ._text import TextModel

__all__ = ["Answers", "Batch", "CountsModel", "Form", "TableModel", "TextModel", "open_model"]
