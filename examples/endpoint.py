"""A language model behind a server with OpenAI's chat completions: pip install openai

The key is in OPENAI_API_KEY. Every answer but an empty one is kept in a file, so a run that is
resumed or repeated gets the same answers. The client tries again where the server is busy, broken
or slow.
"""

import hashlib
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from policies import Mistake

THREADS = 16


class Endpoint:
    def __init__(self, url: str, model: str, timeout: float = 60.0, retries: int = 3):
        try:
            from openai import OpenAI, OpenAIError  # takes a second
        except ModuleNotFoundError as error:
            raise Mistake(f"{error}: a model behind a server needs pip install openai") from error
        key = os.environ.get("OPENAI_API_KEY") or "none"  # a local server needs no key
        self.client = OpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=retries)
        self.failure = OpenAIError
        self.url = url
        self.model = model
        self.folder = Path.home() / ".cache/magrpo/expert"
        self.locks: dict[str, threading.Lock] = {}  # two threads ask a question once

    def ask(self, system: str, user: str) -> str:
        """Return the model's answer to a message, under instructions."""
        messages: list = [
            {"role": "system", "content": system},
            {"role": "user", "content": user},
        ]
        question = json.dumps([self.url, self.model, messages])
        name = hashlib.sha256(question.encode()).hexdigest()
        path = self.folder / f"{name}.txt"
        with self.locks.setdefault(name, threading.Lock()):
            if not path.exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                try:
                    answer = self.client.chat.completions.create(
                        model=self.model, messages=messages
                    )
                except self.failure as error:
                    raise Mistake(f"the server at {self.url}: {error}") from error
                text = answer.choices[0].message.content
                if not text:  # it was cut off or filtered
                    return ""
                half = path.with_suffix(f".{os.getpid()}")  # a killed process leaves no half answer
                half.write_text(text, "utf-8", errors="replace")
                half.replace(path)
            return path.read_text("utf-8")

    def ask_all(self, system: str, users: list[str]) -> list[str]:
        """Return the answers to many messages, asked for in threads."""
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda user: self.ask(system, user), users))
