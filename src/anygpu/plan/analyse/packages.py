"""Packages by name: those that train, and those that only help."""

# Package -> the name people know it by. What only loads or prints (numpy, pandas) is no framework.
PACKAGES = {
    "torch": "pytorch",
    "pytorch_lightning": "lightning",
    "lightning": "lightning",
    "lightning_fabric": "lightning",
    "transformers": "transformers",
    "trl": "trl",
    "peft": "peft",
    "accelerate": "accelerate",
    "diffusers": "diffusers",
    "sentence_transformers": "sentence-transformers",
    "timm": "timm",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "torch_geometric": "pyg",
    "dgl": "dgl",
    "ultralytics": "ultralytics",
    "detectron2": "detectron2",
    "mmcv": "openmmlab",
    "mmengine": "openmmlab",
    "mmdet": "openmmlab",
    "mmseg": "openmmlab",
    "fastai": "fastai",
    "monai": "monai",
    "segmentation_models_pytorch": "smp",
    "deepspeed": "deepspeed",
    "horovod": "horovod",
    "composer": "composer",
    "ignite": "ignite",
    "unsloth": "unsloth",
    "stable_baselines3": "stable-baselines3",
    "tensorflow": "tensorflow",
    "keras": "keras",
    "tf_keras": "keras",
    "keras_cv": "keras",
    "keras_hub": "keras",
    "jax": "jax",
    "flax": "flax",
    "optax": "optax",
    "haiku": "haiku",
    "equinox": "equinox",
    "paddle": "paddle",
    "mxnet": "mxnet",
    "theano": "theano",
    "caffe": "caffe",
    "chainer": "chainer",
    "rfdetr": "rfdetr",
    "sklearn": "scikit-learn",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "cuml": "cuml",
    "gensim": "gensim",
    "spacy": "spacy",
}
_HELPERS = """
PIL absl albumentations anygpu apex aim attr attrs bitsandbytes boto3 cPickle click clearml comet_ml cv2 datasets
dill dotenv einops ema_pytorch evaluate faiss fire flash_attn fsspec gcsfs gym gymnasium h5py huggingface_hub hydra
imageio imblearn imgaug ipywidgets IPython joblib jsonargparse kornia librosa loguru lpips matplotlib ml_collections
mlflow mpi4py ml_dtypes neptune nltk numpy omegaconf onnx onnxruntime open_clip optuna orbax pandas piq plotly polars
prettytable psutil pyarrow pycocotools pydantic pynvml ray regex requests rich s3fs sacrebleu safetensors scipy seaborn
sentencepiece shap simple_parsing six skimage skorch soundfile tabulate tensorboard tensorboardX tensorflow_addons
tensorflow_datasets tensorflow_hub tensorflow_text termcolor tifffile tiktoken tokenizers toml torch_xla torchdata
torcheval torchinfo torchmetrics torchsummary torchtext tqdm typer tyro typing_extensions ujson visdom wandb webdataset
yacs yaml xformers evotorch lmdb natsort pytz cycler efficientnet_pytorch pytorch_metric_learning
"""
KNOWN_PACKAGES = frozenset(PACKAGES) | frozenset(_HELPERS.split())
