"""Progress, told seldom enough to be worth telling."""

from __future__ import annotations

MIN_GAP_S = 0.25


class Progress:
    """Gives the latest known progress when it changed, at most every MIN_GAP_S, and the last one always."""

    def __init__(self) -> None:
        self._told: dict[str, object] = {}
        self._told_at: float | None = None

    def due(self, known: dict[str, object], now: float) -> dict[str, object] | None:
        if known == self._told or not self._may_tell(now):
            return None
        self._told, self._told_at = known, now
        return dict(known)

    def last(self, known: dict[str, object]) -> dict[str, object] | None:
        return dict(known) if known != self._told else None

    def _may_tell(self, now: float) -> bool:
        told_at = self._told_at
        # A clock set back must not silence us until it has caught up.
        return told_at is None or now < told_at or now - told_at >= MIN_GAP_S
