"""Texts to vectors by a pretrained model: roles, prefixes, length-sorted batches."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rulerag.arrays import Floats, Longs
from rulerag.composition import Settings, check_choice
from rulerag.errors import ConfigError, EmptyDataError, RetrievalError
from rulerag.io import fingerprint_object
from rulerag.models import quiet_transformers

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tqdm.auto import tqdm

_log = logging.getLogger(__name__)

_WINDOW = 4096  # texts cut at once: the tokenizer's own records are a hundred times the ids

ROLES = ("both", "query", "document")
SIMILARITIES = ("cosine", "dot")
# What models call the prompt of each role. sentence-transformers looks for the same names, but 6.2
# takes an empty "document" that nobody wrote before a "passage" that the model's authors did.
_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus"), "both": ()}


class EncodingSettings(Settings):
    """How texts are encoded.

    Args:
        query_prefix: text set before every query; the model's own prompt when None.
        document_prefix: text set before every document; the model's own prompt when None.
        similarity: what vectors are compared by, ``cosine`` or ``dot``; what the model says when
            None.
        max_length: tokens read of a text, at most the model's window; the window when None.
        batch_size: texts encoded at once.
    """

    query_prefix: str | None = None
    document_prefix: str | None = None
    similarity: str | None = None
    max_length: int | None = Field(default=None, ge=3)
    batch_size: int = Field(default=64, ge=1)


class SentenceEncoder:
    """A text encoder: any :class:`~sentence_transformers.SentenceTransformer`, ready for retrieval.

    :func:`~rulerag.retrieval.dense.encoders.load_encoder` opens DPR, SimCSE, Contriever and
    sentence-transformers checkpoints as one.

    Texts are cut into tokens once, sorted by length and encoded in batches of like length; vectors
    come in the order of the texts, as float32, not normalised beyond what the model does itself.
    Models whose input is more than the tokens of a text (routers, static embeddings, instruction
    pooling, chat templates) are encoded by sentence-transformers' own loop.

    Args:
        model: the model.
        role: what :meth:`encode` encodes, ``query`` or ``document``; ``both`` when one model does
            both: :meth:`with_role` gives the encoder of each.
        name: what it is called in messages.
        settings: all settings together.
        changes: settings one by one, fields of :class:`EncodingSettings`.

    Attributes:
        truncated: how many texts of the last :meth:`encode` were longer than the window.

    Raises:
        ConfigError: an option is unknown or out of range.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        role: str = "both",
        name: str = "encoder",
        settings: EncodingSettings | None = None,
        **changes: Any,
    ) -> None:
        check_choice("role", role, ROLES)
        chosen = EncodingSettings.joined(settings, changes)
        prefixes = chosen.query_prefix, chosen.document_prefix
        self.model = model
        self.role = role
        self.query_prefix = self._prompt("query") if prefixes[0] is None else prefixes[0]
        self.document_prefix = self._prompt("document") if prefixes[1] is None else prefixes[1]
        self.similarity = str(chosen.similarity or model.similarity_fn_name)
        check_choice("similarity", self.similarity, SIMILARITIES)
        self.window = _window(model, chosen.max_length)
        self.batch_size = chosen.batch_size
        self.name = name
        self.truncated = 0
        self.dimension = self._dimension()

    def __repr__(self) -> str:
        return f"SentenceEncoder({self.name!r}, role={self.role!r}, dimension={self.dimension})"

    def with_role(self, role: str) -> SentenceEncoder:
        """The encoder of a role, with the same model.

        Raises:
            ConfigError: there is no such role, or this encoder was made for the other one.
        """
        check_choice("role", role, ROLES)
        if self.role not in (role, "both"):
            raise ConfigError(
                f"{self.name} encodes a {self.role}, not a {role}",
                key="role",
                hint="load the encoder of the other side too",
            )
        copied = copy.copy(self)
        copied.role = role
        return copied

    @property
    def prefix(self) -> str:
        """The text set before every text."""
        if self.role == "both":
            name = self.model.default_prompt_name
            return (self.model.prompts.get(name) or "") if name else ""
        return self.query_prefix if self.role == "query" else self.document_prefix

    @property
    def fingerprint(self) -> str:
        """Names weights, tokenizer, pooling, prefix and window: everything that changes vectors.

        Read from the weights as they are now, so that training changes it.
        """
        modules = [[type(m).__name__, _settings(m)] for m in self.model]
        task = self.role if self._takes_task() else ""
        settings = [self.prefix, self.window, self.model.truncate_dim, task]
        return fingerprint_object(
            ["encoder", _weights(self.model), _tokenizer(self.model), modules, settings]
        )

    def encode(self, texts: Sequence[str], *, bar: tqdm[Any] | None = None) -> Floats:
        """Return an array of shape (len(texts), dimension).

        Args:
            texts: the texts, without prefix.
            bar: a progress bar to advance by every text; who gives it also tells of texts that
                are cut.

        Raises:
            EmptyDataError: a text is empty; says which.
            RetrievalError: the model gives something else than numbers.
        """
        for number, text in enumerate(texts):
            if not text.strip():
                raise EmptyDataError(
                    f"text {number} of {len(texts)} is empty", hint="leave empty texts out"
                )
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        batches = self._plain(texts) if self._is_plain() else self._by_model(texts)
        for rows, values in batches:
            vectors[rows] = values[:, : self.dimension]
            if bar is not None:
                bar.update(len(rows))
        if self.truncated and bar is None:
            _log.warning(
                "%s reads %s tokens of a text: %d of %d texts are longer and are cut",
                self.name,
                self.window,
                self.truncated,
                len(texts),
            )
        wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(wrong):
            raise RetrievalError(
                f"{self.name} gives no numbers for {len(wrong)} of {len(texts)} texts, the first "
                f"is {texts[wrong[0]][:80]!r}",
                hint="the checkpoint is damaged, or its training diverged",
            )
        return vectors

    def _plain(self, texts: Sequence[str]) -> Iterator[tuple[npt.NDArray[np.intp], Floats]]:
        """Batches of rows and their vectors, the longest texts first: memory fails early."""
        import torch

        tokenizer, device = self.model.tokenizer, self.model.device
        tokens = tokenize(tokenizer, [self.prefix + text for text in texts], self.window)
        self.truncated = tokens.truncated
        order = np.argsort(-tokens.lengths, kind="stable")
        left = tokenizer.padding_side == "left"
        self.model.eval()
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            ids, mask = padded(tokens, rows, tokenizer.pad_token_id, left=left)
            features = {
                "input_ids": torch.from_numpy(ids).to(device),
                "attention_mask": torch.from_numpy(mask).to(device),
            }
            # Entered for each batch: a generator would leave the mode on between two of them.
            with torch.inference_mode():
                values = self.model(features)["sentence_embedding"].float().cpu().numpy()
            yield rows, values

    def _by_model(self, texts: Sequence[str]) -> Iterator[tuple[npt.NDArray[np.intp], Floats]]:
        """The same by sentence-transformers, which sorts and pads as its modules need it."""
        self.truncated = self._count_long(texts)
        options: dict[str, Any] = {"task": self.role} if self._takes_task() else {}
        step = 16 * self.batch_size
        for start in range(0, len(texts), step):
            part = list(texts[start : start + step])
            values = self.model.encode(
                part,
                prompt=self.prefix or None,
                batch_size=self.batch_size,
                show_progress_bar=False,
                **options,
            )
            yield np.arange(start, start + len(part)), np.asarray(values, dtype=np.float32)

    def _count_long(self, texts: Sequence[str]) -> int:
        tokenizer = getattr(self.model, "tokenizer", None)
        if self.window is None or not getattr(tokenizer, "is_fast", False):
            return 0
        return tokenize(tokenizer, [self.prefix + text for text in texts], self.window).truncated

    def save(self, folder: str | Path) -> None:
        """Write the model as a sentence-transformers folder, prefixes and similarity with it."""
        self.model.prompts = {
            **self.model.prompts,
            "query": self.query_prefix,
            "document": self.document_prefix,
        }
        self.model.similarity_fn_name = self.similarity  # type: ignore[assignment]
        with quiet_transformers():
            self.model.save_pretrained(str(folder))

    def _prompt(self, role: str) -> str:
        prompts = self.model.prompts
        return next((prompts[name] or "" for name in _PROMPTS[role] if prompts.get(name)), "")

    def _dimension(self) -> int:
        known = self.model.get_embedding_dimension()
        return known if known is not None else int(self.model.encode(["a"]).shape[1])

    def _takes_task(self) -> bool:
        """Whether queries and documents take different ways through the model."""
        from sentence_transformers.base.modules import Router

        return self.role != "both" and any(isinstance(m, Router) for m in self.model)

    def _is_plain(self) -> bool:
        """Whether the model reads nothing but the padded tokens of a text."""
        from sentence_transformers.base.modules import Router, Transformer

        first: Any = self.model[0]
        if type(first) is not Transformer or any(isinstance(m, Router) for m in self.model):
            return False
        tokenizer = first.tokenizer
        special = (first.processing_kwargs, first.query_expansion, first.query_length)
        if any(special) or first.document_length or "text" not in first.modality_config:
            return False
        if "message" in first.modality_config:  # every text is put into the chat template
            return False
        if not getattr(tokenizer, "is_fast", False) or tokenizer.pad_token_id is None:
            return False
        if self.prefix and not all(getattr(m, "include_prompt", True) for m in self.model):
            return False
        # One text in segments of its own (XLNet) needs them; zeros are every model's default.
        return not any(tokenizer.backend_tokenizer.encode("a").type_ids)


def _window(model: SentenceTransformer, max_length: int | None) -> int | None:
    """Tokens read of a text: what the model has positions for, or less where that is wanted."""
    own = getattr(model, "max_seq_length", None)
    # Tokenizers without a limit state 10^30.
    limits = [n for n in (own, max_length) if n is not None and n < 1_000_000]
    window = min(limits, default=None)
    if window is not None and window != own:
        model.max_seq_length = window
    return window


def _settings(module: Any) -> Any:
    config: Any = getattr(module, "get_config_dict", dict)()
    return json.loads(json.dumps(config, default=str, sort_keys=True))


def _weights(model: SentenceTransformer) -> str:
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        # Sentence vectors never see a transformer's own pooler, which may be random.
        if name.startswith("0.") and ".pooler." in name:
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(raw.numpy())
    return digest.hexdigest()


def _tokenizer(model: SentenceTransformer) -> str:
    tokenizer = getattr(model, "tokenizer", None)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # How it pads and truncates changes with every call.
        state = {**json.loads(backend.to_str()), "padding": None, "truncation": None}
        return fingerprint_object(state)
    vocabulary: Any = getattr(tokenizer, "get_vocab", dict)()
    return fingerprint_object(sorted(map(str, vocabulary.items())))


class Tokens(NamedTuple):
    """The tokens of many texts, one after the other.

    Args:
        ids: int32 array of shape (n_tokens,).
        starts: int64 array of shape (n_texts + 1,); text i holds ``ids[starts[i]:starts[i + 1]]``.
        truncated: how many texts lost tokens to the window.
    """

    ids: npt.NDArray[np.int32]
    starts: Longs
    truncated: int

    @property
    def lengths(self) -> Longs:
        """Tokens of each text."""
        return np.diff(self.starts)


def tokenize(tokenizer: Any, texts: Sequence[str], window: int | None) -> Tokens:
    """Cut texts into tokens, special ones included.

    Args:
        tokenizer: a fast tokenizer of transformers; its own settings are left as they were.
        texts: the texts.
        window: tokens kept of a text; all when None.
    """
    backend = tokenizer.backend_tokenizer
    truncation, padding = backend.truncation, backend.padding
    parts: list[npt.NDArray[np.int32]] = []
    lengths: list[int] = []
    truncated = 0
    try:
        backend.no_padding()
        if window is None:
            backend.no_truncation()
        else:
            backend.enable_truncation(window)
        for start in range(0, len(texts), _WINDOW):
            for encoding in backend.encode_batch_fast(list(texts[start : start + _WINDOW])):
                ids = np.array(encoding.ids, dtype=np.int32)
                parts.append(ids)
                lengths.append(len(ids))
                truncated += bool(encoding.overflowing)
    finally:
        _restore(backend, truncation, padding)
    flat = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
    return Tokens(flat, np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), truncated)


def _restore(backend: Any, truncation: Any, padding: Any) -> None:
    backend.no_truncation() if truncation is None else backend.enable_truncation(**truncation)
    backend.no_padding() if padding is None else backend.enable_padding(**padding)


def padded(tokens: Tokens, rows: Longs, pad_id: int, *, left: bool = False) -> tuple[Longs, Longs]:
    """Some texts as a batch.

    Args:
        tokens: the tokens of all texts.
        rows: the texts of the batch.
        pad_id: the id to fill up with.
        left: fill up on the left.

    Returns:
        ``input_ids`` and ``attention_mask``, int64 arrays of shape (len(rows), longest).
    """
    starts = tokens.starts[rows][:, None]
    lengths = tokens.starts[rows + 1][:, None] - starts
    width = int(lengths.max(initial=0))
    column = np.arange(width)
    offset = column - (width - lengths) if left else np.broadcast_to(column, (len(rows), width))
    inside = offset >= 0 if left else offset < lengths
    ids = np.full((len(rows), width), pad_id, dtype=np.int64)
    ids[inside] = tokens.ids[(starts + offset)[inside]]
    return ids, inside.astype(np.int64)
