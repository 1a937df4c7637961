# Cracks, spalls and rust in concrete.
_base_ = ["mmdet::_base_/models/retinanet_r50_fpn.py", "mmdet::_base_/default_runtime.py"]
data_root = "data/cracks/"
classes = ("crack", "spall", "rust")

model = dict(
    backbone=dict(depth=50, init_cfg=dict(type="Pretrained", checkpoint="torchvision://resnet50")),
    bbox_head=dict(num_classes=3),
)
train_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="LoadAnnotations", with_bbox=True),
    dict(type="Resize", scale=(1333, 800), keep_ratio=True),
    dict(type="RandomFlip", prob=0.5),
    dict(type="PackDetInputs"),
]
test_pipeline = [train_pipeline[0], train_pipeline[2], train_pipeline[4]]
train_dataloader = dict(
    batch_size=4,
    num_workers=3,
    persistent_workers=True,
    sampler=dict(type="DefaultSampler", shuffle=True),
    dataset=dict(
        type="CocoDataset",
        data_root=data_root,
        metainfo=dict(classes=classes),
        ann_file="annotations/train.json",
        data_prefix=dict(img="images/"),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=2,
    dataset=dict(
        type="CocoDataset",
        data_root=data_root,
        ann_file="annotations/val.json",
        data_prefix=dict(img="images/"),
        test_mode=True,
        pipeline=test_pipeline,
    ),
)
val_evaluator = dict(type="CocoMetric", ann_file=data_root + "annotations/val.json", metric="bbox")
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=24, val_interval=2)
val_cfg = dict(type="ValLoop")
optim_wrapper = dict(
    type="AmpOptimWrapper",
    optimizer=dict(type="SGD", lr=0.005, momentum=0.9, weight_decay=0.0001),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.001, by_epoch=False, begin=0, end=500),
    dict(type="MultiStepLR", begin=0, end=24, by_epoch=True, milestones=[16, 22], gamma=0.1),
]
default_hooks = dict(checkpoint=dict(type="CheckpointHook", interval=1, max_keep_ckpts=3))
