"""Opens models that `heed study` and `heed train` saved, without torch.

    import heed_inference

    model = heed_inference.open_model("report/model")
    print(model.predict([[[1.5, 0.25], [1.75, 0.5]]]))

open_model opens the folder. A TableModel predicts from lists or NumPy arrays (NumPy is optional); a TextModel continues texts.
Their answers are those of `heed predict` and `heed generate`, in float32 on the CPU. Several threads may use a model at once, and
calls release Python's lock. A call reads contiguous float64 arrays in place: do not change them before it returns. Results are
new objects. Each thread keeps the scratch memory of its largest call.
"""

from ._library import VERSION as __version__
from ._models import TableModel, TextModel, open_model
from ._steps import Answers

__all__ = ["Answers", "TableModel", "TextModel", "__version__", "open_model"]
