"""The models that packages.py measures: each as users of its package make it, with the package's sizes and random weights.

A case makes the model, its batch and two functions: the loss of a training step and inference. Sizes are those that the package
has if nothing is said; what it leaves to its users (lengths, batches, classes) stands in `sizes`.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types

from package_case import CASES as CASES, Tried, case

for quiet in ("TRANSFORMERS_VERBOSITY", "DATASETS_VERBOSITY"):
    os.environ.setdefault(quiet, "error")


def adamw(model):
    import torch

    return torch.optim.AdamW(model.parameters(), lr=1e-4)


# --- recommenders ------------------------------------------------------------------------------------------------------------


def interactions():
    """As many users, items and visits a user as a batch of MovieLens-1M has: 128 users, 3,706 items, 20 to 300 visits."""
    import numpy
    import pandas
    from rectools.dataset import Dataset

    draw = numpy.random.default_rng(0)
    users = numpy.repeat(numpy.arange(128), draw.integers(20, 301, 128))
    items = numpy.concatenate([numpy.arange(3706), draw.integers(0, 3706, max(len(users) - 3706, 0))])[: len(users)]
    table = {"user_id": users, "item_id": draw.permutation(items), "weight": 1.0}
    when = pandas.Timestamp("2026-01-01") + pandas.to_timedelta(numpy.arange(len(users)), unit="min")
    return Dataset.construct(pandas.DataFrame({**table, "datetime": when}))


def of_rectools(kind):
    """A model of rectools, a batch of its loader for training, and one for the embeddings of users, by which it recommends."""
    import warnings

    from rectools import models

    warnings.simplefilter("ignore")
    dataset = interactions()
    model = getattr(models, kind)()
    model._build_model_from_dataset(dataset)
    lightning = model.lightning_model
    lightning._xavier_normal_init()
    batch = next(iter(model.data_preparator.get_dataloader_train()))
    users = model.data_preparator.transform_dataset_u2i(dataset, list(range(128)))
    asked = next(iter(model.data_preparator.get_dataloader_recommend(users, 256)))
    return Tried(
        lightning,
        lambda module: module.training_step(batch, 0),
        lambda module: module._get_user_item_embeddings([asked], "cpu")[0],
        lambda module: module.configure_optimizers(),
    )


MOVIELENS = "2 layers, 4 heads of 64, 128 users' last 100 of 20 to 300 visits, 3,706 items"


@case("rectools SASRec", "rectools", "heed.convert(model)", MOVIELENS)
def sasrec():
    return of_rectools("SASRecModel")


@case("rectools BERT4Rec", "rectools", "heed.convert(model)", MOVIELENS)
def bert4rec():
    return of_rectools("BERT4RecModel")


# --- forecasts ---------------------------------------------------------------------------------------------------------------


def of_neuralforecast(kind):
    import numpy
    import pandas
    from neuralforecast import models
    from neuralforecast.tsdataset import TimeSeriesDataModule, TimeSeriesDataset

    steps = numpy.arange(400)
    draw = numpy.random.default_rng(0)
    values = [numpy.sin(steps / (3 + n)) + 0.1 * draw.standard_normal(400) for n in range(32)]
    columns = {"unique_id": numpy.repeat(numpy.arange(32), 400), "ds": numpy.tile(steps, 32)}
    frame = pandas.DataFrame({**columns, "y": numpy.concatenate(values).astype("float32")})
    dataset = TimeSeriesDataset.from_df(frame)[0]
    model = getattr(models, kind)(h=24, input_size=96)
    data = TimeSeriesDataModule(dataset, batch_size=32, shuffle_train=False)
    batch, asked = next(iter(data.train_dataloader())), next(iter(data.predict_dataloader()))
    model.log = lambda *args, **kwargs: None  # of a trainer

    # What predict() notes before its steps.
    asks = {"predict_step_size": 1, "predict_horizon": 24, "n_predicts": 1, "decompose_forecast": False, "explain": False}

    def predict(module):
        vars(module).update(asks)
        return module.predict_step(dict(asked), 0)

    def loss(module):
        return module.training_step(dict(batch), 0)

    return Tried(model, loss, predict, adam)


def adam(model):
    import torch

    return torch.optim.Adam(model.parameters(), lr=1e-4)


WINDOWS = "24 steps from 96, 1,024 windows of 32 series"


@case("neuralforecast VanillaTransformer", "neuralforecast", "heed.enable()", f"3 layers, 4 heads of 32, {WINDOWS}")
def vanilla_transformer():
    return of_neuralforecast("VanillaTransformer")


@case(
    "neuralforecast PatchTST", "neuralforecast", "heed.convert(model)", f"3 layers, 16 heads of 8, {WINDOWS}",
    "its default adds each layer's scores to the next's, which heed does not store: not reached",
)  # fmt: skip
def patchtst():
    return of_neuralforecast("PatchTST")


@case(
    "pytorch-forecasting TFT", "pytorch-forecasting", "heed.convert(model)", "1 layer, 4 heads of 4, 64 windows, 30 steps to 7",
    "it returns the weights of its attention, which is one layer among recurrent ones: not reached",
)  # fmt: skip
def temporal_fusion():
    import warnings

    from pytorch_forecasting import TemporalFusionTransformer, TimeSeriesDataSet
    from pytorch_forecasting.data.examples import generate_ar_data

    warnings.simplefilter("ignore")
    data = generate_ar_data(n_series=64, timesteps=200, seed=0)
    windows = TimeSeriesDataSet(
        data, time_idx="time_idx", target="value", group_ids=["series"], min_encoder_length=30, max_encoder_length=30,
        min_prediction_length=7, max_prediction_length=7, time_varying_known_reals=["time_idx"], time_varying_unknown_reals=["value"],
    )  # fmt: skip
    model = TemporalFusionTransformer.from_dataset(windows)
    x, y = next(iter(windows.to_dataloader(train=False, batch_size=64, num_workers=0)))
    return Tried(
        model, lambda module: module.loss(module(x).prediction, y), lambda module: module(x).prediction, adam
    )  # fmt: skip


# --- images ------------------------------------------------------------------------------------------------------------------


class EmptyTorchvision(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for torchvision where it is not installed: its wheel on PyPI does not load beside a torch for the CPU, and timm calls
    nothing of it for these models."""

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "torchvision" else None

    def create_module(self, spec):
        class Anything(type):
            def __getattr__(cls, name):
                if name.startswith("__"):
                    raise AttributeError(name)
                return f"{cls.__name__}.{name}"

        def member(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Anything(name, (), {})

        module = types.ModuleType(spec.name)
        module.__getattr__ = member
        return module

    def exec_module(self, module):
        pass


def of_timm(name):
    import torch

    if importlib.util.find_spec("torchvision") is None:
        sys.meta_path.insert(0, EmptyTorchvision())
    timm = importlib.import_module("timm")
    model = timm.create_model(name)
    images, labels = torch.randn(8, 3, 224, 224), torch.randint(1000, (8,))

    def loss(module):
        return torch.nn.functional.cross_entropy(module(images), labels)

    return Tried(model, loss, lambda module: module(images), adamw)


@case("timm ViT", "timm", "heed.convert(model)", "vit_small_patch16_224, 8 images")
def vit():
    return of_timm("vit_small_patch16_224")


@case("timm Swin", "timm", "heed.convert(model)", "swin_tiny_patch4_window7_224, 8 images")
def swin():
    return of_timm("swin_tiny_patch4_window7_224")


# --- torch.nn ----------------------------------------------------------------------------------------------------------------


@case("torch.nn Transformer", "torch", "heed.convert(model)", "4 layers, 8 heads of 32, batch 4, 1,024 steps, dropout 0.1")
def torch_encoder():
    import torch

    layer = torch.nn.TransformerEncoderLayer(256, 8, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    x, target = torch.randn(4, 1024, 256), torch.randn(4, 1024, 256)
    return Tried(model, lambda module: (module(x) - target).square().mean(), lambda module: module(x), adamw)


# --- language ----------------------------------------------------------------------------------------------------------------


def of_x_transformers(**options):
    import torch
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(num_tokens=20000, max_seq_len=1024, attn_layers=Decoder(dim=512, depth=6, heads=8, **options))
    tokens = torch.randint(20000, (1, 1025))

    def loss(module):
        return torch.nn.functional.cross_entropy(module(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return Tried(model, loss, lambda module: module(tokens[:, :-1]), adamw)


LANGUAGE = "6 layers, 8 heads of 64, 1,024 tokens"


@case("x-transformers rotary, flash", "x-transformers", "heed.convert(model)", f"{LANGUAGE}, dropout of attention 0.1")
def x_rotary():
    return of_x_transformers(rotary_pos_emb=True, attn_flash=True, attn_dropout=0.1)


@case("x-transformers ALiBi, flash", "x-transformers", "heed.convert(model)", f"{LANGUAGE}, dropout of attention 0.1")
def x_alibi():
    return of_x_transformers(alibi_pos_bias=True, alibi_num_heads=4, attn_flash=True, attn_dropout=0.1)


@case("x-transformers T5 bias", "x-transformers", "heed.convert(model)", f"{LANGUAGE}; the package has no flash for it")
def x_relative():
    return of_x_transformers(rel_pos_bias=True)


@case(
    "transformers BERT, padded", "transformers", 'attn_implementation="heed"',
    "BertConfig, answers to questions: 8 texts of 96 to 384 tokens, padded to 384",
)  # fmt: skip
def bert():
    import torch
    import transformers

    model = transformers.BertForQuestionAnswering(transformers.BertConfig())
    lengths = torch.linspace(96, 384, 8).int()
    padding = (torch.arange(384) < lengths[:, None]).long()
    batch = {"input_ids": torch.randint(1, 30000, (8, 384)) * padding, "attention_mask": padding}
    answers = {"start_positions": torch.arange(8), "end_positions": torch.arange(8) + 5}

    def answered(module):
        """The scores of tokens; what a model finds at padding is nobody's."""
        found = module(**batch)
        return [logits[padding > 0] for logits in (found.start_logits, found.end_logits)]

    return Tried(model, lambda module: module(**batch, **answers).loss, answered, adamw)


@case("transformers T5", "transformers", 'attn_implementation="heed"', "T5Config, 4 texts of 512 tokens to 128, none padded")
def t5():
    import torch
    import transformers

    model = transformers.T5ForConditionalGeneration(transformers.T5Config(decoder_start_token_id=0))
    tokens, labels = torch.randint(2, 32000, (4, 512)), torch.randint(2, 32000, (4, 128))
    return Tried(
        model,
        lambda module: module(input_ids=tokens, labels=labels).loss,
        lambda module: module(input_ids=tokens, labels=labels).logits,
        adamw,
    )


# --- tables ------------------------------------------------------------------------------------------------------------------


def table(rows, features, batch=1):
    """Features [batch, rows, features] and classes [batch, rows], 5 of them."""
    import torch

    x = torch.randn(batch, rows, features)
    return x, (x[..., :5] + 0.5 * torch.randn(batch, rows, 5)).argmax(-1)


@case("TabICL", "tabicl", "heed.enable()", "its pre-training step with one table: 1,024 rows, 700 of them known, 20 features")
def tabicl():
    import torch
    from tabicl._model.tabicl import TabICL

    model = TabICL()
    x, y = table(1024, 20)
    known = y[:, :700].float()

    def loss(module):
        return torch.nn.functional.cross_entropy(module(x, known).flatten(0, 1), y[:, 700:].flatten())

    return Tried(model, loss, lambda module: module(x, known), adamw)


@case(
    "TabPFN", "tabpfn", "heed.enable()", "one estimator of version 3.5: 600 rows, 100 of them asked for, 20 features",
    TABPFN_DISABLE_TELEMETRY="1",
)  # fmt: skip
def tabpfn():
    import torch
    from tabpfn.architectures import tabpfn_v3_5

    config, _ = tabpfn_v3_5.parse_config({"max_num_classes": 10, "num_buckets": 5000})
    model = tabpfn_v3_5.get_architecture(config)
    x, y = table(600, 20)
    x, known, asked = x.transpose(0, 1), y[0, :500, None].float(), y[0, 500:]

    def answers(module):
        return module(x, known, task_type="multiclass").flatten(0, 1)

    return Tried(model, lambda module: torch.nn.functional.cross_entropy(answers(module), asked), answers, adamw)


# --- sound and genomes -------------------------------------------------------------------------------------------------------


@case(
    "whisper", "openai-whisper", "heed.convert(model)",
    "base, 30 s of sound: fine-tuning on 64 tokens, transcription of up to 224",
)  # fmt: skip
def whisper():
    import torch
    import whisper as package
    from whisper.model import ModelDimensions, Whisper

    model = Whisper(ModelDimensions(80, 1500, 512, 8, 6, 51865, 448, 512, 8, 6))
    torch.nn.init.normal_(model.decoder.positional_embedding, std=0.02)  # the package leaves it to its weights
    sound, tokens = torch.randn(1, 80, 3000), torch.randint(50000, (1, 65))
    options = package.DecodingOptions(language="en", fp16=False, without_timestamps=True)

    def loss(module):
        return torch.nn.functional.cross_entropy(module(sound, tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    def transcribe(module):
        found = package.decode(module, sound[0], options)
        return [found.audio_features, torch.tensor(found.avg_logprob)]

    return Tried(model, loss, transcribe, adamw)


@case(
    "enformer-pytorch", "enformer-pytorch", "heed.convert(model)", "depth 11, 8 heads of 64 and 192, 32,768 bases (256 positions)",
    "its positions are an array of matrix products, shifted",
)  # fmt: skip
def enformer():
    import torch
    from enformer_pytorch import Enformer

    model = Enformer.from_hparams(target_length=-1)
    for layer in model.modules():
        if type(layer).__name__ == "Attention":
            torch.nn.init.normal_(layer.to_out.weight, std=0.02)  # 0 in the package, where attention would have no gradient
    bases = torch.randint(5, (1, 32768))
    target = torch.rand(1, 256, 5313)
    return Tried(
        model,
        lambda module: module(bases, head="human", target=target),
        lambda module: module(bases, head="human"),
        adamw,
    )
