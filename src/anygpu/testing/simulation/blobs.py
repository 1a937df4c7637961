"""A blob store in memory whose blobs can be damaged and inspected."""

import hashlib
import json
import random
from collections.abc import Iterator

from anygpu.testing.memory.blobs import MemoryBlobs


class SimBlobs(MemoryBlobs):
    """An in-memory `Blobs` whose blobs can be damaged."""

    def damage(self, manifest: str, rng: random.Random) -> None:
        """Damage a checkpoint: delete its manifest, or overwrite one of its chunks."""
        chunks = list(self._chunks(manifest))
        if not chunks or rng.random() < 0.5:
            self._blobs.pop(manifest, None)
            return
        key, _ = rng.choice(chunks)
        if key in self._blobs:
            self._blobs[key] = (self._blobs[key][0], b"rot")

    def has_valid_checkpoint(self, manifest: str) -> bool:
        """Return whether all chunks of the checkpoint are intact."""
        chunks = list(self._chunks(manifest))
        return bool(chunks) and all(self._is_whole(key, sha256) for key, sha256 in chunks)

    def _is_whole(self, key: str, sha256: str) -> bool:
        return key in self._blobs and hashlib.sha256(self._blobs[key][1]).hexdigest() == sha256

    def _chunks(self, manifest: str) -> Iterator[tuple[str, str]]:
        if manifest not in self._blobs:
            return
        folder = manifest.split("/manifests/")[0]
        for file in json.loads(self._blobs[manifest][1])["files"]:
            for chunk in file["chunks"]:
                yield f"{folder}/chunks/{chunk['sha256']}", chunk["sha256"]
