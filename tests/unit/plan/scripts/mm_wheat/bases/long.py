optimizer = dict(type="SGD", lr=0.01)
runner = dict(type="EpochBasedRunner", max_epochs=36)
checkpoint_config = dict(interval=1)
