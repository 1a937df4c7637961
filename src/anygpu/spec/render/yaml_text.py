"""Write a spec mapping as YAML that the loader of job files reads to the same values."""

from collections.abc import Mapping
from typing import Any

import yaml

from anygpu.spec.documents import parse_scalar


def yaml_document(mapping: Mapping[str, Any]) -> str:
    """Return a YAML document. Characters that a terminal would interpret are escaped."""
    text: str = yaml.dump(dict(mapping), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    if all(character.isprintable() or character == "\n" for character in text):
        return text
    escaped: str = yaml.dump(dict(mapping), Dumper=_Dumper, sort_keys=False, allow_unicode=False, width=110)
    return escaped


class _Dumper(yaml.SafeDumper):
    """A dumper that writes long texts as blocks, and quotes what our loader would read as another type.

    Job files follow YAML 1.2. PyYAML's dumper quotes by the rules of YAML 1.1, in which `0o17` is text.
    """

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if parse_scalar(text) is not text:
        style = '"'
    elif "\n" in text.strip("\n"):
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
