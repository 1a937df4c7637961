"""YOLO by ultralytics, whose licence is AGPL-3.0: what is trained with it falls under that licence too, unless one
has an enterprise licence of theirs."""
