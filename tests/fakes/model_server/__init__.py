"""A model API of our own on the loopback, so that real coding-agent CLIs run without a model and without a network.

`with ModelServer() as server:` — point a CLI at `server.url` (Anthropic) or `server.openai_url` (OpenAI Chat
Completions and Responses) with any key, and choose what the model does by a word in the prompt: `SCENARIO:tool`.
`server.requests` is what the CLI sent.
"""

from tests.fakes.model_server.connection import MODEL
from tests.fakes.model_server.records import RecordedRequest
from tests.fakes.model_server.scenarios import Scenario
from tests.fakes.model_server.server import ModelServer, ModelServerError

__all__ = ["MODEL", "ModelServer", "ModelServerError", "RecordedRequest", "Scenario"]
