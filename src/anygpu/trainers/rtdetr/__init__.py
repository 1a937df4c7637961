"""RT-DETR: Baidu's detection transformer, as transformers (Apache-2.0) has it."""
