"""What the detection transformers share: images with boxes, the way they learn, and how they are measured."""
