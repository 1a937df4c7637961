"""RF-DETR: Roboflow's detection transformer, by their package (Apache-2.0; the two largest sizes are PML-1.0)."""
