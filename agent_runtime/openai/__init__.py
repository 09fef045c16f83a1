"""The client side of OpenAI-compatible servers: what is sent to them, what is read of an answer.

    config.py       what a user may set
    opening.py      the system prompt and the wording of the first message
    prompt_cache.py what a request says of the server's prompt cache
    answer.py       what an answer says, whichever of the APIs gave it
    text_api.py     what the APIs have in common that speak in messages
    chat.py         the chat completions API
    responses.py    the Responses API
    token_ids.py    vLLM's completions in token ids

Nothing here connects to anything. `agent_runtime.policies.openai` is the policy that stands on it.
"""
