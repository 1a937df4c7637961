"""RF-DETR: Roboflow's detection transformer, implemented by their package.

The licence is Apache-2.0, except for the two largest sizes (PML-1.0).
"""
