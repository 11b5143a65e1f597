"""Many questions at once on a Ray cluster, each worker with a vLLM (``ray.data.llm``)."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from rulerag.composition import Settings, register
from rulerag.errors import GenerationError, MissingDependencyError
from rulerag.generation.openai_compatible import Reply, read
from rulerag.generation.prompts import Prompt, PromptTemplate
from rulerag.io import fingerprint_object
from rulerag.parallel import LOCAL, RayBackend
from rulerag.types import Completion, GenerationRequest

_SECONDS = 1800  # without any progress, a model may still be loading


class RayBatchSettings(Settings):
    """How a cluster answers.

    Args:
        workers: engines at a time, each with its own model and its own GPUs.
        batch_size: prompts that are handed to an engine together.
        max_new_tokens: of an answer.
        engine: vLLM's arguments: ``{"max_model_len": 4096, "tensor_parallel_size": 2}``.
        cpus: of an engine without GPUs; 0 where it has them.
    """

    workers: int = Field(default=1, ge=1)
    batch_size: int = Field(default=64, ge=1)
    max_new_tokens: int = Field(default=32, ge=1)
    engine: Mapping[str, Any] = {}
    cpus: int = Field(default=0, ge=0)


@register("generator", "ray-batch")
class RayBatchGenerator:
    """Answers through vLLM engines on a Ray cluster, at temperature 0; for 10⁵ questions and more.

    Starting an engine takes minutes, and :meth:`generate` starts them each time: hand it everything
    at once, as ``rulerag answer`` does. A prompt that cannot be answered (it is too long) is named
    when the others are done.

    Args:
        model: a folder that every worker reads, or a Hub name.
        template: the prompts (see :meth:`~rulerag.generation.prompts.PromptTemplate.of`).
        settings: how it is run.
        changes: settings one by one, which overrule.

    Raises:
        ConfigError: a wrong setting.
        MissingDependencyError: ray or vllm is not installed.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        template: PromptTemplate | str | Mapping[str, Any] | None = None,
        settings: RayBatchSettings | None = None,
        **changes: Any,
    ) -> None:
        self.model, self.template = str(model), PromptTemplate.of(template)
        self.settings = RayBatchSettings.joined(settings, changes)
        for name in ("ray", "vllm"):
            if importlib.util.find_spec(name) is None:
                raise MissingDependencyError(name, extra="ray")

    @property
    def fingerprint(self) -> str:
        """Names model, template and every setting that changes answers."""
        own = self.settings
        about = [self.model, own.max_new_tokens, dict(own.engine), self.template.fingerprint]
        return fingerprint_object(["ray-batch", *about])

    def prompts(self, requests: Sequence[GenerationRequest]) -> list[Prompt]:
        """What the model reads for each request; nothing is left out of it."""
        return [self.template.render(request) for request in requests]

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order.

        Raises:
            GenerationError: prompts were not answered; names how many, the first, and why.
            EmptyCompletionError: the model wrote nothing.
            CutCompletionError: an answer has ``max_new_tokens`` and no end.
        """
        if not requests:
            return []
        texts = [prompt.text for prompt in self.prompts(requests)]
        distinct = list(dict.fromkeys(texts))
        answers, why = self._answers([self.template.conversation(text) for text in distinct])
        found = dict(zip(distinct, answers, strict=True))
        failed = [n for n, text in enumerate(texts) if found[text] is None]
        if failed:
            raise GenerationError(
                f"{len(failed)} of {len(texts)} prompts were not answered, the first of query "
                f"{requests[failed[0]].query.id!r}: {why}",
                provider=self.model,
                hint="shorter documents, fewer of them (top_k), or a longer engine.max_model_len",
            )
        pairs = zip(requests, texts, strict=True)
        return [self._completion(request, found[text]) for request, text in pairs]

    def _answers(self, conversations: Sequence[Any]) -> tuple[list[dict[str, Any] | None], str]:
        """An OpenAI choice for each conversation, None where it failed; and why one failed."""
        llm: Any = importlib.import_module("ray.data.llm")
        data: Any = importlib.import_module("ray.data")
        own = self.settings
        RayBackend(address=os.environ.get("RAY_ADDRESS") or LOCAL)  # unless one runs already
        data.DataContext.get_current().execution_no_progress_timeout_s = _SECONDS
        place = {"placement_group_config": {"bundles": [{"CPU": own.cpus}]}} if own.cpus else {}
        config = llm.vLLMEngineProcessorConfig(
            model_source=self.model,
            engine_kwargs=dict(own.engine),
            concurrency=own.workers,
            batch_size=own.batch_size,
            should_continue_on_error=True,
            log_engine_metrics=False,
            **place,
        )
        most = own.max_new_tokens
        sampling = {"temperature": 0, "max_tokens": most}
        processor = llm.build_processor(
            config,
            preprocess=lambda row: {**row, "sampling_params": sampling},
            postprocess=lambda row: {
                "place": row["place"],
                "message": {"content": row["generated_text"] or ""},
                "finish_reason": "length" if row["num_generated_tokens"] >= most else "stop",
            },
        )
        rows = [{"place": n, "messages": one} for n, one in enumerate(conversations)]
        answers: list[dict[str, Any] | None] = [None] * len(rows)
        why = "it was lost"
        for row in processor(data.from_items(rows)).iter_rows():
            if failure := row.get("__inference_error__"):
                why = str(failure)  # such a row has nothing else
            else:
                answers[row.pop("place")] = row
        return answers, why

    def _completion(self, request: GenerationRequest, choice: Any) -> Completion:
        answer = Reply(chat=True)
        answer.add({"choices": [choice]})

        def error(message: str, hint: str, kind: type = GenerationError, **more: Any) -> Any:
            return kind(message, provider=self.model, hint=hint, **more)

        return Completion(read(answer, request, template=self.template, error=error))
