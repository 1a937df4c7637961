"""The backends of an organisation, over HTTP: `client.backends.add(...)`."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from anygpu.sdk.http import Http

ROOT = "/api/v1/backends"
Json = dict[str, Any]


class Backends:
    """Which backends there are, and which there should be. Answers are the API's own JSON."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Json:
        return self._asked("GET", "")

    def kinds(self) -> Json:
        """What each kind can be told, and which of it is a credential."""
        return self._asked("GET", "/kinds")

    def add(
        self,
        name: str,
        kind: str,
        options: Mapping[str, Any] | None = None,
        credentials: Mapping[str, str | None] | None = None,
        *,
        replace: bool = False,
    ) -> Json:
        """With `replace` a backend that is there is changed; credentials left out are kept, those None forgotten."""
        body = {
            "name": name,
            "kind": kind,
            "options": dict(options or {}),
            "credentials": dict(credentials or {}),
            "replace": replace,
        }
        return self._asked("POST", "", body=body, repeatable=replace)

    def check(self, name: str) -> Json:
        return self._asked("POST", f"/{quote(name, safe='')}/check", repeatable=True)

    def remove(self, name: str, *, force: bool = False) -> Json:
        query = {"force": "true"} if force else None
        return self._asked("DELETE", f"/{quote(name, safe='')}", query=query)

    def rotate(self, *, new_key: bool = True) -> Json:
        """Seal every credential and secret of the server anew. For the operator."""
        return self._asked("POST", "/rotate", query={"new_key": "true" if new_key else "false"})

    def _asked(self, method: str, path: str, **more: Any) -> Json:
        answer: Json = self._http.request(method, f"{ROOT}{path}", **more).json()
        return answer
