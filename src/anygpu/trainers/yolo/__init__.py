"""YOLO models by ultralytics.

ultralytics has the licence AGPL-3.0. Models trained with it are under that licence too, unless you have an
enterprise licence from ultralytics.
"""
