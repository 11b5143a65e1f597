"""Opening encoders: every known checkpoint becomes one kind of model, pooled as its authors do."""

from __future__ import annotations

import importlib.util
import logging
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from rulerag.composition import Settings, check_choice
from rulerag.errors import ConfigError, MissingDependencyError, RetrievalError, RuleRAGError
from rulerag.models import find_model, quiet_transformers, with_fast_linear
from rulerag.retrieval.dense.encoders.checkpoint import DPR, Checkpoint, find_checkpoint
from rulerag.retrieval.dense.encoders.encoder import ROLES, SentenceEncoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_log = logging.getLogger(__name__)

DOCUMENTS = "document_encoder"
"""In the folder of a fine-tuned query encoder: the frozen one of documents that it fits."""
NANO_ENCODER = "rulerag-nano-encoder"
"""The small encoder that is installed with rulerag; its card stands in its folder."""

_TORCH_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_NEEDED = "torch", "transformers", "sentence_transformers"

POOLINGS = ("cls", "mean", "max", "lasttoken", "pooler")
"""Ways to one vector:

- ``cls``: the last layer's vector of the first token;
- ``mean``: the mean of the last layer over the tokens of the text, padding left out;
- ``max``: its maximum in each dimension;
- ``lasttoken``: the last layer's vector of the last token, as decoders are pooled;
- ``pooler``: the first token's vector through the checkpoint's own linear layer and tanh.
"""


class Recipe(NamedTuple):
    """What a checkpoint's authors do with it.

    Args:
        pooling: one of :data:`POOLINGS`.
        similarity: ``cosine`` or ``dot``.
        query_prefix: text set before every query.
        document_prefix: text set before every document.
    """

    pooling: str
    similarity: str = "cosine"
    query_prefix: str = ""
    document_prefix: str = ""


# By architecture first, for it travels with the checkpoint; then by the end of its name, for a
# plain BertModel does not say what its vectors are pooled by.
_BY_ARCHITECTURE = {
    "DPRQuestionEncoder": Recipe("cls", "dot"),
    "DPRContextEncoder": Recipe("cls", "dot"),
    "Contriever": Recipe("mean", "dot"),
}
_BY_NAME = (
    (re.compile(r"\bunsup-simcse\b"), Recipe("cls")),
    (re.compile(r"\bsup-simcse\b"), Recipe("pooler")),
    (re.compile(r"\bm?contriever\b"), Recipe("mean", "dot")),
    (
        re.compile(r"\be5-(small|base|large)\b"),
        Recipe("mean", query_prefix="query: ", document_prefix="passage: "),
    ),
)


class EncoderSettings(Settings):
    """How an encoder is opened, and how it encodes.

    Args:
        query_prefix: text set before every query; the model's own prompt when None.
        document_prefix: text set before every document; the model's own prompt when None.
        similarity: what vectors are compared by, ``cosine`` or ``dot``; what the model says when
            None.
        max_length: tokens read of a text, at most the model's window; the window when None.
        batch_size: texts encoded at once; when None 64, and 16 on a CPU, whose caches hold them.
        pooling: ``cls``, ``mean``, ``max``, ``lasttoken`` or ``pooler``; the authors' when None. A
            sentence-transformers folder states its own.
        device: ``cpu``, ``cuda``, ``cuda:1`` …; a GPU where there is one when None.
        dtype: ``fp32``, ``bf16`` or ``fp16``; vectors are float32 in the end. ``bf16`` is faster on
            processors with AVX-512 or AMX, and rounds more.
    """

    query_prefix: str | None = None
    document_prefix: str | None = None
    similarity: str | None = None
    max_length: int | None = Field(default=None, ge=3)
    batch_size: int | None = Field(default=None, ge=1)
    pooling: str | None = None
    device: str | None = None
    dtype: str = "fp32"


def load_encoder(
    name: str | Path,
    *,
    role: str = "both",
    settings: EncoderSettings | None = None,
    **changes: Any,
) -> SentenceEncoder:
    """Open an encoder by folder or by its name on the Hugging Face Hub.

    Pooling, similarity and prefixes are those of the authors for DPR question and context
    encoders, SimCSE (supervised and not), Contriever, E5 and every sentence-transformers model;
    see :func:`known_recipe`. Any other BERT-like model is pooled by the
    mean, with a warning.

    Args:
        name: a folder, or a name on the Hub such as ``facebook/contriever``; without a network
            the Hub's local cache is searched. :data:`NANO_ENCODER` is the one that is installed.
        role: what the encoder encodes: ``query``, ``document`` or ``both``. A DPR checkpoint is of
            one side only.
        settings: all settings together.
        changes: settings one by one, fields of :class:`EncoderSettings`; similarity and prefixes
            are the authors' when None.

    Raises:
        RetrievalError: the checkpoint cannot be found, is no encoder, lacks weights, or is of the
            other side.
        ConfigError: an option is unknown.
        MissingDependencyError: torch or sentence-transformers is not installed.
    """
    chosen = EncoderSettings.joined(settings, changes)
    check_choice("role", role, ROLES)
    check_choice("pooling", chosen.pooling or POOLINGS[0], POOLINGS)
    check_choice("dtype", chosen.dtype, _TORCH_NAMES)
    for module in _NEEDED:
        if importlib.util.find_spec(module) is None:
            raise MissingDependencyError(module.replace("_", "-"), "dense")
    checkpoint = find_checkpoint(find_model(name))
    recipe = _recipe(checkpoint, chosen.pooling)
    model = _open(checkpoint, recipe, chosen.device, chosen.dtype)
    authors = recipe._asdict()
    if checkpoint.kind == "sentence-transformers":
        # What the folder says counts; E5 and its like leave their prefixes to the reader.
        authors["similarity"] = None
        if any(model.prompts.values()) or model.default_prompt_name:
            authors |= {"query_prefix": None, "document_prefix": None}
    options: dict[str, Any] = {}
    for key in ("query_prefix", "document_prefix", "similarity"):
        stated = getattr(chosen, key)
        options[key] = authors[key] if stated is None else stated
    return SentenceEncoder(
        with_fast_linear(model),
        role=_role(checkpoint, role),
        name=checkpoint.name,
        max_length=chosen.max_length,
        batch_size=chosen.batch_size,
        **options,
    )


def load_documents_side(
    name: str | Path, settings: EncoderSettings | None = None
) -> SentenceEncoder:
    """What encodes documents: of a folder that ``training.retriever`` wrote, the frozen side.

    Args:
        name: as for :func:`load_encoder`, which tells the errors too.
        settings: see there.
    """
    inside = Path(name) / DOCUMENTS
    return load_encoder(inside if inside.is_dir() else name, role="document", settings=settings)


def known_recipe(name: str, config: Mapping[str, Any] | None = None) -> Recipe | None:
    """The recipe of a checkpoint; None when nothing states it.

    Args:
        name: its folder or its name on the Hugging Face Hub; the last part counts.
        config: its ``config.json``.

    References:
        DPR: Karpukhin et al. 2020, section 3.1. SimCSE: Gao et al. 2021, section 3 and its
        repository: unsupervised models drop the pooler's layer after training, supervised ones
        keep it. Contriever: Izacard et al. 2022, section 3.1. E5: Wang et al. 2022, section 4.1.
    """
    for architecture in (config or {}).get("architectures") or ():
        if architecture in _BY_ARCHITECTURE:
            return _BY_ARCHITECTURE[architecture]
    last = PurePath(name).name.lower().replace("_", "-")
    for pattern, recipe in _BY_NAME:
        if pattern.search(last):
            return recipe
    return None


def _role(checkpoint: Checkpoint, role: str) -> str:
    if checkpoint.kind not in DPR:
        return role
    _, side = DPR[checkpoint.kind]
    if role not in ("both", side):
        other = "question" if side == "document" else "context"
        raise RetrievalError(
            f"{checkpoint.name}: a {checkpoint.kind} encodes the {side}, not the {role}",
            hint=f"give the DPR {other} encoder that was trained with it",
        )
    return side


def _recipe(checkpoint: Checkpoint, pooling: str | None) -> Recipe:
    recipe = known_recipe(checkpoint.name, checkpoint.config)
    if checkpoint.kind == "sentence-transformers":
        if pooling is not None:
            raise ConfigError(
                f"{checkpoint.name} states its own pooling", key="pooling", hint="leave it out"
            )
        return recipe or Recipe("")
    if recipe is None:
        recipe = Recipe(pooling or "mean")
        if pooling is None:
            _log.warning(
                "%s does not say how it is pooled: the mean of its tokens is taken; if its "
                "authors do otherwise, give pooling",
                checkpoint.name,
            )
    return recipe if pooling is None else recipe._replace(pooling=pooling)


def _open(
    checkpoint: Checkpoint, recipe: Recipe, device: str | None, dtype: str
) -> SentenceTransformer:
    with quiet_transformers():
        import sentence_transformers
    import torch

    kind = getattr(torch, _TORCH_NAMES[dtype])
    try:
        with quiet_transformers():
            if checkpoint.kind == "sentence-transformers":
                return sentence_transformers.SentenceTransformer(
                    str(checkpoint.folder),
                    device=device,
                    local_files_only=True,
                    model_kwargs={"dtype": kind},
                )
            return _assemble(checkpoint, recipe, device).to(kind)
    except RuleRAGError:
        raise
    except ImportError as error:
        raise RetrievalError(
            f"{checkpoint.name}: needs more than is installed ({error})",
            hint="install what its model card names",
        ) from error
    except Exception as error:
        # What a damaged or foreign checkpoint raises depends on where which reader stumbles.
        reason = " ".join(str(error).split())[:200]
        raise RetrievalError(
            f"{checkpoint.name}: cannot be opened as an encoder ({type(error).__name__}: {reason})",
            hint="check the device, and that the folder holds weights and tokenizer of one model",
        ) from error


def _assemble(checkpoint: Checkpoint, recipe: Recipe, device: str | None) -> SentenceTransformer:
    """A checkpoint of transformers as the modules that its authors put behind each other."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import Pooling

    inner, head = _inner_and_head(checkpoint, recipe)
    first = _first_module(checkpoint, inner)
    similarity: Any = recipe.similarity
    mode: Any = "cls" if recipe.pooling == "pooler" else recipe.pooling
    modules: list[Any] = [first, Pooling(first.get_embedding_dimension(), pooling_mode=mode)]
    if head is not None:
        activation: Any = torch.nn.Identity if checkpoint.kind in DPR else torch.nn.Tanh
        dense = Dense(head.in_features, head.out_features, activation_function=activation())
        dense.linear.load_state_dict(head.state_dict())
        modules.append(dense)
    return SentenceTransformer(modules=modules, device=device, similarity_fn_name=similarity).eval()


def _inner_and_head(checkpoint: Checkpoint, recipe: Recipe) -> tuple[Any, Any]:
    """The transformer without its pooler, and the layer that the recipe puts behind it, if any.

    Raises:
        RetrievalError: weights are missing, which transformers makes up with no more than a
            warning, or the recipe asks for a pooler that is not there.
    """
    import transformers

    kind = checkpoint.kind if checkpoint.kind in DPR else "AutoModel"
    loaded, report = getattr(transformers, kind).from_pretrained(
        checkpoint.folder, output_loading_info=True
    )
    wants_pooler = recipe.pooling == "pooler"
    pooler = getattr(loaded, "pooler", None)
    head = getattr(pooler, "dense", None) if wants_pooler else None
    if wants_pooler and head is None:
        raise RetrievalError(
            f"{checkpoint.name}: a {type(loaded).__name__} has no pooler", hint="pooling: cls"
        )
    missing = [k for k in report["missing_keys"] if wants_pooler or not k.startswith("pooler.")]
    if missing:
        some = ", ".join(sorted(missing)[:3])
        raise RetrievalError(
            f"{checkpoint.name}: {len(missing)} weights of the encoder are missing ({some} …)",
            hint="the checkpoint is of another architecture than its config.json says, or damaged",
        )
    if kind == "AutoModel":
        if pooler is not None:
            loaded.pooler = None
        return loaded, head
    encoder = getattr(loaded, DPR[kind][0])
    # Saved as it is, it would come back as a question encoder with random weights.
    shared = transformers.BertConfig().to_dict().keys() - {"model_type", "architectures"}
    settings = {key: value for key, value in loaded.config.to_dict().items() if key in shared}
    bert = transformers.BertModel(transformers.BertConfig(**settings), add_pooling_layer=False)
    bert.load_state_dict(encoder.bert_model.state_dict())
    return bert, getattr(encoder, "encode_proj", None)


def _first_module(checkpoint: Checkpoint, inner: Any) -> Any:
    """The token encoder as sentence-transformers reads it: from a folder of its own."""
    from sentence_transformers.base.modules import Transformer
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder)
    with tempfile.TemporaryDirectory() as folder:
        inner.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        bare = {"add_pooling_layer": False} if hasattr(inner, "pooler") else {}
        first = Transformer(folder, model_kwargs={"dtype": inner.dtype, **bare})
    # RoBERTa's positions begin behind the index of its padding.
    table = getattr(getattr(inner, "embeddings", None), "position_embeddings", None)
    offset = getattr(table, "padding_idx", None)
    if offset is not None:
        positions = inner.config.max_position_embeddings - offset - 1
        first.max_seq_length = min(tokenizer.model_max_length, positions)
    return first
