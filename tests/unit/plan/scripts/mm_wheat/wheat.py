_base_ = ["bases/models/retinanet_r50_fpn.py", "bases/heads_of_wheat.py", "bases/long.py"]
data = dict(samples_per_gpu=3)
