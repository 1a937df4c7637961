"""Sizes of public data sets: gigabytes on disk and training samples.

The values have not been verified yet.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublicDataset:
    name: str
    gb: float
    samples: int


_ROWS = """
mnist 0.06 60000
fashionmnist 0.06 60000
emnist 0.56 697932
kmnist 0.06 60000
qmnist 0.07 60000
cifar10 0.18 50000
cifar100 0.18 50000
svhn 0.6 73257
stl10 2.7 5000
imagenet 148 1281167
imagenette 1.5 9469
tinyimagenet 0.25 100000
food101 5.0 75750
flowers102 0.35 1020
oxfordiiitpet 0.8 3680
oxfordflowers102 0.35 1020
caltech101 0.14 8677
caltech256 1.2 30607
celeba 1.5 162770
lsun 50 3000000
places365 25 1803460
inaturalist 220 2686843
stanfordcars 1.9 8144
stanforddogs 0.8 12000
dtd 0.6 1880
eurosat 0.1 27000
beans 0.17 1034
catsvsdogs 0.8 23262
vocdetection 2.0 5717
vocsegmentation 2.0 1464
voc 2.8 16551
coco 25 118287
cocodetection 25 118287
cococaptions 25 118287
coco128 0.007 128
coco8 0.001 4
coco8seg 0.001 4
coco8pose 0.001 4
cityscapes 11 2975
ade20k 1.0 20210
kinetics400 450 240000
ucf101 6.5 9537
imdb 0.13 25000
glue 0.3 392702
glue/sst2 0.007 67349
sst2 0.007 67349
glue/mrpc 0.002 3668
glue/cola 0.001 8551
glue/mnli 0.3 392702
glue/qqp 0.1 363846
glue/qnli 0.03 104743
glue/rte 0.002 2490
glue/stsb 0.001 5749
agnews 0.03 120000
yelpreviewfull 0.3 650000
yelpreview 0.3 650000
yelppolarity 0.3 560000
amazonpolarity 1.8 3600000
dbpedia14 0.15 560000
squad 0.09 87599
squadv2 0.13 130319
wikitext 0.55 1801350
wikitext2rawv1 0.013 36718
wikitext103rawv1 0.55 1801350
wikitext/wikitext2rawv1 0.013 36718
wikitext/wikitext103rawv1 0.55 1801350
openwebtext 55 8013769
bookcorpus 4.8 74004228
c4 305 364868892
pile 825 210607728
fineweb 108000 25000000000
tinystories 2.2 2119719
shakespeare 0.001 1
tinyshakespeare 0.001 1
shakespearechar 0.001 1
alpaca 0.05 52002
databricksdolly15k 0.013 15011
guanaco 0.02 9846
openassistantguanaco 0.02 9846
ultrachat200k 1.6 207865
ultrafeedback 0.4 61135
openhermes 0.4 242831
gsm8k 0.005 7473
samsum 0.01 14732
cnndailymail 1.3 287113
xsum 0.5 204045
wmt16 0.3 4548885
wmt14 1.3 4508785
opusbooks 0.02 127085
conll2003 0.003 14041
emotion 0.002 16000
rottentomatoes 0.001 8530
tweeteval 0.01 45615
multi30k 0.005 29000
librispeech 60 281241
librispeechasr 60 281241
commonvoice 70 1000000
speechcommands 2.3 84843
minds14 0.5 563
pokemonblipcaptions 0.1 833
narutoblipcaptions 0.7 1221
smithsonianbutterfliessubset 0.25 1000
cora 0.001 140
citeseer 0.001 120
pubmed 0.01 60
ogbnarxiv 0.1 90941
ogbnproducts 1.4 196615
reddit 1.6 153431
qm9 0.3 130831
proteins 0.001 1113
mutag 0.001 188
movielens 0.2 20000000
digits 0.001 1797
iris 0.001 150
wine 0.001 178
breastcancer 0.001 569
diabetes 0.001 442
boston 0.001 506
californiahousing 0.001 20640
20newsgroups 0.02 11314
covtype 0.08 581012
higgs 2.8 11000000
bostonhousing 0.001 404
"""


def _key(name: str) -> str:
    lower = name.lower().removesuffix(".yaml").removesuffix(".zip")
    return re.sub(r"[^a-z0-9/]", "", lower)


_BY_KEY = {
    row[0]: PublicDataset(row[0], float(row[1]), int(row[2]))
    for row in map(str.split, _ROWS.strip().splitlines())
}


def find_dataset(name: str) -> PublicDataset | None:
    """Return a public data set by its name in any usual spelling, such as "CIFAR-10"; None if unknown."""
    key = re.sub(r"/(train\w*|val\w*|data)$", "", _key(name))
    for candidate in (
        key,
        key.rpartition("/")[2],
        key.partition("/")[0],
        key.rpartition("/")[2].partition("raw")[0],
    ):
        row = _BY_KEY.get(candidate)
        if row is not None:
            return row
    return None


def dataset_key(name: str) -> str:
    """Return the normalised name of a data set: "CIFAR10" becomes "cifar10"."""
    return _key(name)
