"""Soil spectra with Lightning: everything is made by hydra from groups of settings."""

import hydra
import rootutils
from lightning import LightningDataModule, LightningModule, Trainer

home = rootutils.setup_root(__file__, pythonpath=True)


@hydra.main(version_base="1.3", config_path=str(home / "hydra_groups"), config_name="soil.yaml")
def main(cfg):
    data: LightningDataModule = hydra.utils.instantiate(cfg.reader)
    net: LightningModule = hydra.utils.instantiate(cfg.net)
    watch = [hydra.utils.instantiate(one) for one in cfg.watch.values()]
    fit: Trainer = hydra.utils.instantiate(cfg.fit, callbacks=watch)
    fit.fit(model=net, datamodule=data, ckpt_path=cfg.get("ckpt_path"))


if __name__ == "__main__":
    main()
