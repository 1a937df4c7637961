import argparse
from pathlib import Path

from ultralytics import YOLO


def main(opt):
    last = Path(opt.project) / "exp" / "weights" / "last.pt"
    if last.exists():
        YOLO(str(last)).train(resume=True)
        return
    model = YOLO(opt.weights)
    model.train(data=opt.data, epochs=opt.epochs, batch=opt.batch, imgsz=opt.imgsz, device=[0, 1], project=opt.project)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", type=str, default="yolo11n.pt")
    parser.add_argument("--data", type=str, default="coco128.yaml")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--imgsz", type=int, default=320)
    parser.add_argument("--project", default="runs/train")
    main(parser.parse_args())
