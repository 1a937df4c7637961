import os

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

IMG = 256
PER_REPLICA = 8
AUTOTUNE = tf.data.AUTOTUNE

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = PER_REPLICA * strategy.num_replicas_in_sync
keras.mixed_precision.set_global_policy("mixed_float16")


def parse(record):
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "mask": tf.io.FixedLenFeature([], tf.string)}
    item = tf.io.parse_single_example(record, spec)
    image = tf.image.resize(tf.io.decode_jpeg(item["image"], 3), (IMG, IMG)) / 255.0
    mask = tf.image.resize(tf.io.decode_png(item["mask"], 1), (IMG, IMG), method="nearest")
    return image, mask


def load(pattern, training):
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern), num_parallel_reads=AUTOTUNE)
    ds = ds.map(parse, num_parallel_calls=AUTOTUNE)
    if training:
        ds = ds.shuffle(1024)
    return ds.batch(GLOBAL_BATCH).prefetch(AUTOTUNE)


def conv(x, filters):
    for _ in range(2):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
    return x


def unet(classes):
    inputs = keras.Input((IMG, IMG, 3))
    skips, x = [], inputs
    for filters in (32, 64, 128, 256):
        x = conv(x, filters)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = conv(x, 512)
    for filters, skip in zip((256, 128, 64, 32), reversed(skips)):
        x = layers.Conv2DTranspose(filters, 2, strides=2)(x)
        x = conv(layers.Concatenate()([x, skip]), filters)
    outputs = layers.Conv2D(classes, 1, activation="softmax", dtype="float32")(x)
    return keras.Model(inputs, outputs, name="unet")


with strategy.scope():
    model = unet(classes=5)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

callbacks = [
    keras.callbacks.BackupAndRestore("backup"),
    keras.callbacks.ModelCheckpoint("ckpt/unet_{epoch:02d}.keras", save_best_only=True),
    keras.callbacks.TensorBoard("logs"),
]
history = model.fit(
    load("records/train-*.tfrecord", True),
    validation_data=load("records/val-*.tfrecord", False),
    epochs=int(os.getenv("EPOCHS", 35)),
    callbacks=callbacks,
)
model.save("unet_final.keras")
