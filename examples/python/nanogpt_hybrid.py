"""Let the platform choose where nanoGPT trains, survive interruptions, and watch the cost.

It needs a backend with GPUs of 16 GB: `anygpu backend add`, or `anygpu cloud-sim` to try it without an account.
"""

import asyncio
from pathlib import Path
from typing import Any

from anygpu import MLPlatform, Requirements
from anygpu.sdk import Job

HERE = Path(__file__).parent
PACKAGES = ["torch>=2.4", "numpy>=1.26", "safetensors>=0.4", "onnx>=1.16", "onnxruntime>=1.18"]

requirements = Requirements(
    gpu_memory_gb=16,
    duration_hours_estimated=3,
    checkpoint_frequency_minutes=30,
    interruptible=True,  # allows spot machines
    max_cost_usd=10.00,  # allows machines that cost money, up to this amount
)


def submit(platform: MLPlatform, **spec: Any) -> Job:
    return platform.submit(
        code=(HERE / "nanogpt_train.py").read_text(),
        dataset=str(HERE.parent / "nanogpt" / "sonnets.txt"),
        requirements=requirements,
        preferences={
            "optimize_for": "cost",  # or "speed"
            "allowed_backends": None,  # all backends
        },
        **spec,
    )


async def main() -> None:
    job = submit(MLPlatform(), packages=PACKAGES)
    async for status in job.monitor():
        print(f"Backend: {status.backend}")
        print(f"Progress: {status.progress}%")
        print(f"Cost so far: ${status.cost:.2f}")
        if status.backend_changed:
            print(f"Migrated from {status.previous_backend} to {status.backend}")


if __name__ == "__main__":
    asyncio.run(main())
