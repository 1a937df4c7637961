"""What the trainers on PyTorch share, and the image classifier. Nothing here imports torch before it is used."""
