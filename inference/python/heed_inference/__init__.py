"""Models that `heed study` and `heed train` kept, without torch.

    import heed_inference

    model = heed_inference.open_model("report/model")
    print(model.predict([[[1.5, 0.25], [1.75, 0.5]]]))

open_model opens the folder. A TableModel predicts from lists or arrays of NumPy, which need not be installed; a TextModel continues
texts. Both answer what `heed predict` and `heed generate` write, in float32 on the CPU. Several threads may use a model at once;
calls let other threads of Python run. A model holds memory of its own, which goes with it; what a call is given it reads and does
not keep, and what it returns is the caller's. Each thread keeps the scratch memory of its largest call.
"""

from ._library import VERSION as __version__
from ._models import TableModel, TextModel, open_model
from ._steps import Answers

__all__ = ["Answers", "TableModel", "TextModel", "__version__", "open_model"]
