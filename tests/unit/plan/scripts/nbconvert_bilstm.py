#!/usr/bin/env python
# coding: utf-8

# # Reviews: which product are they about?
# Second try, with a bidirectional LSTM.

# In[1]:


get_ipython().run_line_magic('load_ext', 'autoreload')
get_ipython().system('nvidia-smi')


# In[2]:


import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

device = torch.device('cuda:0')


# In[3]:


df = pd.read_csv('/content/drive/MyDrive/reviews.csv')
df.head()


# In[5]:


VOCAB = 20000
MAXLEN = 200
BATCH_SIZE = 128
N_EPOCHS = 8


# In[6]:


from collections import Counter

counts = Counter(w for t in df.text for w in t.lower().split())
index = {w: i + 2 for i, (w, _) in enumerate(counts.most_common(VOCAB - 2))}
X = np.zeros((len(df), MAXLEN), dtype=np.int64)
for row, t in enumerate(df.text):
    ids = [index.get(w, 1) for w in t.lower().split()][:MAXLEN]
    X[row, :len(ids)] = ids
X_tr, X_te, y_tr, y_te = train_test_split(X, df.label.values, test_size=0.1, random_state=0)


# In[8]:


train_dl = DataLoader(TensorDataset(torch.tensor(X_tr), torch.tensor(y_tr)), batch_size=BATCH_SIZE, shuffle=True)
test_dl = DataLoader(TensorDataset(torch.tensor(X_te), torch.tensor(y_te)), batch_size=512)


# In[9]:


class BiLSTM(nn.Module):
    def __init__(self, vocab=VOCAB, emb=128, hidden=256, n_classes=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(2 * hidden, n_classes)

    def forward(self, x):
        h, _ = self.lstm(self.emb(x))
        return self.out(self.drop(h.max(1).values))


model = BiLSTM().to(device)
sum(p.numel() for p in model.parameters())


# In[12]:


opt = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss()
best = 0
for ep in range(N_EPOCHS):
    model.train()
    for xb, yb in train_dl:
        opt.zero_grad()
        loss = loss_fn(model(xb.to(device)), yb.to(device))
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        acc = np.mean([(model(xb.to(device)).argmax(1).cpu() == yb).float().mean().item() for xb, yb in test_dl])
    print(ep, acc)
    if acc > best:
        best = acc
        torch.save(model.state_dict(), '/content/drive/MyDrive/bilstm.pt')


# In[ ]:





# In[13]:


model.load_state_dict(torch.load('/content/drive/MyDrive/bilstm.pt'))
