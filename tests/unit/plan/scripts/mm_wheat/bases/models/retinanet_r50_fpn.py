model = dict(type="RetinaNet", backbone=dict(type="ResNet", depth=50), neck=dict(type="FPN", num_outs=5))
