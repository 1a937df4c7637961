dataset_type = "CocoDataset"
data_root = "data/wheat/"
data = dict(samples_per_gpu=8, workers_per_gpu=4, train=dict(type=dataset_type, img_prefix=data_root + "train/"))
