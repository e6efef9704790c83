"""Plants every kind of fault in a small house and sees that check_house.py finds it, and nothing in a house without faults."""

import pathlib
import tempfile
import unittest

import check_house

SOUND = {
    "engine/include/heed/view.h": "#include <array>\n",
    "engine/include/heed/attention.h": '#include "heed/view.h"\n',
    "engine/src/core/checks.h": '#include "heed/attention.h"\n',
    "engine/src/simd/tile-inl.h": '#include "hwy/highway.h"\n#include "core/checks.h"\n',
    "engine/src/attention/forward-inl.h": '#include "simd/tile-inl.h"\n',
    "engine/src/attention/score_products-inl.h": "class RowScores {};\n",
    "engine/src/position/bias-inl.h": '#include "attention/forward-inl.h"\n',
    "engine/src/dispatch/forward.cc": '#define HWY_TARGET_INCLUDE "dispatch/forward.cc"\n#include "position/bias-inl.h"\n',
    "engine/include/heed/options.h.in": '#include "heed/position/slope.h"\n',
    "engine/src/position/slope/include/heed/position/slope.h": '#include "heed/view.h"\n',
    "engine/include/heed/engine.h": '#include "heed/attention.h"\n',
    "engine/src/position/slope/scheme.h": '#include "heed/position/slope.h"\n#include "core/checks.h"\n',
    "engine/src/position/slope/reference.h": '#include "heed/position/slope.h"\n#include "reference/reference.h"\n',
    "engine/src/reference/reference.h": '#include "heed/attention.h"\n#include "core/checks.h"\n',
    "inference/include/heed/safetensors.h": '#include "heed/view.h"\n',
    "inference/src/angles.cc": "// exp(x)\ncos(i, t) = portable::Exp(x) + own.exp(x) + own->log(x) + hn::pow(x, y);\n",
    "inference/src/reader.h": '#include <nlohmann/json.hpp>\n#include "heed/safetensors.h"\n',
    "nn/include/heed/nn/attention.h": '#include <ATen/ATen.h>\n#include "heed/attention.h"\n',
    "nn/src/adapter.h": '#include "heed/nn/attention.h"\n#include "heed/safetensors.h"\n',
    "nn/src/attention.cc": '#include "adapter.h"\n',
    "lab/data/text.h": '#include "heed/nn/attention.h"\n',
    "lab/runs/job.h": '#include "lab/data/text.h"\n',
    "book/depth/depth.h": '#include "lab/runs/job.h"\n',
    "lab/study/study.h": '#include "lab/runs/job.h"\n',
    "lab/study/study_prose.txt": "worth open\n  It is open, after {given}.\nlstm caption\n  An LSTM.\n",
    "lab/study/findings.cc": '#include "lab/study/study.h"\nauto text = TellStudy()("worth open"), name = "lstm", end = " caption";\n',
    "book/companions/companions.h": '#include "book/depth/depth.h"\n#include "lab/study/study.h"\n',
    "cli/check.cc": '#include "engine/src/reference/reference.h"\n#include "lab/data/text.h"\n',
    "tests/engine/forward_test.cc": '#include <gtest/gtest.h>\n#include "attention/forward-inl.h"\n#include "reference/reference.h"\n',
    "docs/page.md": "# What it says, `exactly`\n\n[engine](../engine/include/heed/view.h) [own](#what-it-says-exactly)\n",
    "docs/other.md": "[there](page.md#what-it-says-exactly)\n\n```python\n# [a](comment)\n```\n",
}

# One planted fault each: file, text to append, and what the message must say.
FAULTS = [
    ("engine/src/core/checks.h", "#include <torch/torch.h>", "knows LibTorch"),
    ("engine/include/heed/view.h", "#include <c10/util/Optional.h>", "knows LibTorch"),
    ("tests/engine/forward_test.cc", "#include <ATen/ATen.h>", "knows LibTorch"),
    ("engine/src/core/checks.h", "#include <nlohmann/json.hpp>", "not a header of the standard library"),
    ("engine/include/heed/view.h", '#include "position/slope/scheme.h"', "a public header does not include a private one"),
    ("engine/src/position/slope/include/heed/position/slope.h", '#include "core/checks.h"', "does not include a private one"),
    ("engine/src/position/slope/reference.h", '#include "position/slope/scheme.h"', "shares no code with the kernels"),
    ("engine/src/position/slope/scheme.h", '#include "position/slope/reference.h"', "is for tests, benches and `heed check`"),
    ("engine/src/attention/forward-inl.h", '#include "position/slope/scheme.h"', "lies below position"),
    ("engine/src/dispatch/forward.cc", "if (attention.slope) return;", "names the scheme slope outside its folder"),
    ("engine/src/attention/forward-inl.h", "if (problem.layout == attention::Layout::kRows) return;", "names the layout Layout::kRows outside its files"),
    ("engine/src/dispatch/forward.cc", "RowScores<float> scores;", "names the layout RowScores outside its files"),
    ("engine/src/reference/reference.h", "struct SlopeTable;", "names the scheme Slope outside its folder"),
    ("engine/src/dispatch/forward.cc", '#include "heed/nn/attention.h"', "does not lie to the left"),
    ("engine/src/dispatch/forward.cc", '  #  include "lab/data/text.h"', "does not lie to the left"),
    ("tests/engine/forward_test.cc", '#include "heed/nn/attention.h"', "does not lie to the left"),
    ("engine/src/dispatch/forward.cc", '#include "heed/safetensors.h"', "does not lie to the left"),
    ("inference/src/reader.h", "#include <ATen/ATen.h>", "knows LibTorch"),
    ("inference/src/reader.h", '#include "heed/nn/attention.h"', "does not lie to the left"),
    ("nn/src/attention.cc", '#include "inference/src/reader.h"', "private header of inference"),
    ("nn/src/attention.cc", '#include "lab/data/text.h"', "does not lie to the left"),
    ("nn/include/heed/nn/attention.h", '#include "adapter.h"', None),
    ("nn/src/attention.cc", '#include "core/checks.h"', "private header of engine"),
    ("nn/include/heed/nn/attention.h", '#include "nn/src/adapter.h"', "public header"),
    ("lab/data/text.h", '#include "nn/src/adapter.h"', "private header of nn"),
    ("lab/data/text.h", '#include "cli/check.cc"', "does not lie to the left"),
    ("lab/data/text.h", '#include "engine/src/reference/reference.h"', "the reference is for"),
    ("engine/src/simd/tile-inl.h", '#include "attention/forward-inl.h"', "floor simd lies below attention"),
    ("engine/include/heed/view.h", '#include "core/checks.h"', "public header"),
    ("engine/src/attention/forward-inl.h", '#include "position/bias-inl.h"', "floor attention lies below position"),
    ("engine/src/reference/reference.h", '#include "simd/tile-inl.h"', "shares no code"),
    ("engine/src/dispatch/forward.cc", '#include "reference/reference.h"', "the reference is for"),
    ("engine/src/basement/pipe.h", "", "engine/src has the floors"),
    ("book/tasks/tasks.h", '#include "book/depth/depth.h"', "depth is an experiment"),
    ("lab/data/text.h", '#include "lab/runs/job.h"', "runs does not lie to the left of data"),
    ("book/tasks/tasks.h", '#include "lab/study/study.h"', "study is an experiment"),
    ("lab/study/study.h", '#include "book/depth/depth.h"', "does not lie to the left"),
    ("engine/include/heed/mask.h", "", "heed/engine.h does not reach it"),
    ("lab/study/study_prose.txt", "gru caption\n  A GRU.", "no source beside it tells 'gru caption'"),
    ("lab/study/study_prose.txt", "worth it\n  It is.", "no source beside it tells 'worth it'"),
    ("lab/study/findings.cc", 'auto more = tell("worth it", 1);', "has no text 'worth it'"),
    ("lab/data/string_utils.h", "", "name it after what it holds"),
    ("lab/data/long.cc", "\n" * (check_house.MAX_LINES + 1), "at most"),
    ("lab/data/text.h", "// TOD" "O: later", "unfinished business"),
    ("nn/src/attention.cc", "const float* first = tensor.const_data_ptr<float>();", "asks a tensor for its address"),
    ("inference/src/layers.cc", "return x * std::tanh(x);", "its bits differ between machines"),
    ("inference/src/layers.cc", "return exp(f(a, b));", "its bits differ between machines"),
    ("inference/src/layers.cc", "return powf(x, 2.0f);", "its bits differ between machines"),
    ("inference/src/layers.cc", "return ::log(x);", "its bits differ between machines"),
    ("inference/src/layers.cc", "using std::erf;", "its bits differ between machines"),
    ("cli/check.cc", "std::cout << json.dump(2);", "alone makes text of JSON"),
    ("docs/page.md", "[gone](nowhere.md)", "no file nowhere.md"),
    ("docs/page.md", "[gone](#what-it-said)", "no heading #what-it-said"),
    ("docs/other.md", "[gone](page.md#what-it-said)", "no heading page.md#what-it-said"),
    ("docs/other.md", "[gone](#acomment)", "no heading #acomment"),
]


def build(root, extra=None):
    for name, text in SOUND.items():
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if extra:
        name, text = extra
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + text + "\n")


class CheckHouse(unittest.TestCase):
    def test_a_sound_house_has_no_faults(self):
        with tempfile.TemporaryDirectory() as root:
            build(root)
            self.assertEqual(list(check_house.check(root)), [])

    def test_every_planted_fault_is_found(self):
        for name, text, message in FAULTS:
            with self.subTest(name=name, text=text[:60]), tempfile.TemporaryDirectory() as root:
                build(root, (name, text))
                faults = list(check_house.check(root))
                self.assertEqual(len(faults), 1, faults)
                self.assertIn(name, faults[0])
                self.assertIn(message or "public header", faults[0])


if __name__ == "__main__":
    unittest.main()
