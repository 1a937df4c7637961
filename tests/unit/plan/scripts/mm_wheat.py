"""Wheat heads with mmdetection 2: the configuration builds on others."""

import argparse

from mmcv import Config
from mmdet.apis import train_detector
from mmdet.datasets import build_dataset
from mmdet.models import build_detector


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--work-dir")
    parser.add_argument("--resume-from")
    args = parser.parse_args()
    cfg = Config.fromfile(args.config)
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    if args.resume_from is not None:
        cfg.resume_from = args.resume_from
    model = build_detector(cfg.model, train_cfg=cfg.get("train_cfg"))
    train_detector(model, [build_dataset(cfg.data.train)], cfg, distributed=False, validate=True)


if __name__ == "__main__":
    main()
