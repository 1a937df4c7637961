import os

import keras
import tensorflow as tf
from keras import layers

IMG_SIZE = 224
BATCH = 32
keras.mixed_precision.set_global_policy("mixed_float16")

train_ds = keras.utils.image_dataset_from_directory(
    "flowers/train", image_size=(IMG_SIZE, IMG_SIZE), batch_size=BATCH
)
val_ds = keras.utils.image_dataset_from_directory("flowers/val", image_size=(IMG_SIZE, IMG_SIZE), batch_size=64)
train_ds = train_ds.prefetch(tf.data.AUTOTUNE)

base = keras.applications.EfficientNetB0(include_top=False, weights="imagenet", input_shape=(IMG_SIZE, IMG_SIZE, 3))
base.trainable = False
inputs = keras.Input((IMG_SIZE, IMG_SIZE, 3))
x = base(inputs, training=False)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(5, dtype="float32")(x)
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
callbacks = [
    keras.callbacks.BackupAndRestore("backup"),
    keras.callbacks.ModelCheckpoint(os.path.join("ckpt", "best.keras"), save_best_only=True),
]
model.fit(train_ds, validation_data=val_ds, epochs=25, callbacks=callbacks)
