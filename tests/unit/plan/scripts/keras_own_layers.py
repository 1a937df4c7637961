"""Reviews and their pictures: layers of the code's own, an augmentation beside the model, a sum of two ways."""

import keras
from keras import layers

words, longest, wide = 12000, 120, 48
flips = keras.Sequential([layers.RandomFlip("horizontal"), layers.RandomRotation(0.2)])


class Reader(layers.Layer):
    def __init__(self, words, longest, wide):
        super().__init__()
        self.token = layers.Embedding(input_dim=words, output_dim=wide)
        self.place = layers.Embedding(input_dim=longest, output_dim=wide)

    def call(self, text):
        return self.token(text) + self.place(keras.ops.arange(0, longest))


class Looker(layers.Layer):
    def __init__(self, wide, inner):
        super().__init__()
        self.attention = layers.MultiHeadAttention(num_heads=4, key_dim=wide)
        self.inner = keras.Sequential([layers.Dense(inner, activation="relu"), layers.Dense(wide)])
        self.norm = layers.LayerNormalization()

    def call(self, given):
        seen = self.attention(given, given)
        return self.norm(given + self.inner(seen))


def make(shape):
    text = layers.Input(shape=shape)
    first = Reader(words, longest, wide)
    x = first(text)
    second = Looker(wide, 192)
    x = second(x)
    short = layers.Dense(wide)(x)
    x = layers.add([x, short])
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(text, layers.Dense(5, activation="softmax")(x))


(x_train, y_train), _ = keras.datasets.imdb.load_data(num_words=words)
model = make((longest,))
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
model.fit(x_train, y_train, batch_size=64, epochs=4, callbacks=[keras.callbacks.ModelCheckpoint("best.keras")])
