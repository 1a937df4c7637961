"""Make the environment in which the heavy trainers are tested: `python scripts/setup_trainers_venv.py .venv-trainers`.

By pip, not uv: the two choose different builds of torch. The server's packages are left out on purpose, so that the
tests show that `anygpu.trainers` stands alone.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPERATORS = ROOT / "scripts" / "torchvision_operators.py"
TORCH = ["torch", "numpy", "pillow", "safetensors", "onnx", "onnxruntime", "onnxscript"]
TABLES = ["scikit-learn", "skl2onnx", "onnxmltools", "xgboost-cpu", "lightgbm", "pandas", "pyarrow"]
HUGGINGFACE = ["transformers", "accelerate"]
ULTRALYTICS = ["matplotlib", "pyyaml", "requests", "psutil", "polars", "opencv-python-headless"]
RFDETR = [
    "supervision",
    "pyDeprecate",
    "pydantic",
    "pytorch_lightning",
    "torchmetrics",
    "faster-coco-eval",
    "pycocotools",
]
TRACKERS = ["tensorboard", "mlflow-skinny", "wandb"]
TESTS = ["pytest", "pytest-timeout", "pytest-xdist", "pytest-asyncio"]
# These name a torchvision or an OpenCV of their own, or a torch with CUDA; what they need is above.
ALONE = ["torchvision", "ultralytics", "ultralytics-thop", "timm", "rfdetr"]


def main() -> None:
    venv = Path(sys.argv[1]).resolve()
    python = str(venv / "bin" / "python")
    if not Path(python).exists():
        shutil.rmtree(venv, ignore_errors=True)
        run(sys.executable, "-m", "venv", str(venv))
    print("installing the trainers' frameworks into", venv.name, "(minutes, once)", flush=True)
    pip(python, "pip>=25.1")
    pip(python, *TORCH, *TABLES, *HUGGINGFACE, *ULTRALYTICS, *RFDETR, *TRACKERS, *TESTS)
    pip(python, "--no-deps", *ALONE)
    pip(python, "--no-deps", "--editable", str(ROOT))
    give_operators(venv)
    run(python, "-c", "import torch, torchvision, ultralytics, transformers; torchvision.ops.nms")


def pip(python: str, *what: str) -> None:
    pins = ["--constraint", str(ROOT / "trainers-constraints.txt")]
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins, *what)


def give_operators(venv: Path) -> None:
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(venv)}))
    shutil.copyfile(OPERATORS, packages / OPERATORS.name)
    (packages / "torchvision_operators.pth").write_text(f"import {OPERATORS.stem}\n")


def run(*command: str) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}")


if __name__ == "__main__":
    main()
