"""Texts to vectors by a sentence-transformers model: roles, prefixes, fingerprints."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rulerag.arrays import Floats
from rulerag.composition import check_choice, check_range
from rulerag.errors import ConfigError, EmptyDataError, RetrievalError
from rulerag.folders import HubMixin
from rulerag.io import fingerprint_object
from rulerag.models import quiet_transformers, with_fast_linear

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tqdm import tqdm

_log = logging.getLogger(__name__)

ROLES = ("both", "query", "document")
SIMILARITIES = ("cosine", "dot")
# What models call the prompt of each role. sentence-transformers looks for the same names, but 6.2
# takes an empty "document" that nobody wrote before a "passage" that the model's authors did.
_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}
_AT_ONCE = 4096  # texts that sentence-transformers sorts by length together


class SentenceEncoder(HubMixin):
    """A text encoder: any :class:`~sentence_transformers.SentenceTransformer`, ready for retrieval.

    :func:`~rulerag.retrieval.dense.encoders.load_encoder` opens DPR, SimCSE, Contriever and
    sentence-transformers checkpoints as one. The model's own ``encode`` sorts, pads and pools;
    vectors come in the order of the texts, as float32, not normalised beyond what the model does.

    Args:
        model: the model.
        role: what :meth:`encode` encodes, ``query`` or ``document``; ``both`` when one model does
            both: :meth:`with_role` gives the encoder of each.
        name: what it is called in messages.
        query_prefix: text set before every query; the model's own prompt when None.
        document_prefix: text set before every document; the model's own prompt when None.
        similarity: what vectors are compared by, ``cosine`` or ``dot``; what the model says when
            None.
        max_length: tokens read of a text, at most the model's window; the window when None.
        batch_size: texts encoded at once; when None 64, and 16 on a CPU, whose caches hold them.

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
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        similarity: str | None = None,
        max_length: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        check_choice("role", role, ROLES)
        usual = 16 if model.device.type == "cpu" else 64
        self.batch_size = usual if batch_size is None else batch_size
        check_range("batch_size", self.batch_size, 1)
        self.model = model
        self.role = role
        self.name = name
        self.query_prefix = self._prompt("query") if query_prefix is None else query_prefix
        self.document_prefix = (
            self._prompt("document") if document_prefix is None else document_prefix
        )
        self.similarity = str(similarity or model.similarity_fn_name)
        check_choice("similarity", self.similarity, SIMILARITIES)
        self.window = _window(model, max_length)
        self.truncated = 0
        known = model.get_embedding_dimension()
        self.dimension = known if known is not None else int(model.encode(["a"]).shape[1])

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
        modules = [[type(m).__name__, _module_settings(m)] for m in self.model]
        settings = [self.prefix, self.window, self.model.truncate_dim, self._task()]
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
        self.truncated = self._count_truncated(texts)
        if self.truncated and bar is None:
            _log.warning(
                "%s reads %s tokens of a text: %d of %d texts are longer and are cut",
                self.name,
                self.window,
                self.truncated,
                len(texts),
            )
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        model: Any = self.model
        task = self._task()
        step = max(_AT_ONCE, self.batch_size)
        for start in range(0, len(texts), step):
            part = list(texts[start : start + step])
            found = model.encode(
                part,
                prompt=self.prefix,
                batch_size=self.batch_size,
                convert_to_tensor=True,
                show_progress_bar=False,
                **({"task": task} if task else {}),
            )
            vectors[start : start + len(part)] = found.float().cpu().numpy()
            if bar is not None:
                bar.update(len(part))
        wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(wrong):
            raise RetrievalError(
                f"{self.name} gives no numbers for {len(wrong)} of {len(texts)} texts, the first "
                f"is {texts[wrong[0]][:80]!r}",
                hint="the checkpoint is damaged, or its training diverged",
            )
        return vectors

    def _count_truncated(self, texts: Sequence[str]) -> int:
        """How many texts have more tokens than the window; tokens are one byte or longer."""
        tokenizer: Any = getattr(self.model, "tokenizer", None)
        if self.window is None or not hasattr(tokenizer, "num_special_tokens_to_add"):
            return 0
        room = self.window - tokenizer.num_special_tokens_to_add()
        whole = (self.prefix + text for text in texts)
        long = [text for text in whole if len(text.encode()) > room]
        if not long:
            return 0
        ids = tokenizer(long, add_special_tokens=False, truncation=False, verbose=False)
        return sum(len(one) > room for one in ids["input_ids"])

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

    _repository_kind = "model"

    def _write_repository(self, folder: Path) -> None:
        self.save(folder)

    @classmethod
    def _read_repository(cls, folder: Path) -> SentenceEncoder:
        from sentence_transformers import SentenceTransformer

        return cls(with_fast_linear(SentenceTransformer(str(folder))))

    def _prompt(self, role: str) -> str:
        prompts = self.model.prompts
        return next((prompts[name] or "" for name in _PROMPTS[role] if prompts.get(name)), "")

    def _task(self) -> str:
        """The role, where queries and documents take different ways through the model."""
        from sentence_transformers.base.modules import Router

        routed = any(isinstance(module, Router) for module in self.model)
        return self.role if routed and self.role != "both" else ""


def _window(model: SentenceTransformer, max_length: int | None) -> int | None:
    """Tokens read of a text: what the model has positions for, or less where that is wanted."""
    check_range("max_length", 3 if max_length is None else max_length, 3)
    own = getattr(model, "max_seq_length", None)
    # Tokenizers without a limit state 10^30.
    limits = [n for n in (own, max_length) if n is not None and n < 1_000_000]
    window = min(limits, default=None)
    if window is not None and window != own:
        model.max_seq_length = window
    return window


def _module_settings(module: Any) -> Any:
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
