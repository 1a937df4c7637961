"""python mmengine_runner.py mmdet_cracks.py --work-dir runs/cracks"""
import argparse
import os.path as osp

from mmdet.utils import register_all_modules
from mmengine.config import Config, DictAction
from mmengine.runner import Runner


def options():
    parser = argparse.ArgumentParser(description="train a detector")
    parser.add_argument("config", help="the configuration")
    parser.add_argument("--work-dir", help="where logs and models go")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    parser.add_argument("--cfg-options", nargs="+", action=DictAction)
    parser.add_argument("--launcher", choices=["none", "pytorch", "slurm"], default="none")
    return parser.parse_args()


def main():
    args = options()
    register_all_modules(init_default_scope=True)
    cfg = Config.fromfile(args.config)
    cfg.launcher = args.launcher
    if args.cfg_options is not None:
        cfg.merge_from_dict(args.cfg_options)
    stem = osp.splitext(osp.basename(args.config))[0]
    cfg.work_dir = args.work_dir or osp.join("work_dirs", stem)
    cfg.resume = args.resume
    Runner.from_cfg(cfg).train()


if __name__ == "__main__":
    main()
