"""Pretrained encoders: found, opened and pooled as their authors do."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.retrieval.dense.encoders.encoder import (
        SIMILARITIES as SIMILARITIES,
        SentenceEncoder as SentenceEncoder,
    )
    from rulerag.retrieval.dense.encoders.load import (
        DOCUMENTS as DOCUMENTS,
        NANO_ENCODER as NANO_ENCODER,
        EncoderSettings as EncoderSettings,
        load_documents_side as load_documents_side,
        load_encoder as load_encoder,
    )
else:
    __getattr__ = lazy_names(__name__)
