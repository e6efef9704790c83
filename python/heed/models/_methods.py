"""Methods that a study kept where they won, or beside what won."""

from __future__ import annotations

import torch

from ._data import Floats, Sequences
from ._form import Form
from ._table import TableModel


class MethodModel(TableModel):
    """A method that answers in float64, by the library. Its arrays are buffers, with the file's names."""

    def __init__(self, form: Form, config: str, arrays: dict[str, torch.Tensor]) -> None:
        """config: the text of config.json. KeyError for an array whose name is that of something else."""
        super().__init__(form, config)
        for name, array in arrays.items():
            self.register_buffer(name, array)

    def _answers(self, sequences: Sequences) -> Floats:
        arrays = dict(self.named_buffers())
        answers = sequences.asked(torch.ops.heed.series_answers, list(arrays), list(arrays.values()))
        counts = sequences.lengths if self.form.answers_steps else torch.ones_like(sequences.lengths)
        kept: Floats = answers[torch.arange(answers.shape[1]) < counts[:, None]].numpy()
        return kept
