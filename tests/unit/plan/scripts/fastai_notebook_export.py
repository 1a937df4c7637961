#!/usr/bin/env python
# coding: utf-8

# # Pets with fastai

# In[1]:


get_ipython().system('pip install -q fastai')
get_ipython().run_line_magic('matplotlib', 'inline')


# In[2]:


from fastai.vision.all import *

path = untar_data(URLs.PETS) / "images"


# In[3]:


def is_cat(x):
    return x[0].isupper()


dls = ImageDataLoaders.from_name_func(
    path, get_image_files(path), valid_pct=0.2, seed=42, label_func=is_cat, item_tfms=Resize(224), bs=48
)


# In[4]:


learn = vision_learner(dls, resnet34, metrics=error_rate).to_fp16()
learn.fine_tune(4)


# In[5]:


learn.export("pets.pkl")
