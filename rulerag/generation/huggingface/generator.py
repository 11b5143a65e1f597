"""A generator on any causal language model of transformers, batched, with shared beginnings."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pydantic

from rulerag.composition import check_range, register
from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.generation.huggingface.constrained import (
    AnswerMode,
    Endings,
    endings_of,
    entities_in,
    first_named,
    likeliest,
    token_choice,
)
from rulerag.generation.huggingface.decoding import (
    BatchLimits,
    Continuation,
    Decoder,
    Ending,
    PackedDecoder,
    PackedModel,
    Tokens,
    sampled_tokens,
    window_of,
)
from rulerag.generation.huggingface.identity import (
    Weights,
    adapter_identity,
    model_identity,
    tokenizer_identity,
)
from rulerag.generation.huggingface.load import (
    NANO_LLAMA,
    Loading,
    adapted,
    adapter_base,
    failure,
    open_model,
    open_tokenizer,
    shipped,
    stated_chat,
    stated_template,
)
from rulerag.generation.prompts import Citation, Prompt, PromptTemplate
from rulerag.io import fingerprint_object
from rulerag.models import with_fast_linear
from rulerag.types import Completion, GenerationRequest

logger = logging.getLogger(__name__)

# The most tokens that a tokenizer sets before and behind a text, and the most that it makes of one
# byte where it takes letters apart (the ligature U+FDFA, of three bytes, becomes 33).
_AROUND, _LIGATURE = 8, 11
# Vocabularies are filled up to round numbers, by 2.5 % at most in models that are in use.
_LEAST_SHARE = 0.9


class DecodingSettings(Loading):
    """How a model is opened (see :class:`Loading`), what it reads and how long it writes.

    Args:
        max_new_tokens: how long an answer may get.
        max_input_tokens: how long a prompt may get; what the model's positions allow by default.
        batch_size: the most prompts read together.
        max_batch_tokens: the most tokens of a batch, which bounds memory.
        answers: how an answer is made, one of
            :data:`~rulerag.generation.huggingface.constrained.AnswerMode`; all but ``free`` need
            documents that state facts, and answer nothing where they name no entity.
        abstain_below: answer nothing where the answer's score is below this log-probability; tune
            it on validation.
        chat: use the tokenizer's chat template; by default as ``prompt.json`` says where its
            template is used, else where there is one, but for prompts that end in an unfinished
            statement, which a model continues.
        chat_options: further arguments of the chat template, for example ``enable_thinking``.
    """

    max_new_tokens: int = pydantic.Field(default=32, ge=1)
    max_input_tokens: int | None = None
    batch_size: int = pydantic.Field(default=128, ge=1)
    max_batch_tokens: int = pydantic.Field(default=32768, ge=1)
    answers: AnswerMode = "free"
    abstain_below: float | None = None
    chat: bool | None = None
    chat_options: Mapping[str, Any] = {}


@register("generator", "huggingface", shared={"labels": "names"})
class HuggingFaceGenerator:
    """Answers with a causal language model: greedy decoding of batched prompts.

    Equal prompts are read once. The rest is cut into batches by least work (see
    :func:`~rulerag.generation.huggingface.decoding.batches.plan_batches`); what the prompts of a
    batch begin with in common is computed once and its keys and values are shared. Answers do not
    depend on batches or sharing, up to rounding. An answer ends at the end-of-text token, at a line
    break after some text (or where the template says so), or after ``max_new_tokens``; its score is
    the natural logarithm of its text's probability, end included.

    Args:
        model: a folder, a hub id, or an open model of transformers (then give ``tokenizer``). A
            folder that holds a PEFT adapter only is opened with the base that it names. By
            default the small reader that is installed with rulerag.
        tokenizer: a folder, a hub id, or an open tokenizer; that of the model by default.
        adapter: the folder or hub id of a PEFT (LoRA) adapter.
        template: the prompts (see :meth:`~rulerag.generation.prompts.PromptTemplate.of`); by
            default those named in ``prompt.json`` of the adapter's folder or the model's, else
            ``rule-guided`` for models with a chat template and ``cloze`` for those that only
            continue text.
        labels: readable names of entities and relations, for answers held to the documents; names
            themselves where one is missing.
        progress: show a progress bar.
        settings: how it is opened and how it decodes (:class:`DecodingSettings`).
        changes: settings one by one, which overrule.

    Raises:
        GenerationError: the model, its tokenizer or the adapter cannot be opened, or they do not
            fit each other.
        MissingDependencyError: an adapter without PEFT, or quantization without bitsandbytes.
        ConfigError: a setting that does not fit, or a device that is not here.
    """

    def __init__(
        self,
        model: Any = NANO_LLAMA,
        *,
        tokenizer: Any = None,
        adapter: str | Path | None = None,
        template: PromptTemplate | str | Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        progress: bool = False,
        settings: DecodingSettings | None = None,
        **changes: Any,
    ) -> None:
        for package in ("torch", "transformers"):
            if importlib.util.find_spec(package) is None:
                raise MissingDependencyError(package, "hf")
        self.settings = own = DecodingSettings.joined(settings, changes)
        self.progress, self.labels = progress, labels or {}
        self._limits = BatchLimits(own.batch_size, own.max_batch_tokens, own.max_new_tokens)
        self._open(shipped(model), tokenizer, adapter)
        chat = own.chat
        if template is None:
            chat = stated_chat(adapter, model) if chat is None else chat
            # A base model continues text; an instruction leaves it mute.
            usual = "rule-guided" if self.tokenizer.chat_template is not None else "cloze"
            template = stated_template(adapter, model) or usual
        self.template = PromptTemplate.of(template)
        self._context = getattr(
            self.model.config.get_text_config(), "max_position_embeddings", None
        )
        templated = self.tokenizer.chat_template is not None
        unfinished = self.template.ask == "statement" and not self.template.system
        self.chat = templated and not unfinished if chat is None else chat
        if self.chat and not templated:
            raise ConfigError("the tokenizer has no chat template", key="chat", hint="chat=False")
        if own.answers == "named" and self.template.target == "citation":
            raise ConfigError(
                "what cites names other entities before its answer",
                key="answers",
                hint="answers: free, trie or scored",
            )
        self.max_input_tokens = self._room()
        self._decoders = self._make_decoders()

    def _open(self, model: Any, tokenizer: Any, adapter: Any) -> None:
        """Open model, tokenizer and adapter, and check that they fit each other."""
        loading, names = self.settings, list[str]()
        if isinstance(model, str | Path):
            folder = Path(model)
            if (folder / "adapter_config.json").is_file() and not (folder / "config.json").exists():
                # A merged folder has a config of its own.
                model, adapter = shipped(adapter_base(folder)), adapter or folder
            name = str(model)
            self.tokenizer = open_tokenizer(tokenizer or name, loading)
            self.model = open_model(name, loading)
            names.append(model_identity(name, getattr(self.model.config, "_commit_hash", None)))
        else:
            if tokenizer is None:
                raise ConfigError("an open model comes without a tokenizer", key="tokenizer")
            self.tokenizer, self.model = open_tokenizer(tokenizer, loading), model.eval()
            name = str(model.config.name_or_path or type(model).__name__)
            names.append("")  # what is open may have changed since it was read
        rows = self.model.get_input_embeddings().weight.shape[0]
        highest = max(self.tokenizer.get_vocab().values(), default=-1)
        if highest < _LEAST_SHARE * rows:
            logger.warning(
                "the tokenizer has %d tokens and the model %s knows %d: is it the model's own?",
                highest + 1,
                name,
                rows,
            )
        if highest >= rows:
            raise failure(
                f"the tokenizer has tokens up to number {highest}, and the model {name} knows "
                f"{rows}",
                hint="take the tokenizer that the model was trained with",
            )
        if adapter is not None:
            merge = loading.quantization is None
            self.model = adapted(self.model, adapter, name, merge=merge)
            names.append(adapter_identity(adapter))
        if isinstance(model, str | Path):  # an open one is not ours to change
            self.model = with_fast_linear(self.model)
        self._weights = Weights(self.model, fingerprint_object(names) if all(names) else "")

    def _make_decoders(self) -> tuple[PackedDecoder | None, Decoder]:
        """The fast decoder where it fits, and the one for everything else."""
        ends: set[Any] = set()
        for owner in (self.model.generation_config, self.model.config.get_text_config()):
            stated = getattr(owner, "eos_token_id", None)
            ends.update(stated if isinstance(stated, list) else [stated])
        ends.add(self.tokenizer.eos_token_id)
        pad = self.tokenizer.pad_token_id
        piece = cache(lambda token: str(self.tokenizer.decode([token])))
        tokens = frozenset(end for end in ends if end is not None)
        ending = Ending(tokens, piece, lambda text: self.template.is_complete(text))
        packed = PackedDecoder(self.model, ending) if PackedModel.fits(self.model) else None
        return packed, Decoder(self.model, ending, 0 if pad is None else pad)

    def _decoder(self, longest: int) -> PackedDecoder | Decoder:
        """The decoder for sequences of some length, answers included."""
        packed, padded = self._decoders
        window = window_of(self.model.config)
        return packed if packed is not None and (window is None or longest <= window) else padded

    @property
    def fingerprint(self) -> str:
        """Names weights, tokenizer, template and every setting that changes answers or scores.

        Read from the weights as they are now, so that training changes it.
        """
        template = [type(self.template).__name__, self.template.fingerprint]
        loaded = [str(self.model.dtype), str(getattr(self.model.config, "quantization_config", ""))]
        chat = [
            self.chat,
            self.tokenizer.chat_template if self.chat else None,
            dict(self.settings.chat_options),
        ]
        ends = sorted(self._decoders[1].ending.tokens)
        limits = [self.settings.max_new_tokens, self.max_input_tokens, ends]
        names = [self._weights.name, self._words, *template]
        own = self.settings
        held: list[Any] = [own.abstain_below]
        if own.answers != "free":
            held += [own.answers, self._names]
        return fingerprint_object(["huggingface", *names, *loaded, *chat, *limits, *held])

    @cached_property
    def _names(self) -> str:
        return fingerprint_object(dict(self.labels))

    @cached_property
    def _words(self) -> str:
        return tokenizer_identity(self.tokenizer)

    @property
    def sampling(self) -> str:
        """Empty: decoding is greedy, whatever the model's own settings say."""
        return ""

    def reading(self, request: GenerationRequest) -> object:
        """The packed prompt, word for word, and by what its completion is read.

        Tokens are counted only where the prompt may be too long.

        Raises:
            GenerationError: the prompt does not fit even without documents.
        """
        text = self.template.render(request).text
        whole = (self._conversation if self.chat else self.template.continued)(text)
        most = len(whole.encode()) * (1 if whole.isascii() else _LIGATURE) + _AROUND
        if self.max_input_tokens is not None and most > self.max_input_tokens:
            text = self.encode([request])[0][0].text
        held: Any = {"free": lambda: (), "named": lambda: entities_in(request, self.labels)}.get(
            self.settings.answers, lambda: endings_of(request, self.template, self.labels)
        )
        return [text, *self.template.read_by(request), *held()]

    def prompts(self, requests: Sequence[GenerationRequest]) -> list[Prompt]:
        """What the model reads for each request, and which documents did not fit.

        Raises:
            GenerationError: a prompt does not fit even without documents.
        """
        return [prompt for prompt, _ in self.encode(requests)]

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order.

        Raises:
            GenerationError: a prompt does not fit even without documents, or the model's scores
                are not numbers.
        """
        if self.settings.answers in ("trie", "scored"):
            choose = self._by_trie if self.settings.answers == "trie" else self._by_score
            found = choose(requests, [endings_of(r, self.template, self.labels) for r in requests])
        else:
            answers = self._answers(requests)
            found = [self._completion(*pair) for pair in zip(answers, requests, strict=True)]
        least = self.settings.abstain_below
        if least is None:
            return found
        return [one if (one.score or 0.0) >= least else replace(one, text="") for one in found]

    def _by_trie(
        self, requests: Sequence[GenerationRequest], allowed: Sequence[Endings]
    ) -> list[Completion]:
        """Completions that can be nothing but what the documents allow."""
        able = [n for n, endings in enumerate(allowed) if endings]
        prompts = self.encode([requests[n] for n in able])
        tokens = [
            [self.encode_completion(prompt.text, text) for _, text in allowed[n]]
            for (prompt, _), n in zip(prompts, able, strict=True)
        ]
        longest = max((len(ending) for each in tokens for ending in each), default=1)
        ends = sorted(self._decoders[1].ending.tokens)
        if not ends:
            raise failure("the model has no token that ends a text", hint="answers: scored")
        choose = token_choice(tokens, ends[0])
        limits = replace(self._limits, new_tokens=longest)
        decoder = self._decoders[1]
        decoded = decoder.generate([ids for _, ids in prompts], limits, lambda _: None, choose)
        found = [Completion("")] * len(requests)
        for n, one in zip(able, decoded, strict=True):
            found[n] = self._completion(one, requests[n])
        return found

    def _by_score(
        self, requests: Sequence[GenerationRequest], allowed: Sequence[Endings]
    ) -> list[Completion]:
        """Completions that are the likeliest answer of the documents, the others as candidates."""
        sequences, starts, bounds = list[Tokens](), list[int](), [0]
        for (prompt, tokens), endings in zip(self.encode(requests), allowed, strict=True):
            for _, text in endings:
                sequences.append(np.concatenate([tokens, self._continued(prompt.text, text)]))
                starts.append(len(tokens))
            bounds.append(len(sequences))
        scores = self._log_probabilities(sequences, starts)
        return [
            likeliest(endings, scores[low:high])
            for endings, low, high in zip(allowed, bounds, bounds[1:], strict=False)
        ]

    def sample(
        self, requests: Sequence[GenerationRequest], count: int, *, temperature: float, seed: int
    ) -> list[list[Completion]]:
        """Sample answers from the model's distribution, whole (no top-k, no top-p).

        An answer depends on prompt and seed alone, not on the batch (up to rounding).

        Args:
            requests: what is read.
            count: answers of each request.
            temperature: scores are divided by it; above 0.
            seed: another one samples other answers.

        Returns:
            For each request its completions in the order of the draw; a score is the
            log-probability at temperature 1.

        Raises:
            ConfigError: the count or the temperature is out of range.
            GenerationError: a prompt does not fit even without documents.
        """
        check_range("count", count, 1)
        if temperature <= 0:
            raise ConfigError(f"{temperature} draws nothing", key="temperature", hint="0.7")
        encoded = [tokens for _, tokens in self.encode(requests)]
        distinct = {tokens.tobytes(): tokens for tokens in encoded}
        seeds = [_seed_of(key, seed, number) for key in distinct for number in range(count)]
        choose = sampled_tokens(seeds, temperature)
        repeated = [tokens for tokens in distinct.values() for _ in range(count)]
        drawn = self._decoders[1].generate(repeated, self._limits, lambda _: None, choose)
        of = {key: drawn[n * count : (n + 1) * count] for n, key in enumerate(distinct)}
        return [
            [self._completion(decoded, request) for decoded in of[tokens.tobytes()]]
            for request, tokens in zip(requests, encoded, strict=True)
        ]

    def write(self, requests: Sequence[GenerationRequest]) -> list[str]:
        """What the model writes for each request, word for word, citation and cues included.

        ``score(requests, texts, literal=True)`` gives the log-probability of such texts.

        Raises:
            GenerationError: as :meth:`generate`.
        """
        return [self._text(decoded) for decoded in self._answers(requests)]

    def _answers(self, requests: Sequence[GenerationRequest]) -> list[Continuation]:
        """The decoded answers, each distinct prompt read once."""
        prepared = self.encode(requests)
        dropped = sum(bool(prompt.dropped) for prompt, _ in prepared)
        if dropped:
            logger.warning(
                "%d of %d prompts are over %d tokens and lost documents; see prompts()",
                dropped,
                len(prepared),
                self.max_input_tokens,
            )
        distinct = {tokens.tobytes(): tokens for _, tokens in prepared}
        decoded = dict(zip(distinct, self._decode(list(distinct.values())), strict=True))
        return [decoded[tokens.tobytes()] for _, tokens in prepared]

    def score(
        self,
        requests: Sequence[GenerationRequest],
        answers: Sequence[str],
        *,
        facts: Sequence[Citation | tuple[str, str] | None] | None = None,
        literal: bool = False,
    ) -> npt.NDArray[np.float64]:
        """The log-probability that the model writes an answer to a request, and ends there.

        What attribution by log-probability and hybrid reading need. Prompts that begin alike, and
        different answers to one prompt, share the work on what they have in common.

        Args:
            requests: what is read.
            answers: one answer for each request, in words.
            facts: for citing templates, subject and relation of the supporting fact.
            literal: the answers are the text behind the prompt, not what the template makes of
                an answer.

        Returns:
            Natural logarithms, of shape (len(requests),).

        Raises:
            GenerationError: the numbers of requests and answers differ, or one does not fit.
            ConfigError: the template cites, and a fact is missing.
        """
        if len(requests) != len(answers):
            raise failure(f"{len(answers)} answers for {len(requests)} requests")
        sequences, starts = [], []
        cited = facts if facts is not None else [None] * len(requests)
        encoded = self.encode(requests)
        for (prompt, tokens), answer, fact in zip(encoded, answers, cited, strict=True):
            text = answer if literal else self.template.completion(answer, fact)
            end = self.encode_completion(prompt.text, text)
            sequences.append(np.concatenate([tokens, end]))
            starts.append(len(tokens))
        return self._log_probabilities(sequences, starts)

    def _log_probabilities(
        self, sequences: Sequence[Tokens], starts: Sequence[int]
    ) -> npt.NDArray[np.float64]:
        """Of what stands behind the start of each sequence."""
        longest = max(map(len, sequences), default=0)
        if self._context is not None and longest > self._context:
            raise failure(
                f"a prompt and its answer have {longest} tokens, and the model reads "
                f"{self._context}",
                hint="set a lower max_input_tokens",
            )
        found = self._decoder(longest).score(sequences, starts, self._limits)
        return np.array(found, dtype=np.float64)

    def _decode(self, prompts: Sequence[Tokens]) -> list[Continuation]:
        from tqdm import tqdm

        longest = max(map(len, prompts), default=0) + self.settings.max_new_tokens
        with tqdm(total=len(prompts), desc="generate", disable=not self.progress) as bar:
            return self._decoder(longest).generate(prompts, self._limits, bar.update)

    def _completion(self, decoded: Continuation, request: GenerationRequest) -> Completion:
        text = self._text(decoded)
        answer = self.template.parse(text, request)
        if self.settings.answers == "named":
            answer = first_named(text, entities_in(request, self.labels)) or answer
        return Completion(answer, decoded.log_probability)

    def _text(self, decoded: Continuation) -> str:
        return cast(str, self.tokenizer.decode(decoded.tokens, skip_special_tokens=True))

    def _room(self) -> int | None:
        """How many tokens a prompt may have; None without a limit."""
        new, most = self.settings.max_new_tokens, self.settings.max_input_tokens
        if self._context is None:
            return most
        room = int(self._context) - new
        if room < 1:
            raise ConfigError(
                f"{new} new tokens leave no room in the model's {self._context}",
                key="max_new_tokens",
                hint=f"at most {int(self._context) - 1}, and less by what a prompt takes",
            )
        return room if most is None else min(most, room)

    def encode_completion(self, prompt: str, text: str) -> Tokens:
        """The tokens by which a prompt is continued with a text, its end included.

        That is the line break where the text ends with one, as in generation: an end of text behind
        it was not written. It would be next to impossible in a model that continues text, and
        drown what is said of the answer.

        Args:
            prompt: the prompt's text; words may join at the border.
            text: what is written behind it, such as ``template.completion(answer)``.
        """
        end = self.tokenizer.eos_token_id
        ids = self._continued(prompt, text)
        ended = end is None or bool(text.strip() and text.endswith("\n"))
        return ids if ended else np.append(ids, end)

    def _continued(self, prompt: str, text: str) -> Tokens:
        # Some tokenizers put a space before every text: only behind something is the border right.
        # With a chat template the text stands behind a special token, that is alone.
        before = "" if self.chat else prompt[-16:]
        whole, start = (self._plain(part) for part in (before + text, before))
        joined = whole[: len(start)] != start
        return np.asarray(self._plain(text) if joined else whole[len(start) :], dtype=np.int64)

    def encode(self, requests: Sequence[GenerationRequest]) -> list[tuple[Prompt, Tokens]]:
        """Prompts and their tokens; those over the limit are packed again.

        Raises:
            GenerationError: a prompt does not fit even without documents.
        """
        prompts = [self.template.render(request) for request in requests]
        tokens = self._tokens([prompt.text for prompt in prompts])
        limit = self.max_input_tokens
        return [
            (prompt, ids) if limit is None or len(ids) <= limit else self._packed(request, limit)
            for request, prompt, ids in zip(requests, prompts, tokens, strict=True)
        ]

    def _packed(self, request: GenerationRequest, limit: int) -> tuple[Prompt, Tokens]:
        def count(text: str) -> int:
            return len(self._plain(text))

        budget = limit - len(self._tokens(["x"])[0]) + count("x")
        while True:
            prompt = self.template.render(request, budget=budget, count=count)
            tokens = self._tokens([prompt.text])[0]
            if len(tokens) <= limit:
                return prompt, tokens
            # Words of the chat template may join with those of the prompt.
            budget -= len(tokens) - limit

    def _plain(self, text: str) -> list[int]:
        return cast("list[int]", self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _tokens(self, texts: Sequence[str]) -> list[Tokens]:
        if not texts:
            return []
        whole = self._conversation if self.chat else self.template.continued
        ids = self.tokenizer([whole(text) for text in texts], add_special_tokens=not self.chat)[
            "input_ids"
        ]
        end = self.tokenizer.eos_token_id
        if not self.chat:  # some tokenizers end every text, and a prompt is to be continued
            ids = [row[:-1] if len(row) > 1 and row[-1] == end else row for row in ids]
        if not all(ids):
            raise failure("a prompt has no token")
        return [np.asarray(row, dtype=np.int64) for row in ids]

    def _conversation(self, text: str) -> str:
        """A prompt in the words of the tokenizer's chat template."""
        from jinja2 import TemplateError

        try:
            conversation = self.tokenizer.apply_chat_template(
                self.template.conversation(text),
                tokenize=False,
                add_generation_prompt=True,
                **self.settings.chat_options,
            )
        except TemplateError as error:
            raise failure(f"the chat template failed: {error}", hint="try chat=False") from error
        return cast(str, conversation)


def _seed_of(prompt: bytes, seed: int, number: int) -> int:
    """A seed of 63 bits for one sample from a prompt."""
    digest = hashlib.sha256(f"{seed}:{number}:".encode() + prompt).digest()
    return int.from_bytes(digest[:8], "big") >> 1
