"""Code that the `rtdetr` and `rfdetr` trainers share: images with boxes, training loop, metrics and export."""
