"""Submit from Python, and follow the job wherever it runs."""

import asyncio
from pathlib import Path

from anygpu import Platform, Requirements


async def main() -> None:
    platform = Platform()
    requirements = Requirements(
        duration_hours_estimated=0.1,
        checkpoint_frequency_minutes=5,
        interruptible=True,  # machines that may be taken back are allowed
        max_cost_usd=10.00,
    )
    job = platform.submit(
        code=(Path(__file__).parent.parent / "plain" / "train.py").read_text(),
        requirements=requirements,
        preferences={"optimize_for": "cost", "allowed_backends": None},
    )
    async for status in job.monitor():
        print(f"Backend: {status.backend}  Progress: {status.progress}%  Cost so far: ${status.cost:.2f}")
        if status.backend_changed:
            print(f"Migrated from {status.previous_backend} to {status.backend}")
    print("".join(line + "\n" for line in job.logs()), end="")
    print("ended as", job.result()["status"])


if __name__ == "__main__":
    asyncio.run(main())
