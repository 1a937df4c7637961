# -*- coding: utf-8 -*-
import cPickle as pickle
import torch
import torch.nn as nn
from torch.autograd import Variable
import torchvision.datasets as dsets
import torchvision.transforms as transforms

batch_size = 100
num_epochs = 5
hidden_size = 500

train_dataset = dsets.MNIST(root='./data', train=True, transform=transforms.ToTensor(), download=True)
train_loader = torch.utils.data.DataLoader(dataset=train_dataset, batch_size=batch_size, shuffle=True)

class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc1 = nn.Linear(784, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x):
        return self.fc2(self.fc1(x).clamp(min=0))

net = Net()
net.cuda()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=0.001)

for epoch in xrange(num_epochs):
    for i, (images, labels) in enumerate(train_loader):
        images = Variable(images.view(-1, 28 * 28).cuda())
        labels = Variable(labels.cuda())
        optimizer.zero_grad()
        loss = criterion(net(images), labels)
        loss.backward()
        optimizer.step()
        if (i + 1) % 100 == 0:
            print 'Epoch [%d/%d], Loss: %.4f' % (epoch + 1, num_epochs, loss.data[0])
try:
    torch.save(net.state_dict(), 'model.pkl')
except IOError, e:
    print 'could not save', e
