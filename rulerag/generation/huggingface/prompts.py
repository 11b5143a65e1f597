"""From requests to the tokens of prompts: chat templates, packing under a limit, continuations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from rulerag.generation.huggingface.decoding import Tokens
from rulerag.generation.huggingface.load import failure
from rulerag.generation.prompts import Prompt, PromptTemplate
from rulerag.types import GenerationRequest

# The most tokens that a tokenizer sets before and behind a text, and the most that it makes of one
# byte where it takes letters apart (the ligature U+FDFA, of three bytes, becomes 33).
_AROUND, _LIGATURE = 8, 11


class PromptEncoder:
    """Makes prompts and their tokens.

    Args:
        tokenizer: a tokenizer of transformers.
        template: the prompts.
        limit: how many tokens a prompt may have; None for no limit.
        chat: use the tokenizer's chat template.
        chat_options: further arguments of the chat template.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: PromptTemplate,
        limit: int | None,
        chat: bool,
        chat_options: Mapping[str, Any],
    ) -> None:
        self.tokenizer, self.template, self.limit = tokenizer, template, limit
        self.chat, self.chat_options = chat, chat_options

    def text(self, request: GenerationRequest) -> str:
        """The packed prompt; tokens are counted only where it might be over the limit.

        Raises:
            GenerationError: the prompt does not fit even without documents.
        """
        text = self.template.render(request).text
        whole = self._conversation(text) if self.chat else text
        most = len(whole.encode()) * (1 if whole.isascii() else _LIGATURE) + _AROUND
        if self.limit is None or most <= self.limit:
            return text
        return self.encode([request])[0][0].text

    def completion(self, prompt: str, text: str) -> Tokens:
        """The tokens by which a prompt is continued with a text, the end of text included."""
        # Some tokenizers put a space before every text: only behind something is the border right.
        # With a chat template the text stands behind a special token, that is alone.
        before = "" if self.chat else prompt[-16:]
        whole, start = (self._plain(part) for part in (before + text, before))
        joined = whole[: len(start)] != start
        ids = self._plain(text) if joined else whole[len(start) :]
        end = self.tokenizer.eos_token_id
        return np.asarray(ids + ([] if end is None else [end]), dtype=np.int64)

    def encode(self, requests: Sequence[GenerationRequest]) -> list[tuple[Prompt, Tokens]]:
        """Prompts and their tokens; those over the limit are packed again.

        Raises:
            GenerationError: a prompt does not fit even without documents.
        """
        prompts = [self.template.render(request) for request in requests]
        tokens = self._tokens([prompt.text for prompt in prompts])
        limit = self.limit
        pairs = list(zip(prompts, tokens, strict=True))
        if limit is None:
            return pairs
        return [
            pair if len(pair[1]) <= limit else self._packed(request, limit)
            for request, pair in zip(requests, pairs, strict=True)
        ]

    def _packed(self, request: GenerationRequest, limit: int) -> tuple[Prompt, Tokens]:
        budget = limit - len(self._tokens(["x"])[0]) + self._count("x")
        while True:
            prompt = self.template.render(request, budget=budget, count=self._count)
            tokens = self._tokens([prompt.text])[0]
            if len(tokens) <= limit:
                return prompt, tokens
            # Words of the chat template may join with those of the prompt.
            budget -= len(tokens) - limit

    def _count(self, text: str) -> int:
        return len(self._plain(text))

    def _plain(self, text: str) -> list[int]:
        return cast("list[int]", self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _tokens(self, texts: Sequence[str]) -> list[Tokens]:
        if not texts:
            return []
        if self.chat:
            texts = [self._conversation(text) for text in texts]
        ids = self.tokenizer(list(texts), add_special_tokens=not self.chat)["input_ids"]
        end = self.tokenizer.eos_token_id
        if not self.chat:  # some tokenizers end every text, and a prompt is to be continued
            ids = [row[:-1] if len(row) > 1 and row[-1] == end else row for row in ids]
        if not all(ids):
            raise failure("a prompt has no token")
        return [np.asarray(row, dtype=np.int64) for row in ids]

    def _conversation(self, text: str) -> str:
        from jinja2 import TemplateError

        try:
            conversation = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": text}],
                tokenize=False,
                add_generation_prompt=True,
                **self.chat_options,
            )
        except TemplateError as error:
            raise failure(f"the chat template failed: {error}", hint="try chat=False") from error
        return cast(str, conversation)
