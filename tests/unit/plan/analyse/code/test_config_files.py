"""Values of configuration files, and which source of a value outranks which."""

from anygpu.plan.analyse.script import analyse


def test_a_config_file_outranks_the_code_and_the_command_line_outranks_both() -> None:
    text = 'import torch, yaml\ncfg = yaml.safe_load(open("c.yaml"))\nDataLoader(d, batch_size=cfg["batch_size"])\n'
    files = {"c.yaml": "lr: 1e-3\nbatch_size: 11\n"}
    read = analyse(text, files=files)
    assert read.batch_size is not None
    assert (read.batch_size.value, read.batch_size.location) == (11, "c.yaml:2")
    told = analyse(text, files=files, args=("batch_size=4",)).batch_size
    assert told is not None
    assert (told.value, told.file) == (4, "command line")


def test_a_detector_is_configured_in_python() -> None:
    text = (
        "from mmengine.config import Config\nfrom mmengine.runner import Runner\n"
        "Runner.from_cfg(Config.fromfile(a.c)).train()\n"
    )
    config = (
        '_base_ = "../_base_/models/retinanet_r50_fpn.py"\nroot = "data/cracks/"\n'
        "train_dataloader = dict(batch_size=3, num_workers=5, dataset=dict(data_root=root))\n"
        'train_cfg = dict(max_epochs=7)\noptim_wrapper = dict(type="AmpOptimWrapper")\n'
    )
    read = analyse(text, args=("c.py",), files={"c.py": config})
    found = (read.model, read.batch_size, read.workers, read.epochs, read.precision, read.dataset)
    values = [None if f is None else f.value for f in found]
    assert values == ["retinanet_r50_fpn", 3, 5, 7.0, "fp16", "data/cracks/"]
    assert read.batch_size is not None
    assert read.batch_size.location == "c.py:3"
