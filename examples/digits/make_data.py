"""Writes data/: 1,797 handwritten digits of 8 x 8 pixels (they come with scikit-learn), a folder for each digit."""

from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits


def main() -> None:
    digits = load_digits()
    for number, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        folder = Path("data") / str(digit)
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray((pixels * 255 / 16).astype("uint8"))
        image.resize((32, 32)).save(folder / f"{number:04}.png")


if __name__ == "__main__":
    main()
