"""The client side of OpenAI-compatible servers: what is sent to them, what is read of an answer.

    config.py       what a user may set
    opening.py      the system prompt and the wording of the first message
    answer.py       what an answer says, whichever of the APIs gave it
    chat.py         the chat completions API

Nothing here connects to anything. `agent_runtime.policies.openai` is the policy that stands on it.
"""
